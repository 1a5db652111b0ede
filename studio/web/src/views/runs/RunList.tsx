import type { Run } from "@langchain/langgraph-sdk";
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useMemo, useRef, useState } from "react";
import { useAssistants, useConnection } from "../../app/connection";
import { go, hrefOf, type Location } from "../../app/location";
import { messageOf } from "../../data/session";
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
import { sameAgain, useReason, useRuns, type ListedRun } from "./runs";

type Group = "all" | "queue" | "running" | "failed" | "waiting" | "done";

const groups: { id: Group; label: string; statuses: Run["status"][] }[] = [
  { id: "all", label: "All", statuses: [] },
  { id: "queue", label: "Queue", statuses: ["pending"] },
  { id: "running", label: "Running", statuses: ["running"] },
  { id: "failed", label: "Failed", statuses: ["error", "timeout"] },
  { id: "waiting", label: "Interrupted", statuses: ["interrupted"] },
  { id: "done", label: "Done", statuses: ["success"] },
];

const looks: Record<string, { badge: string; text: string }> = {
  pending: { badge: "badge", text: "Queued" },
  running: { badge: "badge accent", text: "Running" },
  error: { badge: "badge bad", text: "Failed" },
  timeout: { badge: "badge bad", text: "Timed out" },
  interrupted: { badge: "badge warn", text: "Interrupted" },
  success: { badge: "badge ok", text: "Done" },
};

const threadsAtOnce = 30;

/** RunList are the runs of recent threads. */
export function RunList() {
  const [threads, setThreads] = useState(threadsAtOnce);
  const [group, setGroup] = useState<Group>("all");
  const { runs, query, pending, full, refetch } = useRuns(threads);
  const statuses = groups.find((g) => g.id === group)!.statuses;
  const shown = useMemo(() => (statuses.length ? runs.filter((r) => statuses.includes(r.run.status)) : runs), [runs, statuses]);
  if (query.isError && !query.data) return <Failed what="The runs cannot be read" error={messageOf(query.error)} retry={() => void query.refetch()} />;
  if (pending && runs.length === 0) return <Loading what="runs" />;
  return (
    <>
      <div className="runs-groups">
        <TabBar<Group> label="Status" value={group} onChange={setGroup} tabs={groups.map((g) => ({ id: g.id, label: <GroupLabel label={g.label} count={g.statuses.length ? runs.filter((r) => g.statuses.includes(r.run.status)).length : runs.length} /> }))} />
      </div>
      {query.isError ? <Notice kind="warn">{messageOf(query.error)} You see what was loaded before.</Notice> : null}
      {shown.length === 0 ? (
        <Empty title={runs.length ? "No such runs" : "No runs yet"}>{runs.length ? "None of the recent runs is in this group." : "Runs appear here when a thread is run, by the studio or by any client."}</Empty>
      ) : (
        <Rows runs={shown} onChanged={() => void refetch()} />
      )}
      <p className="runs-foot">
        Runs of the {query.data?.length === 1 ? "thread" : `${query.data?.length ?? 0} threads`} that changed last.{" "}
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
  const rows = useVirtualizer({ count: runs.length, getScrollElement: () => scroller.current, estimateSize: () => 62, overscan: 8, getItemKey: (i) => runs[i]!.run.run_id });
  return (
    <div className="runs-list" ref={scroller} onPointerMove={onPointerMove}>
      <ul aria-label="Runs" style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map((row) => {
          const r = runs[row.index]!;
          return (
            <li key={row.key} ref={rows.measureElement} data-index={row.index} aria-setsize={runs.length} aria-posinset={row.index + 1} style={{ transform: `translateY(${row.start}px)` }}>
              <RunRow listed={r} assistant={names.get(r.run.assistant_id) ?? short(r.run.assistant_id)} now={now} onChanged={onChanged} />
            </li>
          );
        })}
      </ul>
    </div>
  );
}

const RunRow = memo(function RunRow({ listed, assistant, now, onChanged }: { listed: ListedRun; assistant: string; now: number; onChanged(): void }) {
  const { run, thread } = listed;
  const name = useThreadName(thread);
  const failed = run.status === "error" || run.status === "timeout";
  const reason = useReason(run, failed);
  const look = looks[run.status] ?? { badge: "badge", text: run.status };
  const going = run.status === "running" || run.status === "pending";
  const took = (going ? now : new Date(run.updated_at).getTime()) - new Date(run.created_at).getTime();
  return (
    <article className="runs-row" aria-label={`Run ${short(run.run_id)} of ${name || short(thread.thread_id)}`}>
      <span className={look.badge}>
        {run.status === "running" ? <span className="spinner runs-spinner" aria-hidden /> : null}
        {look.text}
      </span>
      <div className="runs-what">
        <To to={{ view: "graph", thread: thread.thread_id }} className="runs-thread cut">
          {name || short(thread.thread_id)}
        </To>
        <span className="muted small cut">
          {assistant} · <span title={clock(run.created_at)}>{ago(run.created_at, now)}</span> · {duration(took)} · <span className="mono">{short(run.run_id)}</span>
        </span>
        {failed ? <p className="runs-reason">{reason ?? (run.status === "timeout" ? "It took longer than the server allows." : "")}</p> : null}
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
      const payload = again ? sameAgain(await client.runs.get(run.thread_id, run.run_id)) : { input: null };
      if (!payload) throw new Error("The server does not tell the input of this run.");
      await client.runs.create(run.thread_id, run.assistant_id, { ...payload, streamResumable: true } as never);
      tell("A new run has started");
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
        // Only the newest run's failure is where the thread stands.
        ...(newest ? [{ label: "Go on where it failed", onSelect: () => start(false) }] : []),
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
