import { memo, useState } from "react";
import { go } from "../../app/location";
import type { BranchRow, Fork, StepRow } from "../../data/branches";
import { useSessionPart } from "../../data/session";
import { idOf } from "../../data/tree";
import type { Step, TaskRun } from "../../data/types";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { JsonView } from "../../ui/JsonView";
import { Menu } from "../../ui/Menu";
import { clock, duration, nodeName } from "../../ui/format";
import { Gutter, gutterWidth } from "./Gutter";
import { StepBody } from "./StepBody";
import { metaOf, nameOf, nodesOf, sourceOf, sourceTexts, tookMs } from "./step";

export type Action = "state" | "edit" | "replay" | "link" | "compare";

const actions: { action: Action; label: string; icon: "search" | "fork" | "play" | "link" | "compare" }[] = [
  { action: "state", label: "Inspect state", icon: "search" },
  { action: "edit", label: "Edit and fork", icon: "fork" },
  { action: "replay", label: "Replay from here", icon: "play" },
  { action: "compare", label: "Compare", icon: "compare" },
  { action: "link", label: "Copy link", icon: "link" },
];

const maps = new WeakMap<TaskRun[], Map<string, TaskRun>>();

function byId(tasks: TaskRun[]): Map<string, TaskRun> {
  let map = maps.get(tasks);
  if (!map) maps.set(tasks, (map = new Map(tasks.map((t) => [t.id, t]))));
  return map;
}

interface Props {
  row: StepRow;
  selected: boolean;
  onAction(action: Action, step: Step): void;
  /** Switches to another branch of the fork. */
  onBranch(id: string): void;
}

/** Card shows a step of the current branch, or a line for a step of another branch. */
export const Card = memo(function Card({ row, selected, onAction, onBranch }: Props) {
  const { step, parent, fork } = row;
  const took = useSessionPart((s) => tookMs(step, parent, byId(s.tasks)));
  const nodes = nodesOf(step, parent);
  const source = sourceOf(step);
  const name = nameOf(step);
  return (
    <div className="timeline-row" style={{ paddingLeft: gutterWidth(row) }}>
      <Gutter row={row} />
      <article
        className="timeline-card"
        aria-label={name}
        data-selected={selected || undefined}
        data-other={row.current ? undefined : true}
      >
        <header className="timeline-head">
          <button
            type="button"
            className="timeline-title"
            aria-pressed={selected}
            onClick={() => go({ checkpoint: idOf(step) })}
          >
            <span className="timeline-step">{name}</span>
            {nodes.map((n) => (
              <span key={n.name} className="timeline-node cut">
                {nodeName(n.name)}
                {n.count > 1 ? ` × ${n.count}` : ""}
              </span>
            ))}
          </button>
          {source === "loop" || source === "" || source === "input" ? null : (
            <span className={source === "update" ? "badge violet" : "badge accent"}>
              {sourceTexts[source] ?? source}
            </span>
          )}
          <span className="grow" />
          {took === null ? null : (
            <span className="timeline-took" title="Duration">
              {duration(took)}
            </span>
          )}
          {fork && row.current ? <Switcher fork={fork} onBranch={onBranch} /> : null}
          <Menu
            label={name}
            trigger={
              <Button kind="quiet" size="small" label={`Actions of ${name}`}>
                <Icon name="more" />
              </Button>
            }
            items={actions.map((a) => ({
              label: (
                <>
                  <Icon name={a.icon} /> {a.label}
                </>
              ),
              onSelect: () => onAction(a.action, step),
            }))}
          />
        </header>
        {row.current ? (
          <StepBody step={step} parent={parent}>
            <Metadata step={step} />
          </StepBody>
        ) : null}
        {selected ? (
          <div className="timeline-actions">
            {actions.map((a) => (
              <Button key={a.action} size="small" onClick={() => onAction(a.action, step)}>
                <Icon name={a.icon} size={13} /> {a.label}
              </Button>
            ))}
          </div>
        ) : null}
      </article>
    </div>
  );
});

function Metadata({ step }: { step: Step }) {
  const [open, setOpen] = useState(false);
  return (
    <div className="timeline-meta">
      <button type="button" className="json-fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span aria-hidden>{open ? "▾" : "▸"}</span> Metadata
      </button>
      <time dateTime={step.created_at ?? undefined}>{clock(step.created_at)}</time>
      {open ? <JsonView value={{ checkpoint_id: idOf(step), ...metaOf(step) }} /> : null}
    </div>
  );
}

function Switcher({ fork, onBranch }: { fork: Fork; onBranch(id: string): void }) {
  const to = (by: number) => fork.of[(fork.at + by + fork.of.length) % fork.of.length]!;
  return (
    <span className="timeline-switch" role="group" aria-label="Branches">
      <Button kind="quiet" size="small" label="Previous branch" onClick={() => onBranch(to(-1))}>
        <Icon name="left" size={12} />
      </Button>
      <span className="small">
        branch {fork.at + 1} of {fork.of.length}
      </span>
      <Button kind="quiet" size="small" label="Next branch" onClick={() => onBranch(to(1))}>
        <Icon name="right" size={12} />
      </Button>
    </span>
  );
}

/** Branch shows another branch, collapsed into a line. */
export const Branch = memo(function Branch({
  row,
  onBranch,
  onUnfold,
}: {
  row: BranchRow;
  onBranch(id: string): void;
  onUnfold(id: string): void;
}) {
  const { step, head, before, count, fork } = row;
  const last = nodesOf(head, before)[0]?.name;
  return (
    <div className="timeline-row" style={{ paddingLeft: gutterWidth(row) }}>
      <Gutter row={row} />
      <div className="timeline-branch">
        <Button kind="quiet" size="small" label="Expand branch" onClick={() => onUnfold(idOf(step))}>
          <Icon name="right" size={12} />
        </Button>
        <button type="button" className="timeline-title" onClick={() => onBranch(idOf(step))}>
          <span>{fork ? `Branch ${fork.at + 1} of ${fork.of.length}` : "Another branch"}</span>
          <span className="muted small cut">
            {count} {count === 1 ? "step" : "steps"}, {sourceTexts[sourceOf(step)] ?? sourceOf(step)}
            {last ? `, up to ${nodeName(last)}` : ""}
          </span>
        </button>
        <time className="muted small" dateTime={head.created_at ?? undefined}>
          {clock(head.created_at)}
        </time>
      </div>
    </div>
  );
});
