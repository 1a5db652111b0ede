import { useMemo, useState } from "react";
import { go } from "../../app/location";
import { diffOf } from "../../data/diff";
import { idOf, parentOf, type Tree } from "../../data/tree";
import type { Step } from "../../data/types";
import { Dialog } from "../../ui/Dialog";
import { JsonView } from "../../ui/JsonView";
import { TabBar } from "../../ui/Tabs";
import { clock } from "../../ui/format";
import { Button } from "../../ui/Button";
import { Differences } from "./Differences";
import { nameOf, nodesOf, sourceOf, sourceTexts } from "./step";

/** The number of selectable checkpoints: the newest, in addition to the two compared ones. */
const choices = 200;

type Part = "changes" | "states";

/** CompareDialog shows two checkpoints side by side. */
export function CompareDialog({
  left,
  right,
  steps,
  tree,
  onClose,
}: {
  left: Step;
  right: Step;
  steps: Step[];
  tree: Tree;
  onClose(): void;
}) {
  const [a, setA] = useState(left);
  const [b, setB] = useState(right);
  const [part, setPart] = useState<Part>("changes");
  const changes = useMemo(() => diffOf(a.values ?? {}, b.values ?? {}), [a, b]);
  const options = useMemo(
    () => [...new Set([left, right, ...steps.slice(0, choices)])].sort((x, y) => (idOf(x) < idOf(y) ? 1 : -1)),
    [left, right, steps],
  );
  const pick = (label: string, step: Step, set: (s: Step) => void) => (
    <label className="field">
      <span className="label">{label}</span>
      <select className="input" value={idOf(step)} onChange={(e) => set(tree.byId.get(e.target.value) ?? step)}>
        {options.map((s) => (
          <option key={idOf(s)} value={idOf(s)}>
            {titleOf(s, tree)}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <Dialog
      wide
      open
      title="Compare checkpoints"
      onClose={onClose}
      foot={
        <Button onClick={() => go({ view: "compare", checkpoint: idOf(a), with: idOf(b), run: null })}>
          Run both side by side
        </Button>
      }
    >
      <div className="compare">
        <div className="compare-pair">
          {pick("Left", a, setA)}
          {pick("Right", b, setB)}
        </div>
        <TabBar<Part>
          label="Comparison mode"
          value={part}
          onChange={setPart}
          tabs={[
            { id: "changes", label: "Differences" },
            { id: "states", label: "Both states" },
          ]}
        />
        {part === "changes" ? (
          <Differences changes={changes} />
        ) : (
          <div className="compare-pair">
            <div className="compare-side">
              <JsonView key={idOf(a)} value={a.values} />
            </div>
            <div className="compare-side">
              <JsonView key={idOf(b)} value={b.values} />
            </div>
          </div>
        )}
      </div>
    </Dialog>
  );
}

function titleOf(s: Step, tree: Tree): string {
  const nodes = nodesOf(s, tree.byId.get(parentOf(s)));
  return [
    nameOf(s),
    nodes.map((n) => n.name).join(", ") || (sourceTexts[sourceOf(s)] ?? sourceOf(s)),
    clock(s.created_at),
    idOf(s).slice(0, 13),
  ]
    .filter(Boolean)
    .join(" · ");
}
