// What a deep agent has planned, written, and delegated.
import { becomes, same } from "../../../browsertest/kit.mjs";
import { barriers, check, isLangGraphs, run, server, studio } from "../flow.mjs";

async function post(path, body) {
  const answer = await fetch(server + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

// written is a thread on which the agent has written its notes.
async function written() {
  const { thread_id } = await post("/threads", {});
  const input = { messages: "Write the notes." };
  await post(`/threads/${thread_id}/runs/wait`, { assistant_id: "scribe", input });
  return thread_id;
}

const todos = async (page) => {
  const items = await page.getByRole("region", { name: "To-dos" }).getByRole("listitem").allInnerTexts();
  return items.map((text) => text.replace(/\s+/g, " "));
};
const lines = (page) =>
  page.locator(".agent-line").evaluateAll((rows) => rows.map((r) => `${r.dataset.kind} ${r.lastChild.textContent}`));

check("a run shows its to-dos, files, and sub-agents", async ({ page }) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(studio("view=agent&assistant=scribe"));
  await page.getByRole("heading", { name: "No plan, files, or sub-agents" }).waitFor();
  await page.goto(studio(`thread=${await written()}`));
  await page.getByRole("button", { name: "Agent", exact: true }).click();
  await becomes(() => todos(page), ["● completed: Write the notes", "● completed: Count their lines"]);
  await page.getByText("2 of 2 completed").waitFor();
  const file = page.getByRole("region", { name: "/notes.md" });
  await file.getByText("one\nsecond\nthree").waitFor();
  const agents = page.getByRole("region", { name: "Sub-agents" });
  await agents.getByText("Count the lines of /notes.md.").click();
  await agents.getByText("It has three lines.").waitFor();
  // The agent, and its own sub-agent, whose calls LangGraph's server does not record.
  await becomes(() => agents.locator("summary").getByText("done", { exact: true }).count(), isLangGraphs ? 1 : 2);
  same(await barriers(page), []);
});

check(
  "sub-agents are a tree, each with its steps",
  async ({ page }) => {
    await page.goto(studio(`view=agent&thread=${await written()}`));
    const agents = page.getByRole("region", { name: "Sub-agents" });
    const reader = agents.getByRole("listitem").getByRole("listitem").filter({ hasText: "reader" }).first();
    await reader.locator("summary").click();
    const steps = async (of) =>
      (await agents.getByRole("list", { name: of }).innerText()).replace(/\d+.*/g, "").split("\n");
    await becomes(async () => (await steps("Steps of reader"))[0], "model");
    await agents.getByText("Count the lines of /notes.md.").click();
    await becomes(
      async () => (await steps("Steps of counter")).filter((s) => ["model", "task reader"].includes(s)),
      ["model", "task reader", "model"],
    );
    same(await barriers(page), []);
  },
  { deviates: "sub-agents" },
);

check(
  "a script shows its calls, with their arguments and results",
  async ({ page }) => {
    const { thread_id } = await post("/threads", {});
    await post(`/threads/${thread_id}/runs/wait`, { assistant_id: "coder", input: { messages: "What costs tea?" } });
    await page.goto(studio(`thread=${thread_id}`));
    // There are neither to-dos nor files, but a script.
    await page.getByRole("button", { name: "Agent", exact: true }).click();
    const scripts = page.getByRole("region", { name: "Commands and scripts" });
    await scripts.getByText("run_code").click();
    await scripts.getByText('"tea":4').waitFor();
    const steps = scripts.getByRole("list", { name: "Steps of run_code" });
    const [tea, coal] = [steps.locator("li").nth(0), steps.locator("li").nth(1)];
    await tea.getByText("price").click();
    await tea.getByRole("heading", { name: "Arguments" }).waitFor();
    await tea.getByText('"tea"').waitFor();
    await tea.getByRole("heading", { name: "Result" }).waitFor();
    await tea.getByText("4", { exact: true }).waitFor();
    await coal.getByText("failed", { exact: true }).click();
    await coal.getByText('"coal"').waitFor();
    await coal
      .getByText(/no price of coal/)
      .first()
      .waitFor();
    same(await barriers(page), []);
  },
  { deviates: "recorded calls" },
);

check("a file has versions, each with its changes and its checkpoint", async ({ page }) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  const thread = await written();
  await page.goto(studio(`view=agent&thread=${thread}`));
  await page.getByRole("tab", { name: "Changes", exact: true }).click();
  await becomes(() => lines(page), ["same one", "removed two", "added second", "same three"]);
  const versions = page.getByRole("combobox", { name: "Version" });
  await becomes(
    async () => (await versions.getByRole("option").allInnerTexts()).map((t) => t.split(" · ")[0]),
    ["Latest", "Version 2", "Version 1"],
  );
  await versions.selectOption({ index: 2 });
  await becomes(() => lines(page), ["added one", "added two", "added three"]);
  await page.getByRole("button", { name: "Open checkpoint" }).click();
  await page.getByRole("region", { name: "Steps" }).waitFor();
  // At the checkpoint, the agent had written the file and not edited it.
  await page.getByRole("button", { name: "Agent", exact: true }).click();
  await becomes(() => todos(page), ["◐ in progress: Write the notes", "○ pending: Count their lines"]);
  await page.getByRole("region", { name: "/notes.md" }).getByText("one\ntwo\nthree").waitFor();
  same(await page.getByRole("region", { name: "Sub-agents" }).count(), 0);
  await page.getByRole("button", { name: "Newest" }).click();
  await page.getByText("2 of 2 completed").waitFor();
});

check("the plan and the file fit a narrow screen", async ({ page }) => {
  await page.setViewportSize({ width: 390, height: 800 });
  await page.goto(studio(`view=agent&thread=${await written()}`));
  await page.getByRole("region", { name: "/notes.md" }).getByText("one\nsecond\nthree").waitFor();
  same(
    await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth),
    false,
    "it scrolls sideways",
  );
  same(await barriers(page), []);
});

await run();
