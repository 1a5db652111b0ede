// The trace of a run: what ran when, and what it cost.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { useAssistant } from "../../app/connection";
import { go, useLocation } from "../../app/location";
import { messageOf } from "../../data/errors";
import { useSession, useSessionPart } from "../../data/session";
import { looks, statusOf, statusOfSession, type Status } from "../../data/status";
import { idOf } from "../../data/tree";
import { isRunning, type SessionState } from "../../data/types";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { Empty, Failed, Loading, Notice } from "../../ui/States";
import { useTell } from "../../ui/Toast";
import { clock, duration, short } from "../../ui/format";
import { metaOf } from "../timeline/step";
import { CodeDialog } from "./CodeDialog";
import { Details } from "./Details";
import { PriceDialog } from "./PriceDialog";
import { notesOf, withRecorded } from "./merge";
import {
  dollars,
  liveSpans,
  loaderOf,
  runsOf,
  spanOfId,
  stopped,
  storedSpans,
  totalsOf,
  type Span,
  type StoredRun,
} from "./spans";
import { useRecording } from "./useRecording";
import { Waterfall } from "./Waterfall";
import "./trace.css";

export default function Trace() {
  const session = useSession();
  const status = useSessionPart((s) => s.status);
  const error = useSessionPart((s) => s.error);
  const steps = useSessionPart((s) => s.steps);
  const live = useSessionPart((s) => s.run?.id ?? null);
  const seen = useSessionPart((s) => s.tasks.length > 0);
  const { run: chosen } = useLocation();
  const runs = useMemo(() => {
    const stored = runsOf(steps);
    // A run that has just started has no checkpoint yet.
    return live && seen && !stored.some((r) => r.id === live) ? [{ id: live, steps: [] }, ...stored] : stored;
  }, [steps, live, seen]);
  if (status === "failed")
    return <Failed what="Failed to load the thread" error={error ?? ""} retry={() => void session.load()} />;
  if (status === "missing")
    return <Empty title="Thread not found">It may have been deleted. Select another thread.</Empty>;
  if (status === "loading") return <Loading what="runs" />;
  if (runs.length === 0)
    return (
      <Empty title="No runs to trace">
        Start a run, or select a thread with runs. Nodes, model calls, and tools appear here on a time axis.
      </Empty>
    );
  const run = runs.find((r) => r.id === chosen) ?? runs[0]!;
  return run.id === live && seen ? (
    <LiveTrace run={run} runs={runs} />
  ) : (
    <StoredTrace run={run} runs={runs} missing={!!chosen && run.id !== chosen} />
  );
}

/** The number of checkpoints of a run that are loaded without a click. */
const mostLoaded = 2_000;

interface Props {
  run: StoredRun;
  runs: StoredRun[];
}

/** LiveTrace shows the trace of the run that the session reads. */
function LiveTrace({ run, runs }: Props) {
  const session = useSession();
  const tasks = useSessionPart((s) => s.tasks);
  const messages = useSessionPart((s) => s.messages);
  const running = useSessionPart(isRunning);
  const status = useSessionPart(statusOfSession);
  const error = useSessionPart((s) => s.run?.error);
  const recorded = useRecording(session.threadId, run.id, running ? "running" : "ended", running);
  const { recording } = recorded;
  const spans = useMemo(() => {
    const all = withRecorded(liveSpans({ tasks, messages } as SessionState), recording?.spans ?? [], true);
    return status === "stopped" ? stopped(all) : all;
  }, [tasks, messages, status, recording]);
  return (
    <Page
      key={run.id}
      run={run}
      runs={runs}
      spans={spans}
      recorded={recorded}
      running={running}
      status={status}
      error={status === "failed" ? error : undefined}
    />
  );
}

function StoredTrace({ run, runs, missing }: Props & { missing: boolean }) {
  const session = useSession();
  const steps = useSessionPart((s) => s.steps);
  const last = run.steps.at(-1);
  const recorded = useRecording(session.threadId, run.id, last ? idOf(last) : "", false);
  const { recording } = recorded;
  const q = useQuery({
    queryKey: ["trace", session.threadId, run.id, run.steps.length, last && idOf(last)],
    queryFn: async () => {
      const state = session.getState();
      const newest = !!run.id && state.run?.id === run.id;
      // Its start distinguishes the first step from the wait before it. Not every server keeps runs.
      const info = run.id && !newest ? await session.runAt(run.id).catch(() => null) : null;
      const began = newest ? state.run!.started : info ? new Date(info.created_at).getTime() : 0;
      const loader = await loaderOf(session, run.steps, steps);
      const spans = await storedSpans(loader, run.id, run.steps, steps, began);
      // Another run may have continued from the end of this one, so that only the newest run can wait for an answer.
      const head = run.steps.at(-1) === steps[0] ? steps[0] : undefined;
      const status = newest
        ? statusOfSession(state)
        : statusOf({ run: info && { id: run.id, status: info.status, started: began }, head });
      return { spans, status };
    },
    staleTime: 60_000,
    // While a run is running, its trace grows.
    placeholderData: (old, query) => (query?.queryKey[2] === run.id ? old : undefined),
  });
  const spans = useMemo(() => {
    const all = withRecorded(q.data?.spans ?? [], recording?.spans ?? []);
    return q.data?.status === "stopped" ? stopped(all) : all;
  }, [q.data, recording]);
  if (q.error)
    return <Failed what="Failed to load the trace" error={messageOf(q.error)} retry={() => void q.refetch()} />;
  if (!q.data || !recorded.known || recorded.isLoading) return <Loading what="the trace" />;
  return (
    <Page
      key={run.id}
      run={run}
      runs={runs}
      spans={spans}
      recorded={recorded}
      status={q.data.status}
      running={false}
      missing={missing}
    />
  );
}

function Page({
  run,
  runs,
  spans,
  recorded,
  running,
  status,
  error,
  missing,
}: Props & {
  spans: Span[];
  recorded: ReturnType<typeof useRecording>;
  running: boolean;
  status: Status | null;
  error?: string;
  missing?: boolean;
}) {
  const session = useSession();
  const tell = useTell();
  const assistant = useAssistant();
  const hasMore = useSessionPart((s) => s.hasMore);
  const oldest = useSessionPart((s) => s.steps.at(-1));
  // The totals of a run are those of all its checkpoints, so the rest of a run is loaded.
  const partial = hasMore && !!oldest && !running && (metaOf(oldest).run_id ?? "") === run.id;
  const loaded = run.steps.length;
  useEffect(() => {
    if (partial && loaded < mostLoaded) void tell.attempt(() => session.loadMore());
  }, [partial, loaded, session, tell]);
  const [opened, setOpened] = useState<string | null>(null);
  const [code, setCode] = useState(false);
  const [pricing, setPricing] = useState(false);
  const now = useNow(running);
  const start = Math.min(...spans.map((s) => s.start), now);
  const end = running ? now : Math.max(start, ...spans.map((s) => s.end ?? s.start));
  // eslint-disable-next-line react-hooks/exhaustive-deps -- Changed prices change the costs.
  const totals = useMemo(() => totalsOf(spans), [spans, pricing]);
  const span = spanOfId(spans, opened);
  const { ours, known, recording } = recorded;
  // While a run is running, its calls may not have been read yet.
  const notes = known && !running ? notesOf(ours, recording, spans) : [];
  return (
    <div className="trace" data-opened={span ? true : undefined}>
      <header className="trace-head">
        <label className="trace-run">
          <span className="hidden">Run</span>
          <select className="input" value={run.id} onChange={(e) => go({ run: e.target.value || null })}>
            {runs.map((r) => (
              <option key={r.id} value={r.id}>
                {titleOf(r)}
              </option>
            ))}
          </select>
        </label>
        {hasMore ? (
          <Button size="small" onClick={() => void tell.attempt(() => session.loadMore())}>
            Older runs
          </Button>
        ) : null}
        {status ? <span className={looks[status].badge}>{looks[status].text}</span> : null}
        <dl className="trace-totals">
          <Total name="Time">{running ? "running" : duration(end - start)}</Total>
          <Total name="Model calls">{totals.models}</Total>
          <Total name="Tools">{totals.tools}</Total>
          {totals.tokens > 0 ? <Total name="Tokens">{totals.tokens.toLocaleString()}</Total> : null}
          {totals.cost === null ? null : <Total name="Cost">{dollars(totals.cost)}</Total>}
        </dl>
        {totals.tokens > 0 ? (
          <Button size="small" onClick={() => setPricing(true)}>
            Prices
          </Button>
        ) : null}
        <Button size="small" onClick={() => go({ view: "compare", run: run.id, checkpoint: null })}>
          <Icon name="compare" size={13} /> Side by side
        </Button>
        <Button size="small" onClick={() => setCode(true)} disabled={run.steps.length === 0}>
          <Icon name="copy" size={13} /> Copy as code
        </Button>
      </header>
      {partial ? (
        <Notice kind="warn">
          {recording?.spans.length
            ? "Recorded calls count in full. Nodes and other calls are those of the newest "
            : "The times, tokens, and costs are those of the newest "}
          {loaded.toLocaleString()} checkpoints of this run.{" "}
          {loaded < mostLoaded ? (
            "Loading the others…"
          ) : (
            <Button size="small" onClick={() => void tell.attempt(() => session.loadMore())}>
              Load more
            </Button>
          )}
        </Notice>
      ) : null}
      {missing ? <Notice kind="warn">The linked run has no loaded checkpoint. Showing the newest run.</Notice> : null}
      {error ? <Notice>{error}</Notice> : null}
      {recorded.error ? <Notice>Failed to load the recorded calls: {messageOf(recorded.error)}</Notice> : null}
      {notes.length > 0 ? (
        <p className="trace-notes muted small" role="note">
          {notes.join(" ")}
        </p>
      ) : null}
      <div className="trace-main">
        {spans.length === 0 ? (
          <Empty title={running ? "Starting" : "No nodes ran"}>
            {running ? "Its first node has not started yet." : "The run ended before a node started."}
          </Empty>
        ) : (
          <Waterfall
            spans={spans}
            start={start}
            end={Math.max(end, start + 1)}
            opened={span?.id ?? opened}
            onOpen={setOpened}
          />
        )}
        {span ? <Details key={opened} run={run.id} span={span} start={start} onClose={() => setOpened(null)} /> : null}
      </div>
      {pricing ? <PriceDialog onClose={() => setPricing(false)} /> : null}
      {code ? <CodeDialog run={run} assistant={assistant?.assistant_id ?? ""} onClose={() => setCode(false)} /> : null}
    </div>
  );
}

function Total({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function titleOf(r: StoredRun): string {
  const first = r.steps[0];
  const graph = first ? (metaOf(first).graph_id as string | undefined) : undefined;
  const count = `${r.steps.length} ${r.steps.length === 1 ? "checkpoint" : "checkpoints"}`;
  return [r.id ? "Run " + short(r.id) : "All steps", graph, first ? clock(first.created_at) : "just now", count]
    .filter(Boolean)
    .join(" · ");
}

/** useNow returns the current time, updated while a run is running. */
function useNow(running: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(() => setNow(Date.now()), 200);
    return () => clearInterval(timer);
  }, [running]);
  return now;
}
