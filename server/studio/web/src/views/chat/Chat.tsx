// The thread as a conversation, for graphs whose state has messages.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, type DragEvent, type RefObject } from "react";
import { useAssistant, useSchemas } from "../../app/connection";
import { go, useLocation } from "../../app/location";
import { headOfBranch } from "../../data/branches";
import { messagesKey } from "../../data/messages";
import { useSession, useSessionState } from "../../data/session";
import { looks, statusOf, statusOfSession } from "../../data/status";
import { treeOf } from "../../data/tree";
import { isRunning, type SessionState } from "../../data/types";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { Empty, Failed, Loading, Notice } from "../../ui/States";
import { nodeName } from "../../ui/format";
import { useFollow } from "../../ui/useFollow";
import { useLate } from "../../ui/useLate";
import { Interrupts } from "../interrupts/Interrupts";
import { useChosen } from "../timeline/useChosen";
import { useActions } from "./actions";
import { useAttach } from "./attach";
import { messagesOf, originsOf } from "./branches";
import { Composer } from "./Composer";
import { moveDraft } from "./drafts";
import { MessageRow } from "./MessageRow";
import { rowsOf, type Row } from "./rows";
import "./chat.css";

export default function Chat() {
  const session = useSession();
  const { status, error, values } = useSessionState();
  const assistant = useAssistant();
  const schemas = useSchemas(assistant?.assistant_id);
  // Some servers take a minute to compute schemas. Without them, the usual name is a good guess.
  const late = useLate(2_000);
  const unknown = schemas.isError || (schemas.isPending && late);
  const key = useMemo(
    () => messagesKey(values) ?? keyOfSchema(schemas.data?.input_schema) ?? (unknown ? "messages" : null),
    [values, schemas.data, unknown],
  );
  if (status === "loading") return <Loading what="the thread" />;
  if (status === "failed")
    return <Failed what="Failed to load the thread" error={error ?? ""} retry={() => void session.load()} />;
  if (status === "missing")
    return (
      <Empty title="Thread not found" action={<Button onClick={() => go({ thread: null })}>New thread</Button>}>
        The server has no thread with this ID. It may have been deleted.
      </Empty>
    );
  if (key) return <Conversation messagesKey={key} />;
  if (schemas.isPending && assistant) return <Loading what="the graph" />;
  return (
    <Empty
      title="This graph has no messages"
      action={<Button onClick={() => go({ view: "graph" })}>Open graph</Button>}
    >
      Its state has no message list. Run it in the graph view, which has a form for its input.
    </Empty>
  );
}

/** keyOfSchema returns the key of an input that accepts messages. */
function keyOfSchema(schema: unknown): string | null {
  const properties = ((schema as { properties?: Record<string, unknown> } | null)?.properties ?? {}) as Record<
    string,
    { type?: unknown; items?: unknown }
  >;
  if (properties.messages) return "messages";
  return (
    Object.keys(properties).find(
      (k) =>
        properties[k]?.type === "array" &&
        /HumanMessage|"title":"Message"/.test(JSON.stringify(properties[k].items ?? null)),
    ) ?? null
  );
}

const none: never[] = [];

function Conversation({ messagesKey: key }: { messagesKey: string }) {
  const session = useSession();
  const state = useSessionState();
  const { checkpoint } = useLocation();
  const running = isRunning(state);
  const tree = useMemo(() => treeOf(state.steps), [state.steps]);
  useChosen(tree, state.steps);
  const newestId = headOfBranch(tree, state.steps, null);
  const headId = headOfBranch(tree, state.steps, running ? null : checkpoint);
  const newest = headId === newestId;
  const head = tree.byId.get(headId);
  const values = newest ? state.values : head?.values;
  const stored = useMemo(() => messagesOf(values, key), [values, key]);
  const origins = useMemo(() => originsOf(tree, headId, key), [tree, headId, key]);
  const kept = useRef(new Map<string, Row>());
  const status = newest ? statusOfSession(state) : head ? statusOf({ head }) : null;
  const unfinished = running || status === "stopped" || status === "failed";
  const streamed = newest && unfinished ? state.messages : none;
  const rows = useMemo(() => {
    const rows = rowsOf(stored, streamed, running, origins, kept.current);
    kept.current = new Map(rows.map((r) => [r.key, r]));
    return rows;
  }, [stored, streamed, running, origins]);
  const { actions, editing } = useActions(key, head, newest);
  const { scroller, content, following, away, toEnd } = useFollow();
  const attach = useAttach(state.threadId);
  const drop = (e: DragEvent) => {
    e.preventDefault();
    void attach([...e.dataTransfer.files]);
  };
  // What was typed while the first run created the thread belongs to that thread.
  const previous = useRef({ session, thread: state.threadId });
  useEffect(() => {
    const { current: before } = previous;
    previous.current = { session, thread: state.threadId };
    if (before.session === session && !before.thread && state.threadId) moveDraft(state.threadId);
  }, [session, state.threadId]);
  const send = () => {
    toEnd();
    void actions.send();
  };
  return (
    <div className="chat" onDragOver={(e) => e.preventDefault()} onDrop={drop}>
      <div className="chat-scroll" ref={scroller} tabIndex={0} role="region" aria-label="Conversation">
        <div className="chat-content" ref={content}>
          {rows.length === 0 && !running && state.questions.length === 0 ? (
            <Empty title="New conversation">
              Write a message below. Press Enter to send, or Shift+Enter for a new line.
            </Empty>
          ) : null}
          <Rows
            rows={rows}
            running={running}
            editing={editing}
            actions={actions}
            scroller={scroller}
            following={following}
            more={state.hasMore && !running ? () => void session.loadMore() : undefined}
          />
          <div className="chat-end">
            {running ? <Working state={state} rows={rows} /> : null}
            {state.error ? <Notice>{state.error}</Notice> : null}
            {status === "failed" && state.run && newest ? (
              <Notice>{state.run.error ?? "The run failed."}</Notice>
            ) : null}
            {newest ? <Interrupts /> : null}
            {!running && head && head.next.length > 0 && (!newest || state.questions.length === 0) ? (
              <div className="chat-paused">
                <span className="grow">
                  {newest ? "" : "This branch: "}
                  {status === "failed" ? "Failed in" : "Stopped before"}{" "}
                  <strong>{head.next.map(nodeName).join(", ")}</strong>.
                </span>
                <Button size="small" onClick={() => void actions.proceed()}>
                  <Icon name="play" size={12} /> {(status && looks[status].action) ?? "Continue"}
                </Button>
              </div>
            ) : null}
          </div>
        </div>
      </div>
      {away ? (
        <Button className="chat-jump" size="small" onClick={toEnd}>
          <Icon name="down" size={12} /> Newest
        </Button>
      ) : null}
      <Composer
        thread={state.threadId}
        running={running}
        asked={newest && state.questions.length > 0}
        onSend={send}
        onStop={() => session.stop()}
      />
    </div>
  );
}

/** Working shows the activity while no tokens arrive. */
function Working({ state, rows }: { state: SessionState; rows: Row[] }) {
  if (rows.at(-1)?.growing && state.run?.phase === "running") return null;
  const nodes = [...new Set(state.tasks.filter((t) => !t.ended).map((t) => t.name))];
  return (
    <p className="chat-working" role="status">
      <span className="spinner" aria-hidden />
      {state.run?.phase === "reconnecting"
        ? "Connection lost. Reconnecting…"
        : state.run?.phase === "looking"
          ? state.run.error
          : nodes.length
            ? nodes.map(nodeName).join(", ")
            : "Starting…"}
    </p>
  );
}

/** The estimated height of a row that has not been visible yet. */
const rowHeight = 90;

type RowsProps = {
  rows: Row[];
  running: boolean;
  editing: { id: string; text: string } | null;
  actions: ReturnType<typeof useActions>["actions"];
  scroller: RefObject<HTMLDivElement | null>;
  following: RefObject<boolean>;
  /** Loads older checkpoints, which contain the origins of older messages. */
  more?(): void;
};

/** Rows renders the visible messages. */
function Rows({ rows, running, editing, actions, scroller, following, more }: RowsProps) {
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    // The chat starts at its end.
    initialOffset: () => rows.length * rowHeight,
    getItemKey: (i) => rows[i]!.key,
    overscan: 5,
    useFlushSync: false,
  });
  // The visible text keeps its place when rows above it turn out taller; at the end, useFollow scrolls.
  virtual.shouldAdjustScrollPositionOnItemSizeChange = (item, _, v) =>
    !following.current && item.end <= (v.scrollOffset ?? 0);
  const items = virtual.getVirtualItems();
  const unknown = !!more && rows.length > 0 && items.some((item) => rows[item.index] && !rows[item.index]!.origin);
  useEffect(() => {
    if (unknown) more?.();
    // eslint-disable-next-line react-hooks/exhaustive-deps -- Each page of rows is checked once.
  }, [unknown, rows]);
  return (
    <div className="chat-rows" role="list" aria-label="Messages" style={{ height: virtual.getTotalSize() }}>
      {items.map((item) => {
        const row = rows[item.index];
        return row ? (
          <div
            key={item.key}
            role="listitem"
            data-index={item.index}
            ref={virtual.measureElement}
            className="chat-row"
            style={{ transform: `translateY(${item.start}px)` }}
          >
            <MessageRow
              row={row}
              running={running}
              editing={editing?.id === row.key ? editing.text : null}
              actions={actions}
            />
          </div>
        ) : null;
      })}
    </div>
  );
}
