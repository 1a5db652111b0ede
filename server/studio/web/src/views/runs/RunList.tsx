import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { useAssistants, useConnection } from "../../app/connection";
import { go, hrefOf, setParams, useLocation, type Location } from "../../app/location";
import { messageOf } from "../../data/errors";
import { useHasSearch } from "../../data/search";
import { looks, type Status } from "../../data/status";
import { Button } from "../../ui/Button";
import { ago, clock, duration, short } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import { Menu } from "../../ui/Menu";
import { Empty, Failed, Loading, Notice } from "../../ui/States";
import { TabBar } from "../../ui/Tabs";
import { useTell } from "../../ui/Toast";
import { useDebounced } from "../../ui/useDebounced";
import { useNow } from "../../ui/useNow";
import { useSteady } from "../../ui/useSteady";
import { useThreadName } from "../threads/threads";
import { statusOfRun, type ListedRun, type RunFilter } from "./filter";
import { perThread, sameAgain, useFoundRuns, useReason, useRunsOfThreads, type RunPages } from "./runs";

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

const hour = 3_600_000;
const times: Record<string, { label: string; ms: number }> = {
  "1h": { label: "Last hour", ms: hour },
  "24h": { label: "Last 24 hours", ms: 24 * hour },
  "7d": { label: "Last 7 days", ms: 7 * 24 * hour },
  "30d": { label: "Last 30 days", ms: 30 * 24 * hour },
};

const threadsAtOnce = 30;

/** useFilter returns the filter in the address bar. */
function useFilter(): { filter: RunFilter; group: Group } {
  const { status, graph = "", by = "", since = "", error = "" } = useLocation().params;
  const group = groups.find((g) => g.id === status)?.id ?? "all";
  return useMemo(() => {
    const ms = times[since]?.ms;
    return {
      group,
      filter: {
        status: group === "all" ? "" : group,
        graph,
        assistant: by,
        since: ms ? new Date(Date.now() - ms).toISOString() : "",
        error: error.trim(),
      },
    };
  }, [group, graph, by, since, error]);
}

/** RunList shows the runs of all threads, or of those that changed last if the server does not search. */
export function RunList() {
  const indexed = useHasSearch();
  const { filter, group } = useFilter();
  if (indexed === undefined) return <Loading what="runs" />;
  return indexed ? <FoundRuns filter={filter} group={group} /> : <RunsOfThreads filter={filter} group={group} />;
}

interface ListProps {
  filter: RunFilter;
  group: Group;
}

function FoundRuns({ filter, group }: ListProps) {
  const pages = useFoundRuns(filter);
  const { runs, more } = pages;
  return (
    <List pages={pages} group={group} searchable>
      {more
        ? `The newest ${runs.length === 1 ? "run" : `${runs.length} runs`} of all threads that match.`
        : `All ${runs.length === 1 ? "1 run" : `${runs.length} runs`} that match, of all threads.`}
    </List>
  );
}

function RunsOfThreads({ filter, group }: ListProps) {
  const [threads, setThreads] = useState(threadsAtOnce);
  const pages = useRunsOfThreads(threads, filter, () => setThreads(threads + threadsAtOnce));
  return (
    <List pages={pages} group={group}>
      This server lists runs thread by thread. The list covers the newest {perThread} runs of each of the{" "}
      {pages.of === 1 ? "thread" : `${pages.of} threads`} that changed last.
    </List>
  );
}

interface Props {
  pages: RunPages;
  group: Group;
  /** Whether the server finds runs by the words of their errors. */
  searchable?: boolean;
  /** What the list covers. */
  children: ReactNode;
}

function List({ pages, group, searchable, children }: Props) {
  const { runs, error, pending, more, loadingMore, refetch } = pages;
  const { params } = useLocation();
  const filtered = group !== "all" || !!(params.graph || params.by || params.since || params.error);
  return (
    <>
      <div className="runs-groups">
        <TabBar<Group>
          label="Status"
          value={group}
          onChange={(to) => setParams({ status: to === "all" ? "" : to })}
          tabs={groups.map((g) => ({
            id: g.id,
            label: (
              <>
                {g.label}
                {g.id === group && !pending ? (
                  <span className="runs-count">
                    {" "}
                    {runs.length}
                    {more ? "+" : ""}
                  </span>
                ) : null}
              </>
            ),
          }))}
        />
      </div>
      <Filters searchable={searchable} />
      {error && runs.length > 0 ? (
        <Notice kind="warn">{messageOf(error)} Some runs are missing or outdated.</Notice>
      ) : null}
      {error && runs.length === 0 ? (
        <Failed what="Failed to load runs" error={messageOf(error)} retry={() => void refetch()} />
      ) : pending && runs.length === 0 ? (
        <Loading what="runs" />
      ) : runs.length === 0 ? (
        <Empty title={filtered || more ? "No matching runs" : "No runs yet"}>
          {more
            ? "None of the newest runs matches. Older ones may."
            : filtered
              ? "No run has this status and meets these filters."
              : "Runs appear here when the studio or another client starts them."}
        </Empty>
      ) : (
        <Rows runs={runs} onChanged={() => void refetch()} />
      )}
      {pending ? null : (
        <div className="runs-foot row wrap">
          <span>{children}</span>
          {more ? (
            <Button size="small" kind="quiet" busy={loadingMore} onClick={more}>
              Load more
            </Button>
          ) : null}
        </div>
      )}
    </>
  );
}

/** Filters edits the filters in the address bar. */
function Filters({ searchable }: { searchable?: boolean }) {
  const { params } = useLocation();
  const { data: assistants = [] } = useAssistants();
  const graphs = [...new Set(assistants.map((a) => a.graph_id))].sort();
  const choices = assistants.filter((a) => !params.graph || a.graph_id === params.graph);
  return (
    <div className="runs-filters">
      <select
        className="input"
        aria-label="Graph"
        value={params.graph ?? ""}
        onChange={(e) => setParams({ graph: e.target.value, by: "" })}
      >
        <option value="">All graphs</option>
        {graphs.map((g) => (
          <option key={g} value={g}>
            {g}
          </option>
        ))}
      </select>
      <select
        className="input"
        aria-label="Assistant"
        value={params.by ?? ""}
        onChange={(e) => setParams({ by: e.target.value })}
      >
        <option value="">All assistants</option>
        {choices.map((a) => (
          <option key={a.assistant_id} value={a.assistant_id}>
            {a.name}
          </option>
        ))}
      </select>
      <select
        className="input"
        aria-label="Time"
        value={params.since ?? ""}
        onChange={(e) => setParams({ since: e.target.value })}
      >
        <option value="">Any time</option>
        {Object.entries(times).map(([key, { label }]) => (
          <option key={key} value={key}>
            {label}
          </option>
        ))}
      </select>
      {searchable ? <ErrorFilter /> : null}
    </div>
  );
}

function ErrorFilter() {
  const { error = "" } = useLocation().params;
  const [typed, setTyped] = useState(error);
  const settled = useDebounced(typed);
  useEffect(() => {
    if (settled !== error) setParams({ error: settled });
    // eslint-disable-next-line react-hooks/exhaustive-deps -- The address follows the field, not the other way round.
  }, [settled]);
  return (
    <input
      className="input"
      type="search"
      aria-label="Error"
      placeholder="Words of the error"
      value={typed}
      onChange={(e) => setTyped(e.target.value)}
      spellCheck={false}
    />
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
  const { name, error } = useThreadName(thread);
  const status = statusOfRun(listed);
  const failed = status === "failed";
  const reason = useReason(listed, failed);
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
        {error ? <span className="muted small">Failed to load the name of the thread: {error}</span> : null}
        {failed ? <p className="runs-reason">{reason}</p> : null}
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

function To({ to, className, children }: { to: Partial<Location>; className: string; children: ReactNode }) {
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
