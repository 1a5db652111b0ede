// Runs and crons.
import { becomes, same, until } from "../../../browsertest/kit.mjs";
import { barriers, check, elsewhere, run, server, studio } from "../flow.mjs";
import { unextended } from "../scenes.mjs";

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
  await page.goto(studio("view=runs"));
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

const filter = (page, name) => page.getByRole("combobox", { name, exact: true });

check(
  "runs of all threads are found by status, graph, time, and error",
  async ({ page }) => {
    const name = "found " + Date.now();
    await fail(name);
    // The thread is not among those that changed last.
    await Promise.all(Array.from({ length: 35 }, () => api("POST", "/threads", {})));
    const requests = [];
    page.on("request", (r) => new URL(r.url()).pathname.startsWith("/studio") || requests.push(r.url()));
    await page.goto(studio("view=runs"));
    await tab(page, /^Failed/).click();
    await rows(page, name).waitFor();
    same(requests.filter((r) => /\/threads\/[^/]+\/runs/.test(r)).length, 0, "requests for the runs of a thread");
    await filter(page, "Graph").selectOption("failing");
    await filter(page, "Time").selectOption("Last hour");
    await page.getByRole("searchbox", { name: "Error" }).fill("broken " + name);
    await tab(page, "Failed 1").waitFor();
    await page.getByText("All 1 run that match").waitFor();
    await becomes(
      () => ["status", "graph", "since", "error"].map((key) => params(page).get(key)),
      ["failed", "failing", "1h", "broken " + name],
    );
    same(await barriers(page), []);
    await page.reload();
    await rows(page, name).getByText(`boom: ${name} is broken`).waitFor();
    await tab(page, "Failed 1").waitFor();
    await filter(page, "Graph").selectOption("agent");
    await page.getByRole("heading", { name: "No matching runs" }).waitFor();
  },
  { deviates: "search for runs" },
);

check(
  "counts are true, and say when there are more runs",
  async ({ page }) => {
    const { thread_id } = await api("POST", "/threads", {});
    for (let i = 0; i < 55; i++)
      await api("POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "counter", input: { upto: 1 } });
    await page.goto(studio("view=runs&graph=counter"));
    await tab(page, "All 50+").waitFor();
    await page.getByText("The newest 50 runs of all threads that match.").waitFor();
    await page.getByRole("button", { name: "Load more" }).click();
    await tab(page, "All 55").waitFor();
    await page.getByText("All 55 runs that match").waitFor();
  },
  { deviates: "search for runs" },
);

check("a server that lists runs by thread gets a query that it accepts", async ({ page, allow }) => {
  allow(/500/);
  const name = "listed " + Date.now();
  await fail(name);
  await unextended(page);
  const wrong = [];
  page.on("request", (r) => r.url().includes("/search/") && wrong.push(r.url()));
  // LangGraph's Python server takes a field per parameter.
  await page.route(/\/threads\/[^/]+\/runs\?/, (route) => {
    const url = new URL(route.request().url());
    const fields = url.searchParams.getAll("select");
    if (fields.length > 0 && fields.every((f) => /^[a-z_]+$/.test(f))) return route.continue();
    wrong.push(url.search);
    return route.fulfill({ status: 422, json: { detail: "select: not a field" } });
  });
  await page.route(/\/runs\/[^/]+\/join/, (route) =>
    route.fulfill({ status: 500, json: { detail: "the disk is full" } }),
  );
  await page.goto(elsewhere("view=runs&status=failed"));
  await page.getByText(/lists runs thread by thread.*the newest 10 runs of each of the/).waitFor();
  await rows(page, name).getByText("Failed to load the reason: the disk is full").waitFor();
  same(wrong, []);
  same(await page.getByRole("searchbox", { name: "Error" }).count(), 0);
});

check("a run whose thread waits for an answer is not shown as done", async ({ page }) => {
  const thread = await create("waiting");
  await api("POST", `/threads/${thread}/runs/wait`, { assistant_id: "hitl", input: { topic: "cats" } });
  await page.goto(studio("view=runs"));
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
  await page.goto(studio("view=runs"));
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
  await page.goto(studio("view=runs"));
  await rows(page, "leads on").getByRole("link", { name: "Trace" }).click();
  await becomes(() => ["view", "thread", "run"].map((name) => params(page).get(name)), ["trace", thread, run_id]);
  await page.goBack();
  await rows(page, "leads on").getByRole("link", { name: "leads on" }).click();
  await becomes(() => ["view", "thread"].map((name) => params(page).get(name)), [null, thread]);
});

check(
  "a thread that sleeps needs no answer",
  async ({ page }) => {
    const thread = await create("asleep");
    await api("POST", `/threads/${thread}/runs/wait`, { assistant_id: "nap", input: {} });
    await page.goto(studio("view=runs"));
    await rows(page, "asleep").getByText("Stopped").waitFor();
  },
  { deviates: "threads that sleep" },
);

check("crons and their dialog have no barriers", async ({ page }) => {
  await api("POST", "/runs/crons", { assistant_id: "agent", schedule: "*/10 * * * *", input: {}, enabled: false });
  await page.goto(studio("view=runs"));
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
  await page.goto(studio("view=runs&assistant=agent"));
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

await run();
