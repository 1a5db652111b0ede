// What opening a page costs, and that a run starts while other things load.
import { until } from "../../../browsertest/kit.mjs";
import { check, run, server, studio } from "../flow.mjs";
import { onEach } from "../networks.mjs";
import { api, prepare, settled } from "../scenes.mjs";

const scenes = await prepare(server);

// asked collects the requests of a page to the API.
function asked(page) {
  const requests = [];
  page.on("request", (r) => {
    const { pathname } = new URL(r.url());
    if (!pathname.startsWith("/studio")) requests.push(`${r.method()} ${pathname} ${r.postData() ?? ""}`);
  });
  return requests;
}

// The number of requests that a page may make until it is quiet, with the one for the badge of the inbox.
const most = 6;

// The time without a request after which a page is quiet, and the time until the badge is loaded unless a list has
// brought it, by the page's own clock. What is loaded regularly comes later.
const quiet = 1_000;
const late = 2_000;
const ofBadge = (request) => /"questions":true|"status":"interrupted"/.test(request);

// Threads without a name have the title that the server gives them.
const ran = async (assistant_id, input) => {
  const { thread_id } = await api(server, "POST", "/threads", {});
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id, input, raise_error: false });
  return thread_id;
};
const human = (content) => ({ messages: [{ type: "human", content }] });
await ran("hitl", { topic: "dogs" });
await ran("agent", human("Good evening"));
await ran("traced", human("What is the deepest lake?"));
const [failed, worked, nested, left, right] = await Promise.all([
  ran("failing", { message: "no paper" }),
  ran("scribe", human("Write notes")),
  ran("nest", { upto: 2 }),
  ran("agent", human("Hello")),
  ran("agent", human("Hello")),
]);
const again = (thread, assistant_id, input) =>
  api(server, "POST", `/threads/${thread}/runs/wait`, { assistant_id, input, raise_error: false });
await again(worked, "scribe", human("Write notes again"));
await again(nested, "nest", { upto: 4 });
await again(right, "failing", { message: "no paper" });
const [, older] = await api(server, "GET", `/threads/${nested}/runs`);
const { thread_id: empty } = await api(server, "POST", "/threads", {});
scenes.push(
  { name: "a new thread", address: studio({ assistant: "hitl" }) },
  { name: "a failed run", address: studio({ assistant: "failing", thread: failed }), shows: "boom: no paper" },
  { name: "a thread without runs", address: studio({ assistant: "hitl", thread: empty }) },
  { name: "an agent with several runs", address: studio({ view: "agent", assistant: "scribe", thread: worked }) },
  { name: "nested subgraphs", address: studio({ view: "trace", assistant: "nest", thread: nested }) },
  {
    name: "an older run of nested subgraphs",
    address: studio({ view: "trace", assistant: "nest", thread: nested, run: older.run_id }),
  },
  { name: "two runs, one of which failed", address: studio({ view: "compare", assistant: "agent", left, right }) },
);

// Titles do not change while the pages open.
await until(async () => (await api(server, "POST", "/search/threads", {})).pending === 0, "all threads to be indexed");

for (const { name, address, shows } of scenes) {
  check(`${name} opens with few requests`, async ({ page }) => {
    const requests = asked(page);
    const pending = new Set();
    page.on("request", (r) => pending.add(r));
    for (const end of ["requestfinished", "requestfailed"]) page.on(end, (r) => pending.delete(r));
    // The clock of the page runs only while no request is pending, so that a slow machine changes nothing.
    const now = Date.now();
    await page.clock.install({ time: now });
    await page.clock.pauseAt(now + 3_600_000); // it may have run for a while
    await page.goto(address);
    let ready = false;
    const shown = settled(page).then(() => shows && page.getByText(shows).first().waitFor());
    void shown.then(
      () => (ready = true),
      () => (ready = true),
    );
    for (let idle = 0, time = 0; !ready || idle < quiet || time < late || !requests.some(ofBadge); time += 50) {
      const before = requests.length;
      await until(() => pending.size === 0, "the responses");
      await page.clock.runFor(50);
      idle = requests.length === before && pending.size === 0 ? idle + 50 : 0;
    }
    await shown;
    if (requests.length > most)
      throw new Error(`${requests.length} requests, more than ${most}: ${requests.join("\n")}`);
  });
}

onEach("a run starts while nothing else gets a response", async ({ page, at, fails }) => {
  const requests = asked(page);
  await page.goto(at("assistant=router"));
  await page.getByLabel("target").fill("left");
  await page.getByRole("searchbox", { name: "Search threads" }).waitFor();
  await fails();
  const held = [];
  const isHeld = (url) => !/^\/studio|\/runs\/stream$/.test(url.pathname);
  await page.route(isHeld, (r) => void held.push(r));
  // What the page loads again by itself, and what a search adds, is held back.
  const box = page.getByRole("searchbox", { name: "Search threads" });
  for (const text of ["a", "ab", "abc"]) {
    await box.fill(text);
    await until(() => held.some((r) => r.request().postData()?.includes(`"${text}"`)), "a search to be held back");
  }
  requests.length = 0;
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  await until(() => requests.some((r) => r.includes("/runs/stream")), "the run to be sent");
  await page.getByRole("button", { name: /^Node left: done/ }).waitFor();
});

await run();
