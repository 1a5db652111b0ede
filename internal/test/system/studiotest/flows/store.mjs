// The items of the store.
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

const put = (namespace, key, value) => api("PUT", "/store/items", { namespace, key, value });
const stored = (namespace, key) =>
  fetch(`${server}/store/items?namespace=${namespace.join(".")}&key=${key}`).then((a) => (a.ok ? a.json() : null));
const tree = (page) => page.getByRole("navigation", { name: "Namespaces of the store" });
const items = (page) => page.getByRole("list", { name: "Items" });
const detail = (page) => page.getByRole("region", { name: "Item", exact: true });
const node = (page, name) => tree(page).getByRole("button", { name, exact: true });

/** write replaces the text of a JSON editor. */
async function write(page, editor, text) {
  await editor.click();
  await page.keyboard.press("ControlOrMeta+A");
  await page.keyboard.insertText(text);
}

check("namespaces open level by level, and their items are listed", async ({ page }) => {
  await put(["shop", "books", "novels"], "emma", { title: "Emma" });
  await put(["shop", "books", "poems"], "sonnets", { title: "Sonnets" });
  await put(["shop", "music"], "suite", { title: "Suite" });
  await page.goto(studio("view=store"));
  await node(page, "shop").click();
  await until(async () => (await items(page).getByRole("listitem").count()) === 3, "the items of shop");
  same(await node(page, "novels").count(), 0);
  await tree(page).getByRole("button", { name: "Open shop / books" }).click();
  await node(page, "novels").click();
  await until(async () => (await items(page).getByRole("listitem").count()) === 1, "the items of novels");
  await items(page).getByRole("button", { name: /emma/ }).click();
  await detail(page).getByRole("heading", { name: "emma" }).waitFor();
  await detail(page).getByText('"Emma"').first().waitFor();
});

check(
  "items are searched by meaning, with their scores explained, and filtered",
  async ({ page }) => {
    await put(["zoo"], "lion", { text: "a lion sleeps in the sun", size: "large" });
    await put(["zoo"], "ant", { text: "an ant works in the sun", size: "small" });
    await put(["zoo"], "owl", { text: "the owl wakes at night", size: "small" });
    await page.goto(studio("view=store"));
    await node(page, "zoo").click();
    await items(page).getByRole("button", { name: /owl/ }).waitFor();
    // No item has one of these words.
    await page.getByRole("searchbox", { name: "Search items" }).fill("warm feline");
    await until(
      async () => /lion[\s\S]*score\s+1\.00/.test(await items(page).getByRole("listitem").first().innerText()),
      "the lion as the best match",
    );
    await page.getByText(/^Score: semantic similarity/).waitFor();
    await items(page).getByRole("button", { name: /ant/ }).click();
    await detail(page).getByRole("heading", { name: "ant", exact: true }).waitFor();
    await detail(page)
      .getByRole("region", { name: "Score" })
      .getByText("By meaning: number 2. The similarity of text to the query is 0.71.")
      .waitFor();
    same(await barriers(page), []);
    await page.getByRole("searchbox", { name: "Search items" }).fill("");

    const filter = page.getByRole("textbox", { name: "Filter, as JSON" });
    await filter.fill('{"size": ');
    await page.getByText(/Invalid JSON/).waitFor();
    await filter.fill('{"size": "small"}');
    await items(page).getByRole("button", { name: /lion/ }).waitFor({ state: "detached" });
    await items(page).getByRole("button", { name: /ant/ }).waitFor();
    await filter.fill('{"size": "none"}');
    await page.getByText("No results").waitFor();
  },
  { deviates: "history and scores of items" },
);

check("an item is created, edited and deleted", async ({ page }) => {
  await page.goto(studio("view=store"));
  await page.getByRole("button", { name: "Create" }).click();
  const dialog = page.getByRole("dialog", { name: "Create item" });
  await dialog.getByRole("textbox", { name: "Namespace" }).fill("made.here");
  await dialog.getByRole("textbox", { name: "Key" }).fill("first");
  await write(page, dialog.getByRole("textbox", { name: "Value" }), '{"n": 1}');
  await dialog.getByRole("button", { name: "Create" }).click();
  await detail(page).getByRole("heading", { name: "first" }).waitFor();
  await becomes(async () => (await stored(["made", "here"], "first")).value, { n: 1 });
  await node(page, "made").waitFor();

  await detail(page).getByRole("button", { name: "Edit" }).click();
  const editor = detail(page).getByRole("textbox", { name: "Value" });
  await write(page, editor, "[1]");
  await detail(page)
    .getByText(/An object is needed/)
    .waitFor();
  await becomes(() => detail(page).getByRole("button", { name: "Save" }).isDisabled(), true);
  await write(page, editor, '{"n": 2}');
  await detail(page).getByRole("button", { name: "Save" }).click();
  await detail(page).getByRole("button", { name: "Save" }).waitFor({ state: "detached" });
  await becomes(async () => (await stored(["made", "here"], "first")).value, { n: 2 });

  await detail(page).getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Keep" }).click();
  same((await stored(["made", "here"], "first")).value, { n: 2 });
  await detail(page).getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete item" }).click();
  await detail(page).getByText("No item selected").waitFor();
  await until(async () => (await stored(["made", "here"], "first")) === null, "the item to be gone");
});

check(
  "an older version of an item is restored",
  async ({ page }) => {
    await put(["kept"], "note", { n: 1 });
    await put(["kept"], "note", { n: 2 });
    await page.goto(studio("view=store&item=kept/note"));
    const history = detail(page).getByRole("region", { name: "History" });
    await becomes(() => history.locator("li strong").allInnerTexts(), ["Changed", "Created"]);
    await history.getByRole("button", { name: "Restore" }).click();
    await becomes(async () => (await stored(["kept"], "note")).value, { n: 1 });
    await becomes(() => history.locator("li strong").allInnerTexts(), ["Changed", "Changed", "Created"]);
    same(await barriers(page), []);
  },
  { deviates: "history and scores of items" },
);

check("many items are read page by page", async ({ page }) => {
  await Promise.all(Array.from({ length: 120 }, (_, i) => put(["many"], "item-" + i, { i })));
  await page.goto(studio("view=store"));
  await node(page, "many").click();
  await items(page).getByRole("listitem").first().waitFor();
  await until(async () => {
    await items(page).evaluate((ul) => ul.parentElement.scrollTo(0, ul.scrollHeight));
    return (await items(page).getByRole("listitem").last().getAttribute("aria-posinset")) === "120";
  }, "the last item");
});

check("the store works on a narrow screen", async ({ page }) => {
  await page.setViewportSize({ width: 360, height: 740 });
  await put(["pocket"], "note", { text: "small" });
  await page.goto(studio("view=store"));
  await node(page, "pocket").click();
  await items(page).getByRole("button", { name: /note/ }).click();
  await detail(page).getByRole("heading", { name: "note" }).waitFor();
  await detail(page).getByRole("button", { name: "Items" }).click();
  await items(page).getByRole("button", { name: /note/ }).waitFor();
  await page.getByRole("button", { name: "Namespaces" }).click();
  await node(page, "pocket").waitFor();
  same(await page.evaluate(() => document.documentElement.scrollWidth), 360);
});

await run();
