// The catalogue on LangGraph.js. Prints one JSON object per line:
// {"name","n","ns_per_op","note"}. `node bench.mjs -only chain10,loop1000` picks some.

import { readFileSync } from "node:fs";
import { Annotation, END, MemorySaver, Send, START, StateGraph } from "@langchain/langgraph";

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

function chain(steps, checkpointer) {
  const g = new StateGraph(Sequential);
  let last = START;
  for (let i = 0; i < steps; i++) {
    g.addNode(`n${i}`, bump);
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

function runSend(width, config) {
  const g = new StateGraph(Parallel)
    .addNode("plan", plan)
    .addNode("worker", (task) => ({ count: 1, log: [task.index] }))
    .addEdge(START, "plan")
    .addConditionalEdges("plan", fanOut(width, (index) => ({ index })), ["worker"])
    .addEdge("worker", END)
    .compile();
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

// want is how many nodes run: the final int and the length of the list.
const JOBS = [
  { name: "chain10", n: 10, want: 10, build: () => runChain(10) },
  { name: "chain100", n: 100, want: 100, build: () => runChain(100) },
  { name: "chain1000", n: 1000, want: 1000, build: () => runChain(1000) },
  { name: "loop1000", n: 1000, want: 1000, build: () => runLoop(1000) },
  { name: "send100", n: 100, want: 101, build: () => runSend(100) },
  { name: "send1000", n: 1000, want: 1001, build: () => runSend(1000, { maxConcurrency: LIMIT }), note: LIMIT_NOTE },
  { name: "send5000", n: 5000, want: 5001, build: () => runSend(5000, { maxConcurrency: LIMIT }), note: LIMIT_NOTE },
  { name: "chain100_memory", n: 100, want: 100, build: () => runMemory(100) },
  { name: "wide_state", n: 120, want: 120, build: () => runWide() },
  { name: "subgraph_fanout100", n: 100, want: 201, build: () => runSubgraphs(100) },
  { name: "stream_tokens2000", n: 2000, want: 1, build: () => runStream(2000) },
  { name: "start_to_first_run", n: 1, want: 10, build: () => runStart(10) },
];

function check(job, state) {
  if (state.count !== job.want || state.log.length !== job.want) {
    throw new Error(`${job.name}: the final state has int ${state.count} and ${state.log.length} list items, want ${job.want} of both`);
  }
}

const now = () => Number(process.hrtime.bigint());

async function timeRuns(job, run, runs) {
  const start = now();
  for (let i = 0; i < runs; i++) check(job, await run());
  return (now() - start) / runs;
}

// The first run shows that the job is done right and says how long a run takes;
// more follow until the JavaScript compiler has had time to settle. A job of
// which one run takes seconds gets fewer repetitions, and its note says so.
async function measure(job) {
  const run = await job.build();
  let perRun = await timeRuns(job, run, 1);
  if (perRun < REPETITION_NS) perRun = await timeRuns(job, run, Math.ceil((4 * REPETITION_NS) / perRun));
  const runs = Math.max(1, Math.round(REPETITION_NS / perRun));
  const repetitions = Math.min(REPETITIONS, Math.max(1, Math.floor(JOB_NS / (runs * perRun))));
  let best = Infinity;
  for (let i = 0; i < repetitions; i++) {
    best = Math.min(best, await timeRuns(job, run, runs));
  }
  const note = [VERSIONS, `best of ${repetitions}`, job.note].filter(Boolean).join(", ");
  return { name: job.name, n: job.n, ns_per_op: best / job.n, note };
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
