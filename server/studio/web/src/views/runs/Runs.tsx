// The runs of the server, and the crons that start them.
import { setParams, useLocation } from "../../app/location";
import { TabBar } from "../../ui/Tabs";
import { Crons } from "./Crons";
import { RunList } from "./RunList";
import "./runs.css";

type Part = "runs" | "crons";

export default function Runs() {
  const part: Part = useLocation().params.part === "crons" ? "crons" : "runs";
  return (
    <div className="runs">
      <div className="panel">
        <div className="panel-head">
          <TabBar<Part>
            label="Runs and crons"
            value={part}
            onChange={(to) => setParams({ part: to === "crons" ? to : "" })}
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
