// Runs and crons.
import { barriers, becomes, check, run, same, until } from "../../../browsertest/kit.mjs";

const server = process.argv[2];
const studio = server + "/studio/?view=runs";

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

const create = async (name) => (await api("POST", "/threads", { metadata: { thread_name: name } })).thread_id;
const runsOf = (thread) => api("GET", `/threads/${thread}/runs`);
const rows = (page, name) =>
  page.getByRole("list", { name: "Runs" }).getByRole("article", { name: new RegExp(`of ${name}$`) });
const tab = (page, name) => page.getByRole("tab", { name });
const params = (page) => new URL(page.url()).searchParams;

async function fail(name) {
  const thread = await create(name);
  await api("POST", `/threads/${thread}/runs/wait`, {
    assistant_id: "failing",
    input: { message: name + " is broken" },
  });
  return thread;
}

check("a failed run shows its reason and is tried again", async ({ page }) => {
  const name = "nightly";
  const thread = await fail(name);
  await page.goto(studio);
  await tab(page, /^Failed/).click();
  const row = rows(page, name);
  await row.getByText(`boom: ${name} is broken`).waitFor();
  same(await barriers(page), []);
  await row.getByRole("button", { name: "Retry" }).click();
  await page.getByRole("menuitem", { name: "Continue from the failure" }).click();
  await until(async () => (await row.count()) === 2, "the second run");
  await row.last().getByRole("button", { name: "Retry" }).click();
  const again = page.getByRole("menuitem", { name: "Run again with the same input" });
  await again.waitFor();
  same(await page.getByRole("menuitem", { name: "Continue from the failure" }).count(), 0);
  await again.click();
  const all = await until(async () => {
    const all = await runsOf(thread);
    return all.length === 3 && all;
  }, "the third run");
  same(
    all.map((r) => r.kwargs.input).reverse(),
    [{ message: name + " is broken" }, null, { message: name + " is broken" }],
    "inputs of the runs",
  );
});

check("a run whose thread waits for an answer is not shown as done", async ({ page }) => {
  const thread = await create("waiting");
  await api("POST", `/threads/${thread}/runs/wait`, { assistant_id: "hitl", input: { topic: "cats" } });
  await page.goto(studio);
  await tab(page, /^Needs answer/).click();
  await rows(page, "waiting").getByText("Needs answer").waitFor();
  await api("POST", `/threads/${thread}/runs/wait`, { assistant_id: "hitl", command: { resume: true } });
  await until(async () => (await rows(page, "waiting").count()) === 0, "the run to be done");
});

check("a run that goes on and one that waits are shown and cancelled", async ({ page }) => {
  const thread = await create("long work");
  for (let i = 0; i < 2; i++)
    await api("POST", `/threads/${thread}/runs`, {
      assistant_id: "paced",
      input: { pace: "never" },
      multitask_strategy: "enqueue",
    });
  const statuses = async () => (await runsOf(thread)).map((r) => r.status);
  await becomes(statuses, ["pending", "running"]);
  await page.goto(studio);
  await tab(page, /^Queue/).click();
  const row = rows(page, "long work");
  await row.getByText("Queued").waitFor();
  await row.getByRole("button", { name: "Cancel" }).click();
  await row.waitFor({ state: "detached" });
  await until(async () => !(await statuses()).includes("pending"), "the end of the run that waited");
  await tab(page, /^Running/).click();
  await row.getByRole("button", { name: "Cancel" }).click();
  await row.waitFor({ state: "detached" });
  await until(async () => !(await statuses()).includes("running"), "the end of the run");
});

check("a run leads to its thread and its trace", async ({ page }) => {
  const thread = await fail("leads on");
  const [{ run_id }] = await runsOf(thread);
  await page.goto(studio);
  await rows(page, "leads on").getByRole("link", { name: "Trace" }).click();
  await becomes(() => ["view", "thread", "run"].map((name) => params(page).get(name)), ["trace", thread, run_id]);
  await page.goBack();
  await rows(page, "leads on").getByRole("link", { name: "leads on" }).click();
  await becomes(() => ["view", "thread"].map((name) => params(page).get(name)), [null, thread]);
});

check("crons and their dialog have no barriers", async ({ page }) => {
  await api("POST", "/runs/crons", { assistant_id: "agent", schedule: "*/10 * * * *", input: {}, enabled: false });
  await page.goto(studio);
  await tab(page, "Crons").click();
  await page
    .getByRole("switch", { name: /agent: Every 10 minutes/ })
    .first()
    .waitFor();
  same(await barriers(page), []);
  await page.getByRole("button", { name: "Create cron" }).click();
  await page.getByRole("dialog", { name: "Create cron" }).waitFor();
  same(await barriers(page), []);
});

check("a cron is created, disabled and deleted", async ({ page }) => {
  await page.goto(studio + "&assistant=agent");
  await tab(page, "Crons").click();
  await page.getByRole("button", { name: "Create cron" }).click();
  const dialog = page.getByRole("dialog", { name: "Create cron" });
  await dialog.getByRole("combobox", { name: "Assistant" }).selectOption("fanout");
  const schedule = dialog.getByRole("textbox", { name: "Schedule" });
  await schedule.fill("whenever");
  await dialog.getByText(/^Five fields/).waitFor();
  await schedule.fill("30 7 * * 1-5");
  await dialog.getByText("At 07:30 on Monday to Friday").waitFor();
  await becomes(() => dialog.getByRole("list", { name: "Next times" }).getByRole("listitem").count(), 3);
  await dialog.getByRole("combobox", { name: "Time zone" }).fill("Europe/Lisbon");
  const foretold = await dialog.getByRole("list", { name: "Next times" }).getByRole("listitem").first().innerText();
  await dialog.getByRole("textbox", { name: "Input" }).click();
  await page.keyboard.press("ControlOrMeta+A");
  await page.keyboard.insertText('{"items": ["a"]}');
  await dialog.getByRole("button", { name: "Create" }).click();

  const on = page.getByRole("switch", { name: /fanout: At 07:30/ });
  await on.waitFor();
  const row = page.getByRole("listitem").filter({ has: on });
  await row.getByText(/^Next in /).waitFor();
  const [cron] = (await api("POST", "/runs/crons/search", {})).filter((c) => c.schedule === "30 7 * * 1-5");
  same([cron.timezone, cron.payload.input, cron.enabled], ["Europe/Lisbon", { items: ["a"] }, true]);
  const next = await page.evaluate(
    ([time, timeZone]) =>
      new Date(time).toLocaleString(undefined, {
        timeZone,
        weekday: "short",
        day: "numeric",
        month: "short",
        year: "numeric",
        hour: "2-digit",
        minute: "2-digit",
      }),
    [cron.next_run_date, cron.timezone],
  );
  same(foretold, next, "the next time as the dialog and as the server have it");

  await on.click();
  await row.getByText("Disabled").waitFor();
  await becomes(async () => (await api("GET", "/runs/crons/" + cron.cron_id)).enabled, false);
  await on.click();
  await row.getByText("Disabled").waitFor({ state: "detached" });

  await row.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete cron" }).click();
  await on.waitFor({ state: "detached" });
  await becomes(async () => (await fetch(server + "/runs/crons/" + cron.cron_id)).status, 404);
});

await run({ only: process.argv[3], origin: server });
