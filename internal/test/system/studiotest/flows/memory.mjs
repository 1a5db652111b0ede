// What is remembered about users.
import { becomes, same, until } from "../../../browsertest/kit.mjs";
import { barriers, check, run, server, studio } from "../flow.mjs";

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

const put = (namespace, key, value, meta) => api("PUT", "/store/items", { namespace, key, value, meta });
const stored = (namespace, key) =>
  fetch(`${server}/store/items?namespace=${namespace.join(".")}&key=${key}`).then((a) => (a.ok ? a.json() : null));
const user = (page, name) => page.getByRole("navigation", { name: "Users" }).getByRole("button", { name, exact: true });
const card = (page, name) => page.getByRole("region", { name: "Memories", exact: true }).getByRole("article", { name });

check("an empty store explains how memories get there", async ({ page }) => {
  await page.route("**/store/namespaces", (route) => route.fulfill({ json: { namespaces: [] } }));
  await page.goto(studio("view=memory"));
  await page.getByRole("heading", { name: "No memories yet" }).waitFor();
  await page.getByText("memory.Middleware").waitFor();
});

check(
  "memories are grouped by user and kind, with their source",
  async ({ page }) => {
    const { thread_id: thread } = await api("POST", "/threads", {});
    const ada = "ada";
    await put(
      ["memories", ada],
      "tea",
      { kind: "Memory", content: { content: "Likes green tea" } },
      {
        provenance: { thread, model: "scripted", reason: "she said so", confidence: 0.8 },
        importance: 0.5,
        validity: { until: "2020-01-31T00:00:00Z" },
      },
    );
    await put(["memories", ada], "who", { kind: "Profile", content: { name: "Ada", languages: ["en", "pt"] } });
    await put(["memories", "grace"], "plain", { kind: "Memory", content: "Prefers short answers" });
    await put(["linus", "memories"], "desk", { text: "Uses a standing desk" });
    await page.goto(studio("view=memory"));
    await user(page, ada).click();
    await page.getByRole("region", { name: "Profile" }).getByText("en, pt").waitFor();
    const tea = card(page, "Likes green tea");
    for (const text of ["80 % sure", "importance 0.5", "ended Jan 31, 2020", "Changed because: she said so"])
      await tea.getByText(text).waitFor();
    same(await barriers(page), []);
    await tea.getByRole("link", { name: "thread " + thread.slice(0, 8) }).click();
    await becomes(() => new URL(page.url()).searchParams.get("thread"), thread);
    await page.goBack();
    await user(page, "grace").click();
    await card(page, "Prefers short answers").getByText("Source not recorded").waitFor();
    await user(page, "linus").click();
    await card(page, "Uses a standing desk").waitFor();
  },
  { deviates: "sources of memories" },
);

check(
  "memories are searched",
  async ({ page }) => {
    await put(["memories", "searcher"], "a", { kind: "Memory", content: { content: "Plays the violin on Sundays" } });
    await put(["memories", "searcher"], "b", { kind: "Memory", content: { content: "Owns a red bicycle" } });
    await page.goto(studio("view=memory"));
    await user(page, "searcher").click();
    await card(page, /violin/).waitFor();
    await page.getByRole("searchbox", { name: "Search memories" }).fill("bicycle");
    await card(page, /violin/).waitFor({ state: "detached" });
    await card(page, /bicycle/)
      .getByText(/score/)
      .waitFor();
    await page.getByRole("searchbox", { name: "Search memories" }).fill("submarine");
    await page.getByText("No results").waitFor();
  },
  { deviates: "search in the store" },
);

check(
  "a memory is corrected and keeps its source",
  async ({ page }) => {
    const ns = ["memories", "editor"];
    const meta = { provenance: { thread: "0197f8a0-0000-7000-8000-000000000000" } };
    await put(ns, "city", { kind: "Memory", content: { content: "Lives in Porto" } }, meta);
    await page.goto(studio("view=memory"));
    await user(page, "editor").click();
    await card(page, "Lives in Porto").getByRole("button", { name: "Edit" }).click();
    await page.getByRole("textbox", { name: "Memory" }).fill("Lives in Lisbon");
    await page.getByRole("button", { name: "Save" }).click();
    await card(page, "Lives in Lisbon").waitFor();
    await becomes(async () => {
      const { value, meta } = await stored(ns, "city");
      return [value, meta];
    }, [{ kind: "Memory", content: { content: "Lives in Lisbon" } }, meta]);
  },
  { deviates: "sources of memories" },
);

check("a memory is forgotten", async ({ page }) => {
  const ns = ["memories", "forgetful"];
  await put(ns, "one", { kind: "Memory", content: "Had a cat" });
  await put(ns, "two", { kind: "Memory", content: "Has a dog" });
  await page.goto(studio("view=memory"));
  await user(page, "forgetful").click();
  const forget = () => card(page, "Had a cat").getByRole("button", { name: "Forget" }).click();
  await forget();
  await page.getByRole("dialog").getByRole("button", { name: "Keep" }).click();
  await card(page, "Had a cat").waitFor();
  await forget();
  await page.getByRole("dialog").getByRole("button", { name: "Forget" }).click();
  await card(page, "Had a cat").waitFor({ state: "detached" });
  await card(page, "Has a dog").waitFor();
  await until(async () => (await stored(ns, "one")) === null, "the item to be gone");
});

check("facts that a graph put into the store are shown", async ({ page }) => {
  const { thread_id } = await api("POST", "/threads", {});
  await api("POST", `/threads/${thread_id}/runs/wait`, {
    assistant_id: "memory",
    input: { user: "from the graph", fact: "likes cats" },
  });
  await page.setViewportSize({ width: 360, height: 740 });
  await page.goto(studio("view=memory"));
  await user(page, "from the graph").click();
  await card(page, "likes cats").waitFor();
  same(await page.evaluate(() => document.documentElement.scrollWidth), 360);
  await page.getByRole("button", { name: "Users" }).click();
  await user(page, "from the graph").waitFor();
});

await run();
