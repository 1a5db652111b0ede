// The list of threads, and what the page shows while its server is away.
import { becomes, same, until } from "../../../browsertest/kit.mjs";
import { barriers, check, elsewhere, run, server, studio } from "../flow.mjs";
import { onEach } from "../networks.mjs";
import { unextended } from "../scenes.mjs";

async function api(method, path, body) {
  const answer = await fetch(server + path, {
    method,
    headers: { "content-type": "application/json" },
    body: body && JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

/** thread makes a thread and runs a graph in it. */
async function thread(graph, input, metadata = {}) {
  const { thread_id: id } = await api("POST", "/threads", { metadata });
  await api("POST", `/threads/${id}/runs/wait`, { assistant_id: graph, input });
  return id;
}

const say = (text) => ({ messages: [{ role: "human", content: text }] });
const list = (page) => page.getByRole("complementary", { name: "Threads" });
const row = (page, name) => list(page).getByRole("link", { name });
const chosen = (page) => new URL(page.url()).searchParams.get("thread");

async function menu(page, name, item) {
  await row(page, name).hover();
  await list(page)
    .getByRole("button", { name: `Menu of thread ${name}` })
    .click();
  await page.getByRole("menuitem", { name: item }).click();
}

check("threads of the assistant are listed by their first message, and one opens", async ({ page }) => {
  const id = await thread("agent", say("listed first"));
  const other = await thread("failing", { message: "listed elsewhere" });
  await page.goto(studio("assistant=agent"));
  await row(page, /listed first/).click();
  await becomes(() => chosen(page), id);
  await becomes(() => row(page, /listed first/).getAttribute("aria-current"), "true");
  same(await row(page, /listed elsewhere/).count(), 0);
  await list(page).getByRole("combobox", { name: "Graph" }).selectOption("All graphs");
  await row(page, /listed elsewhere.*Failed/).click();
  await becomes(() => chosen(page), other);
  await list(page).getByRole("button", { name: "New thread" }).click();
  await becomes(() => chosen(page), null);
});

check("a thread is renamed, copied and deleted", async ({ page }) => {
  const id = await thread("agent", say("before renaming"));
  await page.goto(studio("assistant=agent&thread=" + id));
  await menu(page, "before renaming", "Rename…");
  await page.getByRole("textbox", { name: "Name" }).fill("Trip to Rome");
  await page.getByRole("button", { name: "Rename" }).click();
  await row(page, /Trip to Rome/).waitFor();
  await becomes(async () => (await api("GET", "/threads/" + id)).metadata.thread_name, "Trip to Rome");

  await menu(page, "Trip to Rome", "Copy thread");
  const copy = await until(() => chosen(page) !== id && chosen(page), "the copy to open");
  same((await api("GET", `/threads/${copy}/state`)).values.messages.length, 2);
  await until(async () => (await row(page, /Trip to Rome/).count()) === 2, "both threads");

  const current = page.locator(".threads-link[aria-current=true]");
  await current.hover();
  await list(page).locator("li", { has: current }).getByRole("button").click();
  await page.getByRole("menuitem", { name: "Delete…" }).click();
  await page.getByRole("button", { name: "Delete thread" }).click();
  await until(async () => (await row(page, /Trip to Rome/).count()) === 1, "one thread");
  await becomes(() => chosen(page), null);
  await becomes(async () => (await fetch(`${server}/threads/${copy}`)).status, 404);
  same((await fetch(`${server}/threads/${id}`)).status, 200);
});

check("links and ids are copied", async ({ page }) => {
  const id = await thread("agent", say("linked to"));
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
  await page.goto(studio("assistant=agent"));
  await menu(page, "linked to", "Copy ID");
  await page.getByText("ID copied").waitFor();
  same(await clipboard(), id);
  await menu(page, "linked to", "Copy link");
  await page.getByText("Link copied").waitFor();
  await page.goto(await clipboard());
  await list(page).locator("[aria-current=true]", { hasText: "linked to" }).waitFor();
});

check(
  "threads are searched by metadata, text, id and status",
  async ({ page }) => {
    const mark = "m" + Date.now();
    const a = await thread("agent", say("the one of team red"), { team: mark, level: 3 });
    await thread("agent", say("the one of team blue"), { team: mark + "b", level: 3 });
    const waiting = await thread("hitl", { topic: "to be reviewed" }, { team: mark });
    await page.goto(studio("assistant=agent"));
    const box = list(page).getByRole("searchbox", { name: "Search threads" });
    await row(page, /team blue/).waitFor();

    await box.fill(`team:${mark} level:3`);
    await row(page, /team blue/).waitFor({ state: "detached" });
    await row(page, /team red/).waitFor();
    await box.fill("team blue");
    await row(page, /team red/).waitFor({ state: "detached" });
    await row(page, /team blue/).waitFor();
    await box.fill("nothing is called this");
    await list(page).getByText("No matching threads").waitFor();
    await box.fill(a);
    await box.press("Enter");
    await until(() => chosen(page) === a, "the thread of the id");

    await box.fill("");
    await list(page).getByRole("combobox", { name: "Graph" }).selectOption("All graphs");
    await list(page).getByRole("combobox", { name: "Status" }).selectOption("Needs answer or stopped");
    await row(page, /team/).first().waitFor({ state: "detached" });
    await row(page, /Needs answer/)
      .first()
      .waitFor();
    await box.fill(`team:${mark}`);
    await row(page, /to be reviewed/).click();
    await becomes(() => chosen(page), waiting);
  },
  { deviates: "search for threads" },
);

onEach(
  "threads are found by their titles and by what they contain",
  async ({ page, at, fails }) => {
    const mark = "q" + Date.now();
    const untitled = await thread("talker", say(`zebra ${mark}`));
    await api("POST", `/threads/${untitled}/runs/wait`, { assistant_id: "talker", input: say(`pangolin ${mark}`) });
    await page.goto(at("assistant=talker"));
    const box = list(page).getByRole("searchbox", { name: "Search threads" });
    await box.fill(`zebra ${mark}`); // without a search, threads of other checks may hide it
    await row(page, `zebra ${mark}`).waitFor();
    await fails(() => box.fill(`pangolin ${mark}`));
    await row(page, new RegExp(`zebra ${mark}.*in the text`)).waitFor();
    await box.fill(`zebra ${mark}`);
    await row(page, `zebra ${mark}`).waitFor();
  },
  { deviates: "search for threads" },
);

check(
  "threads that are found are listed page by page",
  async ({ page }) => {
    // So many threads would hide those of the other checks, which are of other graphs.
    const mark = "q" + Date.now();
    const titled = Array.from({ length: 130 }, (_, i) =>
      api("POST", "/threads", { metadata: { graph_id: "talker", thread_name: `${mark} number ${i}` } }),
    );
    await Promise.all(titled);
    await page.goto(studio("assistant=talker"));
    const box = list(page).getByRole("searchbox", { name: "Search threads" });
    await row(page, `${mark} number 129`)
      .or(row(page, /number/))
      .first()
      .waitFor();
    await box.fill(`number ${mark}`);
    await row(page, /number/)
      .first()
      .focus();
    await until(async () => {
      await page.keyboard.press("End");
      return page.evaluate(() => document.activeElement?.closest("li")?.dataset.index === "129");
    }, "the last row");
  },
  { deviates: "search for threads" },
);

check("names are loaded in one request, and a failure to load them is shown", async ({ page, allow }) => {
  allow(/500/);
  const mark = "n" + Date.now();
  for (let i = 0; i < 8; i++) await thread("router", { target: `${mark} ${i}` });
  await unextended(page);
  const requests = [];
  page.on("request", (r) => requests.push(`${r.method()} ${new URL(r.url()).pathname}`));
  let failing = true;
  await page.route("**/threads/search", (r) =>
    failing && r.request().postDataJSON().ids
      ? r.fulfill({ status: 500, json: { detail: "the index is broken" } })
      : r.continue(),
  );
  await page.goto(elsewhere("assistant=router"));
  await row(page, /Failed to load the name: the index is broken/)
    .first()
    .waitFor();
  failing = false;
  requests.length = 0;
  await page.reload();
  await row(page, `${mark} 0`).waitFor();
  await row(page, `${mark} 7`).waitFor();
  same(requests.filter((r) => /^GET .threads.[^/]*$/.test(r)).length, 0, "requests for single threads");
});

check(
  "titles of threads come with the list",
  async ({ page }) => {
    const mark = "n" + Date.now();
    const last = await thread("router", { target: mark });
    const named = [];
    page.on("request", (r) => /search/.test(r.url()) && r.postDataJSON()?.ids && named.push(r.postData()));
    await page.goto(studio("assistant=router"));
    await row(page, mark).click();
    await becomes(() => chosen(page), last);
    same(named, []);
  },
  { deviates: "titles of threads" },
);

check("on a server that cannot search, the list says what it covers", async ({ page }) => {
  const mark = "f" + Date.now();
  const id = await thread("agent", say("without a name " + mark), { color: mark });
  await unextended(page);
  const searches = [];
  page.on("request", (r) => r.url().includes("/search/") && searches.push(r.url()));
  await page.goto(elsewhere("assistant=agent"));
  await row(page, "without a name " + mark).waitFor();
  await list(page).getByRole("searchbox", { name: "Search threads" }).fill(mark);
  await list(page)
    .getByText(/cannot search for text.*the \d+ threads that changed last/)
    .waitFor();
  await row(page, mark).click();
  await becomes(() => chosen(page), id);
  same(searches, []);
});

onEach("rows keep their place only while the pointer moves over them", async ({ page, at, fails }) => {
  const mark = "steady" + Date.now();
  const made = [];
  for (let i = 0; i < 3; i++)
    made.push(await api("POST", "/threads", { metadata: { graph_id: "fanout", thread_name: `${mark} ${i}` } }));
  const names = async () =>
    (await page.locator(".threads-row .cut:first-child").allInnerTexts()).filter((name) => name.startsWith(mark));
  const touch = (i) => api("PATCH", `/threads/${made[i].thread_id}`, { metadata: { touched: String(Math.random()) } });
  await page.clock.install();
  // The page's first second lasts until it may end.
  await page.addInitScript(() => {
    const now = performance.now.bind(performance);
    performance.now = () => (window.isLater_ ? now() : 500);
  });
  const all = [`${mark} 2`, `${mark} 1`, `${mark} 0`];
  await page.goto(at("assistant=fanout"));
  await becomes(names, all);
  // In the first second, nothing has moved: a filter shows what matches, and what matches again without it.
  const box = list(page).getByRole("searchbox", { name: "Search threads" });
  await box.fill(`thread_name:"${mark} 1"`);
  await becomes(names, [`${mark} 1`]);
  await box.fill("");
  await becomes(names, all);
  await page.evaluate(() => (window.isLater_ = true));
  await fails(() => touch(0));
  await page.clock.fastForward(5_000);
  await becomes(async () => (await names())[0], `${mark} 0`);
});

check("the status of a thread changes in the list by itself", async ({ page }) => {
  const { thread_id: id } = await api("POST", "/threads", { metadata: { thread_name: "ticking" } });
  const { run_id } = await api("POST", `/threads/${id}/runs`, { assistant_id: "paced", input: { pace: "never" } });
  await page.goto(studio("assistant=paced"));
  await row(page, /ticking.*Running/).waitFor();
  await api("POST", `/threads/${id}/runs/${run_id}/cancel?wait=true`);
  await row(page, /ticking.*Running/).waitFor({ state: "detached" });
  await row(page, /ticking/).waitFor();
});

check("arrow keys move through a long list, which is read page by page", async ({ page }) => {
  const graph = "custom";
  await Promise.all(
    Array.from({ length: 150 }, (_, i) =>
      api("POST", "/threads", { metadata: { graph_id: graph, thread_name: `many ${i}` } }),
    ),
  );
  await page.goto(studio("assistant=" + graph));
  await row(page, /many/).first().focus();
  await page.keyboard.press("ArrowDown");
  await until(
    () => page.evaluate(() => document.activeElement?.closest("li")?.dataset.index === "1"),
    "the second row",
  );
  // Each End leads to the last row that is loaded, until the oldest one is there.
  await until(async () => {
    await page.keyboard.press("End");
    return page.evaluate(() => Number(document.activeElement?.closest("li")?.dataset.index) >= 149);
  }, "the last row");
  const there = await list(page).getByRole("link").count();
  if (there > 60) throw new Error(`${there} rows are in the page`);
  await page.keyboard.press("Enter");
  await until(() => chosen(page), "a thread to be opened");
});

check("on a narrow screen the list covers the view until a thread is chosen", async ({ page }) => {
  const id = await thread("agent", say("chosen on a phone"));
  await page.setViewportSize({ width: 360, height: 740 });
  await page.goto(studio("assistant=agent"));
  const button = page.getByRole("button", { name: "Threads" });
  await button.click();
  await row(page, /chosen on a phone/).click();
  await row(page, /chosen on a phone/).waitFor({ state: "hidden" });
  await becomes(() => chosen(page), id);
  await button.click();
  await list(page).getByRole("button", { name: "New thread" }).click();
  await list(page).waitFor({ state: "hidden" });
  same(await page.evaluate(() => document.documentElement.scrollWidth), 360);
});

check("a server that goes away is told, and its return is seen", async ({ page, allow }) => {
  allow(/ERR_INTERNET_DISCONNECTED|ERR_FAILED|Failed to fetch/);
  await thread("agent", say("still there"));
  await page.goto(studio("assistant=agent"));
  await row(page, /still there/)
    .first()
    .waitFor();
  same(await barriers(page), []);
  await page.context().setOffline(true);
  await page.getByText(/does not answer/).waitFor();
  await page.getByRole("button", { name: /Not responding/ }).waitFor();
  same(await barriers(page), []);
  // What was loaded stays.
  await row(page, /still there/)
    .first()
    .waitFor();
  await thread("agent", say("new since then"));
  await page.context().setOffline(false);
  await page.getByRole("button", { name: /Connected/ }).waitFor();
  await page.getByText(/does not answer/).waitFor({ state: "detached" });
  await row(page, "new since then").waitFor();
});

check("a page that opens while the server is away waits for it", async ({ page, allow }) => {
  allow(/ERR_FAILED|Failed to fetch/);
  const api = (url) => url.href.startsWith(server) && !url.pathname.startsWith("/studio");
  await page.route(api, (route) => route.abort());
  await page.goto(studio());
  await page.getByRole("heading", { name: "The server is not responding" }).waitFor();
  await page.unroute(api);
  await page.getByRole("button", { name: /Connected/ }).waitFor();
  await page.getByRole("heading", { name: "The server is not responding" }).waitFor({ state: "detached" });
});

await run();
