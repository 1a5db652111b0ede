// The status of threads and runs: live, by link, and after a reload, on networks that are fast, slow, and fail.
import { becomes, same, until } from "../../../browsertest/kit.mjs";
import { check, run, server, studio } from "../flow.mjs";
import { onEach } from "../networks.mjs";
import { newPace } from "../pace.mjs";
import { api } from "../scenes.mjs";

const form = (page) => page.getByRole("form", { name: "Run" });
const status = (page, text) => form(page).getByText(text, { exact: true }).first().waitFor();
const node = (page, name) => page.getByRole("button", { name });
const words = ["Queued", "Running", "Needs answer", "Failed", "Stopped", "Done", "Paused"];
const thread = (page) => until(() => new URL(page.url()).searchParams.get("thread"), "a thread");

// shown returns the words that the panel shows for the status and for the button that continues.
async function shown(page) {
  const text = await form(page).locator(".run-foot").innerText();
  return [...words, "Retry", "Continue"].filter((word) => new RegExp(`\\b${word}\\b`).test(text));
}

// submitted starts a run of the graph paced in the page.
async function submitted(page, at, { count, fail }) {
  const pace = newPace();
  await page.goto(at("assistant=paced"));
  await page.getByLabel("pace").fill(pace.name);
  await page.getByLabel("count").fill(String(count));
  if (fail) await page.getByLabel("fail").fill(fail);
  await page.getByRole("button", { name: "Submit" }).click();
  await node(page, /^Node tick: running/).waitFor();
  return pace;
}

// opened opens a thread by its link.
const opened = (page, at, id, view = "") => page.goto(at(`assistant=paced&thread=${id}${view && "&view=" + view}`));

onEach(
  "a failed run is the same live and by link",
  async ({ page, at, fails }) => {
    const reason = "the first line\n  the second line";
    const pace = await submitted(page, at, { count: 2, fail: reason });
    const failed = async () => {
      await becomes(() => shown(page), ["Failed", "Retry"]);
      await becomes(() => form(page).locator(".run-error").innerText(), reason);
      const notice = page.getByRole("region", { name: "Steps" }).getByRole("alert");
      await becomes(async () => (await notice.innerText()).endsWith(reason), true);
      await page.getByRole("region", { name: "Steps" }).getByRole("button", { name: "Retry" }).waitFor();
      await node(page, /^Node tick: failed.*2 times/).waitFor();
    };
    await fails(() => pace.allow(2));
    await failed();
    await opened(page, at, await thread(page));
    await failed();
    await page
      .getByRole("link", { name: /Failed/ })
      .first()
      .waitFor(); // in the list of threads
    await opened(page, at, await thread(page), "trace");
    await page.locator(".trace-head").getByText("Failed", { exact: true }).waitFor();
  },
  { deviates: "errors of nodes" },
);

// calm fails if a part of the page calls the cancellation an error.
const calm = async (part) => same(await part.getByText(/canceled|failed/i).allInnerTexts(), []);

onEach("a canceled run is stopped, not failed", async ({ page, at, fails }) => {
  const pace = await submitted(page, at, { count: 3 });
  await pace.allow(1);
  await node(page, /^Node tick: running.*2 times/).waitFor();
  const id = await thread(page);
  const [{ run_id }] = await api(server, "GET", `/threads/${id}/runs`);
  const stopped = async () => {
    await becomes(() => shown(page), ["Stopped", "Continue"]);
    await status(page, "next: tick");
    await node(page, /^Node tick: stopped/).waitFor();
    await page.getByRole("region", { name: "Steps" }).getByRole("button", { name: "Continue" }).waitFor();
    await calm(page.locator(".workbench"));
  };
  // By another client.
  await fails(() => api(server, "POST", `/threads/${id}/runs/${run_id}/cancel?wait=true`, {}));
  await stopped();
  await opened(page, at, id);
  await stopped();
  await page
    .getByRole("link", { name: /Stopped/ })
    .first()
    .waitFor();
  await opened(page, at, id, "trace");
  await page.locator(".trace-head").getByText("Stopped", { exact: true }).waitFor();
  await calm(page.locator(".trace"));
  await opened(page, at, id, "runs");
  const row = page.getByRole("article", { name: new RegExp(`of ${pace.name}$`) });
  await row.getByText("Stopped", { exact: true }).waitFor();
});

onEach("a stop in the page is the same after a reload", async ({ page, at, fails }) => {
  await submitted(page, at, { count: 3 });
  await form(page).getByRole("button", { name: "Stop", exact: true }).click();
  await becomes(() => shown(page), ["Stopped", "Continue"]);
  await fails();
  await page.reload();
  await becomes(() => shown(page), ["Stopped", "Continue"]);
  await node(page, /^Node tick: stopped/).waitFor();
});

onEach("a reload keeps the elapsed time and the marks of nodes", async ({ page, at, fails }) => {
  // The server says that runs were created ten minutes earlier.
  await page.route(/\/search\/runs$|\/threads\/[^/]+\/(overview|runs(\/[0-9a-f-]{36})?)(\?|$)/, async (r) => {
    const answer = await r.fetch().catch(() => null);
    if (!answer) return r.abort();
    const earlier = (x) => ({ ...x, created_at: new Date(Date.parse(x.created_at) - 600_000).toISOString() });
    const body = await answer.json();
    if (Array.isArray(body)) return r.fulfill({ response: answer, json: body.map(earlier) });
    if (body.states) return r.fulfill({ response: answer, json: { ...body, run: body.run && earlier(body.run) } });
    return r.fulfill({ response: answer, json: body.runs ? { ...body, runs: body.runs.map(earlier) } : earlier(body) });
  });
  const pace = await submitted(page, at, { count: 3 });
  await pace.allow(1);
  await node(page, /^Node tick: running.*2 times/).waitFor();
  await page.reload();
  await node(page, /^Node tick: running.*2 times/).waitFor();
  const time = () => form(page).locator(".run-time").innerText();
  await becomes(async () => /^10 min/.test(await time()), true);
  await fails(() => pace.allow(2));
  await becomes(() => shown(page), ["Done"]);
  const [took, mark] = [await time(), await node(page, /^Node tick: done.*3 times/).innerText()];
  same([/^1[01] min/.test(took), /×3/.test(mark)], [true, true]); // an outage is a minute more
  await page.reload();
  await becomes(() => shown(page), ["Done"]);
  await node(page, /^Node tick: done.*3 times/).waitFor();
  same(await time(), took);
});

onEach("a run of another client has the same marks", async ({ page, at, fails }) => {
  const pace = newPace();
  const { thread_id: id } = await api(server, "POST", "/threads", {});
  // Its stream is not kept, so that only its checkpoints are known.
  await api(server, "POST", `/threads/${id}/runs`, { assistant_id: "paced", input: { pace: pace.name, count: 3 } });
  await pace.allow(1);
  await opened(page, at, id);
  await node(page, /^Node tick: running.*2 times/).waitFor();
  await becomes(() => shown(page), ["Running"]);
  await fails(() => pace.allow(2));
  await becomes(() => shown(page), ["Done"]);
  await node(page, /^Node tick: done.*3 times/).waitFor();
});

onEach("a pending interrupt needs an answer, live and by link", async ({ page, at, fails }) => {
  await page.goto(at("assistant=hitl"));
  await page.getByRole("button", { name: "Submit" }).click();
  await becomes(() => shown(page), ["Needs answer"]);
  await fails();
  await page.goto(at(`assistant=hitl&thread=${await thread(page)}`));
  await becomes(() => shown(page), ["Needs answer"]);
  await node(page, /^Node propose: done/).waitFor();
  await node(page, /^Node review: interrupted/).waitFor();
  await page
    .getByRole("link", { name: /Needs answer/ })
    .first()
    .waitFor();
});

onEach("a queued run is queued until it starts", async ({ page, at, fails }) => {
  const pace = newPace();
  const { thread_id: id } = await api(server, "POST", "/threads", {});
  for (let i = 0; i < 2; i++)
    await api(server, "POST", `/threads/${id}/runs`, {
      assistant_id: "paced",
      input: { pace: pace.name, count: i + 1 },
      multitask_strategy: "enqueue",
      stream_resumable: true,
    });
  await opened(page, at, id);
  await becomes(() => shown(page), ["Queued"]);
  await fails(() => pace.allow(1));
  await becomes(() => shown(page), ["Running"]);
  await pace.allow(1);
  await becomes(() => shown(page), ["Done"]);
});

check("the start of a graph has one name", async ({ page }) => {
  const { thread_id: id } = await api(server, "POST", "/threads", {});
  await api(server, "POST", `/threads/${id}/runs/wait`, { assistant_id: "router", input: { target: "left" } });
  await page.goto(studio(`assistant=router&thread=${id}`));
  await page.getByRole("article", { name: "Step 0" }).getByRole("button", { name: /start/ }).waitFor();
  same(await page.getByText("__start__").count(), 0);
});

await run();
