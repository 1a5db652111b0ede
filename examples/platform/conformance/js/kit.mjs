// What the checks share: their list, a client and shortcuts for each, and the record of the requests they make.

import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { createHash, randomUUID } from "node:crypto";
import { createServer } from "node:http";

import { WebSocket } from "ws";

export const checks = [];

// check adds a check. Options:
//   deviates  why LangGraph's own Python server fails it
//   sdk       1 if only SDK 1.12 has the method
//   auth      true if it needs a server with --auth
//   alone     true if it must not run beside others
//   timeout   in milliseconds, if the usual one is too short
export function check(name, run, options = {}) {
  checks.push({ name, run, ...options });
}

// uncalled returns a function that tells which methods of the clients nobody has called since.
export function uncalled(Client) {
  const never = new Set();
  const client = new Client({ apiUrl: "http://127.0.0.1", apiKey: null });
  for (const part of ["assistants", "threads", "runs", "crons", "store"]) {
    const proto = Object.getPrototypeOf(client[part]);
    for (const name of Object.getOwnPropertyNames(proto).filter((n) => n !== "constructor")) {
      const method = proto[name];
      never.add(`${part}.${name}`);
      proto[name] = function (...args) {
        never.delete(`${part}.${name}`);
        return method.apply(this, args);
      };
    }
  }
  return () => [...never];
}

// answered are the paths of requests whose answers have begun.
export const answered = new Set();

const running = new AsyncLocalStorage();
const realFetch = globalThis.fetch;

// Every request of a check is recorded with its body's and its query's keys, for the table of what is covered.
globalThis.fetch = async (input, init) => {
  const { seen, official } = running.getStore() ?? {};
  if (seen) note(seen, input, init);
  try {
    const response = await realFetch(input, init);
    answered.add(new URL(response.url).pathname);
    return response;
  } catch (err) {
    // LangGraph's server closes idle connections after five seconds, now and then just when one is used again.
    if (!official || !["UND_ERR_SOCKET", "ECONNRESET"].includes(err.cause?.code)) throw err;
    return realFetch(input, init);
  }
};

function note(seen, input, init) {
  const url = new URL(typeof input === "string" ? input : input.url ?? input);
  const path = url.pathname
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "{id}")
    .replace(/^\/assistants\/(?!search$|count$)[^/]+/, "/assistants/{id}")
    .replace(/\/subgraphs\/.+/, "/subgraphs/{namespace}")
    .replace(/^\/(a2a|agui)\/[^/]+/, "/$1/{id}");
  const keys = [...new Set(url.searchParams.keys())].map((k) => "?" + k);
  if (typeof init?.body === "string") {
    try {
      const body = JSON.parse(init.body);
      for (const part of Array.isArray(body) ? body : [body]) keys.push(...fieldsOf(part ?? {}));
    } catch {
      // A body that is no JSON on purpose.
    }
  }
  const endpoint = `${init?.method ?? "GET"} ${path}`;
  seen[endpoint] = [...new Set([...(seen[endpoint] ?? []), ...keys])].sort();
}

// fieldsOf are the keys of a body, those of objects that the API describes, and the method and the parameters of a command.
function fieldsOf(body) {
  const keys = Object.keys(body);
  for (const name of ["checkpoint", "command", "config", "ttl"]) {
    const inner = body[name];
    if (inner && typeof inner === "object") keys.push(...Object.keys(inner).map((k) => `${name}.${k}`));
  }
  if (typeof body.method === "string") {
    keys.push(`method ${body.method}`, ...Object.keys(body.params ?? {}).map((k) => `method ${body.method} ${k}`));
  }
  return keys;
}

// webSocket opens a WebSocket, and records it with the commands that are sent.
export function webSocket(url) {
  const { seen } = running.getStore() ?? {};
  const http = String(url).replace(/^ws/, "http");
  if (seen) note(seen, http);
  const socket = new WebSocket(url);
  const send = socket.send;
  socket.send = (text, ...rest) => {
    if (seen) note(seen, http, { method: "GET", body: text });
    return send.call(socket, text, ...rest);
  };
  return socket;
}

// runCheck runs one check and returns its line.
export async function runCheck(c, env, usual) {
  const timeout = c.timeout ?? usual;
  const seen = {};
  const line = { name: c.name, ok: true };
  const ends = [];
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end after ${timeout / 1000} s`)), timeout);
  });
  try {
    await running.run({ seen, official: env.official }, () => Promise.race([c.run(kit(env, ends)), late]));
  } catch (err) {
    line.ok = false;
    line.error = String(err?.message ?? err).slice(0, 2000);
    if (env.stacks) line.stack = err?.stack;
  }
  clearTimeout(timer);
  for (const end of ends) await Promise.race([Promise.resolve().then(end).catch(() => {}), sleep(2000)]);
  if (c.deviates) line.deviates = c.deviates;
  if (env.covers) line.covers = seen;
  return line;
}

// kit is the argument of a check.
function kit({ Client, url, sdk }, ends) {
  const newClient = (options = {}) => new Client({ apiUrl: url, apiKey: null, callerOptions: { maxRetries: 0 }, ...options });
  const client = newClient();
  return {
    client,
    newClient,
    url,
    sdk,
    // later runs fn when the check has ended.
    later: (fn) => ends.push(fn),
    // thread makes a thread, and runs a graph on it if one is given.
    async thread(graph, input, options) {
      const { thread_id } = await client.threads.create();
      if (graph) await client.runs.wait(thread_id, graph, { input, raiseError: false, ...options });
      return thread_id;
    },
    // http sends a request without the SDK.
    http: (method, path, body, headers) => http(url, method, path, body, headers),
    sse: (method, path, body, headers) => sse(url, method, path, body, headers, ends),
    // receiver is a web server that keeps what it is sent.
    receiver: () => receiver(ends),
    // until polls until fn returns something.
    until,
    // running waits until a run has begun.
    running: (thread, run) =>
      until(async () => (await client.runs.get(thread, run)).status !== "pending" || undefined, "the run to begin"),
    // ended waits until a run is over and returns it.
    ended: (thread, run) =>
      until(async () => {
        const r = await client.runs.get(thread, run);
        return ["pending", "running"].includes(r.status) ? undefined : r;
      }, "the run to end"),
  };
}

async function http(url, method, path, body, headers = {}) {
  const init = { method, headers: { ...headers } };
  if (body !== undefined) {
    init.body = typeof body === "string" ? body : JSON.stringify(body);
    init.headers["content-type"] ??= "application/json";
  }
  const res = await fetch(url + path, init);
  const text = await res.text();
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  return { status: res.status, headers: res.headers, text, json };
}

// sse opens an event stream without the SDK. The frames are collected in .frames while it is open; done resolves at its end.
async function sse(url, method, path, body, headers = {}, ends = []) {
  const abort = new AbortController();
  const init = { method, headers: { accept: "text/event-stream", ...headers }, signal: abort.signal };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers["content-type"] = "application/json";
  }
  const res = await fetch(url + path, init);
  const stream = { status: res.status, headers: res.headers, frames: [], raw: "", close: () => abort.abort() };
  ends.push(stream.close);
  stream.done = (async () => {
    const decoder = new TextDecoder();
    let rest = "";
    try {
      for await (const piece of res.body) {
        const text = decoder.decode(piece, { stream: true });
        stream.raw += text;
        rest = (rest + text).replaceAll("\r\n", "\n");
        let at;
        while ((at = rest.indexOf("\n\n")) >= 0) {
          const frame = parseFrame(rest.slice(0, at));
          rest = rest.slice(at + 2);
          if (frame) stream.frames.push(frame);
        }
      }
    } catch (err) {
      if (!abort.signal.aborted) throw err;
    }
    return stream.frames;
  })();
  stream.done.catch(() => {});
  stream.until = (find, what = "a frame") => until(() => stream.frames.find(find), what);
  return stream;
}

function parseFrame(text) {
  const frame = {};
  for (const line of text.split("\n")) {
    if (line.startsWith(":") || line === "") continue;
    const [, field, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    frame[field] = frame[field] === undefined ? value : frame[field] + value;
  }
  if (frame.event === undefined && frame.data === undefined) return undefined;
  if (frame.data !== undefined) frame.data = JSON.parse(frame.data);
  return frame;
}

async function receiver(ends) {
  const got = [];
  const server = createServer((req, res) => {
    let body = "";
    req.on("data", (d) => (body += d));
    req.on("end", () => {
      got.push({ method: req.method, path: req.url, headers: req.headers, body: JSON.parse(body || "null") });
      res.end("{}");
    });
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  ends.push(() => server.close());
  return { got, url: `http://127.0.0.1:${server.address().port}/hook`, first: () => until(() => got[0], "a webhook") };
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export async function until(fn, what = "a condition", ms = 20000) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await fn();
    if (value !== undefined && value !== false && value !== null) return value;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await sleep(40);
  }
}

// collect reads a stream to its end.
export async function collect(stream) {
  const out = [];
  for await (const part of stream) out.push(part);
  return out;
}

// data of the frames with this event.
export const dataOf = (frames, event) => frames.filter((f) => f.event === event).map((f) => f.data);
export const eventsOf = (frames) => frames.map((f) => f.event);

// same compares two values.
export function same(got, want, about = "") {
  assert.deepEqual(got, want, about && `${about}: got ${show(got)}, want ${show(want)}`);
}

export function ok(condition, about) {
  assert.ok(condition, about);
}

// has checks that got contains want: objects may have more keys, lists are as long.
export function has(got, want, path = "$") {
  if (Array.isArray(want)) {
    ok(Array.isArray(got) && got.length === want.length, `${path}: got ${show(got)}, want ${show(want)}`);
    want.forEach((w, i) => has(got[i], w, `${path}[${i}]`));
  } else if (want !== null && typeof want === "object") {
    ok(got !== null && typeof got === "object", `${path}: got ${show(got)}, want ${show(want)}`);
    for (const key of Object.keys(want)) has(got[key], want[key], `${path}.${key}`);
  } else {
    ok(Object.is(got, want), `${path}: got ${show(got)}, want ${show(want)}`);
  }
}

// fails checks that a promise is rejected, with one of these HTTP statuses if there are any.
export async function fails(promise, ...statuses) {
  let value;
  try {
    value = await promise;
  } catch (err) {
    const status = err.status ?? Number(/HTTP (\d+)/.exec(err.message)?.[1]);
    ok(statuses.length === 0 || statuses.includes(status), `status ${status}, want ${statuses}: ${err.message}`);
    return err;
  }
  assert.fail(`no failure but ${show(value)}`);
}

// isDetail checks an error's answer: its status, and {"detail": "..."} as its body.
export function isDetail(answer, ...statuses) {
  ok(statuses.includes(answer.status), `status ${answer.status}, want ${statuses}: ${answer.text.slice(0, 300)}`);
  ok(typeof answer.json?.detail === "string" || Array.isArray(answer.json?.detail), `no detail: ${answer.text.slice(0, 300)}`);
}

const show = (v) => (JSON.stringify(v) ?? "undefined").slice(0, 600);

export const uuid = randomUUID;
export const unknown = "00000000-0000-4000-8000-000000000000";

export const isUUID = (s) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(s);
export const isTime = (s) => typeof s === "string" && /^\d{4}-\d\d-\d\dT/.test(s) && !Number.isNaN(Date.parse(s));

// idOf is the id of a graph's default assistant: uuid5 of its name.
export function idOf(graph) {
  const space = Buffer.from("6ba7b8219dad11d180b400c04fd430c8", "hex");
  const hash = createHash("sha1").update(space).update(graph).digest().subarray(0, 16);
  hash[6] = (hash[6] & 0x0f) | 0x50;
  hash[8] = (hash[8] & 0x3f) | 0x80;
  return hash.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

export const graphs = ["agent", "hitl", "nested", "fanout", "custom", "slow", "failing", "configurable", "memory", "router"];
export const weather = { messages: [{ role: "user", content: "what is the weather", id: "h1" }] };
