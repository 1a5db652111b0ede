// The runs of the server, and the crons that start them.
import { useState } from "react";
import { TabBar } from "../../ui/Tabs";
import { Crons } from "./Crons";
import { RunList } from "./RunList";
import "./runs.css";

type Part = "runs" | "crons";

export default function Runs() {
  const [part, setPart] = useState<Part>("runs");
  return (
    <div className="runs">
      <div className="panel">
        <div className="panel-head">
          <TabBar<Part>
            label="Runs and crons"
            value={part}
            onChange={setPart}
            tabs={[
              { id: "runs", label: "Runs" },
              { id: "crons", label: "Crons" },
            ]}
          />
        </div>
        {part === "runs" ? <RunList /> : <Crons />}
      </div>
    </div>
  );
}
