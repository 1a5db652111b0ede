// Maps a question to a form, and a completed form to an answer. Servers send any
// JSON as a question; these are the recognized shapes.
import { check, isObject, type Schema } from "../../schema/schema";
import { parse } from "../../ui/json";

type Json = Record<string, unknown>;

export type Kind = "yes/no" | "text" | "choices" | "fields" | "json";

/** A Decision is a possible decision about an action. */
export type Decision = "approve" | "edit" | "respond" | "reject";

export interface Action {
  name: string;
  args: unknown;
  description: string;
  allowed: Decision[];
  /** The JSON schema of args: from the question, or derived from args. */
  schema?: Schema;
}

export interface Choice {
  label: string;
  value: unknown;
}

export type Form =
  | { kind: "review"; actions: Action[]; answer(drafts: ActionDraft[]): unknown }
  | { kind: "plain"; text: string; about: Json | unknown[] | null; kinds: Kind[]; choices: Choice[]; schema?: Schema };

export interface ActionDraft {
  decision: Decision | null;
  /** The arguments as edited. */
  args: unknown;
  /** The edited text, while the arguments are edited as JSON. It outlives the editor. */
  text?: string;
  /** The edited text is not JSON, or the arguments do not match their schema. */
  wrong?: boolean;
  message: string;
}

/** A Draft is the input so far. */
export interface Draft {
  kind: Kind;
  yes?: boolean;
  text: string;
  choice?: number;
  fields?: unknown;
  json: string;
  actions: ActionDraft[];
}

const first = (v: Json, ...keys: string[]): unknown => keys.map((k) => v[k]).find((x) => x !== undefined && x !== null);
const texts = ["question", "message", "prompt", "text", "instruction", "title", "description"];

/** The keys under which a question contains the schema of its answer. */
const schemas = ["response_schema", "responseSchema", "answer_schema", "requestedSchema", "json_schema", "schema"];

/** formOf recognizes the shape of a question. */
export function formOf(value: unknown): Form {
  return middlewareReview(value) ?? inboxReview(value) ?? plain(value);
}

/** middlewareReview recognizes a request of the human-in-the-loop middleware, with Python or JavaScript names. */
function middlewareReview(value: unknown): Form | null {
  if (!isObject(value)) return null;
  const requests = first(value, "action_requests", "actionRequests");
  if (!Array.isArray(requests) || !requests.every(isObject)) return null;
  const camel = "actionRequests" in value;
  const configs = (first(value, "review_configs", "reviewConfigs") ?? []) as Json[];
  const actions = requests.map((r, i): Action => {
    const name = String(first(r, "name", "action") ?? "action");
    const config = configs.find((c) => first(c, "action_name", "actionName") === name) ?? configs[i] ?? {};
    const allowed = first(config, "allowed_decisions", "allowedDecisions");
    const args = first(r, "args", "arguments") ?? {};
    return {
      name,
      args,
      description: String(r.description ?? ""),
      allowed: (Array.isArray(allowed) ? allowed : ["approve", "edit", "reject"]) as Decision[],
      schema: (first(config, "args_schema", "argsSchema") as Schema | undefined) ?? schemaOf(args),
    };
  });
  return {
    kind: "review",
    actions,
    answer: (drafts) => ({
      decisions: drafts.map((d, i) => {
        if (d.decision === "edit")
          return { type: "edit", [camel ? "editedAction" : "edited_action"]: { name: actions[i]!.name, args: d.args } };
        return { type: d.decision, ...(d.decision !== "approve" && d.message ? { message: d.message } : {}) };
      }),
    }),
  };
}

const inboxTypes = { approve: "accept", edit: "edit", respond: "response", reject: "ignore" };

/** inboxReview recognizes a request for the agent inbox. Its answer is a list, even if the request is not. */
function inboxReview(value: unknown): Form | null {
  const list = Array.isArray(value) ? value : [value];
  if (list.length === 0 || !list.every((r) => isObject(r) && isObject(r.action_request))) return null;
  const actions = (list as Json[]).map((r): Action => {
    const request = r.action_request as Json;
    const config = (r.config ?? {}) as Json;
    const allowed: Decision[] = [];
    if (config.allow_accept) allowed.push("approve");
    if (config.allow_edit) allowed.push("edit");
    if (config.allow_respond) allowed.push("respond");
    if (config.allow_ignore) allowed.push("reject");
    const args = request.args ?? {};
    return {
      name: String(request.action ?? "action"),
      args,
      description: String(r.description ?? ""),
      allowed,
      schema: schemaOf(args),
    };
  });
  return {
    kind: "review",
    actions,
    answer: (drafts) =>
      drafts.map((d, i) => ({
        type: inboxTypes[d.decision!],
        args:
          d.decision === "edit"
            ? { action: actions[i]!.name, args: d.args }
            : d.decision === "respond"
              ? d.message
              : null,
      })),
  };
}

/** schemaOf returns a schema for objects like value, or undefined if a form cannot edit them. */
function schemaOf(value: unknown): Schema | undefined {
  if (!isObject(value)) return undefined;
  const entries = Object.entries(value);
  if (!entries.length || !entries.every(([, v]) => ["string", "number", "boolean"].includes(typeof v)))
    return undefined;
  return {
    type: "object",
    properties: Object.fromEntries(entries.map(([k, v]) => [k, { type: typeof v }])),
    required: entries.map(([k]) => k),
  };
}

function plain(value: unknown): Form {
  if (!isObject(value)) {
    const text = typeof value === "string" ? value : "";
    const kinds: Kind[] = asksYesNo(text)
      ? ["yes/no", "text", "json"]
      : text
        ? ["text", "yes/no", "json"]
        : ["json", "text", "yes/no"];
    return {
      kind: "plain",
      text,
      about: text || value === null || value === undefined ? null : [value].flat(),
      kinds,
      choices: [],
    };
  }
  const schema = schemas.map((k) => value[k]).find(isObject) as Schema | undefined;
  const choices = choicesOf(first(value, "options", "choices", "enum") ?? schema?.enum);
  const textKey = texts.find((k) => typeof value[k] === "string");
  const text = textKey ? String(value[textKey]) : "";
  const hidden = new Set(
    [
      textKey,
      choices.length ? ["options", "choices", "enum"] : [],
      schema ? schemas : [],
      wants(value) ? ["type"] : [],
    ].flat(),
  );
  const rest = Object.fromEntries(Object.entries(value).filter(([k]) => !hidden.has(k)));
  const type = schema ? schema.type : wants(value);
  const guess: Kind = choices.length
    ? "choices"
    : type === "boolean"
      ? "yes/no"
      : type === "string"
        ? "text"
        : schema
          ? "fields"
          : asksYesNo(text)
            ? "yes/no"
            : "json";
  const kinds = [...new Set<Kind>([guess, "json", "text", "yes/no"])];
  return {
    kind: "plain",
    text,
    about: Object.keys(rest).length ? rest : null,
    kinds: guess === "fields" || guess === "choices" ? [guess, "json"] : kinds,
    choices,
    schema,
  };
}

/** wants returns the answer type named by the question. */
function wants(value: Json): "boolean" | "string" | undefined {
  const type = String(value.type ?? "").toLowerCase();
  if (["boolean", "bool", "confirm", "confirmation", "yes_no", "approval"].includes(type)) return "boolean";
  return ["text", "string", "input"].includes(type) ? "string" : undefined;
}

/** The words with which a question for yes or no starts. */
const yesNo = new Set(
  [
    "approve confirm proceed continue allow accept publish send delete write run",
    "is are do does should shall may can",
  ].flatMap((words) => words.split(" ")),
);

/** asksYesNo guesses; the other kinds of answers can be chosen too. */
function asksYesNo(text: string): boolean {
  const [first = ""] = /^\w+/.exec(text.trim().toLowerCase()) ?? [];
  return yesNo.has(first) && /\?\s*$/.test(text);
}

function choicesOf(list: unknown): Choice[] {
  if (!Array.isArray(list)) return [];
  return list.map((o: unknown) => {
    if (!isObject(o)) return { label: typeof o === "string" ? o : JSON.stringify(o), value: o };
    const value = first(o, "value", "id", "const", "key");
    return {
      label: String(first(o, "label", "title", "name", "text") ?? value ?? JSON.stringify(o)),
      value: value ?? o,
    };
  });
}

export function draftOf(form: Form): Draft {
  const actions =
    form.kind === "review" ? form.actions.map((a): ActionDraft => ({ decision: null, args: a.args, message: "" })) : [];
  return { kind: form.kind === "plain" ? form.kinds[0]! : "json", text: "", json: "", actions };
}

/** answerOf returns the answer in a draft, or null if it is incomplete. */
export function answerOf(form: Form, d: Draft): { value: unknown } | null {
  if (form.kind === "review") return d.actions.every((a) => isDecided(a)) ? { value: form.answer(d.actions) } : null;
  switch (d.kind) {
    case "yes/no":
      return d.yes === undefined ? null : { value: d.yes };
    case "text":
      return d.text ? { value: d.text } : null;
    case "choices":
      return d.choice === undefined ? null : { value: form.choices[d.choice]!.value };
    case "fields":
      return d.fields === undefined || check(form.schema, d.fields).length > 0 ? null : { value: d.fields };
    case "json": {
      const { value, error } = parse(d.json);
      return error || value === undefined ? null : { value };
    }
  }
}

export function isDecided(a: ActionDraft): boolean {
  return a.decision !== null && !(a.decision === "edit" && a.wrong) && !(a.decision === "respond" && !a.message);
}
