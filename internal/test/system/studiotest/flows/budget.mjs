// What opening a page costs, and that a run starts while other things load.
import { check, run, until } from "../../../browsertest/kit.mjs";
import { api, prepare, settled } from "../scenes.mjs";

const server = process.argv[2];
const scenes = await prepare(server);

// asked collects the requests of a page to the API. A request that the page repeats regularly counts once.
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

// limits are the requests that a page may make until it is shown. An open thread adds the thread, its newest run, its
// checkpoints, and the name of the others.
const limits = { graph: 9, chat: 8, trace: 10 };

// Names do not change while the pages open.
await until(async () => (await api(server, "POST", "/search/threads", {})).pending === 0, "all threads to be indexed");

for (const { name, address } of scenes) {
  check(`${name} opens with few requests`, async ({ page }) => {
    const requests = asked(page);
    await page.goto(address);
    await settled(page);
    const counted = [...requests].filter((r) => name === "inbox" || !ofBadge(r));
    const limit = limits[name] ?? 6;
    if (counted.length > limit)
      throw new Error(`${counted.length} requests, more than ${limit}: ${counted.join("\n")}`);
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
