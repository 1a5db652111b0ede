// How fast the page is there, and how much it loads.
import { cpus, loadavg } from "node:os";
import { check, run, slowness } from "../../../browsertest/kit.mjs";

const [url] = process.argv.slice(2);
const limit = { firstView: 1_000, script: 600_000, task: 200 };

check("the first view comes within a second", async ({ page }) => {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable");
  const times = [];
  for (let i = 0; i < 3; i++) {
    await page.goto("about:blank");
    const busy = await taskTime(cdp);
    await page.goto(`${url}/studio/?assistant=agent`);
    await page.locator(".react-flow__node").first().waitFor();
    const shown = await page.evaluate(() => performance.now());
    times.push({ shown, busy: (await taskTime(cdp)) - busy });
  }
  // On a machine with other work the clock measures that work: what counts then is the time that the page itself took.
  const crowded = loadavg()[0] >= cpus().length;
  const best = Math.min(...times.map((t) => (crowded ? t.busy : t.shown)));
  // The limit is for a machine of a certain speed; on a slower one it is as much higher.
  if (best > limit.firstView * slowness())
    throw new Error(`the first view took ${Math.round(best)} ms: ${JSON.stringify(times)}`);
});

check("a graph of 1,000 nodes keeps the page busy for at most 200 ms at a time", async ({ page }) => {
  const n = 1_000;
  const nodes = ["__start__", ...Array.from({ length: n }, (_, i) => "n" + i), "__end__"].map((id) => ({ id }));
  const edges = [{ source: "__start__", target: "n0" }];
  for (let i = 1; i < n; i++) edges.push({ source: "n" + Math.floor((i - 1) / 3), target: "n" + i });
  for (let i = 750; i < n; i++) edges.push({ source: "n" + i, target: "__end__" });
  await page.route("**/assistants/*/graph*", (r) => r.fulfill({ json: { nodes, edges } }));
  const longest = [];
  for (let i = 0; i < 3; i++) {
    const browser = page.context().browser();
    await browser.startTracing(page, { categories: ["toplevel", "disabled-by-default-devtools.timeline"] });
    await page.goto(`${url}/studio/?assistant=agent`);
    await page.getByRole("button", { name: "Node n0", exact: true }).waitFor();
    await page.getByRole("list", { name: "Nodes of the graph" }).waitFor({ state: "attached" });
    await page.getByRole("button", { name: "Show all", exact: true }).click();
    await page.locator(".graph-overview").waitFor();
    longest.push(longestTask(await browser.stopTracing()));
  }
  if (Math.min(...longest) > limit.task * slowness()) throw new Error(`tasks of ${longest.map(Math.round)} ms`);
});

// longestTask is the longest time that a page's main thread has worked without a break, in milliseconds of the
// processor.
function longestTask(trace) {
  const { traceEvents: events } = JSON.parse(trace.toString());
  const thread = (e) => `${e.pid} ${e.tid}`;
  const pages = new Set(events.filter((e) => e.name === "thread_name" && e.args.name === "CrRendererMain").map(thread));
  const tasks = events.filter((e) => /RunTask$/.test(e.name) && e.tdur !== undefined && pages.has(thread(e)));
  if (tasks.length === 0) throw new Error("the trace has no tasks");
  return Math.max(...tasks.map((e) => e.tdur)) / 1_000;
}

check("the first view loads less than 600 kB of script", async ({ page }) => {
  await page.goto(`${url}/studio/`);
  await page.locator(".react-flow__node").first().waitFor();
  const scripts = await page.evaluate(() =>
    performance
      .getEntriesByType("resource")
      .filter((r) => r.name.endsWith(".js"))
      .map((r) => r.encodedBodySize),
  );
  const total = scripts.reduce((a, b) => a + b, 0);
  if (scripts.length === 0 || total > limit.script) throw new Error(`${scripts.length} scripts of ${total} bytes`);
});

// taskTime is how long the page's main thread has worked, in milliseconds.
async function taskTime(cdp) {
  const { metrics } = await cdp.send("Performance.getMetrics");
  return metrics.find((m) => m.name === "TaskDuration").value * 1_000;
}

await run({ jobs: 1, origin: url });
