// Every question that waits for an answer, across all graphs.
import { useState } from "react";
import { go, hrefOf, setParams, useLocation } from "../../app/location";
import { messageOf } from "../../data/errors";
import { Button } from "../../ui/Button";
import { ago, clock, short } from "../../ui/format";
import { Empty, Failed, Loading, Notice } from "../../ui/States";
import { useTell } from "../../ui/Toast";
import { useNow } from "../../ui/useNow";
import { Questions } from "../interrupts/Questions";
import { useThreadName } from "../threads/threads";
import { useInbox, type WaitingThread } from "./inbox";
import "./inbox.css";

export default function Inbox() {
  const { waiting, query, searching, answer } = useInbox();
  const { graph = "" } = useLocation().params;
  const setGraph = (to: string) => setParams({ graph: to });
  const graphs = [...new Set(waiting.map((w) => w.graph))].sort();
  const shown = graph ? waiting.filter((w) => w.graph === graph) : waiting;
  if (query.isPending || searching) return <Loading what="questions" />;
  if (query.isError && !query.data)
    return <Failed what="Failed to load questions" error={messageOf(query.error)} retry={() => void query.refetch()} />;
  return (
    <div className="inbox">
      <div className="row inbox-head">
        <h2>
          {waiting.length === 1 && !query.hasNextPage
            ? "1 thread waits"
            : `${waiting.length}${query.hasNextPage ? "+" : ""} threads wait`}{" "}
          for an answer
        </h2>
        <span className="grow" />
        {graphs.length > 1 || graph ? (
          <select className="input" aria-label="Graph" value={graph} onChange={(e) => setGraph(e.target.value)}>
            <option value="">All graphs</option>
            {graphs.map((g) => (
              <option key={g} value={g}>
                {g || "Unknown graph"}
              </option>
            ))}
          </select>
        ) : null}
      </div>
      {query.isError ? <Notice>The list may be out of date: {messageOf(query.error)}</Notice> : null}
      {shown.length === 0 ? (
        <Empty title={query.hasNextPage ? "No questions among the newest threads" : "No questions"}>
          {!graph
            ? "Questions of all graphs appear here."
            : query.hasNextPage
              ? `Older threads of ${graph} may wait for an answer.`
              : `No thread of ${graph} waits for an answer.`}
        </Empty>
      ) : (
        shown.map((w) => <Waiting key={w.thread.thread_id} waiting={w} onAnswer={(answers) => answer(w, answers)} />)
      )}
      {query.hasNextPage ? (
        <Button disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          {query.isFetchingNextPage ? "Loading…" : "Load more"}
        </Button>
      ) : null}
    </div>
  );
}

interface Props {
  waiting: WaitingThread;
  onAnswer(answers: Record<string, unknown>): Promise<void>;
}

function Waiting({ waiting, onAnswer }: Props) {
  const { thread, graph, questions } = waiting;
  const { name: title, error } = useThreadName(thread);
  const name = title || short(thread.thread_id);
  const now = useNow();
  const tell = useTell();
  const [sending, setSending] = useState(false);
  const to = { view: "graph", assistant: graph || null, thread: thread.thread_id } as const;
  return (
    <article className="inbox-thread" aria-label={name}>
      <div className="row">
        <a
          className="cut inbox-name"
          href={hrefOf(to)}
          onClick={(e) => {
            if (e.metaKey || e.ctrlKey || e.shiftKey) return;
            e.preventDefault();
            go(to);
          }}
        >
          {name}
        </a>
        <span className="grow" />
        {error ? <span className="muted small cut">Failed to load the name: {error}</span> : null}
        <span className="muted small" title={clock(thread.updated_at)}>
          {ago(thread.updated_at, now)}
        </span>
      </div>
      <Questions
        questions={questions}
        disabled={sending}
        onAnswer={async (answers) => {
          setSending(true);
          const sent = await tell.attempt(() => onAnswer(answers).then(() => true));
          setSending(false);
          if (sent) tell(`Answered ${name}`);
          return !!sent;
        }}
      />
    </article>
  );
}
