import { useMemo, useState } from "react";
import { diffOf, type Change } from "../../data/diff";
import { idOf, parentOf, type Tree } from "../../data/tree";
import type { Step } from "../../data/types";
import { Dialog } from "../../ui/Dialog";
import { JsonView } from "../../ui/JsonView";
import { TabBar } from "../../ui/Tabs";
import { clock } from "../../ui/format";
import { ValueText } from "./Changes";
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
    <Dialog wide open title="Compare checkpoints" onClose={onClose}>
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
          changes.length === 0 ? (
            <p className="muted">The two states are equal.</p>
          ) : (
            <dl className="compare-changes">
              {changes.map((c) => (
                <Pair key={c.key} change={c} />
              ))}
            </dl>
          )
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

function Pair({ change: c }: { change: Change }) {
  const [before, after] = sidesOf(c);
  return (
    <div className="compare-key">
      <dt className="change-key">{c.key || "value"}</dt>
      <dd className="compare-pair">
        <Side values={before} kind="removed" />
        <Side values={after} kind="added" />
      </dd>
    </div>
  );
}

/** sidesOf returns the values of a change on the left and on the right. */
function sidesOf(c: Change): [unknown[], unknown[]] {
  switch (c.kind) {
    case "added":
      return [[], [c.after]];
    case "removed":
      return [[c.before], []];
    case "changed":
      return [[c.before], [c.after]];
    case "list":
      return [c.removed, c.added];
  }
}

function Side({ values, kind }: { values: unknown[]; kind: "added" | "removed" }) {
  return (
    <div className="compare-side" data-kind={values.length > 0 ? kind : undefined}>
      {values.length === 0 ? (
        <span className="muted small">absent</span>
      ) : (
        values.slice(0, 50).map((v, i) => <ValueText key={i} value={v} />)
      )}
      {values.length > 50 ? <span className="muted small">and {values.length - 50} more</span> : null}
    </div>
  );
}
