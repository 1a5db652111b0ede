// A run as the request that starts it, as code in several languages.
import type { RunOptions, Step, Values } from "../../data/types";
import { inputOf, sourceOf } from "../timeline/step";

export interface Request {
  /** The address of the API. */
  url: string;
  thread: string;
  /** The body of POST /threads/{thread}/runs/wait. */
  body: Values;
  /** The server requires a key. It is never part of the text, but comes from the environment. */
  key: boolean;
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
  const own = Object.fromEntries(Object.entries(configurable).filter(([k]) => !added.test(k)));
  return {
    assistant_id: assistant,
    input: kwargs.input,
    command: kwargs.command,
    checkpoint_id: configurable.checkpoint_id,
    config: { recursion_limit: config.recursion_limit, tags: config.tags, configurable: own },
    context: kwargs.context,
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

const addressOf = (r: Request) => `${r.url}/threads/${r.thread}/runs/wait`;
const quoted = (text: string) => "'" + text.replaceAll("'", "'\\''") + "'";

export function curl(r: Request): string {
  return (
    [
      `curl ${quoted(addressOf(r))}`,
      ...(r.key ? [`  -H "x-api-key: $LANGGRAPH_API_KEY"`] : []),
      `  -H 'Content-Type: application/json'`,
      `  --data ${quoted(JSON.stringify(r.body, null, 2))}`,
    ].join(" \\\n") + "\n"
  );
}

export function goProgram(r: Request): string {
  const json = JSON.stringify(r.body, null, "\t");
  const literal = json.includes("`") ? JSON.stringify(json) : "`" + json + "`";
  const key = r.key ? '\treq.Header.Set("X-Api-Key", os.Getenv("LANGGRAPH_API_KEY"))\n' : "";
  return `package main

import (
	"io"
	"log"
	"net/http"
	"os"
	"strings"
)

const body = ${literal}

func main() {
	req, err := http.NewRequest("POST", ${JSON.stringify(addressOf(r))}, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
${key}	res, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(os.Stdout, res.Body); err != nil {
		log.Fatal(err)
	}
}
`;
}

export function python(r: Request): string {
  const { assistant_id, ...rest } = r.body;
  const args = Object.entries(rest).map(([k, v]) => `        ${k}=${literal(v, 2)},\n`);
  return `import asyncio
${r.key ? "import os\n" : ""}
from langgraph_sdk import get_client


async def main():
    client = get_client(url=${literal(r.url, 0)}${r.key ? ', api_key=os.environ["LANGGRAPH_API_KEY"]' : ""})
    state = await client.runs.wait(
        ${literal(r.thread, 0)},
        ${literal(assistant_id, 0)},
${args.join("")}    )
    print(state)


asyncio.run(main())
`;
}

/** literal writes a JSON value in Python. */
function literal(v: unknown, level: number): string {
  if (v === null || v === undefined) return "None";
  if (typeof v === "boolean") return v ? "True" : "False";
  if (typeof v !== "object") return JSON.stringify(v);
  const pad = "    ".repeat(level + 1);
  const end = "    ".repeat(level);
  const parts = Array.isArray(v)
    ? v.map((x) => literal(x, level + 1))
    : Object.entries(v).map(([k, x]) => `${JSON.stringify(k)}: ${literal(x, level + 1)}`);
  const [a, b] = Array.isArray(v) ? "[]" : "{}";
  return parts.length === 0 ? `${a}${b}` : `${a}\n${parts.map((p) => pad + p + ",\n").join("")}${end}${b}`;
}
