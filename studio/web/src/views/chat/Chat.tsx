// The thread as a conversation, for graphs whose state has messages.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, type DragEvent, type RefObject } from "react";
import { useAssistant, useSchemas } from "../../app/connection";
import { go, useLocation } from "../../app/location";
import { headOfBranch } from "../../data/branches";
import { messagesKey } from "../../data/messages";
import { useSession, useSessionState } from "../../data/session";
import { treeOf } from "../../data/tree";
import { isRunning, type SessionState } from "../../data/types";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { Empty, Failed, Loading, Notice } from "../../ui/States";
import { useFollow } from "../../ui/useFollow";
import { Interrupts } from "../interrupts/Interrupts";
import { useChosen } from "../timeline/useChosen";
import { useActions } from "./actions";
import { useAttach } from "./attach";
import { messagesOf, originsOf } from "./branches";
import { Composer } from "./Composer";
import { MessageRow } from "./MessageRow";
import { rowsOf, type Row } from "./rows";
import "./chat.css";

export default function Chat() {
  const session = useSession();
  const { status, error, values } = useSessionState();
  const assistant = useAssistant();
  const schemas = useSchemas(assistant?.assistant_id);
  const key = useMemo(() => messagesKey(values) ?? keyOfSchema(schemas.data?.input_schema), [values, schemas.data]);
  if (status === "loading") return <Loading what="the thread" />;
  if (status === "failed") return <Failed what="The thread cannot be loaded" error={error ?? ""} retry={() => void session.load()} />;
  if (status === "missing")
    return (
      <Empty title="No such thread" action={<Button onClick={() => go({ thread: null })}>New thread</Button>}>
        The server has no thread with this id. It may have been deleted.
      </Empty>
    );
  if (key) return <Conversation messagesKey={key} />;
  if (schemas.isPending && assistant) return <Loading what="the graph" />;
  return (
    <Empty title="This graph has no messages" action={<Button onClick={() => go({ view: "graph" })}>Open the graph</Button>}>
      Its state has no list of messages to talk in. Run it in the graph view, with a form for its input.
    </Empty>
  );
}

/** keyOfSchema is the key of an input that takes messages. */
function keyOfSchema(schema: unknown): string | null {
  const properties = ((schema as { properties?: Record<string, unknown> } | null)?.properties ?? {}) as Record<string, { type?: unknown; items?: unknown }>;
  if (properties.messages) return "messages";
  return Object.keys(properties).find((k) => properties[k]?.type === "array" && /HumanMessage|"title":"Message"/.test(JSON.stringify(properties[k].items ?? null))) ?? null;
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
  const unfinished = running || state.run?.phase === "cancelled" || state.run?.phase === "error";
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
  const send = () => {
    toEnd();
    void actions.send();
  };
  return (
    <div className="chat" onDragOver={(e) => e.preventDefault()} onDrop={drop}>
      <div className="chat-scroll" ref={scroller} tabIndex={0} role="region" aria-label="Conversation">
        <div className="chat-content" ref={content}>
          {rows.length === 0 && !running && state.questions.length === 0 ? <Empty title="A new conversation">Write a message below. Enter sends it, Shift+Enter begins a new line.</Empty> : null}
          <Rows rows={rows} running={running} editing={editing} actions={actions} scroller={scroller} following={following} more={state.hasMore && !running ? () => void session.loadMore() : undefined} />
          <div className="chat-end">
            {running ? <Working state={state} rows={rows} /> : null}
            {state.run?.phase === "error" && newest ? <Notice>{state.run.error ?? "The run has failed."}</Notice> : null}
            {newest ? <Interrupts /> : null}
            {!running && head && head.next.length > 0 && (!newest || state.questions.length === 0) ? (
              <div className="chat-paused">
                <span className="grow">
                  {newest ? "Stopped before" : "This branch stopped before"} <strong>{head.next.join(", ")}</strong>.
                </span>
                <Button size="small" onClick={() => void actions.proceed()}>
                  <Icon name="play" size={12} /> Go on
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
      <Composer thread={state.threadId} running={running} asked={newest && state.questions.length > 0} onSend={send} onStop={() => session.stop()} />
    </div>
  );
}

/** Working says what goes on while no tokens arrive. */
function Working({ state, rows }: { state: SessionState; rows: Row[] }) {
  if (rows.at(-1)?.growing && state.run?.phase === "running") return null;
  const nodes = [...new Set(state.tasks.filter((t) => !t.ended).map((t) => t.name))];
  return (
    <p className="chat-working" role="status">
      <span className="spinner" aria-hidden />
      {state.run?.phase === "reconnecting" ? "The connection was lost. Connecting again…" : nodes.length ? nodes.join(", ") : "Starting…"}
    </p>
  );
}

/** The height of a row that was not in sight yet, about. */
const rowHeight = 90;

type RowsProps = {
  rows: Row[];
  running: boolean;
  editing: { id: string; text: string } | null;
  actions: ReturnType<typeof useActions>["actions"];
  scroller: RefObject<HTMLDivElement | null>;
  following: RefObject<boolean>;
  /** Loads older checkpoints, which know where older messages came from. */
  more?(): void;
};

/** Rows renders the messages that are in sight. */
function Rows({ rows, running, editing, actions, scroller, following, more }: RowsProps) {
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    // The chat begins at its end.
    initialOffset: () => rows.length * rowHeight,
    getItemKey: (i) => rows[i]!.key,
    overscan: 5,
    useFlushSync: false,
  });
  // What is read stays where it is when rows above it turn out higher; at the end, useFollow scrolls.
  virtual.shouldAdjustScrollPositionOnItemSizeChange = (item, _, v) => !following.current && item.end <= (v.scrollOffset ?? 0);
  const items = virtual.getVirtualItems();
  const unknown = !!more && rows.length > 0 && items.some((item) => rows[item.index] && !rows[item.index]!.origin);
  useEffect(() => {
    if (unknown) more?.();
    // Again with each page that came.
  }, [unknown, rows]);
  return (
    <div className="chat-rows" role="list" aria-label="Messages" style={{ height: virtual.getTotalSize() }}>
      {items.map((item) => {
        const row = rows[item.index];
        return row ? (
          <div key={item.key} role="listitem" data-index={item.index} ref={virtual.measureElement} className="chat-row" style={{ transform: `translateY(${item.start}px)` }}>
            <MessageRow row={row} running={running} editing={editing?.id === row.key ? editing.text : null} actions={actions} />
          </div>
        ) : null;
      })}
    </div>
  );
}
