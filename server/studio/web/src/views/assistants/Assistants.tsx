// All assistants: to search, rename, delete, and compare their versions.
import type { Assistant } from "@langchain/langgraph-sdk";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useAssistant, useAssistants, useConnection } from "../../app/connection";
import { go } from "../../app/location";
import { messageOf } from "../../data/errors";
import { Button } from "../../ui/Button";
import { Confirm, Dialog } from "../../ui/Dialog";
import { ago, clock } from "../../ui/format";
import { Empty, Failed, Loading, Notice } from "../../ui/States";
import { useTell } from "../../ui/Toast";
import { Changes } from "../timeline/Changes";
import { changesOf, matchingAssistants } from "./versions";
import "./assistants.css";

type Asking = { what: "rename" | "delete" | "versions"; of: Assistant } | null;

export default function Assistants({ onClose }: { onClose(): void }) {
  const { data = [], error } = useAssistants();
  const current = useAssistant();
  const [typed, setTyped] = useState("");
  const [asking, ask] = useState<Asking>(null);
  const groups = matchingAssistants(data, typed);
  const back = () => ask(null);
  if (asking?.what === "rename") return <Rename assistant={asking.of} onClose={back} />;
  if (asking?.what === "delete") return <Delete assistant={asking.of} current={asking.of === current} onClose={back} />;
  if (asking?.what === "versions") return <Versions assistant={asking.of} onClose={back} />;
  return (
    <Dialog wide title="Assistants" open onClose={onClose}>
      <input
        className="input"
        type="search"
        aria-label="Search assistants"
        placeholder="Name, graph, or ID"
        value={typed}
        onChange={(e) => setTyped(e.target.value)}
        spellCheck={false}
        autoFocus
      />
      {error ? <Notice>The list may be out of date: {messageOf(error)}</Notice> : null}
      {groups.length === 0 ? <Empty title="No matching assistants" /> : null}
      {groups.map(([graph, list]) => (
        <section key={graph} className="assistants-graph" aria-label={`Assistants of ${graph}`}>
          <h3>{graph}</h3>
          <ul>
            {list.map((a) => (
              <Row
                key={a.assistant_id}
                assistant={a}
                current={a === current}
                onAsk={(what) => ask({ what, of: a })}
                onUse={() => {
                  onClose();
                  go({ assistant: a.assistant_id, thread: null });
                }}
              />
            ))}
          </ul>
        </section>
      ))}
    </Dialog>
  );
}

interface RowProps {
  assistant: Assistant;
  current: boolean;
  onAsk(what: "rename" | "delete" | "versions"): void;
  onUse(): void;
}

function Row({ assistant: a, current, onAsk, onUse }: RowProps) {
  // The server creates the default assistant of a graph again.
  const own = a.metadata?.created_by !== "system";
  return (
    <li className="row wrap assistants-row" aria-label={a.name}>
      <span className="grow">
        <strong>{a.name}</strong>{" "}
        <span className="muted small" title={clock(a.updated_at)}>
          version {a.version}, {ago(a.updated_at)}
          {current ? " · selected" : ""}
          {own ? "" : " · default"}
        </span>
      </span>
      <Button size="small" onClick={onUse} disabled={current}>
        Select
      </Button>
      <Button size="small" onClick={() => onAsk("versions")}>
        Versions
      </Button>
      {own ? (
        <>
          <Button size="small" onClick={() => onAsk("rename")}>
            Rename…
          </Button>
          <Button size="small" kind="danger" onClick={() => onAsk("delete")}>
            Delete…
          </Button>
        </>
      ) : null}
    </li>
  );
}

/** useChanged reloads the assistants. */
function useChanged() {
  const { url } = useConnection();
  const cache = useQueryClient();
  return () =>
    Promise.all([
      cache.invalidateQueries({ queryKey: [url, "assistants"] }),
      cache.invalidateQueries({ queryKey: [url, "versions"] }),
    ]);
}

interface Props {
  assistant: Assistant;
  onClose(): void;
}

function Rename({ assistant, onClose }: Props) {
  const { client } = useConnection();
  const tell = useTell();
  const changed = useChanged();
  const [name, setName] = useState(assistant.name);
  const save = () =>
    void tell.attempt(async () => {
      await client.assistants.update(assistant.assistant_id, { name: name.trim() });
      await changed();
      onClose();
    });
  return (
    <Dialog
      title="Rename assistant"
      open
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" disabled={!name.trim()} onClick={save}>
            Rename
          </Button>
        </>
      }
    >
      <form onSubmit={(e) => (e.preventDefault(), save())}>
        <label className="field">
          <span className="label">Name</span>
          <input className="input" value={name} onChange={(e) => setName(e.target.value)} autoFocus />
          <span className="hint">A new name is a new version.</span>
        </label>
      </form>
    </Dialog>
  );
}

function Delete({ assistant, current, onClose }: Props & { current: boolean }) {
  const { client } = useConnection();
  const tell = useTell();
  const changed = useChanged();
  return (
    <Confirm
      title="Delete this assistant?"
      action="Delete assistant"
      open
      onClose={onClose}
      onConfirm={() =>
        void tell.attempt(async () => {
          await client.assistants.delete(assistant.assistant_id);
          if (current) go({ assistant: null });
          await changed();
          tell(`Deleted ${assistant.name}`);
        })
      }
    >
      <p>
        <strong>{assistant.name}</strong> and all its versions are deleted. Its threads stay.
      </p>
    </Confirm>
  );
}

/** The number of versions that are loaded. */
const most = 100;

function Versions({ assistant, onClose }: Props) {
  const { client, url } = useConnection();
  const tell = useTell();
  const changed = useChanged();
  const q = useQuery({
    queryKey: [url, "versions", assistant.assistant_id],
    queryFn: () => client.assistants.getVersions(assistant.assistant_id, { limit: most }),
  });
  const use = (version: number) =>
    void tell.attempt(async () => {
      await client.assistants.setLatest(assistant.assistant_id, version);
      await changed();
      tell(`Runs now use version ${version}`);
      onClose();
    });
  return (
    <Dialog wide title={`Versions of ${assistant.name}`} open onClose={onClose}>
      {q.isPending ? <Loading what="versions" /> : null}
      {q.isError ? (
        <Failed what="Failed to load versions" error={messageOf(q.error)} retry={() => void q.refetch()} />
      ) : null}
      <ol className="assistants-versions">
        {changesOf(q.data ?? []).map(({ version: v, changes }, i, all) => (
          <li key={v.version} aria-label={`Version ${v.version}`}>
            <div className="row">
              <span className="grow">
                <strong>Version {v.version}</strong>{" "}
                <span className="muted small" title={clock(v.created_at)}>
                  {ago(v.created_at)}
                  {v.version === assistant.version ? " · in use" : ""}
                </span>
              </span>
              {v.version === assistant.version ? null : (
                <Button size="small" onClick={() => use(v.version)}>
                  Use
                </Button>
              )}
            </div>
            {all.length === most && i === most - 1 ? (
              <p className="muted small">Older versions are not loaded.</p>
            ) : changes.length ? (
              <Changes changes={changes} />
            ) : (
              <p className="muted small">No changes.</p>
            )}
          </li>
        ))}
      </ol>
    </Dialog>
  );
}
