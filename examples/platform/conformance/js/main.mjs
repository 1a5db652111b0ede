// Conformance drives a server with LangGraph's own JavaScript SDK and prints one JSON line per check:
// {"name", "ok", "error"?, "deviates"?, "covers"?}.
//
//   node main.mjs --url http://127.0.0.1:2024 --sdk 1 [--only threads.] [--auth] [--jobs 8] [--timeout 60] [--covers] [--stacks] [--list]
//
// It ends with 1 if a check failed. With --official python a failure of a check that says why LangGraph's own Python
// server fails it does not count. With --auth only the checks are made that need a server with users, see auth.mjs.

import { parseArgs } from "node:util";

import { checks, runCheck, uncalled } from "./kit.mjs";

const { values: args } = parseArgs({
  options: {
    url: { type: "string", default: "http://127.0.0.1:2024" },
    sdk: { type: "string", default: "1" },
    only: { type: "string", default: "" },
    jobs: { type: "string", default: "8" },
    timeout: { type: "string", default: "60" },
    auth: { type: "boolean", default: false },
    official: { type: "string" },
    covers: { type: "boolean" },
    stacks: { type: "boolean" },
    list: { type: "boolean" },
  },
});

const { Client } = await import(`sdk${args.sdk}`);
for (const part of ["system", "assistants", "threads", "state", "runs", "control", "fields", "streams", "crons", "store", "protocol", "doors", "agui", "page", "assistantui", "auth"]) {
  await import(`./${part}.mjs`);
}

const names = new Set(checks.map((c) => c.name));
if (names.size !== checks.length) throw new Error("two checks have one name");

const wanted = checks.filter((c) => c.name.startsWith(args.only) && (c.sdk ?? Number(args.sdk)) === Number(args.sdk) && (c.auth ?? false) === args.auth);
if (args.list) {
  for (const c of wanted) console.log(c.name);
  process.exit(0);
}

if (!args.only && !args.auth) {
  const never = uncalled(Client);
  const run = () => {
    if (never().length) throw new Error(`never called: ${never().join(", ")}`);
  };
  wanted.push({ name: "client.every_method_is_called", run, alone: true });
}
const env = { Client, url: args.url.replace(/\/$/, ""), sdk: Number(args.sdk), covers: args.covers, stacks: args.stacks, official: args.official };
// A check that was given up may still fail.
process.on("unhandledRejection", () => {});
let failures = 0;
let known = 0;

async function work(queue) {
  for (let c = queue.shift(); c; c = queue.shift()) {
    const line = await runCheck(c, env, Number(args.timeout) * 1000);
    console.log(JSON.stringify(line));
    if (!line.ok && args.official === "python" && c.deviates) known++;
    else if (!line.ok) failures++;
  }
}

const together = wanted.filter((c) => !c.alone);
await Promise.all(Array.from({ length: Number(args.jobs) }, () => work(together)));
await work(wanted.filter((c) => c.alone));

console.error(`${wanted.length} checks, ${wanted.length - failures - known} passed, ${failures} failed` + (known ? `, ${known} known faults of this server` : ""));
process.exit(failures ? 1 : 0);
