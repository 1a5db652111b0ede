// The timeline: the checkpoints of a thread, and what one can do with them.
import { becomes, same, sleep, until, write } from "../../../browsertest/kit.mjs";
import { barriers, check, host, isLangGraphs, run, server, studio } from "../flow.mjs";
import { newPace } from "../pace.mjs";

// What the page asks for. A run that others start may tell less.
const modes = ["values", "messages-tuple", "tasks", "checkpoints", "custom"];

async function post(path, body) {
  const answer = await fetch(server + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

const states = async (thread, limit = 100) =>
  (await fetch(`${server}/threads/${thread}/history?limit=${limit}`)).json();

// ran is a thread on which a graph ran.
async function ran(graph, input, config) {
  const { thread_id } = await post("/threads", {});
  await post(`/threads/${thread_id}/runs/wait`, { assistant_id: graph, input, config });
  return thread_id;
}

async function open(page, thread, more = "") {
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(studio(`thread=${thread}${more}`));
  await page.getByRole("heading", { name: "Timeline" }).waitFor();
}

const card = (page, name) => page.getByRole("article", { name, exact: true });
const texts = async (page) => (await page.getByRole("article").allInnerTexts()).map((t) => t.replace(/\s+/g, " "));
const chosen = (page) => new URL(page.url()).searchParams.get("checkpoint");

async function act(page, name, action) {
  await page.getByRole("button", { name: `Actions of ${name}`, exact: true }).click();
  await page.getByRole("menuitem", { name: action }).click();
}

// wide fails if something is wider than the page.
const wide = (page) => page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);

check("what nodes send besides their writes is shown", async ({ page }) => {
  await page.goto(studio("assistant=custom"));
  await page.getByLabel("n", { exact: true }).fill("3");
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  await page.getByText("3 custom events").click();
  await page.getByText('"step":2').waitFor();
});

check("the steps of an agent read as messages", async ({ page }) => {
  await open(page, await ran("agent", { messages: [{ type: "human", content: "what is the weather" }] }));
  await card(page, "Step 3").waitFor();
  const [input, start, call, tool, answer] = await until(async () => {
    const all = await texts(page);
    return all.length === 5 && all;
  }, "five cards");
  same(
    [/Input/, /human what is the weather/].map((r) => r.test(input)),
    [true, true],
    input,
  );
  same(/Step 0 start/.test(start), true, start);
  same(
    [/Step 1 agent/, /ai get_weather \{"city":"Paris"\}/].map((r) => r.test(call)),
    [true, true],
    call,
  );
  same(/Step 2 tools .*get_weather sunny in Paris/.test(tool), true, tool);
  same(/Step 3 agent .*ai It is sunny in Paris today\./.test(answer), true, answer);
  // How long each took.
  for (const text of [call, tool, answer]) same(/(<1|\d) (µs|ms|s)\b/.test(text), true, text);
  await card(page, "Step 3")
    .getByRole("button", { name: /Metadata/ })
    .click();
  await card(page, "Step 3").getByText("graph_id:").waitFor();
});

check("a step shows its changes and not the whole state", async ({ page }) => {
  await open(page, await ran("router", { target: "left" }));
  await card(page, "Step 2").getByText("path").waitFor();
  const left = await card(page, "Step 2").innerText();
  same(
    [/left/.test(left), /path/.test(left), /route/.test(left), /target/.test(left)],
    [true, true, false, false],
    left,
  );
});

check("a nested graph unfolds to its steps", async ({ page }) => {
  await open(page, await ran("nested", { value: "s" }));
  await card(page, "Step 2").getByRole("button", { name: "Steps of child" }).click();
  const inner = page.getByRole("listitem", { name: "Step 2 of child" });
  await inner.getByText("child_two").first().waitFor();
  await inner
    .getByText(/s>before>c1>c2/)
    .first()
    .waitFor();
});

check("an edit makes a fork, and branches can be switched", async ({ page }) => {
  const thread = await ran("router", { target: "left" });
  await open(page, thread);
  await act(page, "Step 0", "Edit and fork");
  const dialog = page.getByRole("dialog");
  await write(dialog.getByRole("textbox", { name: "Values" }), '{"target": "right", "path": []}');
  await dialog.getByText("Writes target").waitFor();
  await dialog.getByRole("button", { name: "Fork and continue" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByText("branch 2 of 2").waitFor();
  await card(page, "Step 3").getByText('"right"').waitFor();
  await becomes(async () => (await states(thread))[0].values, { target: "right", path: ["route", "right"] });
  await page.getByRole("button", { name: "Next branch" }).click();
  await page.getByText("branch 1 of 2").waitFor();
  await card(page, "Step 2").getByText('"left"').waitFor();
  await page.getByRole("button", { name: /^Branch 2 of 2/ }).click();
  await card(page, "Step 3").getByText('"right"').waitFor();
  await page.getByRole("button", { name: "Expand branch" }).click();
  await becomes(() => card(page, "Step 2").count(), 2);
  // The ends of both branches, side by side.
  await page.getByRole("button", { name: "Actions of Step 3", exact: true }).click();
  await page.getByRole("menuitem", { name: "Compare" }).click();
  const other = (await states(thread)).find((s) => s.values.path?.at(-1) === "left").checkpoint.checkpoint_id;
  await dialog.getByRole("combobox", { name: /^Left/ }).selectOption(other);
  await becomes(async () => (await dialog.getByRole("term").allInnerTexts()).sort(), ["path", "target"]);
  await dialog.getByRole("tab", { name: "Both states" }).click();
  for (const value of ['"left"', '"right"']) await dialog.getByText(value).first().waitFor();
});

check("a state is edited by a form", async ({ page }) => {
  const thread = await ran("router", { target: "left" });
  await open(page, thread);
  await act(page, "Step 0", "Edit and fork");
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("tab", { name: "Form" }).click();
  const form = dialog.getByRole("group", { name: "Values as a form" });
  await form.getByLabel("target").fill("right");
  await dialog.getByText("Writes target").waitFor();
  same(await barriers(page), []);
  await dialog.getByRole("tab", { name: "JSON" }).click();
  await dialog.getByRole("textbox", { name: "Values" }).getByText('"right"').waitFor();
  await dialog.getByRole("button", { name: "Fork and continue" }).click();
  await card(page, "Step 3").getByText('"right"').waitFor();
  await becomes(async () => (await states(thread))[0].values, { target: "right", path: ["route", "right"] });
});

check("an edit as a node goes on after that node", async ({ page }) => {
  const thread = await ran("hitl", { topic: "cats" });
  await open(page, thread);
  await act(page, "Step 1", "Edit and fork");
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("combobox", { name: /^As node/ }).selectOption("review");
  // The list has a reducer, so that its new entries are sent alone.
  await write(
    dialog.getByRole("textbox", { name: "Values" }),
    '{"topic": "cats", "log": ["proposed:cats", "by hand"]}',
  );
  await dialog.getByText("How to write log").waitFor();
  await dialog.getByRole("button", { name: "Fork", exact: true }).click();
  await card(page, "Step 2").getByText("by hand").waitFor();
  await becomes(async () => {
    const [head] = await states(thread);
    return [head.values.log, head.next];
  }, [["proposed:cats", "by hand"], ["finish"]]);
  await page.getByRole("button", { name: "Continue", exact: true }).click();
  await card(page, "Step 4").or(card(page, "Step 3")).getByText("finished").first().waitFor();
});

check("a wrong edit is told and not sent", async ({ page }) => {
  await open(page, await ran("router", { target: "left" }));
  await act(page, "Step 1", "Edit and fork");
  const dialog = page.getByRole("dialog");
  await write(dialog.getByRole("textbox", { name: "Values" }), "[1]");
  await dialog.getByText("Enter a JSON object.").waitFor();
  await becomes(() => dialog.getByRole("button", { name: "Fork", exact: true }).isDisabled(), true);
});

check("a replay runs again from a step", async ({ page }) => {
  const thread = await ran("router", { target: "left" });
  await open(page, thread);
  await act(page, "Step 1", "Replay from here");
  await page.getByText("branch 2 of 2").waitFor();
  await until(
    async () => (await states(thread)).length > 4 && (await states(thread))[0].next.length === 0,
    "the replay",
  );
  same((await states(thread))[0].values.path, ["route", "left"]);
});

check("two checkpoints are compared key by key", async ({ page }) => {
  await open(page, await ran("router", { target: "left" }));
  await act(page, "Step 0", "Compare");
  const dialog = page.getByRole("dialog");
  const row = dialog.getByRole("definition");
  await row.getByText('"route"').waitFor();
  await becomes(() => dialog.getByRole("term").allInnerTexts(), ["path"]);
  await dialog.getByRole("tab", { name: "Both states" }).click();
  await becomes(() => dialog.getByText("target:").count(), 2);
  const right = dialog.getByRole("combobox", { name: /^Right/ });
  await right.selectOption(await dialog.getByRole("combobox", { name: /^Left/ }).inputValue());
  await dialog.getByRole("tab", { name: "Differences" }).click();
  await dialog.getByText("The two states are equal.").waitFor();
});

check("a link leads to a checkpoint", async ({ page, another }) => {
  const thread = await ran("counter", { upto: 120 }, { recursion_limit: 1000 });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: host });
  const old = (await states(thread, 200)).find((s) => s.metadata.step === 7).checkpoint.checkpoint_id;
  await open(page, thread, `&checkpoint=${old}`);
  await card(page, "Step 7").waitFor();
  await becomes(
    () =>
      card(page, "Step 7")
        .getByRole("button", { name: /^Step 7/ })
        .getAttribute("aria-pressed"),
    "true",
  );
  await page.evaluate(() => navigator.clipboard.writeText(""));
  await act(page, "Step 8", "Copy link");
  const link = await until(
    async () => (await page.evaluate(() => navigator.clipboard.readText())) || null,
    "the link on the clipboard",
  );
  const other = await another();
  await other.setViewportSize({ width: 1440, height: 900 });
  await other.goto(link);
  await card(other, "Step 8").waitFor();
  await until(() => card(other, "Step 8").isVisible(), "the step of the link");
  await page.getByRole("button", { name: /^Step 8/ }).click();
  await becomes(() => chosen(page), new URL(link).searchParams.get("checkpoint"));
});

check("a link to a checkpoint of another thread is told", async ({ page }) => {
  await open(page, await ran("router", {}), "&checkpoint=1f000000-0000-6000-8000-000000000000");
  await page.getByText("The linked checkpoint is not in this thread.").waitFor();
});

// LangGraph's server needs minutes for 10,000 steps.
const most = isLangGraphs ? 1_000 : 10_000;
check(`${most} checkpoints scroll`, async ({ page }) => {
  const thread = await ran("counter", { upto: most }, { recursion_limit: 20_000 });
  await open(page, thread);
  await card(page, `Step ${most}`).waitFor();
  const steps = page.getByRole("region", { name: "Steps" });
  // Loading happens at the top, so it is scrolled there until the input is in sight.
  await until(
    async () => {
      await steps.evaluate((el) => (el.scrollTop = 0));
      return card(page, "Input").isVisible();
    },
    "the first checkpoint",
    40_000,
  );
  await page.getByText(`${(most + 2).toLocaleString("en")} checkpoints`).waitFor();
  same((await page.getByRole("article").count()) < 60, true, "cards that are rendered");
  await page.getByRole("button", { name: "To the end" }).click();
  await until(() => card(page, `Step ${most}`).isVisible(), "the end");
});

check("a state of 5 MB opens", async ({ page }) => {
  await open(page, await ran("bulk", { rows: 2500 }));
  await card(page, "Step 2").waitFor();
  await act(page, "Step 1", "Inspect state");
  const dialog = page.getByRole("dialog");
  await dialog.getByText("2,400 more").waitFor();
  await dialog.getByRole("button", { name: "Edit and fork" }).click();
  await dialog.getByText(/Keys to change \(the state has 5\.\d MB\)/).waitFor();
});

check("a run is followed, until one scrolls up", async ({ page }) => {
  const { thread_id } = await post("/threads", {});
  const pace = newPace();
  await pace.allow(12);
  await post(`/threads/${thread_id}/runs`, {
    assistant_id: "paced",
    input: { pace: pace.name, count: 45 },
    config: { recursion_limit: 100 },
    stream_mode: modes,
    stream_resumable: true,
  });
  await open(page, thread_id);
  await page.getByRole("article", { name: "Running" }).getByText("tick").waitFor();
  await card(page, "Step 12").waitFor();
  await page.getByRole("region", { name: "Steps" }).hover();
  const toEnd = page.getByRole("button", { name: "To the end" });
  await until(async () => {
    await page.mouse.wheel(0, -200);
    return toEnd.isVisible();
  }, "leaving the end");
  await pace.allow(10);
  await page.getByText("24 checkpoints").waitFor();
  same(await card(page, "Step 22").isVisible(), false, "the newest step is in sight");
  await toEnd.click();
  await card(page, "Step 22").waitFor();
  await pace.allow(23);
  await card(page, "Step 45").waitFor();
  await page.getByRole("article", { name: "Running" }).waitFor({ state: "detached" });
});

check("one scrolls up while checkpoints arrive", async ({ page }) => {
  const { thread_id } = await post("/threads", {});
  const pace = newPace();
  await pace.allow(12);
  const { run_id } = await post(`/threads/${thread_id}/runs`, {
    assistant_id: "paced",
    input: { pace: pace.name, count: 10_000 },
    config: { recursion_limit: 20_000 },
    stream_mode: modes,
    stream_resumable: true,
  });
  await open(page, thread_id);
  await card(page, "Step 12").waitFor();
  const steps = page.getByRole("region", { name: "Steps" });
  await steps.hover();
  let over = false;
  const arrive = (async () => {
    while (!over) await pace.allow(1);
  })();
  const toEnd = page.getByRole("button", { name: "To the end" });
  let turns = 0;
  const turn = async () => {
    await (turns++ % 2 ? steps.press("PageUp") : page.mouse.wheel(0, -600));
    return toEnd.waitFor({ timeout: 10_000 }).then(
      () => true,
      () => false,
    );
  };
  try {
    for (let i = 0; i < 8; i++) {
      await until(turn, "leaving the end");
      await toEnd.click();
      await toEnd.waitFor({ state: "detached" });
      await sleep(50 + 17 * i); // so that the wheel is turned at other moments
    }
  } finally {
    over = true;
    await arrive;
    await fetch(`${server}/threads/${thread_id}/runs/${run_id}/cancel?wait=true`, { method: "POST" });
  }
  // The browser itself drops a scroll now and then, if the page scrolls in the same frame.
  same(turns <= 9, true, `it was scrolled ${turns} times to leave the end 8 times`);
});

check("a run that tells no checkpoints is followed too", async ({ page }) => {
  const { thread_id } = await post("/threads", {});
  await post(`/threads/${thread_id}/runs`, {
    assistant_id: "slow",
    input: { count: 50, delay_ms: 60 },
    config: { recursion_limit: 100 },
  });
  await open(page, thread_id);
  await card(page, "Step 51").waitFor();
  await page.getByRole("article", { name: "Running" }).waitFor({ state: "detached" });
  await becomes(() => page.getByRole("button", { name: /^Another branch/ }).count(), 0);
});

check("tokens are shown while they stream", async ({ page }) => {
  const pace = newPace();
  await pace.allow(12);
  await open(page, await ran("traced", { messages: `paced ${pace.name}` }));
  await card(page, "Step 3").getByText("read the book.").waitFor();
  await act(page, "Step 2", "Replay from here");
  for (const text of ["The answer", "The answer is 42,", "The answer is 42, as all know"]) {
    await pace.allow(2 + (text.length > 20));
    await page.getByRole("article", { name: "Running" }).getByText(text, { exact: true }).waitFor();
  }
  await pace.allow(5);
  await page.getByText("branch 2 of 2").waitFor();
  await page.getByRole("article", { name: "Running" }).waitFor({ state: "detached" });
  await page.getByText("read the book.").waitFor();
});

check("a failed node is told at the end", async ({ page, allow }) => {
  allow(/500/);
  const { thread_id } = await post("/threads", {});
  await fetch(`${server}/threads/${thread_id}/runs/wait`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ assistant_id: "failing", input: { message: "no luck" } }),
  });
  await open(page, thread_id);
  await page.getByText(/boom failed: .*no luck/).waitFor();
});

check("the timeline fits a narrow screen", async ({ page }) => {
  const thread = await ran("agent", { messages: [{ type: "human", content: "what is the weather" }] });
  await page.setViewportSize({ width: 360, height: 740 });
  await page.goto(studio(`thread=${thread}`));
  await card(page, "Step 3").waitFor();
  same(await wide(page), false, "wider than the page");
});

check("the timeline and its dialogs have no barriers", async ({ page }) => {
  const thread = await ran("router", { target: "left" });
  const from = (await states(thread)).find((s) => s.metadata.step === 0).checkpoint;
  await post(`/threads/${thread}/runs/wait`, { assistant_id: "router", input: null, checkpoint: from });
  await open(page, thread, `&checkpoint=${from.checkpoint_id}`);
  await page.getByRole("button", { name: "Expand branch" }).click();
  same(await barriers(page), [], "timeline");
  for (const action of ["Inspect state", "Edit and fork", "Compare"]) {
    await page.getByRole("article", { name: "Step 0" }).getByRole("button", { name: action, exact: true }).click();
    await page.getByRole("dialog").waitFor();
    same(await barriers(page), [], action);
    await page.getByRole("dialog").getByRole("button", { name: "Close", exact: true }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
  }
});

await run();
