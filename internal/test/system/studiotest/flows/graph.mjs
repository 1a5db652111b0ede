// The graph: what is drawn, and what its nodes show while they run.
import { becomes, same, until } from "../../../browsertest/kit.mjs";
import { barriers, check, run, server, studio } from "../flow.mjs";
import { newPace } from "../pace.mjs";

const open = (page, graph, more = "") => page.goto(studio(`assistant=${graph}${more}`));
const node = (page, name) => page.getByRole("button", { name });
const submit = (page) => page.getByRole("button", { name: "Submit" }).click();
const said = (page) => page.getByRole("list", { name: "Nodes of the graph" }).getByRole("listitem").allInnerTexts();

async function post(path, body) {
  const answer = await fetch(server + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

const graphs = {
  agent: ["agent", "tools"],
  hitl: ["propose", "review", "finish"],
  nested: ["before", "after"],
  fanout: ["plan", "worker", "reduce"],
  custom: ["emit"],
  slow: ["reset", "tick"],
  failing: ["prepare", "boom"],
  configurable: ["show"],
  memory: ["remember"],
  router: ["route", "left", "right"],
};

// drawnBarriers omits the sizes of what is drawn, which depend on the zoom.
const drawnBarriers = async (page) => (await barriers(page)).filter((b) => !b.includes("target-size: .graph-"));

check("the nodes of every graph are drawn, apart from each other", async ({ page }) => {
  await open(page, "agent");
  for (const [graph, names] of Object.entries(graphs)) {
    await page.locator(".app-assistant").click();
    await page.getByRole("menuitem", { name: graph, exact: true }).click();
    for (const name of names) await page.getByRole("button", { name: "Node " + name, exact: true }).waitFor();
    // All boxes are of one moment, since the graph may still move.
    const boxes = await page
      .locator(".graph-face")
      .evaluateAll((faces) => faces.map((face) => face.getBoundingClientRect().toJSON()));
    for (const [i, a] of boxes.entries())
      for (const b of boxes.slice(i + 1)) {
        const apart = a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
        same(apart, true, `nodes of ${graph} overlap`);
      }
  }
});

check("edges have labels, conditional ones are dashed, and a list says both", async ({ page }) => {
  await open(page, "counter");
  await page.getByText("true", { exact: true }).waitFor();
  await becomes(() => page.locator(".graph-conditional").count(), 2);
  await becomes(() => said(page), ["start leads to add", "add leads to end if false, leads to add if true", "end"]);
});

check("a subgraph opens in place and closes", async ({ page }) => {
  await open(page, "nested");
  await node(page, "Subgraph child").waitFor();
  same(await node(page, /Node child_/).count(), 0);
  await node(page, "Open child").click();
  await node(page, "Node child_one").waitFor();
  for (const name of ["child_one", "child_two"])
    await until(async () => {
      const [outer, inner] = [
        await page.locator(".graph-group").boundingBox(),
        await node(page, "Node " + name).boundingBox(),
      ];
      return (
        inner.x > outer.x &&
        inner.y > outer.y &&
        inner.x + inner.width < outer.x + outer.width &&
        inner.y + inner.height < outer.y + outer.height
      );
    }, name + " to be in its group");
  await until(async () => (await said(page)).includes("before leads to child_one"), "an edge into the group");
  await node(page, "Close child").click();
  await node(page, "Node child_one").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Open subgraphs" }).click();
  await node(page, "Node child_two").waitFor();
});

check("a running node glows, and then shows its time and how often it ran", async ({ page }) => {
  const pace = newPace();
  await open(page, "paced");
  await page.getByLabel("pace").fill(pace.name);
  await page.getByLabel("count").fill("2");
  await submit(page);
  await node(page, /^Node tick: running/).waitFor();
  await becomes(() => page.locator('[data-status="running"]').count(), 1);
  await pace.allow(2);
  await node(page, /^Node tick: done, (<1|[\d.]+) m?s, 2 times$/).waitFor();
});

check(
  "a node that failed shows its attempts",
  async ({ page }) => {
    await open(page, "flaky");
    await page.getByLabel("fails").fill("9");
    await submit(page);
    const failed = /^Node call: failed.*3 attempts.*line is busy \(3\)$/;
    await node(page, failed).waitFor();
    // The stored checkpoint says the same.
    await page.reload();
    await node(page, failed).waitFor();
  },
  { deviates: "failed attempts of nodes" },
);

check("motion is left out for those who do not want it", async ({ page }) => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  const pace = newPace();
  await open(page, "paced");
  await page.getByLabel("pace").fill(pace.name);
  await submit(page);
  await node(page, /^Node tick: running/).waitFor();
  same(await page.locator('[data-status="running"]').evaluate((n) => getComputedStyle(n).animationIterationCount), "1");
  await pace.allow(1);
});

check("tasks of one step are counted", async ({ page }) => {
  await open(page, "fanout");
  await submit(page);
  await node(page, /^Node worker: done, 3 of 3 tasks/).waitFor();
  await page.getByText(/^3\/3/).waitFor();
});

check("a failed node shows its error", async ({ page }) => {
  await open(page, "failing");
  await page.getByLabel("message").fill("out of paper");
  await submit(page);
  await node(page, /^Node boom: failed.*boom: out of paper$/).click();
  await page.getByRole("dialog", { name: "boom" }).getByText("boom: out of paper").waitFor();
  await page.keyboard.press("Escape");
  // The stored checkpoint says the same, on LangGraph's server as Python prints it.
  await page.reload();
  await node(page, /^Node boom: failed.*boom: out of paper/).waitFor();
});

check("an interrupted node says so, also inside of a subgraph", async ({ page }) => {
  await open(page, "hitl");
  await submit(page);
  await node(page, /^Node review: interrupted/).click();
  await page
    .getByRole("dialog", { name: "review" })
    .getByText(/Asks: .*approve\?/)
    .waitFor();
  await open(page, "nested");
  await node(page, "Open child").click();
  await page.getByLabel("value").fill("pause here");
  await submit(page);
  await node(page, /^Node child_two: interrupted/).waitFor();
  await node(page, /^Node child_one: done/).waitFor();
  await node(page, /^Subgraph child: interrupted/).waitFor();
});

check("a run pauses at breakpoints that are set on nodes, and goes on", async ({ page }) => {
  await open(page, "fanout");
  await node(page, "Node reduce").hover();
  await node(page, "Pause before reduce").click();
  await node(page, "Node plan").press("Enter");
  await page.getByRole("checkbox", { name: "Pause after this node" }).check();
  await page.keyboard.press("Escape");
  await page.getByText("Pause before: reduce · Pause after: plan").waitFor();
  await submit(page);
  await node(page, /^Node worker: next$/).waitFor();
  await page.getByRole("form", { name: "Run" }).getByRole("button", { name: "Continue" }).click();
  await node(page, /^Node reduce: next$/).waitFor();
  await page.getByRole("form", { name: "Run" }).getByRole("button", { name: "Continue" }).click();
  await node(page, /^Node reduce: done/).waitFor();
  await page.getByRole("button", { name: "Clear" }).click();
  await becomes(() => node(page, "Pause before reduce").getAttribute("aria-pressed"), "false");
});

check("the nodes after a selected checkpoint are marked", async ({ page }) => {
  const { thread_id: thread } = await post("/threads", {});
  await post(`/threads/${thread}/runs/wait`, { assistant_id: "fanout", input: {} });
  const history = await post(`/threads/${thread}/history`, { limit: 10 });
  const at = history.find((s) => s.next.includes("worker"));
  await open(page, "fanout", `&thread=${thread}&checkpoint=${at.checkpoint.checkpoint_id}`);
  await node(page, "Node worker: next").waitFor();
  await becomes(() => page.locator("[data-next]").count(), 1);
});

check("keys move, zoom and reach the nodes", async ({ page }) => {
  await open(page, "slow");
  await node(page, "Node reset").waitFor();
  const place = () => page.locator(".react-flow__viewport").evaluate((n) => n.style.transform);
  const graph = page.getByRole("group", { name: /^Graph\./ });
  const moved = async (key) => {
    const before = await place();
    await page.keyboard.press(key);
    await until(async () => (await place()) !== before, `the graph to move by ${key}`);
  };
  await graph.focus();
  for (const key of ["ArrowLeft", "ArrowDown", "+", "-", "0"]) await moved(key);
  await graph.focus();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "reset" }).waitFor();
});

check("buttons zoom and show a map", async ({ page }) => {
  await open(page, "slow");
  await node(page, "Node reset").waitFor();
  const width = async () => (await node(page, "Node reset").boundingBox()).width;
  let before = 0;
  await until(async () => before === (before = await width()), "the graph to have its place");
  await page.getByRole("button", { name: "Zoom out" }).click();
  await until(async () => (await width()) < before, "a smaller graph");
  await page.getByRole("button", { name: "Show all", exact: true }).click();
  await until(async () => Math.abs((await width()) - before) < 1, "the whole graph");
  await page.getByRole("button", { name: "Map" }).click();
  await page.getByRole("img", { name: "Graph overview" }).waitFor();
});

check("nodes and their details can be used by everybody", async ({ page }) => {
  await open(page, "nested");
  await node(page, "Open child").click();
  await page.getByLabel("value").fill("pause");
  await submit(page);
  await node(page, /^Node child_two: interrupted/).waitFor();
  await page.getByRole("button", { name: "Map" }).click();
  same(await drawnBarriers(page), []);
  await node(page, /^Subgraph child/).click();
  await page.getByRole("dialog", { name: "child" }).waitFor();
  same(await drawnBarriers(page), [], "details");
});

check("what is loaded says so, until it is there", async ({ page }) => {
  let answer;
  const held = new Promise((resolve) => (answer = resolve));
  for (const path of ["**/assistants/*/graph*", "**/threads/search"])
    await page.route(path, (r) => held.then(() => r.continue()));
  await open(page, "slow");
  for (const what of ["the graph", "threads"]) await page.getByRole("status").getByText(`Loading ${what}…`).waitFor();
  answer();
  await node(page, "Node tick").waitFor();
  for (const what of ["the graph", "threads"]) await page.getByText(`Loading ${what}…`).waitFor({ state: "detached" });
});

check("a server that does not show its graph is told with a way to try again", async ({ page, allow }) => {
  allow(/500/);
  await page.route("**/assistants/*/graph*", (r) => r.fulfill({ status: 500, json: { detail: "no drawing" } }));
  await open(page, "slow");
  await page.getByText("Failed to load the graph").waitFor();
  await page.unroute("**/assistants/*/graph*");
  await page.getByRole("button", { name: "Try again" }).click();
  await node(page, "Node tick").waitFor();
});

await run();
