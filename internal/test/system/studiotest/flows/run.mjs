// The run panel: the input, the configuration, and starting and stopping runs.
import { becomes, same, until, write } from "../../../browsertest/kit.mjs";
import { barriers, check, elsewhere, run, server, studio } from "../flow.mjs";
import { newPace } from "../pace.mjs";

const open = (page, graph, more = "") => page.goto(studio(`assistant=${graph}${more}`));
const button = (page, name) => page.getByRole("button", { name });
const tab = (page, name) => page.getByRole("tab", { name, exact: true }).click();
// stop stops the run, and waits until the server has been told.
const stop = (page) =>
  Promise.all([
    page.waitForResponse((r) => /\/cancel/.test(r.url())),
    page.getByRole("button", { name: "Stop", exact: true }).click(),
  ]);
const editor = (page) => page.getByRole("textbox", { name: "Input as JSON" });
const form = (page) => page.getByRole("form", { name: "Run" });
const status = (page, text) => form(page).getByRole("status").getByText(text).waitFor();

// json is what the editor has, or null while it has no JSON.
async function json(page) {
  await editor(page).waitFor();
  try {
    return JSON.parse((await editor(page).locator(".cm-line").allInnerTexts()).join("\n"));
  } catch {
    return null;
  }
}

async function call(path, body) {
  const answer = await fetch(
    server + path,
    body ? { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) } : {},
  );
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

const threadOf = (page) => until(() => new URL(page.url()).searchParams.get("thread"), "a thread");
const valuesOf = async (page) => (await call(`/threads/${await threadOf(page)}/state`)).values;

/** withSchema opens the panel with an input that a server describes by schema. */
async function withSchema(page, schema) {
  await page.route("**/assistants/*/schemas", (r) =>
    r.fulfill({
      json: {
        graph_id: "router",
        input_schema: schema,
        output_schema: {},
        state_schema: {},
        config_schema: null,
        context_schema: null,
      },
    }),
  );
  await open(page, "router");
  await button(page, "Submit").waitFor();
}

check("the form and the JSON are one input", async ({ page }) => {
  await open(page, "slow");
  await page.getByLabel("count").fill("2");
  await page.getByLabel("label").fill("a\nb");
  await tab(page, "JSON");
  await becomes(() => json(page), { count: 2, label: "a\nb" });
  await write(editor(page), '{"count": 4, "ticks": ["x"]}');
  await tab(page, "Form");
  await becomes(() => page.getByLabel("count").inputValue(), "4");
  await becomes(() => page.getByLabel("ticks 1", { exact: true }).inputValue(), "x");
  await tab(page, "JSON");
  await write(editor(page), '{"count": 5');
  await page.getByText(/Invalid JSON/).waitFor();
  await tab(page, "Form");
  await page.getByText(/The JSON is not valid/).waitFor();
  await becomes(() => page.getByLabel("count").inputValue(), "4");
});

check("numbers, lists and texts reach the run", async ({ page }) => {
  await open(page, "fanout");
  const items = page.getByRole("group", { name: "items", exact: true });
  for (const [i, text] of ["x", "y", "z"].entries()) {
    await items.getByRole("button", { name: "Add to items" }).click();
    await page.getByLabel(`items ${i + 1}`, { exact: true }).fill(text);
  }
  const texts = () => items.getByRole("textbox").evaluateAll((all) => all.map((e) => e.value));
  await button(page, "Remove items 2").click();
  await becomes(texts, ["x", "z"]);
  await button(page, "Move items 2 up").click();
  await becomes(texts, ["z", "x"]);
  await button(page, "Submit").click();
  await status(page, "Done");
  const values = await valuesOf(page);
  same(values.items, ["z", "x"]);
  same(values.summary, "X,Z");
});

check("fields of every kind are made from the schema", async ({ page }) => {
  await withSchema(page, {
    type: "object",
    required: ["mode"],
    properties: {
      mode: { type: "string", enum: ["fast", "safe"] },
      deep: { type: "boolean", description: "Looks further." },
      ratio: { type: "number" },
      size: { anyOf: [{ type: "integer" }, { type: "null" }], default: null },
      level: { enum: [1, 2, 3] },
      who: { $ref: "#/$defs/Person" },
      labels: { type: "object", additionalProperties: { type: "string" } },
      target: {
        anyOf: [{ type: "string" }, { type: "object", title: "Place", properties: { city: { type: "string" } } }],
      },
      anything: true,
    },
    $defs: { Person: { type: "object", properties: { name: { type: "string" }, age: { type: "integer" } } } },
  });
  await page.getByLabel("mode", { exact: true }).selectOption("safe");
  await page.getByLabel("deep").check();
  await page.getByText("Looks further.").waitFor();
  await page.getByLabel("ratio").fill("0.50");
  await page.getByLabel("size").fill("7");
  await page.getByLabel("level").selectOption("2");
  await page.getByLabel("name", { exact: true }).fill("Ada");
  await page.getByLabel("age").fill("36");
  await page.getByLabel("New key of labels").fill("team");
  await page.getByLabel("New key of labels").press("Enter");
  await page.getByLabel("team", { exact: true }).fill("blue");
  await page.getByLabel("Kind of target").selectOption("Place");
  await page.getByLabel("city").fill("Bonn");
  await page.getByLabel("anything").fill('{"a": [1]}');
  await tab(page, "JSON");
  await becomes(() => json(page), {
    mode: "safe",
    deep: true,
    ratio: 0.5,
    size: 7,
    level: 2,
    who: { name: "Ada", age: 36 },
    labels: { team: "blue" },
    target: { city: "Bonn" },
    anything: { a: [1] },
  });
  await tab(page, "Form");
  await becomes(() => page.getByLabel("level").inputValue(), "1");
  await button(page, "Remove deep").click();
  await page.getByLabel("size").fill("");
  await tab(page, "JSON");
  await becomes(() => json(page), {
    mode: "safe",
    ratio: 0.5,
    level: 2,
    who: { name: "Ada", age: 36 },
    labels: { team: "blue" },
    target: { city: "Bonn" },
    anything: { a: [1] },
  });
});

check("errors name their fields, and the run does not start", async ({ page }) => {
  await withSchema(page, {
    type: "object",
    required: ["city"],
    properties: { city: { type: "string" }, days: { type: "integer", minimum: 1 } },
  });
  await page.getByLabel("days").fill("soon");
  await page.getByText("days must be a whole number", { exact: true }).waitFor();
  await button(page, "Submit").click();
  await page.getByRole("alert").getByText("days must be a whole number").first().waitFor();
  await page.getByLabel("days").fill("0");
  await page.getByText("days must be at least 1", { exact: true }).first().waitFor();
  same(new URL(page.url()).searchParams.get("thread"), null);
});

check("messages have roles and images", async ({ page }) => {
  const pixel = Buffer.from(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "base64",
  );
  await open(page, "agent");
  await page.getByRole("textbox", { name: "Message" }).fill("look at this");
  await page.locator('input[type="file"]').setInputFiles({ name: "pixel.png", mimeType: "image/png", buffer: pixel });
  await page.getByRole("img", { name: "Attached" }).waitFor();
  await button(page, "Add to messages").click();
  await page.getByLabel("Role of message 2").selectOption("Human");
  await page.getByRole("textbox", { name: "Message 2" }).fill("and answer");
  await tab(page, "JSON");
  const { messages } = await until(
    async () => ((await json(page))?.messages?.length === 2 ? json(page) : null),
    "both messages",
  );
  same(
    messages.map((m) => m.type),
    ["human", "human"],
  );
  same(messages[0].content[0], { type: "text", text: "look at this" });
  same(messages[0].content[1].image_url.url.startsWith("data:image/png;base64,"), true);
  await tab(page, "Form");
  await button(page, "Submit").click();
  await status(page, "Done");
  same((await valuesOf(page)).messages.at(-1).content, "Echo: and answer");
});

check("Ctrl+Enter starts a run, in the form and in the JSON", async ({ page }) => {
  await open(page, "custom");
  await page.getByLabel("n", { exact: true }).fill("2");
  await page.keyboard.press("Control+Enter");
  await status(page, "Done");
  await tab(page, "JSON");
  await write(editor(page), '{"n": 3}');
  await page.keyboard.press("Control+Enter");
  await until(async () => (await valuesOf(page)).n === 3, "the second run");
  const runs = await call(`/threads/${await threadOf(page)}/runs`);
  same(runs.length, 2);
});

check("a run can be stopped, and goes on later", async ({ page }) => {
  await open(page, "slow");
  await page.getByLabel("count").fill("100");
  await page.getByLabel("delay_ms").fill("1500");
  await button(page, "Submit").click();
  await button(page, /^Node tick: running/).waitFor();
  await stop(page);
  await status(page, "Stopped");
  await status(page, "next: tick");
  await form(page).getByRole("button", { name: "Continue" }).click();
  await status(page, "Running");
  await stop(page);
});

check("a run can be rolled back", async ({ page }) => {
  const pace = newPace();
  await pace.allow(1);
  await open(page, "paced");
  await page.getByLabel("pace").fill(pace.name);
  await page.getByLabel("count").fill("200");
  await button(page, "Submit").click();
  await button(page, /^Node tick: running.*2 times/).waitFor();
  await button(page, "Other ways to stop").click();
  await page.getByRole("menuitem", { name: "Cancel and roll back" }).click();
  await status(page, "Stopped");
  const thread = await threadOf(page);
  await until(
    async () => (await call(`/threads/${thread}/history`, { limit: 10 })).length === 0,
    "the history to be empty",
  );
  // Nothing is left to go on from.
  await form(page).getByRole("button", { name: "Continue" }).waitFor({ state: "detached" });
});

check("a selected checkpoint is forked", async ({ page }) => {
  const { thread_id: thread } = await call("/threads", {});
  await call(`/threads/${thread}/runs/wait`, { assistant_id: "router", input: { target: "left" } });
  const history = await call(`/threads/${thread}/history`, { limit: 10 });
  const at = history.find((s) => s.next.includes("left"));
  const id = at.checkpoint.checkpoint_id;
  await open(page, "router", `&thread=${thread}&checkpoint=${id}`);
  await button(page, "Continue from here").waitFor();
  await page.getByLabel("target").fill("right");
  await button(page, "Fork from here").click();
  await status(page, "Done");
  await becomes(() => new URL(page.url()).searchParams.get("checkpoint"), null);
  const after = await call(`/threads/${thread}/history`, { limit: 20 });
  same(after.filter((s) => s.parent_checkpoint?.checkpoint_id === id).length, 2);
  await button(page, "Submit").waitFor();
});

check("a second run is treated as the options say", async ({ page, allow }) => {
  allow(/409/);
  await open(page, "slow");
  await page.getByLabel("count").fill("200");
  await page.getByLabel("delay_ms").fill("1000");
  await tab(page, "Options");
  await page.getByLabel("If the thread already has a run").selectOption("reject");
  await page.getByLabel("Checkpoints are saved").selectOption("exit");
  await button(page, "Submit").click();
  await button(page, /^Node tick: running/).waitFor();
  const [sent] = await Promise.all([page.waitForRequest(/\/runs\/stream$/), button(page, "Submit").click()]);
  same([sent.postDataJSON().multitask_strategy, sent.postDataJSON().durability], ["reject", "exit"]);
  // It is refused, and the first one is still shown.
  await page.getByRole("button", { name: "Dismiss" }).waitFor();
  await status(page, "Running");
  await button(page, /^Node tick: running/).waitFor();
  await stop(page);
});

check("context and configuration reach the run, and are saved as versions and assistants", async ({ page }) => {
  await open(page, "configurable");
  await tab(page, "Config");
  // LangGraph's server shows the context in the configuration, too.
  const tier = page.getByRole("textbox", { name: "tier", exact: true }).first();
  await tier.fill("gold");
  await page.getByRole("textbox", { name: "recursion limit" }).fill("17");
  const [sent] = await Promise.all([page.waitForRequest(/\/runs\/stream$/), button(page, "Submit").click()]);
  same(sent.postDataJSON().config.recursion_limit, 17);
  await status(page, "Done");
  same((await valuesOf(page)).seen.tier, "gold");
  await tab(page, "Config");
  await button(page, "Save as new assistant…").click();
  await page.getByRole("dialog").getByLabel("Name").fill("golden");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await page
    .getByRole("heading", { name: "Assistant golden" })
    .or(page.getByRole("button", { name: "golden" }))
    .first()
    .waitFor();
  await tab(page, "Config");
  await becomes(() => tier.inputValue(), "gold");
  await tier.fill("silver");
  await button(page, "Save as new version").click();
  await until(async () => (await page.getByLabel("Version").inputValue()) === "2", "version 2");
});

check(
  "an older version has its context",
  async ({ page }) => {
    const graph = { graph_id: "configurable", name: "metals" };
    const { assistant_id: id } = await call("/assistants", { ...graph, context: { tier: "gold" } });
    await fetch(`${server}/assistants/${id}`, {
      method: "PATCH",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ context: { tier: "silver" } }),
    });
    await open(page, id);
    await tab(page, "Config");
    const tier = page.getByRole("textbox", { name: "tier", exact: true });
    await becomes(() => tier.inputValue(), "silver");
    await page.getByLabel("Version").selectOption("1");
    await becomes(() => tier.inputValue(), "gold");
    await becomes(async () => (await call(`/assistants/${id}`)).version, 1);
  },
  { deviates: "contexts of versions" },
);

check("the panel works on a narrow screen", async ({ page }) => {
  await page.setViewportSize({ width: 360, height: 740 });
  await open(page, "slow");
  await tab(page, "Run");
  await page.getByLabel("count").fill("1");
  await button(page, "Submit").click();
  await status(page, "Done");
  same(await page.evaluate(() => document.documentElement.scrollWidth <= 360), true);
});

check("every tab can be used by everybody", async ({ page }) => {
  await open(page, "configurable");
  await page.getByLabel("New key of seen").fill("a");
  await page.getByLabel("New key of seen").press("Enter");
  for (const name of ["Input", "JSON", "Config", "Options"]) {
    await tab(page, name);
    same(await barriers(page), [], name);
  }
});

check("what cannot be loaded is said, not shown as empty", async ({ page, allow }) => {
  allow(/500/);
  const { thread_id } = await call("/threads", {});
  await call(`/threads/${thread_id}/runs/wait`, { assistant_id: "router", input: { target: "left" } });
  const fails = (r) => r.fulfill({ status: 500, json: { detail: "the disk is full" } });
  await page.route("**/assistants/*/versions", fails);
  await page.route(/\/threads\/[^/]+\/runs\b/, fails);
  // The page's own server returns the run with the thread.
  await page.goto(elsewhere(`assistant=router&thread=${thread_id}`));
  await page.getByText("Failed to load the newest run: the disk is full").waitFor();
  await tab(page, "Config");
  await page.getByText("Failed to load the versions: the disk is full").waitFor();
});

await run();
