import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useMemo, useRef, useState } from "react";
import { useAssistants, useConnection } from "../../app/connection";
import { go, hrefOf, type Location } from "../../app/location";
import { messageOf } from "../../data/errors";
import { looks, type Status } from "../../data/status";
import { Button } from "../../ui/Button";
import { ago, clock, duration, short } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import { Menu } from "../../ui/Menu";
import { Empty, Failed, Loading, Notice } from "../../ui/States";
import { TabBar } from "../../ui/Tabs";
import { useTell } from "../../ui/Toast";
import { useNow } from "../../ui/useNow";
import { useSteady } from "../../ui/useSteady";
import { useThreadName } from "../threads/threads";
import { sameAgain, statusOfRun, useReason, useRuns, type ListedRun } from "./runs";

type Group = "all" | Status;

const groups: { id: Group; label: string }[] = [
  { id: "all", label: "All" },
  { id: "queued", label: "Queue" },
  { id: "running", label: "Running" },
  { id: "failed", label: "Failed" },
  { id: "asks", label: "Needs answer" },
  { id: "stopped", label: "Stopped" },
  { id: "done", label: "Done" },
];

const threadsAtOnce = 30;

/** RunList shows the runs of recent threads. */
export function RunList() {
  const [threads, setThreads] = useState(threadsAtOnce);
  const [group, setGroup] = useState<Group>("all");
  const { runs, query, error, pending, full, refetch } = useRuns(threads);
  const shown = useMemo(() => (group === "all" ? runs : runs.filter((r) => statusOfRun(r) === group)), [runs, group]);
  if (error && runs.length === 0)
    return <Failed what="Failed to load runs" error={messageOf(error)} retry={() => void refetch()} />;
  if (pending && runs.length === 0) return <Loading what="runs" />;
  return (
    <>
      <div className="runs-groups">
        <TabBar<Group>
          label="Status"
          value={group}
          onChange={setGroup}
          tabs={groups.map((g) => ({
            id: g.id,
            label: (
              <GroupLabel
                label={g.label}
                count={g.id === "all" ? runs.length : runs.filter((r) => statusOfRun(r) === g.id).length}
              />
            ),
          }))}
        />
      </div>
      {error ? <Notice kind="warn">{messageOf(error)} Some runs are missing or outdated.</Notice> : null}
      {shown.length === 0 ? (
        <Empty title={runs.length ? "No matching runs" : "No runs yet"}>
          {runs.length
            ? "No recent run has this status."
            : "Runs appear here when the studio or another client starts them."}
        </Empty>
      ) : (
        <Rows runs={shown} onChanged={() => void refetch()} />
      )}
      <p className="runs-foot">
        Runs of the {query.data?.length === 1 ? "thread" : `${query.data?.length ?? 0} threads`} that changed most
        recently.{" "}
        {full ? (
          <Button size="small" kind="quiet" onClick={() => setThreads(threads + threadsAtOnce)}>
            More threads
          </Button>
        ) : null}
      </p>
    </>
  );
}

function GroupLabel({ label, count }: { label: string; count: number }) {
  return (
    <>
      {label} <span className="runs-count">{count}</span>
    </>
  );
}

function Rows({ runs: sorted, onChanged }: { runs: ListedRun[]; onChanged(): void }) {
  const scroller = useRef<HTMLDivElement>(null);
  const { items: runs, onPointerMove } = useSteady(sorted, (r) => r.run.run_id);
  const now = useNow(5_000);
  const { data: assistants } = useAssistants();
  const names = useMemo(() => new Map(assistants?.map((a) => [a.assistant_id, a.name])), [assistants]);
  const rows = useVirtualizer({
    count: runs.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 62,
    overscan: 8,
    getItemKey: (i) => runs[i]!.run.run_id,
  });
  return (
    <div className="runs-list" ref={scroller} onPointerMove={onPointerMove}>
      <ul aria-label="Runs" style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map((row) => {
          const r = runs[row.index]!;
          return (
            <li
              key={row.key}
              ref={rows.measureElement}
              data-index={row.index}
              aria-setsize={runs.length}
              aria-posinset={row.index + 1}
              style={{ transform: `translateY(${row.start}px)` }}
            >
              <RunRow
                listed={r}
                assistant={names.get(r.run.assistant_id) ?? short(r.run.assistant_id)}
                now={now}
                onChanged={onChanged}
              />
            </li>
          );
        })}
      </ul>
    </div>
  );
}

const RunRow = memo(function RunRow({
  listed,
  assistant,
  now,
  onChanged,
}: {
  listed: ListedRun;
  assistant: string;
  now: number;
  onChanged(): void;
}) {
  const { run, thread } = listed;
  const name = useThreadName(thread);
  const status = statusOfRun(listed);
  const failed = status === "failed";
  const reason = useReason(run, failed);
  const look = looks[status];
  const going = status === "running" || status === "queued";
  const took = (going ? now : new Date(run.updated_at).getTime()) - new Date(run.created_at).getTime();
  return (
    <article className="runs-row" aria-label={`Run ${short(run.run_id)} of ${name || short(thread.thread_id)}`}>
      <span className={look.badge}>
        {status === "running" ? <span className="spinner runs-spinner" aria-hidden /> : null}
        {look.text}
      </span>
      <div className="runs-what">
        <To to={{ view: "graph", thread: thread.thread_id }} className="runs-thread cut">
          {name || short(thread.thread_id)}
        </To>
        <span className="muted small cut">
          {assistant} · <span title={clock(run.created_at)}>{ago(run.created_at, now)}</span> · {duration(took)} ·{" "}
          <span className="mono">{short(run.run_id)}</span>
        </span>
        {failed ? (
          <p className="runs-reason">
            {reason ?? (run.status === "timeout" ? "The run took longer than the server allows." : "")}
          </p>
        ) : null}
      </div>
      <div className="runs-actions">
        <To to={{ view: "trace", thread: thread.thread_id, run: run.run_id }} className="button small">
          <Icon name="trace" size={14} /> Trace
        </To>
        {failed ? <Retry listed={listed} onChanged={onChanged} /> : null}
        {going ? <Cancel listed={listed} onChanged={onChanged} /> : null}
      </div>
    </article>
  );
});

function To({ to, className, children }: { to: Partial<Location>; className: string; children: React.ReactNode }) {
  return (
    <a
      className={className}
      href={hrefOf(to)}
      onClick={(e) => {
        if (e.metaKey || e.ctrlKey || e.shiftKey) return;
        e.preventDefault();
        go(to);
      }}
    >
      {children}
    </a>
  );
}

function Retry({ listed: { run, newest }, onChanged }: { listed: ListedRun; onChanged(): void }) {
  const { client } = useConnection();
  const tell = useTell();
  const start = (again: boolean) =>
    void tell.attempt(async () => {
      const payload = again ? sameAgain(await client.run(run.thread_id, run.run_id)) : { input: null };
      if (!payload) throw new Error("The server does not return the input of this run.");
      await client.start(run.thread_id, run.assistant_id, payload);
      tell("New run started");
      onChanged();
    });
  return (
    <Menu
      trigger={
        <Button size="small">
          <Icon name="refresh" size={14} /> Retry
        </Button>
      }
      items={[
        // Only the newest run's failure is the thread's current state.
        ...(newest ? [{ label: "Continue from the failure", onSelect: () => start(false) }] : []),
        { label: "Run again with the same input", onSelect: () => start(true) },
      ]}
    />
  );
}

function Cancel({ listed: { run }, onChanged }: { listed: ListedRun; onChanged(): void }) {
  const { client } = useConnection();
  const tell = useTell();
  const [busy, setBusy] = useState(false);
  const cancel = async () => {
    setBusy(true);
    await tell.attempt(() => client.runs.cancel(run.thread_id, run.run_id, true));
    setBusy(false);
    onChanged();
  };
  return (
    <Button size="small" kind="danger" busy={busy} onClick={() => void cancel()}>
      <Icon name="stop" size={14} /> Cancel
    </Button>
  );
}
