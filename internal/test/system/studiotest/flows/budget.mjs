// What opening a page costs, and that a run starts while other things load.
import { check, run, until } from "../../../browsertest/kit.mjs";
import { api, prepare, settled } from "../scenes.mjs";

const server = process.argv[2];
const scenes = await prepare(server);

// asked collects the requests of a page to the API. A request that the page repeats counts once.
function asked(page) {
  const requests = new Set();
  page.on("request", (r) => {
    const { pathname } = new URL(r.url());
    if (!pathname.startsWith("/studio")) requests.add(`${r.method()} ${pathname} ${r.postData() ?? ""}`);
  });
  return requests;
}

// The badge of the inbox is loaded when the view has been shown for a while.
const ofBadge = (request) => request.includes('"status":"interrupted"');

// mostFor returns how many requests a page may make until it is shown. Side by side shows two threads.
const mostFor = (name) => (name === "compare" ? 8 : 6);

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
const [failed, worked, left, right] = await Promise.all([
  ran("failing", { message: "no paper" }),
  ran("scribe", human("Write notes")),
  ran("agent", human("Hello")),
  ran("agent", human("Hello")),
]);
const studio = (query) => `${server}/studio/?${new URLSearchParams(query)}`;
scenes.push(
  { name: "a new thread", address: studio({ assistant: "hitl" }) },
  { name: "a failed run", address: studio({ assistant: "failing", thread: failed }), shows: "boom: no paper" },
  { name: "agent", address: studio({ view: "agent", assistant: "scribe", thread: worked }) },
  { name: "compare", address: studio({ view: "compare", assistant: "agent", left, right }) },
);

// Titles do not change while the pages open.
await until(async () => (await api(server, "POST", "/search/threads", {})).pending === 0, "all threads to be indexed");

for (const { name, address, shows } of scenes) {
  check(`${name} opens with few requests`, async ({ page }) => {
    const requests = asked(page);
    await page.goto(address);
    await settled(page);
    if (shows) await page.getByText(shows).first().waitFor();
    const counted = [...requests].filter((r) => name === "inbox" || !ofBadge(r));
    const most = mostFor(name);
    if (counted.length > most) throw new Error(`${counted.length} requests, more than ${most}: ${counted.join("\n")}`);
  });
}

check("a run starts while nothing else gets a response", async ({ page }) => {
  const requests = asked(page);
  await page.goto(`${server}/studio/?assistant=router`);
  await page.getByLabel("target").fill("left");
  await page.getByRole("searchbox", { name: "Search threads" }).waitFor();
  const held = [];
  await page.route(
    (url) => !/^\/studio|^\/threads$|\/runs\/stream$/.test(url.pathname),
    (r) => void held.push(r),
  );
  // What the page loads again by itself, and what a search adds, is held back.
  const box = page.getByRole("searchbox", { name: "Search threads" });
  for (const text of ["a", "ab", "abc"]) {
    await box.fill(text);
    await until(() => held.some((r) => r.request().postData()?.includes(`"${text}"`)), "a search to be held back");
  }
  requests.clear();
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  await until(() => [...requests].some((r) => r.includes("/runs/stream")), "the run to be sent");
  await page.getByRole("button", { name: /^Node left: done/ }).waitFor();
});

await run({ only: process.argv[3], origin: server });
