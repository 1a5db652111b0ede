import type { Change } from "../../data/diff";
import { ValueText } from "./Changes";

/** Differences shows the changes from a state on the left to one on the right. */
export function Differences({ changes }: { changes: Change[] }) {
  if (changes.length === 0) return <p className="muted">The two states are equal.</p>;
  return (
    <dl className="compare-changes">
      {changes.map((c) => (
        <Pair key={c.key} change={c} />
      ))}
    </dl>
  );
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
