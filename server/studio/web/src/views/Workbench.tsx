// The view of a graph: the graph, the panel that runs it, and the thread's timeline.
import { useEffect, useState } from "react";
import { useLocation } from "../app/location";
import { useSessionPart } from "../data/session";
import { TabBar } from "../ui/Tabs";
import { GraphPanel } from "./graph/GraphPanel";
import { RunPanel } from "./run/RunPanel";
import { Timeline } from "./timeline/Timeline";
import "./workbench.css";

type Part = "graph" | "run";

export function Workbench() {
  // On a narrow screen, the graph and the run panel take turns. The timeline is next to the graph or, on a phone,
  // below.
  const [part, setPart] = useState<Part>("graph");
  const { thread } = useLocation();
  const asks = useSessionPart((s) => s.questions.length > 0);
  // The timeline has the pending interrupts.
  useEffect(() => {
    if (asks) setPart("graph");
  }, [asks, thread]);
  return (
    <div className="workbench" data-part={part} data-asks={asks || undefined}>
      <div className="workbench-tabs">
        <TabBar<Part>
          label="Parts"
          value={part}
          onChange={setPart}
          tabs={[
            { id: "graph", label: "Graph" },
            { id: "run", label: "Run" },
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
