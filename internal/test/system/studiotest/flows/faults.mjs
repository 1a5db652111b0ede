// The studio on networks that are slow or fail, and before servers that reject it.
import { becomes, check, run, same, until, write } from "../../../browsertest/kit.mjs";
import { proxy } from "../../../browsertest/proxy.mjs";
import { lost, onEach } from "../networks.mjs";
import { newPace } from "../pace.mjs";
import { api, unextended } from "../scenes.mjs";

const server = process.argv[2];

const button = (page, name) => page.getByRole("button", { name });
const status = (page, text) =>
  page.getByRole("form", { name: "Run" }).getByText(text, { exact: true }).first().waitFor();

// submitted opens a paced run through a network.
async function submitted(page, net, count) {
  const pace = newPace(server);
  await page.goto(`${net.url}/studio/?assistant=paced`);
  await page.getByLabel("pace").fill(pace.name);
  await page.getByLabel("count").fill(String(count));
  await button(page, "Submit").click();
  return pace;
}

const thread = (page) => until(() => new URL(page.url()).searchParams.get("thread"), "a thread");
const ticks = async (page) =>
  (await api(server, "GET", `/threads/${await thread(page)}/state`)).values.ticks?.length ?? 0;

check("a run is followed after an outage of a minute", async ({ page, allow, later }) => {
  allow(lost);
  const net = await proxy(server, later);
  await page.clock.install();
  const pace = await submitted(page, net, 4);
  await pace.allow(1);
  await button(page, /^Node tick: running.*2 times/).waitFor();
  net.outage();
  await page.getByText(/does not answer/).waitFor();
  await pace.allow(1);
  await page.clock.runFor(60_000); // the outage, by the clock of the page
  same(await page.getByRole("form", { name: "Run" }).getByText("Failed", { exact: true }).count(), 0);
  net.mend();
  await button(page, /^Node tick: running.*3 times/).waitFor();
  await pace.allow(2);
  await status(page, "Done");
  same(await ticks(page), 4);
});

check("a run that ended during an outage is shown as done", async ({ page, allow, later }) => {
  allow(lost);
  const net = await proxy(server, later);
  const pace = await submitted(page, net, 2);
  await button(page, /^Node tick: running/).waitFor();
  net.outage();
  await pace.allow(2);
  await becomes(() => ticks(page), 2);
  net.mend();
  await status(page, "Done");
});

check("a run is followed through connections that break", async ({ page, allow, later }) => {
  allow(lost);
  const net = await proxy(server, later);
  net.slow(60);
  const pace = await submitted(page, net, 6);
  await button(page, /^Node tick: running/).waitFor();
  for (let i = 1; i < 6; i++) {
    net.drop();
    await pace.allow(1);
    await button(page, new RegExp(`^Node tick: running.*${i + 1} times`)).waitFor();
  }
  await pace.allow(1);
  await status(page, "Done");
});

check("a run whose request got no response is found", async ({ page, allow, later }) => {
  allow(lost);
  const net = await proxy(server, later);
  await page.goto(`${net.url}/studio/?assistant=paced&thread=${(await api(server, "POST", "/threads", {})).thread_id}`);
  const pace = newPace(server);
  await page.getByLabel("pace").fill(pace.name);
  await page.getByLabel("count").fill("1");
  net.deafen();
  await button(page, "Submit").click();
  const id = await thread(page);
  await until(async () => (await api(server, "GET", `/threads/${id}/runs`)).length === 1, "the run to start");
  net.outage();
  await page
    .getByText(/The run may have started/)
    .first()
    .waitFor();
  net.mend();
  await status(page, "Running");
  await pace.allow(1);
  await status(page, "Done");
});

// watched returns the texts that a part of the page has shown: the status in the run panel, or another one.
async function watched(page, part = ".run-status .badge") {
  const shown = new Set();
  await page.exposeFunction("showed", (text) => shown.add(text));
  await page.addInitScript((part) => {
    const look = () => {
      const text = document.querySelector(part)?.textContent;
      if (text) void window.showed(text);
      requestAnimationFrame(look);
    };
    look();
  }, part);
  return shown;
}

for (const [about, hours] of [
  ["", 0],
  [" by a page whose clock is ahead", 1],
  [" by a page whose clock is behind", -1],
])
  for (const [of, create] of [
    ["a thread", async () => (await api(server, "POST", "/threads", {})).thread_id],
    [
      "a thread with runs",
      async () => {
        const { thread_id } = await api(server, "POST", "/threads", {});
        await api(server, "POST", `/threads/${thread_id}/runs/wait`, {
          assistant_id: "router",
          input: { target: "left" },
        });
        return thread_id;
      },
    ],
    ["a new thread", async () => ""],
  ])
    check(`a lost run of ${of} is not shown as failed${about}`, async ({ page, allow, later }) => {
      allow(lost);
      const net = await proxy(server, later);
      const shown = await watched(page);
      await page.addInitScript((ms) => {
        const now = Date.now;
        Date.now = () => now() + ms;
      }, hours * 3_600_000);
      const existing = await create();
      await page.goto(`${net.url}/studio/?assistant=paced${existing && "&thread=" + existing}`);
      if (existing)
        await page
          .getByText("No steps yet")
          .or(page.getByRole("region", { name: "Steps" }))
          .first()
          .waitFor();
      const before = existing ? (await api(server, "GET", `/threads/${existing}/runs`)).length : 0;
      const pace = newPace(server);
      await page.getByLabel("pace").fill(pace.name);
      await page.getByLabel("count").fill("1");
      net.deafen();
      await button(page, "Submit").click();
      const sent = await until(() => net.requests.find((r) => /\/runs\/stream/.test(r)), "the run to be sent");
      const id = sent.split("/")[2];
      const runs = () => api(server, "GET", `/threads/${id}/runs`).catch(() => []);
      await until(async () => (await runs()).length > before, "the run to start");
      // A browser sends the request once more if a connection breaks that it has used before.
      const unsure = page.getByText(/The run may have started/);
      await until(async () => (net.drop(), (await unsure.count()) > 0), "the request to be lost");
      net.mend();
      net.drop();
      await becomes(() => unsure.count(), 0);
      await status(page, "Running");
      await pace.allow(1);
      await status(page, "Done");
      same(await thread(page), id);
      same((await runs()).length, before + 1, "runs");
      same(
        [...shown].filter((word) => word === "Failed"),
        [],
      );
    });

check("a run whose request never arrived has failed", async ({ page, allow, later }) => {
  allow(lost);
  const net = await proxy(server, later);
  await page.goto(`${net.url}/studio/?assistant=paced`);
  await page.getByLabel("pace").fill("none");
  await page.route("**/runs/stream", (r) => r.abort());
  await button(page, "Submit").click();
  await page
    .getByText(/The run may have started/)
    .first()
    .waitFor();
  await status(page, "Running");
  await status(page, "Failed");
  await page
    .getByText(/the run has not started/)
    .first()
    .waitFor();
});

check("a gateway that gives up on a run starts it once", async ({ page, allow, later }) => {
  allow(/504/);
  const shown = await watched(page);
  await page.goto(`${server}/studio/?assistant=paced`);
  const pace = newPace(server);
  await page.getByLabel("pace").fill(pace.name);
  await page.getByLabel("count").fill("1");
  const delivered = [];
  const gateway = new AbortController();
  later(() => gateway.abort());
  await page.route("**/runs/stream", async (r) => {
    const request = r.request();
    const id = request.url().split("/").at(-3);
    const runs = async () => (await api(server, "GET", `/threads/${id}/runs`).catch(() => [])).length;
    const before = await runs();
    void fetch(request.url(), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: request.postData(),
      signal: gateway.signal,
    }).catch(() => {});
    await until(async () => (await runs()) > before, "the run to start");
    delivered.push(id);
    await r.fulfill({ status: 504, body: "upstream request timeout" });
  });
  await button(page, "Submit").click();
  await page
    .getByText(/upstream request timeout/)
    .first()
    .waitFor();
  await page
    .getByText(/upstream request timeout/)
    .first()
    .waitFor({ state: "detached" });
  await status(page, "Running");
  await pace.allow(1);
  await status(page, "Done");
  same((await api(server, "GET", `/threads/${await thread(page)}/runs`)).length, 1, "runs");
  same(delivered.length, 1, "requests");
  same(shown.has("Failed"), false);
});

check("a run is sent at once while names of threads are loaded", async ({ page, later }) => {
  const net = await proxy(server, later);
  await unextended(page); // such a server lists threads without their titles
  const metadata = { graph_id: "paced" }; // the page lists the threads of one graph
  await Promise.all(Array.from({ length: 40 }, () => api(server, "POST", "/threads", { metadata })));
  // No name arrives before the run is sent.
  let release;
  const sent = new Promise((resolve) => (release = resolve));
  later(release);
  const forNames = (r) => r.url().endsWith("/threads/search") && !!r.postDataJSON()?.ids;
  await page.route("**/threads/search", async (r) => {
    if (forNames(r.request())) await sent;
    await r.continue();
  });
  net.slow(60);
  const named = page.waitForRequest(forNames);
  await page.goto(`${net.url}/studio/?assistant=paced&baseUrl=${net.url}`);
  const pace = newPace(server);
  await page.getByLabel("pace").fill(pace.name);
  await page.getByLabel("count").fill("1");
  await named;
  await button(page, "Submit").click();
  await until(() => net.requests.some((r) => /^POST \/threads\/[^/]+\/runs\/stream/.test(r)), "the run to be sent");
  release();
  await pace.allow(1);
  await status(page, "Done");
});

onEach(server, "runs that cannot be read say why", async ({ page, allow, net, drop }) => {
  allow(/422/);
  const { thread_id } = await api(server, "POST", "/threads", {});
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "router", input: { target: "left" } });
  const refuse = (r) => r.fulfill({ status: 422, json: { detail: "select is not a list" } });
  const refused = async (query) => {
    await page.goto(`${net.url}/studio/?view=runs${query}`);
    drop();
    await page.getByRole("heading", { name: "Failed to load runs" }).waitFor();
    await page.getByText("select is not a list").waitFor();
  };
  await page.route("**/search/runs", refuse);
  await refused("");
  await page.unroute("**/search/runs");
  // On a server that cannot search, runs are listed thread by thread.
  await unextended(page);
  await page.route(/\/threads\/[^/]+\/runs\?/, refuse);
  await refused(`&baseUrl=${net.url}`);
});

onEach(server, "a server that requires a key is not shown as connected", async ({ page, allow, net, drop }) => {
  allow(/401/);
  await page.route(/\/(assistants|threads|store|runs)\b/, (r) =>
    r.fulfill({ status: 401, json: { detail: "no key" } }),
  );
  await page.goto(`${net.url}/studio/`);
  drop();
  await page.getByRole("heading", { name: "This server requires a key" }).waitFor();
  await button(page, /Key required/).waitFor();
  same(await button(page, /^Connected/).count(), 0);
});

onEach(server, "a server that denies access is not shown as connected", async ({ page, allow, net, drop }) => {
  allow(/403/);
  await page.route("**/assistants/search", (r) =>
    r.fulfill({ status: 403, json: { detail: "this key may not list assistants" } }),
  );
  await page.goto(`${net.url}/studio/`);
  drop();
  await page.getByRole("heading", { name: "This server requires a key" }).waitFor();
  await page.getByText("this key may not list assistants").waitFor();
  await button(page, /^Key required/).waitFor();
  same(await button(page, /^Connected/).count(), 0);
});

onEach(server, "a server that fails says why, until it works", async ({ page, allow, net, drop }) => {
  allow(/500/);
  const shown = await watched(page, ".app-server-text");
  await page.route("**/assistants/search", (r) => r.fulfill({ status: 500, json: { detail: "the disk is full" } }));
  await page.goto(`${net.url}/studio/?assistant=router`);
  drop();
  await page.getByRole("heading", { name: "Failed to load the assistants" }).waitFor();
  await page.getByText("the disk is full").waitFor();
  await button(page, /^Server error/).waitFor();
  same(await page.getByText(/not responding|Cannot reach/i).count(), 0);
  same(
    [...shown].filter((text) => text.startsWith("Connected")),
    [],
  );
  await page.unroute("**/assistants/search");
  await page.getByLabel("target").waitFor();
  await button(page, /^Connected/).waitFor();
});

onEach(server, "an input can be sent before its schema arrives, and without it", async ({ page, allow, net, drop }) => {
  allow(/500/);
  let answer;
  const asked = new Promise((resolve) => (answer = resolve));
  await page.route(
    /\/schemas$/,
    async (r) => (await asked, r.fulfill({ status: 500, json: { detail: "no schemas today" } })),
  );
  await page.goto(`${net.url}/studio/?assistant=router`);
  await page.getByText(/still computing the schema/).waitFor();
  const editor = page.getByRole("textbox", { name: "Input as JSON" });
  await write(editor, '{"target": "left"}');
  drop();
  await button(page, "Submit").click();
  await status(page, "Done");
  answer();
  await page.getByText(/no schemas today/).waitFor();
  same((await editor.innerText()).trim(), '{"target": "left"}');
});

onEach(server, "a run whose thread waits for an answer is listed as such", async ({ page, net, drop }) => {
  const name = "waits " + Date.now();
  const { thread_id } = await api(server, "POST", "/threads", { metadata: { thread_name: name } });
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "hitl", input: { topic: "cats" } });
  await page.goto(`${net.url}/studio/?view=runs`);
  drop();
  await page.getByRole("tab", { name: /^Needs answer/ }).click();
  const row = page.getByRole("article", { name: new RegExp(`of ${name}$`) });
  await row.getByText("Needs answer").waitFor();
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "hitl", command: { resume: true } });
  await row.waitFor({ state: "detached" });
});

check("lists are up to date after an outage of a minute", async ({ page, allow, later }) => {
  allow(lost);
  const net = await proxy(server, later);
  await page.clock.install();
  await page.goto(`${net.url}/studio/?view=runs`);
  await page.getByRole("tab", { name: /^All/ }).waitFor();
  net.outage();
  await page.clock.runFor(60_000); // by the clock of the page
  await page.getByText(/does not answer/).waitFor();
  const name = "in an outage " + Date.now();
  const { thread_id } = await api(server, "POST", "/threads", { metadata: { thread_name: name } });
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "hitl", input: { topic: "cats" } });
  net.mend();
  const row = page.getByRole("article", { name: new RegExp(`of ${name}$`) });
  await row.getByText("Needs answer").waitFor();
  await page.getByText(/does not answer/).waitFor({ state: "detached" });
});

await run({ only: process.argv[3] });
