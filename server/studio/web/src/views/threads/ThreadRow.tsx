import type { Thread } from "@langchain/langgraph-sdk";
import { useQueryClient } from "@tanstack/react-query";
import { memo, useState } from "react";
import { useConnection } from "../../app/connection";
import { go, hrefOf } from "../../app/location";
import { looks, statusOf } from "../../data/status";
import { Button } from "../../ui/Button";
import { copyText } from "../../ui/copy";
import { Confirm, Dialog } from "../../ui/Dialog";
import { ago, clock, short } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import { Menu } from "../../ui/Menu";
import { useTell } from "../../ui/Toast";
import { threadsKey, useThreadName } from "./threads";

interface Props {
  thread: Thread;
  current: boolean;
  /** Whether this row is the tab stop of the list. */
  stop: boolean;
  showGraph: boolean;
  now: number;
  onChoose(id: string): void;
}

/** ThreadRow shows a thread in the list, with its menu. */
export const ThreadRow = memo(function ThreadRow({ thread, current, stop, showGraph, now, onChoose }: Props) {
  const { name, error } = useThreadName(thread);
  const id = thread.thread_id;
  const status = statusOf({ thread }) ?? "done";
  const graph = thread.metadata?.graph_id;
  return (
    <div className="threads-row" data-current={current || undefined}>
      <a
        className="threads-link"
        href={hrefOf({ thread: id })}
        aria-current={current ? "true" : undefined}
        tabIndex={stop ? 0 : -1}
        title={`${name || id}\nUpdated ${clock(thread.updated_at)}`}
        onClick={(e) => {
          if (e.metaKey || e.ctrlKey || e.shiftKey) return;
          e.preventDefault();
          onChoose(id);
        }}
      >
        <span className={looks[status].dot + (status === "running" ? " threads-busy" : "")} aria-hidden />
        <span className="threads-texts">
          <span className={name ? "cut" : "cut mono"}>{name || short(id)}</span>
          <span className="threads-sub cut">
            <span className={status === "done" ? "hidden" : "threads-status " + status}>{looks[status].text}</span>{" "}
            {ago(thread.updated_at, now)}
            {showGraph && typeof graph === "string" ? ` · ${graph}` : ""}
            {"matched" in thread && thread.matched === "text" ? " · in the text" : ""}
            {error ? ` · Failed to load the name: ${error}` : ""}
          </span>
        </span>
      </a>
      <RowMenu thread={thread} name={name} current={current} stop={stop} />
    </div>
  );
});

function RowMenu({ thread, name, current, stop }: { thread: Thread; name: string; current: boolean; stop: boolean }) {
  const { client, url } = useConnection();
  const tell = useTell();
  const cache = useQueryClient();
  const [asking, ask] = useState<"rename" | "delete" | null>(null);
  const id = thread.thread_id;
  const changed = () => cache.invalidateQueries({ queryKey: threadsKey(url) });
  const label = name || short(id);
  return (
    <>
      <Menu
        trigger={
          <Button
            kind="quiet"
            size="small"
            className="threads-menu"
            label={`Menu of thread ${label}`}
            tabIndex={stop ? 0 : -1}
          >
            <Icon name="more" />
          </Button>
        }
        items={[
          { label: "Rename…", onSelect: () => ask("rename") },
          {
            label: "Copy thread",
            onSelect: () =>
              void tell.attempt(async () => {
                const copy = await client.threads.copy(id);
                await changed();
                // Some servers send an empty response.
                if (copy?.thread_id) go({ thread: copy.thread_id });
                tell(`Copied ${label}`);
              }),
          },
          null,
          {
            label: "Copy link",
            onSelect: () =>
              void tell.attempt(() =>
                copyText(new URL(hrefOf({ thread: id }), window.location.href).href).then(() => tell("Link copied")),
              ),
          },
          { label: "Copy ID", onSelect: () => void tell.attempt(() => copyText(id).then(() => tell("ID copied"))) },
          null,
          { label: "Delete…", danger: true, onSelect: () => ask("delete") },
        ]}
      />
      {asking === "rename" ? <Rename thread={thread} name={name} onClose={() => ask(null)} onDone={changed} /> : null}
      <Confirm
        title="Delete this thread?"
        action="Delete thread"
        open={asking === "delete"}
        onClose={() => ask(null)}
        onConfirm={() =>
          void tell.attempt(async () => {
            await client.threads.delete(id);
            if (current) go({ thread: null });
            await changed();
            tell(`Deleted ${label}`);
          })
        }
      >
        <p>
          <strong className="threads-name">{label}</strong> and all its checkpoints are deleted. Nothing brings them
          back.
        </p>
      </Confirm>
    </>
  );
}

function Rename({
  thread,
  name,
  onClose,
  onDone,
}: {
  thread: Thread;
  name: string;
  onClose(): void;
  onDone(): Promise<void>;
}) {
  const { client } = useConnection();
  const tell = useTell();
  const [text, setText] = useState(name);
  const save = () => {
    onClose();
    const metadata = { thread_name: text.trim() };
    void tell.attempt(async () => {
      await client.threads.update(thread.thread_id, { metadata });
      await onDone();
    });
  };
  return (
    <Dialog
      title="Rename thread"
      open
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" onClick={save}>
            Rename
          </Button>
        </>
      }
    >
      <form onSubmit={(e) => (e.preventDefault(), save())}>
        <label className="field">
          <span className="label">Name</span>
          <input
            className="input"
            value={text}
            onChange={(e) => setText(e.target.value)}
            onFocus={(e) => e.target.select()}
            autoFocus
          />
          <span className="hint">
            Stored in the thread's metadata as thread_name. Without a name, the list shows the thread's first message.
          </span>
        </label>
      </form>
    </Dialog>
  );
}
