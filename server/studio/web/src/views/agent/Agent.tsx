// What an agent has planned, written, and delegated, at a checkpoint or now.
import { useMemo, useState } from "react";
import { go, setParams, useLocation } from "../../app/location";
import { headOfBranch } from "../../data/branches";
import { useSession, useSessionPart } from "../../data/session";
import { idOf, pathTo, treeOf } from "../../data/tree";
import { isRunning, type Step } from "../../data/types";
import { Button } from "../../ui/Button";
import { TabBar } from "../../ui/Tabs";
import { Empty, Failed, Loading } from "../../ui/States";
import { bytes, clock } from "../../ui/format";
import { nameOf } from "../timeline/step";
import { Calls } from "./Calls";
import { Contents } from "./Contents";
import { delegatedOf, filesOf, todosOf, versionsOf, type Stored, type Todo, type Version } from "./work";
import "./agent.css";

export default function Agent() {
  const session = useSession();
  const status = useSessionPart((s) => s.status);
  const error = useSessionPart((s) => s.error);
  const steps = useSessionPart((s) => s.steps);
  const values = useSessionPart((s) => s.values);
  const hasMore = useSessionPart((s) => s.hasMore);
  const running = useSessionPart(isRunning);
  const { checkpoint, params } = useLocation();
  const tree = useMemo(() => treeOf(steps), [steps]);
  const chosen = checkpoint ? tree.byId.get(checkpoint) : undefined;
  const path = useMemo(
    () => pathTo(tree, chosen ? idOf(chosen) : headOfBranch(tree, steps, null)),
    [tree, steps, chosen],
  );
  const shown = chosen?.values ?? values;
  const files = useMemo(() => filesOf(shown), [shown]);
  const calls = useMemo(() => delegatedOf(shown), [shown]);
  const todos = todosOf(shown);
  if (status === "missing")
    return <Empty title="Thread not found">It may have been deleted. Select another thread.</Empty>;
  if (status === "failed")
    return <Failed what="Failed to load the thread" error={error ?? ""} retry={() => void session.load()} />;
  if (status === "loading" && steps.length === 0) return <Loading what="the thread" />;
  const names = Object.keys(files).sort();
  if (todos.length === 0 && names.length === 0 && calls.length === 0)
    return (
      <Empty title="No plan, files, or sub-agents">
        The to-dos and files of the state appear here, and the sub-agents, commands, and scripts that the agent starts.
      </Empty>
    );
  const name = params.item ?? names[0];
  return (
    <div className="agent">
      <div className="agent-side">
        {chosen ? (
          <p className="agent-at small">
            <span className="grow cut">At {[nameOf(chosen), clock(chosen.created_at)].filter(Boolean).join(", ")}</span>
            <Button size="small" onClick={() => go({ checkpoint: null })}>
              Newest
            </Button>
          </p>
        ) : null}
        <Todos todos={todos} />
        <Files files={files} chosen={name} />
        <Calls kind="agent" title="Sub-agents" calls={calls} path={path} running={running && !chosen} />
        <Calls kind="run" title="Commands and scripts" calls={calls} path={path} running={running && !chosen} />
      </div>
      {name ? <File key={name} name={name} now={files[name] ?? null} path={path} partial={hasMore} /> : null}
    </div>
  );
}

const marks: Record<Todo["status"], { text: string; sign: string }> = {
  pending: { text: "pending", sign: "○" },
  in_progress: { text: "in progress", sign: "◐" },
  completed: { text: "completed", sign: "●" },
};

function Todos({ todos }: { todos: Todo[] }) {
  if (todos.length === 0) return null;
  const done = todos.filter((t) => t.status === "completed").length;
  return (
    <section className="panel" aria-labelledby="agent-todos">
      <div className="panel-head">
        <h2 id="agent-todos" className="grow">
          To-dos
        </h2>
        <span className="muted small">
          {done} of {todos.length} completed
        </span>
      </div>
      <ul className="agent-todos">
        {todos.map((t, i) => {
          const mark = marks[t.status] ?? marks.pending;
          return (
            <li key={i} data-status={t.status}>
              <span aria-hidden>{mark.sign}</span>
              <span className="hidden">{mark.text}: </span>
              <span>{t.content}</span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Files({ files, chosen }: { files: Record<string, Stored>; chosen: string | undefined }) {
  const names = Object.keys(files).sort();
  if (names.length === 0) return null;
  return (
    <nav className="panel" aria-label="Files">
      <div className="panel-head">
        <h2 className="grow">Files</h2>
        <span className="muted small">{names.length}</span>
      </div>
      <ul className="agent-files">
        {names.map((name) => (
          <li key={name}>
            <button
              type="button"
              aria-current={name === chosen ? "true" : undefined}
              onClick={() => setParams({ item: name }, "push")}
            >
              <span className="mono cut grow" title={name}>
                {name}
              </span>
              <span className="muted small">{bytes(files[name]!.bytes)}</span>
            </button>
          </li>
        ))}
      </ul>
    </nav>
  );
}

interface FileProps {
  name: string;
  now: Stored | null;
  /** The checkpoints of the branch, oldest first. */
  path: Step[];
  /** Older checkpoints are not loaded. */
  partial: boolean;
}

/** File shows a file, or what a checkpoint changed in it. */
function File({ name, now, path, partial }: FileProps) {
  const session = useSession();
  const versions = useMemo(() => versionsOf(path, name), [path, name]);
  const [part, setPart] = useState<"text" | "changes">("text");
  const [picked, setPicked] = useState<string | null>(null);
  const at = picked === null ? versions.length - 1 : versions.findIndex((v) => idOf(v.step) === picked);
  const version = versions[at];
  const saved = version?.content ?? null;
  // A run may have written the file in a step that is not saved yet.
  const unsaved = picked === null && now?.text !== saved?.text;
  const before = unsaved ? saved : (versions[at - 1]?.content ?? null);
  return (
    <section className="panel agent-file" aria-label={name}>
      <div className="panel-head">
        <h2 className="mono cut">{name}</h2>
        <span className="grow" />
        {versions.length > 0 ? (
          <select
            className="input"
            aria-label="Version"
            value={picked ?? ""}
            onChange={(e) => setPicked(e.target.value || null)}
          >
            <option value="">Latest</option>
            {versions
              .map((v, i) => (
                <option key={idOf(v.step)} value={idOf(v.step)}>
                  {titleOf(v, i)}
                </option>
              ))
              .reverse()}
          </select>
        ) : null}
      </div>
      <div className="agent-file-bar">
        <TabBar<"text" | "changes">
          label="Shown part"
          value={part}
          onChange={setPart}
          tabs={[
            { id: "text", label: "Text" },
            { id: "changes", label: "Changes" },
          ]}
        />
        {version ? (
          <Button kind="quiet" size="small" onClick={() => go({ view: "graph", checkpoint: idOf(version.step) })}>
            Open checkpoint
          </Button>
        ) : null}
        {partial ? (
          <Button kind="quiet" size="small" onClick={() => void session.loadMore()}>
            Load older checkpoints
          </Button>
        ) : null}
      </div>
      <Contents part={part} content={unsaved ? now : saved} before={before} />
    </section>
  );
}

const titleOf = (v: Version, i: number): string =>
  [`Version ${i + 1}`, v.content ? "" : "deleted", nameOf(v.step), clock(v.step.created_at)]
    .filter(Boolean)
    .join(" · ");
