// The configuration of a run, and the assistant that stores it.
import type { Assistant } from "@langchain/langgraph-sdk";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useAssistant, useConnection, useSchemas } from "../../app/connection";
import { go } from "../../app/location";
import { messageOf } from "../../data/errors";
import { SchemaForm } from "../../schema/SchemaForm";
import { isObject, type AnySchema } from "../../schema/schema";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { ago } from "../../ui/format";
import { Notice } from "../../ui/States";
import { useTell } from "../../ui/Toast";
import { configOf, configs, type ConfigDraft } from "./drafts";

const anyMap: AnySchema = { type: "object", additionalProperties: true };
const limit: AnySchema = {
  type: ["integer", "null"],
  minimum: 1,
  description: "The maximum number of steps of a run.",
};
const tags: AnySchema = { type: "array", items: { type: "string" }, description: "Visible to nodes and in traces." };

/** A draft starts with the assistant's configuration, and starts over with each version. */
const keyOf = (a: Assistant, version = a.version) => `${a.assistant_id} ${version}`;

function given(a: Assistant): ConfigDraft {
  const config = a.config as { configurable?: unknown; recursion_limit?: unknown; tags?: unknown } | null;
  const object = (v: unknown) => (isObject(v) ? v : {});
  const context = object((a as { context?: unknown }).context);
  // Servers copy an assistant's context into its configuration, and reject a run with both.
  const own = Object.entries(object(config?.configurable)).filter(
    ([key, v]) => JSON.stringify(context[key]) !== JSON.stringify(v),
  );
  return {
    context,
    configurable: Object.fromEntries(own),
    recursionLimit: config?.recursion_limit,
    tags: Array.isArray(config?.tags) ? (config.tags as string[]) : [],
  };
}

/** useConfig returns the draft configuration, or else the assistant's. */
export function useConfig(): ConfigDraft | null {
  const assistant = useAssistant();
  const draft = configs.use(assistant ? keyOf(assistant) : "");
  return draft ?? (assistant ? given(assistant) : null);
}

export function ConfigTab() {
  const assistant = useAssistant()!;
  const { data: schemas, error } = useSchemas(assistant.assistant_id);
  const draft = useConfig()!;
  const set = (to: Partial<ConfigDraft>) => configs.set(keyOf(assistant), { ...draft, ...to });
  const context = schemas?.context_schema as AnySchema;
  const config = schemas?.config_schema as AnySchema;
  // Servers that support contexts return their schema twice, for clients that do not.
  const own = config && JSON.stringify(config) !== JSON.stringify(context) ? config : anyMap;
  return (
    <>
      <AssistantBox assistant={assistant} draft={draft} />
      {error ? (
        <Notice kind="warn">
          The server did not return the schema of the configuration ({messageOf(error)}), so any keys are accepted.
        </Notice>
      ) : null}
      {context ? (
        <section className="run-section">
          <h2>Context</h2>
          <SchemaForm
            label="Context"
            schema={context}
            value={draft.context}
            onChange={(v) => set({ context: isObject(v) ? v : {} })}
          />
        </section>
      ) : null}
      <section className="run-section">
        <h2>Configuration</h2>
        <SchemaForm
          label="configurable"
          schema={own}
          value={draft.configurable}
          onChange={(v) => set({ configurable: isObject(v) ? v : {} })}
        />
        <SchemaForm
          label="recursion limit"
          schema={limit}
          value={draft.recursionLimit}
          onChange={(recursionLimit) => set({ recursionLimit })}
        />
        <SchemaForm
          label="tags"
          schema={tags}
          value={draft.tags}
          onChange={(v) => set({ tags: Array.isArray(v) ? (v as string[]) : [] })}
        />
      </section>
    </>
  );
}

/** AssistantBox selects the version that runs use, and saves the configuration as a new version. */
function AssistantBox({ assistant, draft }: { assistant: Assistant; draft: ConfigDraft }) {
  const { client, url } = useConnection();
  const queries = useQueryClient();
  const tell = useTell();
  const [naming, setNaming] = useState(false);
  const id = assistant.assistant_id;
  const versions = useQuery({
    queryKey: [url, "versions", id],
    queryFn: () => client.assistants.getVersions(id, { limit: 100 }),
  });
  const changed = async () => {
    await Promise.all([
      queries.invalidateQueries({ queryKey: [url, "assistants"] }),
      queries.invalidateQueries({ queryKey: [url, "versions", id] }),
    ]);
  };
  const use = (version: number) =>
    tell.attempt(async () => {
      await client.assistants.setLatest(id, version);
      configs.set(keyOf(assistant, version), null);
      await changed();
      tell(`Runs now use version ${version}`);
    });
  const saved = { graphId: assistant.graph_id, ...configOf(draft) };
  const save = () =>
    tell.attempt(async () => {
      const to = await client.assistants.update(id, saved);
      await changed();
      configs.set(keyOf(assistant), null);
      tell(`Saved as version ${to.version}`);
    });
  const list = versions.data ?? [];
  return (
    <section className="run-section">
      <h2>Assistant {assistant.name}</h2>
      <div className="row wrap">
        <select
          className="input run-version"
          aria-label="Version"
          value={assistant.version}
          onChange={(e) => void use(Number(e.target.value))}
        >
          {list.some((v) => v.version === assistant.version) ? null : (
            <option value={assistant.version}>Version {assistant.version}</option>
          )}
          {list.map((v) => (
            <option key={v.version} value={v.version}>
              Version {v.version}, {ago(v.created_at)}
            </option>
          ))}
        </select>
        <Button size="small" onClick={() => void save()}>
          Save as new version
        </Button>
        <Button size="small" onClick={() => setNaming(true)}>
          Save as new assistant…
        </Button>
      </div>
      {versions.isError ? (
        <Notice kind="warn">
          Failed to load the versions: {messageOf(versions.error)}{" "}
          <Button size="small" onClick={() => void versions.refetch()}>
            Try again
          </Button>
        </Notice>
      ) : null}
      <NewAssistant
        open={naming}
        onClose={() => setNaming(false)}
        graph={assistant.graph_id}
        saved={saved}
        onCreated={changed}
      />
    </section>
  );
}

interface NewProps {
  open: boolean;
  onClose(): void;
  graph: string;
  saved: { graphId: string; config?: Assistant["config"]; context?: unknown };
  onCreated(): Promise<void>;
}

function NewAssistant({ open, onClose, graph, saved, onCreated }: NewProps) {
  const { client } = useConnection();
  const tell = useTell();
  const [name, setName] = useState("");
  const create = () =>
    tell.attempt(async () => {
      const a = await client.assistants.create({ ...saved, name });
      await onCreated();
      onClose();
      go({ assistant: a.assistant_id, thread: null });
    });
  return (
    <Dialog
      title="New assistant"
      open={open}
      onClose={onClose}
      foot={
        <Button kind="primary" disabled={!name.trim()} onClick={() => void create()}>
          Create
        </Button>
      }
    >
      <label className="field">
        <span className="label">Name</span>
        <input className="input" value={name} onChange={(e) => setName(e.target.value)} autoFocus />
        <span className="hint">It runs the graph {graph} with the context and configuration of this tab.</span>
      </label>
    </Dialog>
  );
}
