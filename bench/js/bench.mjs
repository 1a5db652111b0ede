// The catalogue on LangGraph.js. Prints one JSON object per line:
// {"name","n","ns_per_op","note"}, and more for some. `node bench.mjs -only chain10,loop1000` picks some.

import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { Annotation, Command, END, interrupt, MemorySaver, Send, START, StateGraph } from "@langchain/langgraph";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";

const REPETITIONS = 5;
const REPETITION_NS = 250e6;
const JOB_NS = 8e9; // what the repetitions of one job may take together
const VERSIONS = `langgraph.js ${installedVersion()}, node ${process.versions.node}`;
// Above every job here: the default of 25 would stop the chains.
const RECURSION_LIMIT = 100_000;

function installedVersion() {
  const path = new URL("node_modules/@langchain/langgraph/package.json", import.meta.url);
  return JSON.parse(readFileSync(path, "utf8")).version;
}

// The list appends, as the manual writes it. Where nodes run one after another
// the int is a plain value that each replaces; where they run side by side it is
// a sum, since two writers of a plain value are an error.
const log = () => Annotation({ reducer: (a, b) => a.concat(b), default: () => [] });
const sum = () => Annotation({ reducer: (a, b) => a + b, default: () => 0 });

const Sequential = Annotation.Root({ count: Annotation(), log: log() });
const Parallel = Annotation.Root({ count: sum(), log: log() });

const bump = (s) => ({ count: s.count + 1, log: [s.count + 1] });
const fresh = () => ({ count: 0, log: [] });

function chain(steps, checkpointer, node = bump) {
  const g = new StateGraph(Sequential);
  let last = START;
  for (let i = 0; i < steps; i++) {
    g.addNode(`n${i}`, node);
    g.addEdge(last, `n${i}`);
    last = `n${i}`;
  }
  g.addEdge(last, END);
  return g.compile({ checkpointer });
}

const runChain = (steps) => {
  const g = chain(steps);
  return () => invoke(g, fresh());
};

const invoke = (g, input, config) => g.invoke(input, { recursionLimit: RECURSION_LIMIT, ...config });

function runLoop(steps) {
  const g = new StateGraph(Sequential)
    .addNode("again", bump)
    .addEdge(START, "again")
    .addConditionalEdges("again", (s) => (s.count < steps ? "again" : END), ["again", END])
    .compile();
  return () => invoke(g, fresh());
}

const plan = () => ({ count: 1, log: [0] });
const fanOut = (width, input) => () => Array.from({ length: width }, (_, i) => new Send("worker", input(i)));

// As it comes, LangGraph.js looks at every task that still runs whenever one ends,
// so a wide fan-out costs its square: ten times as much at 5,000. A limit is the
// user's way around that, and the peer is measured at its best.
const LIMIT = 64;
const LIMIT_NOTE = `maxConcurrency ${LIMIT}, faster here than the default`;

function sendGraph(width, checkpointer) {
  return new StateGraph(Parallel)
    .addNode("plan", plan)
    .addNode("worker", (task) => ({ count: 1, log: [task.index] }))
    .addEdge(START, "plan")
    .addConditionalEdges("plan", fanOut(width, (index) => ({ index })), ["worker"])
    .addEdge("worker", END)
    .compile({ checkpointer });
}

function runSend(width, config) {
  const g = sendGraph(width);
  return () => invoke(g, fresh(), config);
}

// Each run has a new saver, so that none pays for the history of those before.
// The first run counts what was saved, or a saver that was not used would pass.
async function runMemory(steps) {
  const g = chain(steps, new MemorySaver());
  const run = () => {
    g.checkpointer = new MemorySaver();
    return invoke(g, fresh(), { configurable: { thread_id: "t" } });
  };
  await run();
  let saved = 0;
  for await (const _ of g.checkpointer.list({ configurable: { thread_id: "t" } })) saved++;
  if (saved < steps) throw new Error(`${saved} checkpoints were saved in ${steps} steps`);
  return run;
}

const WIDE_NODES = 6;
const WIDE_ROUNDS = 20;

function runWide() {
  const idle = Array.from({ length: 28 }, (_, i) => `s${i + 1}`);
  const State = Annotation.Root({
    count: Annotation(),
    log: log(),
    ...Object.fromEntries(idle.map((name) => [name, Annotation()])),
  });
  const g = new StateGraph(State);
  let last = START;
  for (let i = 0; i < WIDE_NODES; i++) {
    g.addNode(`n${i}`, bump);
    g.addEdge(last, `n${i}`);
    last = `n${i}`;
  }
  const steps = WIDE_NODES * WIDE_ROUNDS;
  g.addConditionalEdges(last, (s) => (s.count < steps ? "n0" : END), ["n0", END]);
  const compiled = g.compile();
  const input = { ...fresh(), ...Object.fromEntries(idle.map((name) => [name, "v"])) };
  return () => invoke(compiled, input);
}

function runSubgraphs(width) {
  const one = () => ({ count: 1, log: [1] });
  const part = new StateGraph(Parallel)
    .addNode("first", one)
    .addNode("second", one)
    .addEdge(START, "first")
    .addEdge("first", "second")
    .addEdge("second", END)
    .compile();
  const g = new StateGraph(Parallel)
    .addNode("plan", plan)
    .addNode("worker", part)
    .addEdge(START, "plan")
    .addConditionalEdges("plan", fanOut(width, fresh), ["worker"])
    .addEdge("worker", END)
    .compile();
  return () => invoke(g, fresh());
}

// Tokens go out through the custom stream, LangGraph's cheapest way: no chat
// model, no message objects, and the node does not wait between tokens.
function runStream(tokens) {
  const g = new StateGraph(Sequential)
    .addNode("talk", (s, config) => {
      for (let i = 0; i < tokens; i++) config.writer("token ");
      return bump(s);
    })
    .addEdge(START, "talk")
    .addEdge("talk", END)
    .compile();
  return async () => {
    let arrived = 0;
    let state;
    for await (const [mode, chunk] of await g.stream(fresh(), { streamMode: ["custom", "values"] })) {
      if (mode === "custom") arrived++;
      else state = chunk;
    }
    if (arrived !== tokens) throw new Error(`${arrived} tokens arrived, want ${tokens}`);
    return state;
  };
}

const runStart = (steps) => () => invoke(chain(steps), fresh());

// A model that asks for a tool so many rounds and then says that it is done, as
// that of agents.go. How many there were it sees in the conversation.
class Caller extends BaseChatModel {
  constructor(rounds, calls) {
    super({});
    this.rounds = rounds;
    this.calls = calls;
  }

  _llmType() {
    return "caller";
  }

  bindTools() {
    return this;
  }

  async _generate(messages) {
    const round = (messages.length - 1) / (1 + this.calls);
    const id = `answer-${round}`;
    const message =
      round === this.rounds
        ? new AIMessage({ id, content: "done" })
        : new AIMessage({
            id,
            content: "",
            tool_calls: Array.from({ length: this.calls }, (_, i) => {
              const n = round * this.calls + i;
              return { id: `call-${n}`, name: "double", args: { n }, type: "tool_call" };
            }),
          });
    return { generations: [{ text: message.content, message }] };
  }
}

// The schema is JSON Schema, which costs less to check than one of zod.
const double = tool(({ n }) => String(2 * n), {
  name: "double",
  description: "Doubles a number.",
  schema: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
});

const question = () => ({ messages: [new HumanMessage("Double the numbers.")] });

function runReact(rounds, calls) {
  const g = createReactAgent({ llm: new Caller(rounds, calls), tools: [double] });
  return () => invoke(g, question());
}

function runReactMemory(rounds) {
  const g = createReactAgent({ llm: new Caller(rounds, 1), tools: [double], checkpointer: new MemorySaver() });
  return () => {
    g.checkpointer = new MemorySaver();
    return invoke(g, question(), thread("t"));
  };
}

// What keeps threads is measured by trials: each does the whole job once, with a
// fresh saver, and says what it cost. Durability is the default, "async", which
// is faster than "sync" or as fast.

const now = () => Number(process.hrtime.bigint());

function median(took) {
  const sorted = [...took].sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)];
}

const thread = (id) => ({ configurable: { thread_id: id } });

// A saver, and how many bytes it has in the end.
const memory = {
  async use(job) {
    const saver = new MemorySaver();
    return job(saver, () => {
      let bytes = 0;
      const add = (v) => {
        if (v instanceof Uint8Array) bytes += v.byteLength;
        else if (typeof v === "string") bytes += v.length;
        else if (v && typeof v === "object") Object.values(v).forEach(add);
      };
      add(saver.storage);
      add(saver.writes);
      return bytes;
    });
  },
};

// The saver turns on WAL itself, and better-sqlite3 has synchronous=NORMAL with it, as ours.
const sqlite = {
  async use(job) {
    const dir = mkdtempSync(join(tmpdir(), "langgraph-bench"));
    const path = join(dir, "threads.db");
    let saver;
    try {
      saver = SqliteSaver.fromConnString(path);
      return await job(saver, () => {
        saver.db.pragma("wal_checkpoint(TRUNCATE)");
        return statSync(path).size;
      });
    } finally {
      saver?.db.close();
      rmSync(dir, { recursive: true });
    }
  },
};

// The time of a step is from the start of a node to that of the next.
const tryChain = (steps, place) => (job) =>
  place.use(async (saver) => {
    const took = [];
    let last = 0;
    const g = chain(steps, saver, (s) => {
      const t = now();
      if (last) took.push(t - last);
      last = t;
      return bump(s);
    });
    for (let i = 0; i < 6; i++) {
      last = 0;
      check(job, await invoke(g, fresh(), thread(`t${i}`)));
      if (i === 0) took.length = 0; // the warm-up
    }
    return { ns_per_op: median(took) };
  });

const trySend = (width, place) => (job) =>
  place.use(async (saver) => {
    const g = sendGraph(width, saver);
    const took = [];
    for (let i = 0; i < 3; i++) {
      const start = now();
      check(job, await invoke(g, fresh(), { ...thread(`t${i}`), maxConcurrency: LIMIT }));
      took.push((now() - start) / width);
    }
    return { ns_per_op: median(took) };
  });

const tryInterrupt = (place) => (job) =>
  place.use(async (saver) => {
    const g = new StateGraph(Sequential)
      .addNode("ask", () => {
        const n = interrupt("how many?");
        return { count: n, log: [n] };
      })
      .addEdge(START, "ask")
      .addEdge("ask", END)
      .compile({ checkpointer: saver });
    const took = [];
    for (let i = 0; i < 200; i++) {
      const start = now();
      const asked = await invoke(g, fresh(), thread(`t${i}`));
      if (asked.__interrupt__?.length !== 1) throw new Error("the run did not stop to ask");
      check(job, await invoke(g, new Command({ resume: 1 }), thread(`t${i}`)));
      took.push(now() - start);
    }
    return { ns_per_op: median(took.slice(20)) };
  });

// The conversation of history.go: messages of 400 characters, one of a person
// and one of a model per turn. They are plain objects in a list that appends,
// which costs LangGraph.js less than its message classes and their reducer.
const WORDS = "a treadle turns the wheel and every thread goes through the loom that stands in this long room where nobody has spoken since the evening bell".split(" ");

class Talk {
  raw = 0;
  seed = 1;

  random(n) {
    this.seed = (Math.imul(this.seed, 1664525) + 1013904223) >>> 0;
    return (this.seed >>> 8) % n;
  }

  say(type) {
    let content = "";
    while (content.length < 400) content += WORDS[this.random(WORDS.length)] + " ";
    const id = Array.from({ length: 32 }, () => this.random(16).toString(16)).join("");
    const message = { type, id, content: content.slice(0, 400) };
    this.raw += JSON.stringify(message).length;
    return message;
  }

  graph(checkpointer) {
    return new StateGraph(Annotation.Root({ messages: log() }))
      .addNode("model", () => ({ messages: [this.say("ai")] }))
      .addEdge(START, "model")
      .addEdge("model", END)
      .compile({ checkpointer });
  }
}

function checkMessages(job, state) {
  if (state.messages.length !== job.want) throw new Error(`${job.name}: there are ${state.messages.length} messages, want ${job.want}`);
}

const tryHistory = (turns, place) => (job) =>
  place.use(async (saver, size) => {
    const talk = new Talk();
    const g = talk.graph(saver);
    const took = [];
    for (let i = 0; i < turns; i++) {
      const start = now();
      await invoke(g, { messages: [talk.say("human")] }, thread("talk"));
      took.push(now() - start);
    }
    checkMessages(job, (await g.getState(thread("talk"))).values);
    const at = (n) => median(took.slice(n - 10, n));
    return { ns_per_op: at(turns), turn10_ns: at(10), turn100_ns: at(100), bytes_per_op: size(), raw_bytes: talk.raw };
  });

// One input of all messages: it leaves the same newest checkpoint as many turns, and only that is read.
const tryGetState = (messages, place) => (job) =>
  place.use(async (saver) => {
    const talk = new Talk();
    const g = talk.graph(saver);
    await invoke(g, { messages: Array.from({ length: messages - 1 }, () => talk.say("human")) }, thread("talk"));
    const took = [];
    for (let i = 0; i < 60; i++) {
      const start = now();
      checkMessages(job, (await g.getState(thread("talk"))).values);
      took.push(now() - start);
    }
    return { ns_per_op: median(took.slice(10)) };
  });

const tryConcurrent = (threads, steps, place) => (job) =>
  place.use(async (saver) => {
    const g = chain(steps, saver);
    const start = now();
    const states = await Promise.all(Array.from({ length: threads }, (_, i) => invoke(g, fresh(), thread(`t${i}`))));
    const took = now() - start;
    for (const s of states) check(job, s);
    return { ns_per_op: took / job.n };
  });

// want is how many nodes run: the final int and the length of the list; of a
// conversation, the messages.
const JOBS = [
  { name: "chain10", n: 10, want: 10, build: () => runChain(10) },
  { name: "chain100", n: 100, want: 100, build: () => runChain(100) },
  { name: "chain1000", n: 1000, want: 1000, build: () => runChain(1000) },
  { name: "loop1000", n: 1000, want: 1000, build: () => runLoop(1000) },
  { name: "send100", n: 100, want: 101, build: () => runSend(100) },
  { name: "send1000", n: 1000, want: 1001, build: () => runSend(1000, { maxConcurrency: LIMIT }), note: LIMIT_NOTE },
  { name: "send5000", n: 5000, want: 5001, build: () => runSend(5000, { maxConcurrency: LIMIT }), note: LIMIT_NOTE },
  { name: "chain100_memory", n: 100, want: 100, build: () => runMemory(100) },
  { name: "chain100_sqlite", n: 100, want: 100, trial: tryChain(100, sqlite), trials: 3 },
  { name: "send1000_sqlite", n: 1000, want: 1001, trial: trySend(1000, sqlite), trials: 1, note: LIMIT_NOTE },
  { name: "history500_memory", n: 500, want: 1000, trial: tryHistory(500, memory), trials: 1 },
  { name: "history500_sqlite", n: 500, want: 1000, trial: tryHistory(500, sqlite), trials: 1 },
  { name: "interrupt_resume_memory", n: 1, want: 1, trial: tryInterrupt(memory), trials: 3 },
  { name: "interrupt_resume_sqlite", n: 1, want: 1, trial: tryInterrupt(sqlite), trials: 3 },
  { name: "get_state_1000", n: 1, want: 1000, trial: tryGetState(1000, sqlite), trials: 3 },
  { name: "concurrent1000", n: 10_000, want: 10, trial: tryConcurrent(1000, 10, sqlite), trials: 1 },
  { name: "wide_state", n: 120, want: 120, build: () => runWide() },
  { name: "subgraph_fanout100", n: 100, want: 201, build: () => runSubgraphs(100) },
  { name: "stream_tokens2000", n: 2000, want: 1, build: () => runStream(2000) },
  { name: "start_to_first_run", n: 1, want: 10, build: () => runStart(10) },
  { name: "react10", n: 10, want: 22, build: () => runReact(10, 1) },
  { name: "react100", n: 100, want: 202, build: () => runReact(100, 1) },
  { name: "react10_memory", n: 10, want: 22, build: () => runReactMemory(10) },
  { name: "react100_memory", n: 100, want: 202, build: () => runReactMemory(100) },
  { name: "tool_parallel50", n: 50, want: 53, build: () => runReact(1, 50) },
];

function check(job, state) {
  if (state.messages) return checkMessages(job, state);
  if (state.count !== job.want || state.log.length !== job.want) {
    throw new Error(`${job.name}: the final state has int ${state.count} and ${state.log.length} list items, want ${job.want} of both`);
  }
}

async function timeRuns(job, run, runs) {
  const start = now();
  for (let i = 0; i < runs; i++) check(job, await run());
  return (now() - start) / runs;
}

// The first run shows that the job is done right and says how long a run takes;
// more follow until the JavaScript compiler has had time to settle. A job of
// which one run takes seconds gets fewer repetitions, and its note says so.
async function measure(job) {
  if (job.trial) return tryMedian(job);
  const run = await job.build();
  let perRun = await timeRuns(job, run, 1);
  if (perRun < REPETITION_NS) perRun = await timeRuns(job, run, Math.ceil((4 * REPETITION_NS) / perRun));
  const runs = Math.max(1, Math.round(REPETITION_NS / perRun));
  const repetitions = Math.min(REPETITIONS, Math.max(1, Math.floor(JOB_NS / (runs * perRun))));
  const took = [];
  for (let i = 0; i < repetitions; i++) {
    took.push(await timeRuns(job, run, runs));
  }
  const note = [VERSIONS, `median of ${repetitions}`, job.note].filter(Boolean).join(", ");
  return { name: job.name, n: job.n, ns_per_op: median(took) / job.n, note };
}

// The trial with the median time counts. A saver whose native code was not built
// leaves its jobs out, and says so.
async function tryMedian(job) {
  const head = { name: job.name, n: job.n };
  const all = [];
  for (let i = 0; i < job.trials; i++) {
    try {
      all.push(await job.trial(job));
    } catch (err) {
      if (!/bindings file|\.node'?$|NODE_MODULE_VERSION|invalid ELF/.test(err.message)) throw err;
      return { ...head, note: `not measured: better-sqlite3 was not built: ${err.message.split("\n")[0]}` };
    }
  }
  all.sort((a, b) => a.ns_per_op - b.ns_per_op);
  const middle = all[Math.floor((all.length - 1) / 2)];
  return { ...head, ...middle, note: [VERSIONS, `median of ${job.trials}`, job.note].filter(Boolean).join(", ") };
}

function selected(args) {
  if (args.length === 0) return JOBS;
  if (args.length !== 2 || args[0] !== "-only") throw new Error("usage: node bench.mjs [-only name,name]");
  const names = new Set(args[1].split(","));
  const known = JOBS.map((j) => j.name);
  for (const name of names) {
    if (!known.includes(name)) throw new Error(`unknown name ${name}; known: ${known.join(", ")}`);
  }
  return JOBS.filter((j) => names.has(j.name));
}

const jobs = selected(process.argv.slice(2));
// The library itself is cold until its code is compiled, which takes seconds;
// without this the first job would pay for it, whichever that is.
await timeRuns(JOBS[0], JOBS[0].build(), 200);
for (const job of jobs) {
  console.log(JSON.stringify(await measure(job)));
}
