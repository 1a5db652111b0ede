// The studio opened with ?baseUrl= on LangGraph's own Python server.
import { becomes, check, run, same, until, write } from "../../browsertest/kit.mjs";
import { api } from "./scenes.mjs";

const [, , studio, server, only] = process.argv;

const view = (query) => `${studio}/studio/?${new URLSearchParams({ baseUrl: server, ...query })}`;
const button = (page, name) => page.getByRole("button", { name });
const form = (page) => page.getByRole("form", { name: "Run" });
const status = (page, text) => form(page).getByText(text, { exact: true }).first().waitFor();
const thread = (page) => until(() => new URL(page.url()).searchParams.get("thread"), "a thread");
const threads = (page) => page.getByRole("complementary", { name: "Threads" });
const say = (content) => ({ messages: [{ type: "human", content }] });

async function ran(assistant_id, ...inputs) {
  const { thread_id } = await api(server, "POST", "/threads", {});
  for (const input of inputs) await api(server, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id, input });
  return thread_id;
}

check("a run starts from the form, asks, and finishes with the answer", async ({ page }) => {
  await page.goto(view({ assistant: "hitl" }));
  await button(page, /^Connected/).waitFor();
  await page.getByLabel("topic").fill("cats");
  await button(page, "Submit").click();
  await status(page, "Needs answer");
  await button(page, /^Node propose: done/).waitFor();
  await button(page, /^Node review: interrupted/).waitFor();
  await page.reload();
  await status(page, "Needs answer");
  await page.getByRole("article", { name: "Question of review" }).getByRole("button", { name: "Yes" }).click();
  await status(page, "Done");
  const { values } = await api(server, "GET", `/threads/${await thread(page)}/state`);
  same(values.log, ["proposed:cats", "reviewed:true", "finished"]);
});

check("a failed run says why, live and by link", async ({ page }) => {
  await page.goto(view({ assistant: "failing" }));
  await page.getByLabel("message").fill("no paper");
  await button(page, "Submit").click();
  await status(page, "Failed");
  await becomes(() => form(page).locator(".run-error").innerText(), "boom: no paper");
  await button(page, /^Node boom: failed/).waitFor();
  await page.goto(view({ assistant: "failing", thread: await thread(page) }));
  await status(page, "Failed");
  await becomes(() => form(page).locator(".run-error").innerText(), "boom: no paper");
  await threads(page)
    .getByRole("link", { name: /Failed/ })
    .first()
    .waitFor();
});

check("a conversation is held", async ({ page }) => {
  await page.goto(view({ view: "chat", assistant: "agent" }));
  const box = page.getByRole("textbox", { name: /Message/ });
  await box.fill("the weather in Paris");
  await box.press("Enter");
  await page.getByText("It is sunny in Paris today.").first().waitFor();
  await page.getByText("get_weather").first().waitFor();
});

check("a thread is forked from a checkpoint", async ({ page }) => {
  const id = await ran("router", { target: "left" });
  const history = await api(server, "POST", `/threads/${id}/history`, { limit: 10 });
  const at = history.find((s) => s.next.includes("route")).checkpoint.checkpoint_id;
  await page.goto(view({ assistant: "router", thread: id, checkpoint: at }));
  await page.getByLabel("target").fill("right");
  await button(page, "Fork from here").click();
  await status(page, "Done");
  const after = await api(server, "POST", `/threads/${id}/history`, { limit: 20 });
  same(after.filter((s) => s.parent_checkpoint?.checkpoint_id === at).length, 2);
});

check("a run of several steps is followed and stopped", async ({ page }) => {
  await page.goto(view({ assistant: "slow" }));
  await page.getByLabel("count").fill("500");
  await page.getByLabel("delay_ms").fill("100");
  await button(page, "Submit").click();
  await button(page, /^Node tick: running.*2 times/).waitFor();
  await page.reload();
  await button(page, /^Node tick: running/).waitFor();
  await form(page).getByRole("button", { name: "Stop", exact: true }).click();
  await status(page, "Stopped");
});

check("the trace, the runs, and the lists say what they lack", async ({ page }) => {
  const id = await ran("nested", { value: "x" });
  await page.goto(view({ view: "trace", assistant: "nested", thread: id }));
  await page.getByRole("tree", { name: "Trace" }).getByText("child_one").waitFor();
  await page.getByText(/does not record calls/).waitFor();
  await page.goto(view({ view: "runs" }));
  await page.getByText(/lists runs thread by thread/).waitFor();
  await page.getByRole("article").first().waitFor();
  await page.goto(view({ view: "runs", part: "crons" }));
  await page.getByText("No crons yet").first().waitFor();
  await page.goto(view({ assistant: "nested" }));
  await threads(page).getByRole("searchbox").fill("x");
  await threads(page)
    .getByText(/cannot search for text/)
    .waitFor();
});

check("questions of all threads are answered in the inbox", async ({ page }) => {
  const topic = "dogs " + Date.now();
  const id = await ran("hitl", { topic });
  await page.goto(view({ view: "inbox" }));
  await page.getByRole("article").filter({ hasText: topic }).getByRole("button", { name: "No", exact: true }).click();
  await becomes(async () => (await api(server, "GET", `/threads/${id}/state`)).values.log.at(-2), "reviewed:false");
});

check("items of the store are listed, changed, and searched", async ({ page }) => {
  await api(server, "PUT", "/store/items", {
    namespace: ["users", "ada", "memories"],
    key: "tea",
    value: { content: "likes tea" },
  });
  await page.goto(view({ view: "store", item: "users/ada/memories/tea" }));
  await page.getByText("likes tea").first().waitFor();
  await page.goto(view({ view: "memory", user: "ada" }));
  await page.getByText("likes tea").first().waitFor();
});

check("a failed run is tried again", async ({ page }) => {
  const name = "nightly " + Date.now();
  const { thread_id } = await api(server, "POST", "/threads", { metadata: { thread_name: name } });
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, {
    assistant_id: "failing",
    input: { message: "no ink" },
  });
  await page.goto(view({ view: "runs" }));
  await page.getByRole("tab", { name: /^Failed/ }).click();
  const rows = page.getByRole("article", { name: new RegExp(`of ${name}$`) });
  await rows.getByText("boom: no ink").waitFor();
  await rows.getByRole("button", { name: "Retry" }).click();
  await page.getByRole("menuitem", { name: "Run again with the same input" }).click();
  await until(async () => (await api(server, "GET", `/threads/${thread_id}/runs`)).length === 2, "the second run");
});

check("a state is edited, and the thread continues from there", async ({ page }) => {
  const id = await ran("router", { target: "left" });
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(view({ assistant: "router", thread: id }));
  await button(page, "Actions of Step 0").click();
  await page.getByRole("menuitem", { name: "Edit and fork" }).click();
  const dialog = page.getByRole("dialog");
  await write(dialog.getByRole("textbox", { name: "Values" }), '{"target": "right", "path": []}');
  await dialog.getByRole("button", { name: "Fork and continue" }).click();
  await page.getByText("branch 2 of 2").waitFor();
  await becomes(async () => (await api(server, "GET", `/threads/${id}/state`)).values.path.at(-1), "right");
});

check("two assistants run side by side", async ({ page }) => {
  const { assistant_id } = await api(server, "POST", "/assistants", { graph_id: "router", name: "The other" });
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(view({ view: "compare", assistant: "router", other: assistant_id }));
  await write(page.getByRole("textbox", { name: "Input of both runs as JSON" }), '{"target": "right"}');
  await button(page, "Run both").click();
  for (const name of ["Left", "Right"])
    await page.getByRole("region", { name, exact: true }).getByText("Done", { exact: true }).waitFor();
  await page.getByRole("region", { name: "Differences" }).getByText("The two states are equal.").waitFor();
});

check("an assistant is found, renamed, and deleted", async ({ page }) => {
  const { assistant_id: id } = await api(server, "POST", "/assistants", { graph_id: "router", name: "Helper one" });
  await page.goto(view({ assistant: id }));
  await page.locator(".app-assistant").click();
  await page.getByRole("menuitem", { name: "Manage assistants…" }).click();
  const row = (name) => page.getByRole("dialog", { name: "Assistants" }).getByRole("listitem", { name, exact: true });
  await row("Helper one").getByRole("button", { name: "Rename…" }).click();
  const rename = page.getByRole("dialog", { name: "Rename assistant" });
  await rename.getByLabel("Name").fill("Helper uno");
  await rename.getByRole("button", { name: "Rename" }).click();
  await row("Helper uno").getByRole("button", { name: "Delete…" }).click();
  await button(page, "Delete assistant").click();
  await row("Helper uno").waitFor({ state: "detached" });
  await becomes(async () => (await fetch(`${server}/assistants/${id}`)).status, 404);
});

await run({ only });
