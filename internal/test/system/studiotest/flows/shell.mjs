// The page around the views.
import { becomes, same } from "../../../browsertest/kit.mjs";
import { barriers, check, host, run, server, studio } from "../flow.mjs";
import { api } from "../scenes.mjs";

check("the studio opens and names its server", async ({ page }) => {
  await page.goto(studio());
  await page.getByRole("button", { name: /Connected/ }).waitFor();
  same(await page.title(), "Treadle Studio");
});

check("views and assistants have addresses", async ({ page }) => {
  await page.goto(studio());
  await page.getByRole("button", { name: "Store" }).click();
  await becomes(() => new URL(page.url()).searchParams.get("view"), "store");
  await page.goBack();
  await becomes(() => new URL(page.url()).searchParams.get("view"), null);
});

check("colours can be chosen and are kept", async ({ page }) => {
  await page.goto(studio());
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  await page.getByRole("button", { name: /colors/i }).click();
  await becomes(theme, "light");
  await page.getByRole("button", { name: /Light colors/ }).click();
  await becomes(theme, "dark");
  await page.reload();
  await becomes(theme, "dark");
});

const view = (page, name) =>
  page.getByRole("navigation", { name: "Views" }).getByRole("button", { name, exact: true }).click();
const heading = (page, name) => page.getByRole("heading", { name, exact: true }).waitFor();
const searches = ["**/search/threads", "**/search/runs"];
const lists = [
  ...searches,
  "**/threads/search",
  "**/store/namespaces",
  "**/store/items/search",
  "**/runs/crons/search",
];

const empty = (path) =>
  /store/.test(path) ? { namespaces: [], items: [] } : searches.includes(path) ? { threads: [], runs: [] } : [];

check(
  "views that cannot be read say why and try again, and those without content say what would be there",
  async ({ page, allow }) => {
    allow(/500/);
    let failing = true;
    for (const path of lists)
      await page.route(path, (r) =>
        r.fulfill(failing ? { status: 500, json: { detail: "the disk is full" } } : { json: empty(path) }),
      );
    await page.goto(studio("assistant=agent&view=store"));
    for (const [name, failed] of [
      ["Store", "Failed to load items"],
      ["Memory", "Failed to load the store"],
      ["Runs", "Failed to load runs"],
    ]) {
      await view(page, name);
      const alert = page.getByRole("alert").filter({ has: page.getByRole("heading", { name: failed }) });
      await alert.getByText("the disk is full").waitFor();
      await alert.getByRole("button", { name: "Try again" }).waitFor();
    }
    failing = false;
    await page.getByRole("button", { name: "Try again" }).click();
    await heading(page, "No runs yet");
    await page.getByRole("tab", { name: "Crons" }).click();
    await heading(page, "No crons yet");
    for (const [name, ...empty] of [
      ["Graph", "No threads yet", "No steps yet"],
      ["Chat", "New conversation"],
      ["Trace", "No runs to trace"],
      ["Store", "The store is empty"],
      ["Memory", "No memories yet"],
    ]) {
      await view(page, name);
      for (const text of empty) await heading(page, text);
    }
  },
);

check("a server that wants a key gets it", async ({ page, allow }) => {
  allow(/401/);
  await page.route(
    (url) => !url.pathname.startsWith("/studio"),
    (r) =>
      r.request().headers()["x-api-key"] === "secret"
        ? r.continue()
        : r.fulfill({ status: 401, json: { detail: "who are you?" } }),
  );
  await page.goto(studio("assistant=router"));
  await heading(page, "This server requires a key");
  await page.getByLabel("API key").fill("secret");
  await page.getByRole("button", { name: "Connect" }).click();
  await page.getByRole("button", { name: "Node route", exact: true }).waitFor();
});

check("another server is opened by its address", async ({ page, allow }) => {
  const other = "http://other.example";
  allow(/another origin: http:\/\/other\.example\//);
  await page.route(other + "/**", async (r) => {
    const cors = { "access-control-allow-origin": "*", "access-control-allow-headers": "*" };
    const answer = await r.fetch({ url: r.request().url().replace(other, server) });
    await r.fulfill({ response: answer, headers: { ...answer.headers(), ...cors } });
  });
  await page.goto(`${host}/studio/?assistant=router&baseUrl=${encodeURIComponent(other)}`);
  await page.getByRole("button", { name: "Connected other.example" }).waitFor();
  await page.getByLabel("target").fill("left");
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  await page.getByRole("button", { name: /^Node left: done/ }).waitFor();
});

check(
  "Ctrl+K opens commands, which also find threads",
  async ({ page }) => {
    const mark = "palette" + Date.now();
    const { thread_id } = await api(server, "POST", "/threads", { metadata: { thread_name: `A ${mark}` } });
    await page.goto(studio());
    await page.getByRole("button", { name: /Connected/ }).waitFor();
    const box = page.getByRole("combobox", { name: "Find a command or a thread" });
    const chosen = page.getByRole("dialog").getByRole("option", { selected: true });
    await page.keyboard.press("ControlOrMeta+k");
    await box.fill("run");
    await chosen.getByText("Runs", { exact: true }).waitFor();
    same(await barriers(page), []);
    await box.press("Enter");
    await becomes(() => new URL(page.url()).searchParams.get("view"), "runs");
    await box.waitFor({ state: "detached" });

    await page.getByRole("button", { name: "Commands" }).click();
    await box.fill("colors");
    await box.press("ArrowDown");
    await chosen.getByText("Light colors").waitFor();
    await box.press("ArrowUp");
    await box.press("ArrowUp");
    await chosen.getByText("Dark colors").waitFor();
    await box.fill(mark);
    await chosen.getByText(`A ${mark}`).waitFor();
    await box.press("Enter");
    await becomes(() => new URL(page.url()).searchParams.get("thread"), thread_id);

    await page.keyboard.press("ControlOrMeta+k");
    await box.fill("router");
    await page
      .getByRole("option", { name: /^router/ })
      .first()
      .click();
    await page.getByRole("button", { name: "Node route", exact: true }).waitFor();
  },
  { deviates: "threads in the command palette" },
);

check("a question mark shows the shortcuts, but not in a field", async ({ page }) => {
  await page.goto(studio("assistant=agent"));
  const search = page.getByRole("searchbox", { name: "Search threads" });
  await search.press("?");
  same(await search.inputValue(), "?");
  same(await page.getByRole("dialog").count(), 0);
  await search.fill("");
  await search.blur();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Shortcuts" }).getByText("Open commands").waitFor();
  same(await barriers(page), []);
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
});

check("links to an item, a user, and a filter open them", async ({ page }) => {
  const at = { namespace: ["users", "ada/lovelace", "memories"], key: "a b" };
  await api(server, "PUT", "/store/items", { ...at, value: { content: "Ada prefers tea." } });
  await page.goto(studio("view=store"));
  await page.getByRole("region", { name: "Items of the namespace" }).getByRole("button", { name: /a b/ }).click();
  await page.getByRole("heading", { name: "a b", exact: true }).waitFor();
  const link = page.url();
  await page.goBack();
  await page.getByRole("heading", { name: "No item selected" }).waitFor();
  await page.goto(link);
  await page.getByRole("region", { name: "Item", exact: true }).getByText("Ada prefers tea.").first().waitFor();

  await view(page, "Memory");
  same(new URL(page.url()).searchParams.get("item"), null);
  await page.getByRole("button", { name: "ada/lovelace" }).click();
  await page.getByText("Ada prefers tea.").waitFor();
  await page.reload();
  await page.getByText("Ada prefers tea.").waitFor();

  await page.goto(studio("view=runs&status=failed&since=24h&part=runs"));
  await page.getByRole("tab", { name: /^Failed/, selected: true }).waitFor();
  same(await page.getByRole("combobox", { name: "Time" }).inputValue(), "24h");
});

await run();
