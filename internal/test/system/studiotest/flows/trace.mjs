// The trace of a run.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { becomes, same, until, write } from "../../../browsertest/kit.mjs";
import { barriers, check, elsewhere, host, run, server, studio } from "../flow.mjs";
import { onEach } from "../networks.mjs";
import { newPace } from "../pace.mjs";
import { unextended } from "../scenes.mjs";

async function post(path, body) {
  const answer = await fetch(server + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

// ran is a thread on which a graph ran.
async function ran(graph, input, more = {}) {
  const { thread_id } = await post("/threads", {});
  await post(`/threads/${thread_id}/runs/wait`, { assistant_id: graph, input, ...more });
  return thread_id;
}

async function open(page, thread, more = "", at = studio) {
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(at(`view=trace&thread=${thread}${more}`));
  await page.getByRole("tree", { name: "Trace" }).waitFor();
}

const item = (page, name) => page.getByRole("treeitem", { name });
// outline is the tree: each name after a dot for each level.
const outline = async (page) => {
  const rows = await page
    .getByRole("treeitem")
    .evaluateAll((rows) =>
      rows.map(
        (r) =>
          ".".repeat(r.getAttribute("aria-level") - 1) +
          r.querySelector(".waterfall-name").textContent.replace(/\s+/g, " ").trim(),
      ),
    );
  // The two tools of a step start at the same time, so either may come first.
  const failed = rows.indexOf(".get_weather tool failed");
  if (rows[failed + 1] === ".get_weather tool done") rows.splice(failed, 2, rows[failed + 1], rows[failed]);
  return rows;
};

check(
  "a nested run is a tree of nodes, model calls and tools",
  async ({ page }) => {
    await open(page, await ran("traced", { messages: "hi" }));
    const model = "gpt-4o-mini-2024-07-18";
    await becomes(
      () => outline(page),
      [
        "plan node done",
        "inner subgraph done",
        ".model node done",
        `..${model} model call done`,
        ".tool node done",
        "..lookup tool done",
        "answer node done",
        `.${model} model call done`,
      ],
    );
    const total = async (name) =>
      (await page.locator(".trace-totals").getByText(name).locator("..").innerText()).replace(/\s+/g, " ");
    await becomes(() => total("Tokens"), "Tokens 38");
    await item(page, /^gpt-4o-mini/)
      .last()
      .click();
    const details = page.getByRole("complementary", { name: `Details of ${model}` });
    await details.getByText("12 in, 7 out, 19 in total").waitFor();
    // 12 tokens at 0.15 dollars for a million, and 7 at 0.60.
    await details.getByText("$0.0000060 by list price").waitFor();
    await becomes(() => total("Cost"), "Cost $0.000012");
    await page.getByRole("button", { name: "Prices" }).click();
    const prices = page.getByRole("dialog", { name: "Model prices" });
    await write(prices.getByRole("textbox", { name: "Prices" }), '{"gpt-4o-mini": {"input": 1}}');
    await prices.getByText("gpt-4o-mini requires an input price and an output price").waitFor();
    await becomes(() => prices.getByRole("button", { name: "Save" }).isDisabled(), true);
    await write(prices.getByRole("textbox", { name: "Prices" }), '{"gpt-4o-mini": {"input": 1000000, "output": 0}}');
    await prices.getByRole("button", { name: "Save" }).click();
    await becomes(() => total("Cost"), "Cost $24.00");
    await details.getByRole("heading", { name: "Messages sent" }).waitFor();
    same(await details.getByRole("heading", { name: "Prompt", exact: true }).count(), 0);
    await details.getByText("The answer is 42, as all know who have read the book.").waitFor();
    await item(page, /^lookup/).click();
    await page.getByRole("complementary", { name: "Details of lookup" }).getByText('"answer"').waitFor();
  },
  { deviates: "recorded calls" },
);

// total is a figure above the trace.
const total = async (page, name) =>
  (await page.locator(".trace-totals").getByText(name, { exact: true }).locator("..").innerText())
    .replace(/\s+/g, " ")
    .slice(name.length + 1);

const asked = { messages: "Paris Atlantis" };
const calls = [
  "model node done",
  ".model model call done 2 attempts",
  "..attempt 1 retried attempt failed",
  "tools node done",
  ".get_weather tool done",
  ".get_weather tool failed",
  "model node done",
  ".model model call done",
];

onEach(
  "calls show what was sent and received",
  async ({ page, at, fails }) => {
    await open(page, await ran("clerk", asked), "", at);
    await becomes(() => outline(page), calls);
    await fails();
    const open_ = async (at) => {
      await page.getByRole("treeitem").nth(at).click();
      return page.getByRole("complementary", { name: /^Details of/ });
    };
    let details = await open_(1);
    await details.getByRole("heading", { name: "System prompt" }).waitFor();
    await details.getByText("You are a terse clerk.", { exact: true }).waitFor();
    await details.getByRole("heading", { name: "Messages sent" }).waitFor();
    await details.getByText("Paris Atlantis", { exact: true }).waitFor();
    await details.getByText("get_weather", { exact: true }).first().waitFor();
    const parameters = details.locator("section", { has: page.getByRole("heading", { name: "Parameters" }) });
    await until(async () => /temperature.*0\.2/s.test(await parameters.innerText()), "the temperature");
    await details
      .getByRole("listitem")
      .getByText(/the clerk is busy/)
      .waitFor();
    await details.getByText(/^[0-9a-f]{16}$/).waitFor();
    await item(page, /^get_weather tool failed/).click();
    details = page.getByRole("complementary", { name: /^Details of/ });
    await details.getByRole("heading", { name: "Arguments" }).waitFor();
    await details.getByText('"Atlantis"').waitFor();
    await details
      .getByRole("alert")
      .getByText(/no station in Atlantis/)
      .waitFor();
    // The time of a call is its own, not that of its step.
    same(await page.locator('.waterfall-bar[data-rough="true"]').count(), 0, "rough bars");
    same(await page.getByRole("note").count(), 0, "notes");
    same([await total(page, "Model calls"), await total(page, "Tools")], ["2", "2"]);
  },
  { deviates: "recorded calls" },
);

check(
  "calls of a run that the page follows are the recorded ones",
  async ({ page }) => {
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.goto(studio("assistant=clerk"));
    await page.getByRole("tab", { name: "JSON", exact: true }).click();
    await write(page.getByRole("textbox", { name: "Input as JSON" }), JSON.stringify(asked));
    await page.getByRole("button", { name: "Submit", exact: true }).click();
    await page.getByRole("button", { name: "Trace", exact: true }).click();
    await becomes(() => outline(page), calls);
    await page.getByRole("treeitem").nth(1).click();
    await page.getByText("You are a terse clerk.", { exact: true }).waitFor();
  },
  { deviates: "recorded calls" },
);

check(
  "without recorded calls, the trace says so",
  async ({ page }) => {
    const thread = await ran("clerk", asked);
    const modelCall = () =>
      item(page, /^model call/)
        .first()
        .click();
    await unextended(page);
    await open(page, thread, "", elsewhere);
    await page
      .getByRole("note")
      .getByText(/does not record calls\. .* come from the messages/)
      .waitFor();
    await modelCall();
    await page.getByRole("heading", { name: "State before" }).waitFor();
    same(await page.getByText("You are a terse clerk.").count(), 0);
    // A server that does not record.
    let change = () => ({ spans: [], recording: false });
    await page.route(/\/spans\?/, async (r) => {
      const response = await r.fetch();
      const json = await response.json();
      await r.fulfill({ response, json: { ...json, ...change(json) } });
    });
    await open(page, thread);
    await page.getByRole("note").getByText("set Options.Spans").waitFor();
    // A server that stores no contents, and limits the number of calls.
    change = ({ spans }) => ({
      spans: spans.map((s) => ({ ...s, has_content: false })),
      omitted: { spans: 3, bytes: 0 },
    });
    await open(page, thread);
    await page.getByRole("note").getByText("neither inputs nor outputs of these calls").waitFor();
    await page.getByRole("note").getByText("did not record 3 more calls").waitFor();
    await becomes(() => outline(page), calls);
    await item(page, /^model model call/)
      .last()
      .click();
    await page.getByRole("alert").getByText("stores neither inputs nor outputs").waitFor();
    await page.getByRole("heading", { name: "Response" }).waitFor();
  },
  { deviates: "recorded calls" },
);

check(
  "attempts are in the graph, and those that failed in the trace, live and stored",
  async ({ page }) => {
    const want = [
      "call node done 3 attempts",
      ".attempt 1 retried attempt failed",
      ".attempt 2 retried attempt failed",
    ];
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.goto(studio("assistant=flaky"));
    await page.getByLabel("fails").fill("2");
    await page.getByRole("button", { name: "Submit", exact: true }).click();
    await page.getByRole("button", { name: /^Node call: done, (<1|[\d.]+) m?s, 3 attempts$/ }).click();
    await page.getByRole("dialog", { name: "call" }).getByText("3 attempts").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Trace", exact: true }).click();
    await becomes(() => outline(page), want);
    await page.reload();
    await becomes(() => outline(page), want);
    await item(page, /^attempt 2/).click();
    await page.getByRole("complementary", { name: "Details of attempt 2" }).getByText("line is busy (2)").waitFor();
    // The time of a bar that reaches the end has its place.
    const edges = await page
      .getByRole("treeitem")
      .first()
      .evaluate((row) =>
        [".badge", ".waterfall-bar", ".waterfall-took", ".waterfall-track"]
          .map((part) => row.querySelector(part).getBoundingClientRect())
          .map((r) => [r.left, r.right]),
      );
    same([edges[0][1] < edges[1][0], edges[1][1] < edges[2][0]], [true, true], JSON.stringify(edges));
    // Bars of attempts are within that of their node.
    const bars = await page
      .locator(".waterfall-bar")
      .evaluateAll((all) => all.map((bar) => bar.getBoundingClientRect().toJSON()));
    for (const bar of bars.slice(1))
      same([bar.left >= bars[0].left - 1, bar.right <= bars[0].right + 4], [true, true], JSON.stringify(bars));
  },
  { deviates: "failed attempts of nodes" },
);

check(
  "a model call is traced while it streams",
  async ({ page }) => {
    const pace = newPace();
    await pace.allow(3);
    // The recorded calls arrive after a click on the call that they replace.
    let click;
    const clicked = new Promise((resolve) => (click = resolve));
    await page.route(/\/spans\?/, (r) => clicked.then(() => r.continue()));
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.goto(studio("assistant=traced"));
    await page.getByRole("tab", { name: "JSON", exact: true }).click();
    await write(
      page.getByRole("textbox", { name: "Input as JSON" }),
      JSON.stringify({ messages: `paced ${pace.name}` }),
    );
    await page.getByRole("button", { name: "Submit", exact: true }).click();
    await page.getByRole("button", { name: "Trace", exact: true }).click();
    await item(page, /^gpt-4o-mini model call running/).click();
    const details = page.getByRole("complementary", { name: "Details of gpt-4o-mini" });
    await details.getByText("The answer is", { exact: true }).waitFor();
    await details.getByText("This call was not recorded.").waitFor();
    click();
    await details.getByText("Span ID").waitFor();
    await details.getByText("The answer is", { exact: true }).waitFor();
    await pace.allow(9);
    await becomes(
      () => outline(page),
      [
        "plan node done",
        "inner subgraph done",
        ".model node done",
        "..gpt-4o-mini-2024-07-18 model call done",
        ".tool node done",
        "..lookup tool done",
        "answer node done",
        ".gpt-4o-mini-2024-07-18 model call done",
      ],
    );
  },
  { deviates: "recorded calls" },
);

check("keys move and open", async ({ page }) => {
  await open(page, await ran("router", { target: "right" }));
  const tree = page.getByRole("tree", { name: "Trace" });
  await tree.focus();
  await page.keyboard.press("ArrowDown");
  await page.getByText(/^right: node, done/).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("complementary", { name: "Details of right" }).waitFor();
  await page.keyboard.press("ArrowUp");
  await page.getByRole("complementary", { name: "Details of route" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("complementary", { name: /^Details/ }).waitFor({ state: "detached" });
});

check("a run that goes on is traced as it does", async ({ page }) => {
  const { thread_id } = await post("/threads", {});
  const pace = newPace();
  await pace.allow(3);
  await post(`/threads/${thread_id}/runs`, {
    assistant_id: "paced",
    input: { pace: pace.name, count: 6 },
    stream_mode: ["tasks"],
    stream_resumable: true,
  });
  await open(page, thread_id);
  await item(page, /^tick node running/).waitFor();
  const count = await page.getByRole("treeitem").count();
  await pace.allow(1);
  await until(async () => (await page.getByRole("treeitem").count()) > count, "one more node");
  await pace.allow(2);
  await item(page, /^tick node running/).waitFor({ state: "detached" });
});

check("a pause and a failure have their colours and details", async ({ page }) => {
  await open(page, await ran("hitl", { topic: "cats" }));
  await item(page, /^review node interrupted/).click();
  await page.getByRole("complementary", { name: "Details of review" }).getByText("approve?").waitFor();
  const { thread_id } = await post("/threads", {});
  await fetch(`${server}/threads/${thread_id}/runs/wait`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ assistant_id: "failing", input: { message: "no luck" } }),
  });
  await open(page, thread_id);
  await item(page, /^boom node failed/).click();
  await page
    .getByRole("alert")
    .getByText(/no luck/)
    .waitFor();
});

check("the runs of a thread can be chosen and linked to", async ({ page }) => {
  const thread = await ran("router", { target: "left" });
  await post(`/threads/${thread}/runs/wait`, { assistant_id: "router", input: { target: "right" } });
  await open(page, thread);
  await item(page, /^right/).waitFor();
  const select = page.getByRole("combobox", { name: "Run" });
  await select.selectOption({ index: 1 });
  await item(page, /^left/).waitFor();
  const chosen = await until(() => new URL(page.url()).searchParams.get("run"), "the run in the address");
  await becomes(() => select.inputValue(), chosen);
  await open(page, thread, `&run=${chosen}`);
  await item(page, /^left/).waitFor();
});

check(
  "a run copied as curl sends the same request, without secrets",
  async ({ page }) => {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: host });
    const thread = await ran(
      "router",
      { target: "it's right", x: { api_key: "sk-hidden", n: 1 } },
      { config: { configurable: { openai_api_key: "sk-hidden" } } },
    );
    await open(page, thread);
    await page.getByRole("button", { name: "Copy as code" }).click();
    const dialog = page.getByRole("dialog");
    const copied = async (language) => {
      await dialog.getByRole("tab", { name: language, exact: true }).click();
      await page.evaluate(() => navigator.clipboard.writeText(""));
      await dialog.getByRole("button", { name: "Copy " + language }).click();
      return until(
        async () => (await page.evaluate(() => navigator.clipboard.readText())) || null,
        `the ${language} on the clipboard`,
      );
    };
    const [curl, go, python, js] = [
      await copied("curl"),
      await copied("Go"),
      await copied("Python"),
      await copied("JavaScript"),
    ];
    for (const text of [curl, go, python, js])
      same([text.includes("sk-hidden"), text.includes("it"), text.includes(thread)], [false, true, false], text);
    const { stdout } = await promisify(execFile)("sh", ["-c", curl]);
    same(/"openai_api_key": "REDACTED"/.test(curl), true, curl);
    same(JSON.parse(stdout), {
      target: "it's right",
      x: { api_key: "REDACTED", n: 1 },
      path: ["route", "left"],
    });
    same(go.includes("c.Runs.Wait("), true);
    same(python.includes("client.runs.wait("), true);
    same(js.includes("client.runs.wait("), true);
  },
  { deviates: "copy of a run with a configuration" },
);

check("a fork copied as curl starts from a copy of its checkpoint", async ({ page }) => {
  const thread = await ran("counter", { upto: 3 });
  const steps = await (await fetch(`${server}/threads/${thread}/history?limit=10`)).json();
  const from = steps.find((s) => s.metadata.step === 1).checkpoint.checkpoint_id;
  await post(`/threads/${thread}/runs/wait`, { assistant_id: "counter", input: null, checkpoint_id: from });
  await open(page, thread);
  await page.getByRole("button", { name: "Copy as code" }).click();
  const text = await page.getByLabel("The run in curl").innerText();
  same([text.includes(from), text.includes('"as_node": "add"'), text.includes('"input": null')], [false, true, true]);
  const { stdout } = await promisify(execFile)("sh", ["-c", text]);
  same(JSON.parse(stdout), { upto: 3, n: 3 });
});

check(
  "a run copied as a Go test has the responses of its models",
  async ({ page }) => {
    await open(page, await ran("clerk", asked));
    await page.getByRole("button", { name: "Copy as code" }).click();
    await page.getByRole("tab", { name: "Go test" }).click();
    const text = await page.getByLabel("The run in Go test").innerText();
    for (const part of ['llm.ToolCall{ID: "call_Paris_0"', "llmtest.Say(`It is", "want := `{"])
      same(text.includes(part), true, text);
  },
  { deviates: "copy as a Go test" },
);

check("a thread without a run says so", async ({ page }) => {
  const { thread_id } = await post("/threads", {});
  await page.goto(studio(`view=trace&thread=${thread_id}`));
  await page.getByRole("heading", { name: "No runs to trace" }).waitFor();
});

check("the totals of a long run count all of it, and its trace scrolls", async ({ page }) => {
  const thread = await ran("counter", { upto: 400 }, { config: { recursion_limit: 1_000 } });
  await open(page, thread);
  await until(
    async () => (await page.getByRole("combobox", { name: "Run" }).innerText()).includes("402 checkpoints"),
    "the whole run",
  );
  await becomes(() => page.getByText(/those of the newest/).count(), 0);
  same((await page.getByRole("treeitem").count()) < 80, true, "rows that are rendered");
});

check(
  "the trace of a subgraph with many steps has all of them",
  async ({ page }) => {
    await open(page, await ran("tally", { upto: 150, every: 50 }, { config: { recursion_limit: 1_000 } }));
    await becomes(() => total(page, "Model calls"), "3");
    const rows = await page
      .locator(".waterfall-list")
      .evaluate((list) => list.offsetHeight / list.querySelector('[role="treeitem"]').offsetHeight);
    same(Math.round(rows), 1 + 150 + 3, "rows");
  },
  { deviates: "recorded calls" },
);

onEach(
  "the totals of a run with many model calls count all of them",
  async ({ page, at, fails }) => {
    await open(page, await ran("counter", { upto: 60, every: 1 }, { config: { recursion_limit: 100 } }), "", at);
    await fails();
    await becomes(() => total(page, "Model calls"), "60");
    await becomes(() => total(page, "Tokens"), "1,140");
    await page.getByRole("combobox", { name: "Run" }).getByText("62 checkpoints").waitFor({ state: "attached" });
  },
  { deviates: "recorded calls" },
);

check(
  "the totals of a run above the load limit count its recorded calls",
  async ({ page }) => {
    await open(page, await ran("counter", { upto: 2_600, every: 26 }, { config: { recursion_limit: 3_000 } }));
    await page.getByText(/Recorded calls count in full.* newest 2,\d+ checkpoints/).waitFor();
    same([await total(page, "Model calls"), await total(page, "Tokens")], ["100", "1,900"]);
    // The slower the machine, the smaller the pages. The last one takes the button with it.
    const more = page.getByRole("button", { name: "Load more" });
    await until(async () => {
      if (await more.isVisible()) await more.click({ timeout: 1_000 }).catch(() => null);
      return (await page.getByText(/Recorded calls count in full/).count()) === 0;
    }, "the rest of the run");
    same([await total(page, "Model calls"), await total(page, "Tokens")], ["100", "1,900"]);
  },
  { deviates: "recorded calls" },
);

check("the trace fits a narrow screen", async ({ page }) => {
  const thread = await ran("traced", { messages: "hi" });
  await page.setViewportSize({ width: 360, height: 740 });
  await page.goto(studio(`view=trace&thread=${thread}`));
  await item(page, /^answer/).click();
  await page.getByRole("complementary", { name: "Details of answer" }).waitFor();
  same(
    await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth),
    false,
    "wider than the page",
  );
});

// Marks of the axis and names of spans overlap nothing, whatever the length of the run.
onEach("labels of a trace stay apart on a narrow screen", async ({ page, at, fails }) => {
  const thread = await ran("traced", { messages: "hi" });
  let length;
  await page.route(/\/(history|overview|subgraphs)(\?.*)?$/, async (r) => {
    const response = await r.fetch().catch(() => null);
    if (!response) return r.abort();
    const json = await response.json();
    for (const states of Array.isArray(json) ? [json] : json.states ? [json.states] : Object.values(json.subgraphs)) {
      const time = (i) => Date.UTC(2026, 0, 1) + (length * (states.length - 1 - i)) / (states.length - 1);
      states.forEach((s, i) => (s.created_at = new Date(time(i)).toISOString()));
    }
    return r.fulfill({ response, json });
  });
  // The times of recorded calls would be those of today.
  await page.route(/\/spans\?/, (r) =>
    r.fulfill({ json: { spans: [], next_cursor: null, recording: true, omitted: { spans: 0, bytes: 0 } } }),
  );
  await page.setViewportSize({ width: 360, height: 740 });
  const rects = (selector) =>
    page.locator(selector).evaluateAll((all) =>
      all.map((e) => {
        const range = document.createRange();
        range.selectNodeContents(e);
        const { left, right } = range.getBoundingClientRect();
        return { left, right };
      }),
    );
  for (length of [95, 480, 1_900, 9_600, 58_000, 590_000]) {
    const about = `of a run of ${length} ms`;
    const apart = (list, what) => {
      for (const [i, r] of list.slice(1).entries())
        same(r.left >= list[i].right + 2, true, `${what} ${about} overlap: ${JSON.stringify(list)}`);
    };
    await page.goto(at(`view=trace&thread=${thread}`));
    if (length === 95) await fails();
    await item(page, /^answer/).waitFor();
    const marks = await rects(".waterfall-mark");
    same(marks.length > 1, true, `marks ${about}`);
    apart(marks, "marks");
    const track = await page.locator(".waterfall-axis .waterfall-track").boundingBox();
    for (const name of await page.locator(".waterfall-row .waterfall-name").all()) {
      const box = await name.boundingBox();
      same(box.x + box.width <= track.x + 1 && box.width > 100, true, `a name ${about} reaches into the bars`);
    }
    for (const { right } of await rects(".waterfall-took")) same(right <= 352, true, `a time ${about} is cut off`);
  }
});

check("the trace and its dialog have no barriers", async ({ page }) => {
  await open(page, await ran("traced", { messages: "hi" }));
  await item(page, /^answer/).click();
  await page.getByRole("complementary", { name: "Details of answer" }).waitFor();
  same(await barriers(page), [], "trace");
  await page.getByRole("button", { name: "Copy as code" }).click();
  await page.getByLabel("The run in curl").waitFor();
  same(await barriers(page), [], "code");
});

await run();
