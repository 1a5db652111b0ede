// A run as code in several languages, which repeats it on a new thread.
import type { RecordedSpan } from "../../data/recorded";
import { idOf, parentOf } from "../../data/tree";
import type { RunOptions, Step, Values } from "../../data/types";
import { inputOf, nodesOf, sourceOf } from "../timeline/step";

/** A Recipe repeats a run on a new thread. */
export interface Recipe {
  /** The address of the API. */
  url: string;
  /** The server requires a key. It is never part of the text, but comes from the environment. */
  key: boolean;
  graph: string;
  /** The state that the thread starts with, as written by nodes. */
  updates: { values: unknown; as_node: string }[];
  /** The bodies of POST /threads/{thread}/runs/wait, in order. */
  runs: Values[];
  /** What the code does not repeat exactly. */
  notes: string[];
}

/** What servers add to a run's configuration. */
const added = /^((assistant|graph|run|thread|user)_id|checkpoint_(id|ns|map)|user-agent|langgraph_.*|__.*|x-.*)$/;
const secret = /(api[_-]?key|token|secret|password|authorization|credential)s?$/i;

/** withoutSecrets replaces texts under keys that name a secret. */
export function withoutSecrets(v: unknown): unknown {
  if (Array.isArray(v)) return v.map(withoutSecrets);
  if (typeof v !== "object" || v === null) return v;
  return Object.fromEntries(
    Object.entries(v).map(([k, x]) => [k, typeof x === "string" && secret.test(k) ? "REDACTED" : withoutSecrets(x)]),
  );
}

/**
 * bodyOf returns the request of a run: as stored by the server, as sent by this page, or as inferred from the first
 * checkpoint.
 */
export function bodyOf(
  assistant: string,
  kwargs: Values | undefined,
  sent: RunOptions | undefined,
  steps: Step[],
): Values {
  if (kwargs && "input" in kwargs) return cleaned(bodyOfKwargs(assistant, kwargs));
  if (sent)
    return cleaned({
      assistant_id: assistant,
      input: sent.input,
      command: sent.command,
      checkpoint_id: sent.checkpoint?.checkpoint_id,
      config: sent.config,
      context: sent.context,
      interrupt_before: sent.interruptBefore,
      interrupt_after: sent.interruptAfter,
      multitask_strategy: sent.multitaskStrategy,
      durability: sent.durability,
    });
  const first = steps.find((s) => sourceOf(s) === "input");
  return cleaned({ assistant_id: assistant, input: first ? inputOf(first) : null });
}

function bodyOfKwargs(assistant: string, kwargs: Values): Values {
  const config = (kwargs.config ?? {}) as Values;
  const configurable = (config.configurable ?? {}) as Values;
  const sent = (all: Values) => Object.fromEntries(Object.entries(all).filter(([k]) => !added.test(k)));
  const own = sent(configurable);
  const context = sent((kwargs.context ?? {}) as Values);
  // LangGraph's server stores the configuration a second time as the context, and rejects a run with both.
  const copied = Object.keys(context).every((k) => JSON.stringify(context[k]) === JSON.stringify(own[k]));
  return {
    assistant_id: assistant,
    input: kwargs.input,
    command: kwargs.command,
    checkpoint_id: configurable.checkpoint_id,
    config: { recursion_limit: config.recursion_limit, tags: config.tags, configurable: own },
    context: copied ? undefined : kwargs.context,
    interrupt_before: kwargs.interrupt_before,
    interrupt_after: kwargs.interrupt_after,
  };
}

/** cleaned omits secrets and empty fields. An input of null is kept: it means to continue. */
function cleaned(body: Values): Values {
  const safe = withoutSecrets(body) as Values;
  const out = withoutEmpty({ ...safe, config: withoutEmpty((safe.config ?? {}) as Values) });
  if (!out.command) out.input = safe.input ?? null;
  return out;
}

function withoutEmpty(v: Values): Values {
  return Object.fromEntries(
    Object.entries(v).filter(
      ([, x]) => x !== undefined && x !== null && (typeof x !== "object" || Object.keys(x).length > 0),
    ),
  );
}

/**
 * recipeOf returns the recipe of a run that was started by body. steps contains its checkpoints, oldest first, and all
 * the thread's. A run that continued from a checkpoint starts from a copy of its state.
 */
export function recipeOf(
  to: { url: string; key: boolean; graph: string },
  body: Values,
  steps: Step[],
  all: Step[],
): Recipe {
  const byId = new Map(all.map((s) => [idOf(s), s]));
  const { checkpoint_id, input, command, ...rest } = body;
  const from = byId.get(typeof checkpoint_id === "string" ? checkpoint_id : steps[0] ? parentOf(steps[0]) : "");
  const recipe: Recipe = { ...to, updates: [], runs: [], notes: [] };
  if (!from && (checkpoint_id || (steps[0] && parentOf(steps[0]))))
    recipe.notes.push("The checkpoint before this run is not loaded, so the code lacks its state.");
  const fresh = input !== undefined && input !== null;
  // A checkpoint of an input is repeated with that input.
  const start = from && !fresh && sourceOf(from) === "input" ? from : undefined;
  const state = start ? byId.get(parentOf(start)) : from;
  if (state) recipe.updates = updatesOf(state, byId, recipe.notes);
  const first = start ? (withoutSecrets(inputOf(start)) ?? null) : null;
  if (fresh) recipe.runs.push({ ...rest, input });
  else if (!command) recipe.runs.push({ ...rest, input: first });
  else {
    recipe.runs.push({ ...rest, input: first });
    recipe.runs.push({ ...rest, command: commandOf(command as Values, from, recipe.notes) });
  }
  return recipe;
}

/** updatesOf returns the updates that create the state of a checkpoint. */
function updatesOf(state: Step, byId: Map<string, Step>, notes: string[]): Recipe["updates"] {
  const values = withoutSecrets(state.values ?? {});
  // An edit is by a node that ran before it.
  for (let s: Step | undefined = state; s; s = byId.get(parentOf(s))) {
    const [first, ...others] = nodesOf(s, byId.get(parentOf(s))).map((n) => n.name);
    if (first) return [{ values, as_node: first }, ...others.map((as_node) => ({ values: null, as_node }))];
  }
  notes.push("No loaded checkpoint tells which node wrote the state before this run.");
  return [{ values, as_node: "__start__" }];
}

/** commandOf returns a command for a new thread, whose interrupts have other IDs. */
function commandOf(command: Values, from: Step | undefined, notes: string[]): Values {
  const ids = (from?.tasks ?? []).flatMap((t) => t.interrupts.map((i) => i.id ?? ""));
  const resume = command.resume as Values | undefined;
  if (typeof resume !== "object" || resume === null) return command;
  const named = Object.keys(resume).filter((id) => ids.includes(id));
  if (ids.length === 1 && named.length === 1) return { ...command, resume: resume[named[0]!] };
  if (named.length > 0)
    notes.push("The answers name interrupts of the original thread: replace the IDs by those of the new thread.");
  return command;
}

const quoted = (text: string) => "'" + text.replaceAll("'", "'\\''") + "'";

const threadOf = (r: Recipe): Values =>
  r.updates.length > 0 ? { metadata: { graph_id: r.graph }, supersteps: [{ updates: r.updates }] } : {};

export function curl(r: Recipe): string {
  const post = (path: string, body: Values, more: string[] = []) =>
    [
      `curl -sS ${path}`,
      ...(r.key ? [`  -H "x-api-key: $LANGGRAPH_API_KEY"`] : []),
      `  -H 'Content-Type: application/json'`,
      ...more,
      `  --data ${quoted(JSON.stringify(body, null, 2))}`,
    ].join(" \\\n");
  const thread = post(quoted(r.url + "/threads"), threadOf(r));
  const path = quoted(r.url + "/threads/") + '"$thread"' + quoted("/runs/wait");
  // Only the last response is of interest.
  const runs = r.runs.map((b, i) => post(path, b, i < r.runs.length - 1 ? ["  -o /dev/null"] : []) + "\n");
  return `thread=$(${thread} |\n  grep -o '"thread_id": *"[^"]*"' | head -n 1 | cut -d '"' -f 4)\n${runs.join("")}`;
}

export function python(r: Recipe): string {
  const runs = r.runs.map(({ assistant_id, ...rest }) => {
    const args = Object.entries(rest).map(([k, v]) => `        ${k}=${literal(v, 2, words.python)},\n`);
    return `    state = await client.runs.wait(
        thread["thread_id"],
        ${literal(assistant_id, 0, words.python)},
${args.join("")}    )
`;
  });
  const start =
    r.updates.length > 0
      ? `
        graph_id=${JSON.stringify(r.graph)},
        supersteps=${literal([{ updates: r.updates }], 2, words.python)},
    `
      : "";
  return `import asyncio
${r.key ? "import os\n" : ""}
from langgraph_sdk import get_client


async def main():
    client = get_client(url=${JSON.stringify(r.url)}${r.key ? ', api_key=os.environ["LANGGRAPH_API_KEY"]' : ""})
    thread = await client.threads.create(${start})
${runs.join("")}    print(state)


asyncio.run(main())
`;
}

/** The names of JavaScript's client for the fields of a request. */
const camel = (name: string) => name.replace(/_([a-z])/g, (_, c: string) => c.toUpperCase());

export function javascript(r: Recipe): string {
  const runs = r.runs.map(({ assistant_id, ...rest }, i) => {
    const payload = Object.fromEntries(Object.entries(rest).map(([k, v]) => [camel(k), v]));
    const id = literal(assistant_id, 0, words.js);
    const args = `thread.thread_id, ${id}, ${literal(payload, 0, words.js)}`;
    return `${i === 0 ? "let state" : "state"} = await client.runs.wait(${args});\n`;
  });
  const updates = r.updates.map((u) => ({ values: u.values, asNode: u.as_node }));
  const start = updates.length > 0 ? literal({ graphId: r.graph, supersteps: [{ updates }] }, 0, words.js) : "";
  const key = r.key ? ", apiKey: process.env.LANGGRAPH_API_KEY" : "";
  return `import { Client } from "@langchain/langgraph-sdk";

const client = new Client({ apiUrl: ${JSON.stringify(r.url)}${key} });
const thread = await client.threads.create(${start});
${runs.join("")}console.log(state);
`;
}

interface Words {
  indent: string;
  none: string;
  yes: string;
  no: string;
  list: [string, string];
  object: [string, string];
}

const words: Record<"python" | "js" | "go", Words> = {
  python: { indent: "    ", none: "None", yes: "True", no: "False", list: ["[", "]"], object: ["{", "}"] },
  js: { indent: "  ", none: "null", yes: "true", no: "false", list: ["[", "]"], object: ["{", "}"] },
  go: { indent: "\t", none: "nil", yes: "true", no: "false", list: ["[]any{", "}"], object: ["map[string]any{", "}"] },
};

/** literal writes a JSON value in a language. */
function literal(v: unknown, level: number, w: Words): string {
  if (v === null || v === undefined) return w.none;
  if (typeof v === "boolean") return v ? w.yes : w.no;
  if (typeof v !== "object") return JSON.stringify(v);
  const parts = Array.isArray(v)
    ? v.map((x) => literal(x, level + 1, w))
    : Object.entries(v).map(([k, x]) => `${JSON.stringify(k)}: ${literal(x, level + 1, w)}`);
  const [a, b] = Array.isArray(v) ? w.list : w.object;
  const lines = parts.map((p) => w.indent.repeat(level + 1) + p + ",\n");
  return parts.length === 0 ? a + b : `${a}\n${lines.join("")}${w.indent.repeat(level)}${b}`;
}

/** text writes a text in Go. */
const text = (s: string) => (s.includes("`") || s.includes("\r") ? JSON.stringify(s) : "`" + s + "`");

/** json writes a JSON value in Go. */
const json = (v: unknown) => `json.RawMessage(${text(JSON.stringify(v))})`;

/** goThread returns the statements that create the thread and run it. fail handles an error. */
function goThread(r: Recipe, assistant: (id: unknown) => unknown, fail: string): string[] {
  const updates = r.updates.map(
    (u) => `\t\t{Values: ${u.values === null ? "nil" : json(u.values)}, AsNode: ${JSON.stringify(u.as_node)}},\n`,
  );
  const start =
    updates.length === 0
      ? "nil"
      : `&client.ThreadCreate{Graph: ${JSON.stringify(r.graph)}, Supersteps: [][]client.StateUpdate{{
${updates.join("")}\t}}}`;
  return [
    `\tthread, err := c.Threads.Create(ctx, ${start})\n\tif err != nil {\n${fail}\t}\n`,
    ...r.runs.map((b) => `c.Runs.Wait(ctx, thread.ID, &client.RunCreate{\n${goFields(b, assistant)}\t})`),
  ];
}

function goFields(b: Values, assistant: (id: unknown) => unknown): string {
  const list = (v: unknown) => (Array.isArray(v) ? v : [v]).map((x) => JSON.stringify(x)).join(", ");
  const command = b.command as Values | undefined;
  const parts: [string, string | false][] = [
    ["Assistant", JSON.stringify(assistant(b.assistant_id))],
    ["Input", b.input != null && json(b.input)],
    ["Command", !!command && `&client.Command{${goCommand(command)}}`],
    ["Config", !!b.config && literal(b.config, 2, words.go)],
    ["Context", b.context != null && json(b.context)],
    ["InterruptBefore", !!b.interrupt_before && `[]string{${list(b.interrupt_before)}}`],
    ["InterruptAfter", !!b.interrupt_after && `[]string{${list(b.interrupt_after)}}`],
    ["Durability", typeof b.durability === "string" && JSON.stringify(b.durability)],
  ];
  const given = parts.filter((p): p is [string, string] => p[1] !== false);
  const width = Math.max(...given.map(([name]) => name.length)) + 1;
  // gofmt aligns the values of consecutive lines.
  const aligned = given.some(([, v]) => v.includes("\n")) ? 0 : width;
  return given.map(([name, v]) => `\t\t${(name + ":").padEnd(aligned)} ${v},\n`).join("");
}

function goCommand(c: Values): string {
  const parts: string[] = [];
  if ("resume" in c) parts.push(`Resume: ${json(c.resume)}`);
  if (c.update != null) parts.push(`Update: ${json(c.update)}`);
  return parts.join(", ");
}

export function goProgram(r: Recipe): string {
  const fail = "\t\tlog.Fatal(err)\n";
  const [thread, ...runs] = goThread(r, (id) => id, fail);
  const calls = runs.map((call, i) => {
    const last = i === runs.length - 1;
    return last
      ? `\tvalues, err := ${call}\n\tif err != nil {\n${fail}\t}\n`
      : `\tif _, err := ${call}; err != nil {\n${fail}\t}\n`;
  });
  const options = r.key ? '&client.Options{APIKey: os.Getenv("LANGGRAPH_API_KEY")}' : "nil";
  const raw = [thread, ...runs].some((s) => s!.includes("json.RawMessage"));
  return `package main

import (
	"context"
${raw ? '\t"encoding/json"\n' : ""}	"fmt"
	"log"
${r.key ? '\t"os"\n' : ""}
	"github.com/treadle-go/treadle/client"
)

func main() {
	ctx := context.Background()
	c, err := client.New(${JSON.stringify(r.url)}, ${options})
	if err != nil {
${fail}	}
${thread}${calls.join("")}	fmt.Println(string(values))
}
`;
}

/** A Recorded is what a test needs of a run that has ended. */
export interface Recorded {
  /** The calls of the run, with their contents. */
  spans: RecordedSpan[];
  values: unknown;
  next: string[];
  /** The run failed. */
  failed: boolean;
}

/** problemOf returns why a run cannot become a test, or "". */
export function problemOf(spans: RecordedSpan[]): string {
  const models = modelCalls(spans);
  if (models.some((s) => !s.has_content)) return "The server stored no responses of models, which the test needs.";
  if (models.some((s) => s.cut?.some((c) => c.path.startsWith("output")) || (s.status === "success" && !s.output)))
    return "The server's limits removed responses of models, which the test needs.";
  if (models.some((s) => s.status === "running" || s.status === "unfinished" || s.status === "canceled"))
    return "Not all model calls of this run have ended.";
  return "";
}

/** modelCalls returns the model calls that contain no others, in the order in which they started. */
function modelCalls(spans: RecordedSpan[]): RecordedSpan[] {
  const outer = new Set(spans.filter((s) => s.kind === "model").map((s) => s.parent_span_id));
  return spans
    .filter((s) => s.kind === "model" && !outer.has(s.span_id))
    .sort((a, b) => (a.started_at < b.started_at ? -1 : a.started_at > b.started_at ? 1 : 0));
}

interface Said {
  content?: unknown;
  tool_calls?: { id?: string; name: string; args: unknown }[];
  invalid_tool_calls?: unknown[];
}

/** turnOf writes the response of a call as a turn of a scripted model. */
function turnOf(s: RecordedSpan): string {
  if (s.status === "error") return `llmtest.Fail(errors.New(${JSON.stringify(s.error?.message ?? "")}))`;
  const { content, tool_calls: calls = [], invalid_tool_calls: invalid = [] } = (s.output ?? {}) as Said;
  if (typeof content === "string" && invalid.length === 0) {
    if (calls.length === 0 && content) return `llmtest.Say(${text(content)})`;
    const list = calls.map(
      (c) =>
        `\n\t\t\tllm.ToolCall{ID: ${JSON.stringify(c.id ?? "")}, ` +
        `Name: ${JSON.stringify(c.name)}, Args: ${json(c.args)}},`,
    );
    if (!content && calls.length > 0) return `llmtest.Ask(${list.join("")}\n\t\t)`;
    if (content) return `llmtest.Turn{Message: llm.Assistant(${text(content)},${list.join("")}\n\t\t)}`;
  }
  return `llmtest.Turn{Message: message(t, ${text(JSON.stringify(s.output ?? { type: "ai", content: "" }))})}`;
}

/** goTest returns a test that runs the graph with the recorded responses and checks its final state. */
export function goTest(r: Recipe, of: Recorded): string {
  const models = modelCalls(of.spans);
  const turns = models.map(turnOf);
  const fail = "\t\tt.Fatal(err)\n";
  const [thread, ...runs] = goThread(r, () => r.graph, fail);
  const calls = runs.map((call, i) =>
    of.failed && i === runs.length - 1
      ? `\tif _, err := ${call}; err == nil {\n\t\tt.Error("the run did not fail")\n\t}\n`
      : `\tif _, err := ${call}; err != nil {\n${fail}\t}\n`,
  );
  const parallel = models.some((s, i) => i > 0 && s.started_at < (models[i - 1]!.ended_at ?? ""));
  const order = parallel ? "\t// Some of these calls ran at the same time, so their order may differ.\n" : "";
  const script = turns.length > 0 ? `,\n${turns.map((turn) => `\t\t${turn},\n`).join("")}\t` : "";
  const whole = turns.some((turn) => turn.includes("message(t"));
  const imports = [
    "context",
    "encoding/json",
    "errors",
    "net/http/httptest",
    "path/filepath",
    "reflect",
    "strings",
    "testing",
    "",
    "github.com/treadle-go/treadle",
    "github.com/treadle-go/treadle/client",
    "github.com/treadle-go/treadle/llm",
    "github.com/treadle-go/treadle/llm/llmtest",
    "github.com/treadle-go/treadle/server",
    "github.com/treadle-go/treadle/sqlite",
  ];
  return `package main // the package of your graph

import (
${imports.map((name) => (name ? `\t"${name}"\n` : "\n")).join("")})

// newGraph returns the graph that the run used. Make it return yours, which must call model.
func newGraph(model llm.Model) (treadle.AnyGraph, error) {
	return nil, errors.New("newGraph does not return the graph ${r.graph} yet")
}

func TestRecordedRun(t *testing.T) {
	ctx := t.Context()
${order}	g, err := newGraph(llmtest.Scripted(t${script}))
	if err != nil {
${fail}	}
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "test.db"), nil)
	if err != nil {
${fail}	}
	srv, err := server.New(db, []treadle.AnyGraph{g}, nil)
	if err != nil {
${fail}	}
	hs := httptest.NewServer(srv)
	t.Cleanup(func() {
		hs.Close()
		if err := errors.Join(srv.Drain(context.Background()), db.Close()); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(hs.URL, nil)
	if err != nil {
${fail}	}
${thread}${calls.join("")}	state, err := c.Threads.State(ctx, thread.ID, nil)
	if err != nil {
${fail}	}
	want := ${text(JSON.stringify(of.values, null, 2))}
	if got, want := normalized(t, state.Values), normalized(t, []byte(want)); !reflect.DeepEqual(got, want) {
		t.Errorf("the final state is\\n%s\\nwant\\n%s", indented(t, got), indented(t, want))
	}
	if got, want := strings.Join(state.Next, ", "), ${JSON.stringify(of.next.join(", "))}; got != want {
		t.Errorf("the next nodes are %q, want %q", got, want)
	}
}

// normalized decodes JSON without what differs in each run: the IDs and usage of messages.
func normalized(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return withoutIDs(v)
}

func withoutIDs(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutIDs(v[i])
		}
	case map[string]any:
		if _, ok := v["content"]; ok && v["type"] != nil {
			for _, name := range []string{"id", "usage_metadata", "response_metadata"} {
				delete(v, name)
			}
		}
		for name := range v {
			v[name] = withoutIDs(v[name])
		}
	}
	return v
}

func indented(t *testing.T, v any) []byte {
	t.Helper()
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return out
}
${
  whole
    ? `
// message decodes a recorded response.
func message(t *testing.T, text string) (m llm.Message) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}
`
    : ""
}`;
}
