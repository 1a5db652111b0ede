// Prints the code that the studio's trace offers for a run, as JSON: copied.mjs URL THREAD RUN.
import { createRequire } from "node:module";
import { api } from "./scenes.mjs";

const [url, thread, id] = process.argv.slice(2);
const web = new URL("../../../../server/studio/web/", import.meta.url);
const { runnerImport } = await import(createRequire(new URL("package.json", web)).resolve("vite"));
const { module } = await runnerImport(new URL("src/views/trace/code.ts", web).pathname, {
  configFile: false,
  logLevel: "error",
});

const run = await api(url, "GET", `/threads/${thread}/runs/${id}`);
const all = await api(url, "GET", `/threads/${thread}/history?limit=100`);
const { spans } = await api(url, "GET", `/threads/${thread}/runs/${id}/spans?content=true`);
const steps = all.filter((s) => s.metadata.run_id === id).reverse();
const last = steps.at(-1);
const { graph_id } = last.metadata;
const body = module.bodyOf(run.assistant_id, run.kwargs, undefined, steps);
const recipe = module.recipeOf({ url, key: false, graph: graph_id }, body, steps, all);
const of = { spans, values: last.values, next: last.next, failed: run.status === "error" };
console.log(
  JSON.stringify({
    problem: module.problemOf(spans) + recipe.notes.join(" "),
    curl: module.curl(recipe),
    js: module.javascript(recipe),
    python: module.python(recipe),
    program: module.goProgram(recipe),
    test: module.goTest(recipe, of),
  }),
);
process.exit(0);
