// Large graphs and small screens.
import { becomes, same, until } from "../../../browsertest/kit.mjs";
import { proxy } from "../../../browsertest/proxy.mjs";
import { check, run, server, studio } from "../flow.mjs";
import { api } from "../scenes.mjs";

const open = (page, graph) => page.goto(studio(`assistant=${graph}`));
const node = (page, name) => page.getByRole("button", { name });

// tree replaces the graph by a tree of n nodes with three children each, whose last quarter leads to the end.
async function tree(page, n) {
  const nodes = ["__start__", ...Array.from({ length: n }, (_, i) => "n" + i), "__end__"].map((id) => ({ id }));
  const edges = [{ source: "__start__", target: "n0" }];
  for (let i = 1; i < n; i++)
    edges.push({ source: "n" + Math.floor((i - 1) / 3), target: "n" + i, conditional: i % 2 === 0 });
  for (let i = Math.floor(n * 0.75); i < n; i++) edges.push({ source: "n" + i, target: "__end__" });
  edges.push({ source: `n${n - 1}`, target: "n0", data: "again", conditional: true });
  await page.route("**/assistants/*/graph*", (r) => r.fulfill({ json: { nodes, edges } }));
}

const frameOf = (page) => page.getByRole("group", { name: /^Graph\./ }).boundingBox();
const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
const within = (box, frame) =>
  box.x >= frame.x &&
  box.x + box.width <= frame.x + frame.width &&
  box.y >= frame.y &&
  box.y + box.height <= frame.y + frame.height;
// names returns the nodes' boxes, the heights of their letters on the screen, and whether their names are complete.
const names = (page) =>
  page.locator(".graph-node .graph-name").evaluateAll((all) =>
    all.map((name) => {
      const node = name.closest(".graph-node");
      const zoom = node.getBoundingClientRect().width / node.offsetWidth;
      return {
        box: node.getBoundingClientRect().toJSON(),
        letters: parseFloat(getComputedStyle(name).fontSize) * zoom,
        whole: name.scrollWidth <= name.clientWidth + 1 && name.scrollHeight <= name.clientHeight + 2,
      };
    }),
  );

for (const latency of [0, 60])
  check(`a tree of 300 nodes fits, with names and a map, at a latency of ${latency} ms`, async ({ page, later }) => {
    const net = await proxy(server, later);
    net.slow(latency);
    await page.setViewportSize({ width: 1440, height: 900 });
    await tree(page, 300);
    await page.goto(studio("assistant=slow", net.url));
    const frame = await frameOf(page);
    await until(async () => {
      const all = await names(page);
      return all.length === 300 && all.every((n) => within(n.box, frame));
    }, "all nodes to be in view");
    const all = await names(page);
    const small = all.filter((n) => n.letters < 6 || !n.whole);
    same(small.length, 0, `names that cannot be read, such as ${JSON.stringify(small[0])}`);
    for (const [i, a] of all.entries()) for (const b of all.slice(i + 1)) same(meet(a.box, b.box), false, "nodes meet");
    const map = page.getByRole("img", { name: "Graph overview" });
    same(meet(await map.boundingBox(), frame), false, "the map covers the graph");
    const [drawn, whole] = [await map.locator("path").boundingBox(), await map.boundingBox()];
    same(drawn.width > whole.width * 0.7 && drawn.height > whole.height * 0.4, true, "the map is empty");
  });

check("a graph of 1,000 nodes begins where names can be read, and is drawn in shapes from afar", async ({ page }) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await tree(page, 1000);
  await open(page, "slow");
  await node(page, "Node n0").waitFor();
  const frame = await frameOf(page);
  await until(async () => within(await node(page, "Node n0").boundingBox(), frame), "the first node to be in view");
  const shown = (await names(page)).filter((n) => meet(n.box, frame));
  same(shown.length > 5 && shown.every((n) => n.letters >= 7), true, "names cannot be read");
  const all = page.getByRole("button", { name: "Show all", exact: true });
  const zoomIn = page.getByRole("button", { name: "Zoom in" });
  // A movement that another one interrupts leaves no shapes.
  await all.evaluate((button, other) => (button.click(), other.click()), await zoomIn.elementHandle());
  await page.locator(".graph-node").first().waitFor();
  await all.click();
  const shapes = page.locator(".graph-overview-nodes");
  await until(async () => within(await shapes.boundingBox(), frame), "all shapes to be in view");
  same(await page.locator(".graph-node").count(), 0);
  // Pressing on the map moves there, and zooming in shows nodes again.
  const before = await shapes.boundingBox();
  const last = await page.locator(".graph-map-nodes").evaluate((path) => {
    const end = path.getPointAtLength(path.getTotalLength()).matrixTransform(path.getScreenCTM());
    return { x: end.x, y: end.y };
  });
  await page.mouse.click(last.x, last.y);
  await until(async () => (await shapes.boundingBox())?.x !== before.x, "the graph to move");
  await until(async () => {
    await zoomIn.click();
    return (await shapes.count()) === 0; // at the middle of the view, there may be no node
  }, "nodes to be drawn again");
});

check("a large graph follows the focus", async ({ page }) => {
  await tree(page, 200);
  await open(page, "slow");
  await becomes(() => node(page, /^Node n\d+$/).count(), 200);
  const frame = await frameOf(page);
  await page.getByRole("group", { name: /^Graph\./ }).focus();
  await until(async () => {
    await page.keyboard.press("+");
    return !within(await node(page, "Node n199").boundingBox(), frame);
  }, "a node to leave the view");
  await node(page, "Node n197").focus();
  await page.keyboard.press("Tab");
  await until(async () => within(await page.locator(":focus").boundingBox(), frame), "the focused node to be in view");
});

const ran = async (assistant, input) => {
  const { thread_id } = await api(server, "POST", "/threads", {});
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id: assistant, input });
  return thread_id;
};

for (const latency of [0, 60])
  check(
    `small screens show the graph, the timeline, and its question, at a latency of ${latency} ms`,
    async ({ page, later }) => {
      const net = await proxy(server, later);
      net.slow(latency);
      const asks = await ran("hitl", { topic: "cats" });
      const done = await ran("router", { target: "left" });
      for (const [width, height] of [
        [1100, 800],
        [900, 700],
        [700, 900],
        [360, 740],
      ]) {
        await page.setViewportSize({ width, height });
        const screen = { x: 0, y: 0, width, height };
        const steps = page.getByRole("region", { name: "Steps" });
        for (const [assistant, thread] of [
          ["router", done],
          ["hitl", asks],
        ]) {
          await page.goto(studio(`assistant=${assistant}&thread=${thread}`, net.url));
          await node(page, /^Node /)
            .first()
            .waitFor();
          await steps.getByRole("listitem").first().waitFor();
          for (const part of [await frameOf(page), await steps.boundingBox()]) {
            same(within(part, screen), true, `a part at ${width} pixels`);
            same(part.height >= 90 && part.width >= 200, true, `a part of ${part.width} by ${part.height} pixels`);
          }
        }
        const answer = page.getByRole("article", { name: "Question of review" }).getByRole("button").last();
        await until(async () => within(await answer.boundingBox(), await steps.boundingBox()), "the question in view");
      }
    },
  );

check("a question that a run on a phone asks is shown", async ({ page }) => {
  await page.setViewportSize({ width: 360, height: 740 });
  await open(page, "hitl");
  await page.getByRole("tab", { name: "Run" }).click();
  await page.getByRole("button", { name: "Submit" }).click();
  const answer = page.getByRole("article", { name: "Question of review" }).getByRole("button").last();
  await answer.waitFor();
  await becomes(() => page.getByRole("tab", { name: "Graph", exact: true }).getAttribute("aria-selected"), "true");
  const steps = page.getByRole("region", { name: "Steps" });
  await until(async () => within(await answer.boundingBox(), await steps.boundingBox()), "the question in view");
});

await run({ origin: undefined });
