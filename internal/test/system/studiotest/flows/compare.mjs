// Two runs with the same input, side by side.
import { becomes, same, until, write } from "../../../browsertest/kit.mjs";
import { barriers, check, run, server, studio } from "../flow.mjs";
import { newPace } from "../pace.mjs";
import { api } from "../scenes.mjs";

const side = (page, name) => page.getByRole("region", { name, exact: true });
const both = ["Left", "Right"];

check("two assistants run the same input, live, and can be linked to", async ({ page }) => {
  const { assistant_id } = await api(server, "POST", "/assistants", { graph_id: "talker", name: "The other" });
  const pace = newPace();
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(studio(`view=compare&assistant=talker&other=${assistant_id}`));
  await becomes(
    () => page.getByLabel("Right assistant").evaluate((s) => s.selectedOptions[0].textContent),
    "The other (talker)",
  );
  const input = page.getByRole("textbox", { name: "Input of both runs as JSON" });
  await write(input, JSON.stringify({ messages: `paced ${pace.name} 3` }));
  await page.getByRole("button", { name: "Run both" }).click();
  // Both are running at the same time, and neither can end yet.
  for (const name of both) await side(page, name).getByText("Running", { exact: true }).waitFor();
  await pace.allow(1);
  await until(async () => (await page.locator(".sides").innerText()).includes("w0"), "the first word of one of them");
  await pace.allow(5);
  for (const name of both) {
    await side(page, name).getByText("Done", { exact: true }).waitFor();
    await side(page, name)
      .getByText(/w0 w1 w2/)
      .first()
      .waitFor();
  }
  await side(page, "Differences").getByText("messages").waitFor();
  same(await barriers(page), []);
  const threads = ["left", "right"].map((key) => new URL(page.url()).searchParams.get(key));
  same(new Set(threads).size, 2, "threads");
  // The link shows the same two runs, and their input.
  await page.reload();
  for (const name of both)
    await side(page, name)
      .getByText(/w0 w1 w2/)
      .first()
      .waitFor();
  await until(async () => (await input.innerText()).includes(pace.name), "the input");
  const runs = await Promise.all(threads.map((t) => api(server, "GET", `/threads/${t}/runs`)));
  same(runs[1][0].assistant_id, assistant_id);
});

check("two checkpoints of a thread run on copies of it", async ({ page }) => {
  const { thread_id } = await api(server, "POST", "/threads", {});
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "counter", input: { upto: 3 } });
  const steps = await api(server, "GET", `/threads/${thread_id}/history?limit=100`);
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(studio(`assistant=counter&thread=${thread_id}`));
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Compare checkpoints" });
  for (const [at, step] of [0, 2].entries())
    await dialog
      .getByRole("combobox")
      .nth(at)
      .selectOption(steps.find((s) => s.metadata.step === step).checkpoint.checkpoint_id);
  await dialog.getByRole("button", { name: "Run both side by side" }).click();
  await write(page.getByRole("textbox", { name: "Input of both runs as JSON" }), JSON.stringify({ upto: 5 }));
  await page.getByRole("button", { name: "Run both" }).click();
  for (const name of both) await side(page, name).getByText("Done", { exact: true }).waitFor();
  await side(page, "Differences").getByText("The two states are equal.").waitFor();
  const lengths = [];
  for (const key of ["left", "right"]) {
    const thread = new URL(page.url()).searchParams.get(key);
    same((await api(server, "GET", `/threads/${thread}/state`)).values, { upto: 5, n: 5 });
    const [{ run_id }] = await api(server, "GET", `/threads/${thread}/runs`);
    const all = await api(server, "GET", `/threads/${thread}/history?limit=100`);
    lengths.push(all.filter((s) => s.metadata.run_id === run_id).length);
  }
  same(lengths[0] > lengths[1], true, `checkpoints of the runs: ${lengths}`);
  same(
    (await api(server, "GET", `/threads/${thread_id}/history?limit=100`)).length,
    steps.length,
    "the thread is as before",
  );
});

check("the input of a traced run is offered", async ({ page }) => {
  const { thread_id } = await api(server, "POST", "/threads", {});
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "counter", input: { upto: 2 } });
  await page.setViewportSize({ width: 360, height: 740 });
  await page.goto(studio(`view=trace&assistant=counter&thread=${thread_id}`));
  await page.getByRole("button", { name: "Side by side" }).click();
  const input = page.getByRole("textbox", { name: "Input of both runs as JSON" });
  await until(async () => /"upto": 2/.test(await input.innerText()), "the input of the run");
  same(
    await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth),
    false,
    "wider than the page",
  );
});

await run();
