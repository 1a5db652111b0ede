// A click sends its request at once, whatever else is loading. Responses are held by a proxy, so that they occupy the
// connections of the browser.
import { check, patience, run, slowness, until, write } from "../../../browsertest/kit.mjs";
import { proxy } from "../../../browsertest/proxy.mjs";
import { lost } from "../networks.mjs";
import { newPace } from "../pace.mjs";
import { api } from "../scenes.mjs";

const server = process.argv[2];

// sent is the time from a click to the request that it sends, in milliseconds.
async function sent(page, net, button, pattern) {
  await page.evaluate(() =>
    addEventListener("click", () => (window.clicked = Date.now()), { capture: true, once: true }),
  );
  const before = net.arrivals.length;
  await button.click();
  const { at } = await until(() => net.arrivals.slice(before).find((a) => pattern.test(a.line)), `${pattern}`, 10_000);
  return at - (await page.evaluate(() => window.clicked));
}

// prompt fails if the best of several times is over 200 ms, on a machine of a certain speed without other work.
function prompt(times) {
  const limit = 200 * slowness() * patience();
  if (Math.min(...times) > limit) throw new Error(`sent after ${times} ms, more than ${limit}`);
}

const runSent = /^POST \S*\/runs\/stream/;

for (const latency of [0, 60])
  check(`a run is sent at once while six responses are held, with a latency of ${latency} ms`, async (kit) => {
    const { page, allow, later } = kit;
    allow(lost);
    const net = await proxy(server, later);
    net.slow(latency);
    const times = [];
    for (let i = 0; i < 3; i++) {
      const { thread_id: id } = await api(server, "POST", "/threads", {});
      await api(server, "POST", `/threads/${id}/runs/wait`, { assistant_id: "router", input: { target: "left" } });
      net.hold(/^(?!GET \/studio|POST \/assistants\/search|POST \S*\/runs\/stream)/);
      await page.goto(`${net.url}/studio/?assistant=router&thread=${id}`);
      await page.getByText(/still computing the schema/).waitFor();
      await write(page.getByRole("textbox", { name: "Input as JSON" }), '{"target": "right"}');
      await until(() => net.held().length >= 6, "six responses to be held");
      times.push(await sent(page, net, page.getByRole("button", { name: "Submit", exact: true }), runSent));
      net.release();
      await page.getByRole("button", { name: /^Node right: done/ }).waitFor();
      await page.goto("about:blank");
    }
    prompt(times);
  });

check(
  "a run is stopped at once while its stream is open and all other responses are held",
  async ({ page, allow, later }) => {
    allow(lost);
    const net = await proxy(server, later);
    const pace = newPace();
    await page.goto(`${net.url}/studio/?assistant=paced`);
    await page.getByLabel("pace").fill(pace.name);
    await page.getByRole("button", { name: "Submit", exact: true }).click();
    await page.getByRole("button", { name: /^Node tick: running/ }).waitFor();
    net.hold(/^(?!GET \/studio|POST \S*\/cancel)/);
    for (const view of ["Runs", "Store", "Memory", "Graph"]) {
      await page.getByRole("navigation", { name: "Views" }).getByRole("button", { name: view }).click();
      await page.getByRole("heading", { name: view, level: 1 }).waitFor({ state: "attached" });
    }
    await until(() => net.held().length >= 2, "responses to be held");
    prompt([await sent(page, net, page.getByRole("button", { name: "Stop", exact: true }), /\/cancel/)]);
    net.release();
    await page.getByRole("form", { name: "Run" }).getByText("Stopped", { exact: true }).waitFor();
  },
);

await run({ jobs: 1, only: process.argv[3] });
