import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useConnection, useSchemas } from "../../app/connection";
import { appendedTo, updateOf } from "../../data/diff";
import { messageOf } from "../../data/errors";
import { isMessage } from "../../data/messages";
import { useSession } from "../../data/session";
import { idOf } from "../../data/tree";
import type { Step, Values } from "../../data/types";
import { SchemaForm } from "../../schema/SchemaForm";
import { isObject, type AnySchema } from "../../schema/schema";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { JsonEditor } from "../../ui/JsonEditor";
import { parse, pretty } from "../../ui/json";
import { TabBar } from "../../ui/Tabs";
import { useTell } from "../../ui/Toast";
import { bytes } from "../../ui/format";
import { nameOf, nodesOf } from "./step";

/** In longer states, only the changed keys are edited. */
const most = 300_000;

interface Props {
  step: Step;
  parent: Step | undefined;
  assistant: string;
  onClose(): void;
  /** Called after the fork was created; on means to continue from it. */
  onForked(checkpoint: string, on: boolean): void;
}

/** EditDialog updates a state as a node, which creates a fork. */
export function EditDialog({ step, parent, assistant, onClose, onForked }: Props) {
  const session = useSession();
  const tell = useTell();
  const before = useMemo(() => step.values ?? {}, [step]);
  const whole = useMemo(() => pretty(before), [before]);
  const partly = whole.length > most;
  const [text, setText] = useState(partly ? "{\n  \n}" : whole);
  const { nodes, error: unlisted } = useNodes(assistant, step, parent);
  const ran = nodesOf(step, parent);
  const [asNode, setAsNode] = useState(ran.length === 1 && ran[0]!.name !== "__start__" ? ran[0]!.name : "");
  const [only, setOnly] = useState<Record<string, boolean>>({});
  const [busy, setBusy] = useState(false);
  const [formed, setFormed] = useState(false);
  const { data: schemas } = useSchemas(assistant);
  const schema = isObject(schemas?.state_schema) ? (schemas.state_schema as AnySchema) : null;
  const parsed = useMemo(() => parse(text), [text]);
  const wrong =
    parsed.error ??
    (typeof parsed.value !== "object" || parsed.value === null || Array.isArray(parsed.value)
      ? "Enter a JSON object."
      : undefined);
  const update = wrong ? {} : partly ? (parsed.value as Values) : updateOf(before, parsed.value as Values);
  // A key with a reducer takes only new entries; a key without one takes the whole list.
  const lists = Object.keys(update).flatMap((key) => {
    const added = appendedTo(before[key], update[key]);
    return added && !added.every(isMessage) ? [{ key, added, only: only[key] ?? appends(step, parent, key) }] : [];
  });
  const values = { ...update, ...Object.fromEntries(lists.filter((l) => l.only).map((l) => [l.key, l.added])) };
  const fork = async (on: boolean) => {
    setBusy(true);
    const id = await tell.attempt(() => session.edit(values, asNode || undefined, step.checkpoint));
    setBusy(false);
    if (id) onForked(id, on);
  };
  return (
    <Dialog
      wide
      open
      title={`Edit state after ${nameOf(step).toLowerCase()}`}
      onClose={onClose}
      foot={
        <>
          <span className="grow muted small timeline-sent">
            {wrong
              ? null
              : Object.keys(values).length > 0
                ? `Writes ${Object.keys(values).join(", ")}`
                : "Nothing is changed: the fork is a copy"}
          </span>
          <Button busy={busy} disabled={!!wrong} onClick={() => void fork(false)}>
            Fork
          </Button>
          <Button kind="primary" busy={busy} disabled={!!wrong} onClick={() => void fork(true)}>
            Fork and continue
          </Button>
        </>
      }
    >
      <div className="column">
        <label className="field timeline-asnode">
          <span className="label">As node</span>
          <select className="input" value={asNode} onChange={(e) => setAsNode(e.target.value)}>
            <option value="">Last node that wrote</option>
            {nodes.map((n) => (
              <option key={n}>{n}</option>
            ))}
          </select>
          <span className="hint">The graph continues as if this node had written the values.</span>
          {unlisted ? (
            <span className="wrong">
              Failed to load the nodes of the graph, so some may be missing: {messageOf(unlisted)}
            </span>
          ) : null}
        </label>
        <div className="field">
          <div className="row">
            <span className="label grow">
              {partly ? `Keys to change (the state has ${bytes(whole.length)})` : "Values"}
            </span>
            {schema ? (
              <TabBar<"json" | "form">
                label="State editor"
                value={formed ? "form" : "json"}
                onChange={(to) => setFormed(to === "form")}
                tabs={[
                  { id: "json", label: "JSON" },
                  { id: "form", label: "Form" },
                ]}
              />
            ) : null}
          </div>
          {schema && formed && !wrong ? (
            <SchemaForm
              label="Values as a form"
              schema={schema}
              value={parsed.value}
              onChange={(v) => setText(pretty(v ?? {}))}
            />
          ) : (
            <JsonEditor label="Values" value={text} onChange={setText} onSubmit={() => void fork(true)} />
          )}
          {wrong ? <span className="wrong">{wrong}</span> : null}
        </div>
        {lists.map((l) => (
          <label key={l.key} className="field timeline-asnode">
            <span className="label">How to write {l.key}</span>
            <select
              className="input"
              value={l.only ? "new" : "all"}
              onChange={(e) => setOnly({ ...only, [l.key]: e.target.value === "new" })}
            >
              <option value="new">New entries only (appended by a reducer)</option>
              <option value="all">Whole list (replaced)</option>
            </select>
          </label>
        ))}
      </div>
    </Dialog>
  );
}

/** appends guesses from the last write of a key whether a reducer appends to it. */
function appends(step: Step, parent: Step | undefined, key: string): boolean {
  const written = (parent?.tasks ?? []).flatMap((t) => {
    const v = (t.result as Values | null | undefined)?.[key];
    return v === undefined ? [] : [v];
  });
  const [only] = written;
  const now = step.values[key];
  if (written.length === 1 && Array.isArray(only) && Array.isArray(now))
    return now.length > only.length || (parent?.values?.[key] as unknown[] | undefined)?.length === 0;
  return true;
}

/** useNodes returns the nodes of the graph, or the nodes named in the thread if the server does not list them. */
function useNodes(assistant: string, step: Step, parent: Step | undefined) {
  const { client, url } = useConnection();
  const { data, error } = useQuery({
    queryKey: [url, "nodes", assistant],
    queryFn: () => client.assistants.getGraph(assistant),
    enabled: !!assistant,
    staleTime: 60_000,
  });
  const names =
    data?.nodes.map((n) => String(n.id)) ?? [...(step.tasks ?? []), ...(parent?.tasks ?? [])].map((t) => t.name);
  return { nodes: [...new Set(names)].filter((n) => n !== "__start__" && n !== "__end__").sort(), error };
}

/** checkpointOf names a checkpoint of a thread's root graph. */
export const checkpointOf = (step: Step, id = idOf(step)) => ({ ...step.checkpoint, checkpoint_id: id });
