// The view of a graph: the graph, the panel that runs it, and the thread's timeline.
import { useState } from "react";
import { TabBar } from "../ui/Tabs";
import { GraphPanel } from "./graph/GraphPanel";
import { RunPanel } from "./run/RunPanel";
import { Timeline } from "./timeline/Timeline";
import "./workbench.css";

type Part = "graph" | "run" | "timeline";

export function Workbench() {
  // On a narrow screen one part is shown at a time.
  const [part, setPart] = useState<Part>("graph");
  return (
    <div className="workbench" data-part={part}>
      <div className="workbench-tabs">
        <TabBar<Part>
          label="Parts"
          value={part}
          onChange={setPart}
          tabs={[
            { id: "graph", label: "Graph" },
            { id: "run", label: "Run" },
            { id: "timeline", label: "Timeline" },
          ]}
        />
      </div>
      <div className="workbench-graph panel">
        <GraphPanel />
      </div>
      <div className="workbench-run panel">
        <RunPanel />
      </div>
      <div className="workbench-timeline panel">
        <Timeline />
      </div>
    </div>
  );
}
