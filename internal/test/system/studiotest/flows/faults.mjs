// The studio on networks that are slow or fail, and before servers that reject it.
import { becomes, same, sleep, until, write } from "../../../browsertest/kit.mjs";
import { proxy } from "../../../browsertest/proxy.mjs";
import { check, elsewhere, isLangGraphs, run, server, studio } from "../flow.mjs";
import { lost, onEach } from "../networks.mjs";
import { newPace } from "../pace.mjs";
import { api, unextended } from "../scenes.mjs";

const button = (page, name) => page.getByRole("button", { name });
const status = (page, text) =>
  page.getByRole("form", { name: "Run" }).getByText(text, { exact: true }).first().waitFor();

// submitted opens a paced run through a network.
async function submitted(page, at, count) {
  const pace = newPace();
  await page.goto(at("assistant=paced"));
  await page.getByLabel("pace").fill(pace.name);
  await page.getByLabel("count").fill(String(count));
  await button(page, "Submit").click();
  return pace;
}

const thread = (page) => until(() => new URL(page.url()).searchParams.get("thread"), "a thread");
const ticks = async (page) =>
  (await api(server, "GET", `/threads/${await thread(page)}/state`)).values.ticks?.length ?? 0;

const realOutage = async ({ page, allow, later }) => {
  allow(lost);
  const net = await proxy(server, later);
  const pace = await submitted(page, (query) => studio(query, net.url), 4);
  await pace.allow(1);
  await button(page, /^Node tick: running.*2 times/).waitFor();
  net.outage();
  await page.getByText(/does not answer/).waitFor();
  await pace.allow(1);
  await sleep(60_000);
  same(await page.getByRole("form", { name: "Run" }).getByText("Failed", { exact: true }).count(), 0);
  net.mend();
  await button(page, /^Node tick: running.*3 times/).waitFor();
  await pace.allow(2);
  await status(page, "Done");
  same(await ticks(page), 4);
};
// One real minute is enough.
if (!isLangGraphs) check("a run is followed after a real outage of a minute", realOutage);

onEach("a run is followed to its end", async ({ page, at, fails }) => {
  const pace = await submitted(page, at, 6);
  await button(page, /^Node tick: running/).waitFor();
  for (let i = 1; i < 4; i++) {
    const goesOn = () => pace.allow(1);
    await (i === 2 ? fails(goesOn) : goesOn());
    await button(page, new RegExp(`^Node tick: running.*${i + 1} times`)).waitFor();
    same(await page.getByRole("form", { name: "Run" }).getByText("Failed", { exact: true }).count(), 0);
  }
  await pace.allow(3);
  await status(page, "Done");
  same(await ticks(page), 6);
});

onEach("a run that ends unseen is shown as done", async ({ page, at, fails }) => {
  const pace = await submitted(page, at, 2);
  await button(page, /^Node tick: running/).waitFor();
  await fails(async () => {
    await pace.allow(2);
    await becomes(() => ticks(page), 2);
  });
  await status(page, "Done");
});

check("a run is followed through connections that break all the time", async ({ page, allow, later }) => {
  allow(lost);
  const net = await proxy(server, later);
  net.slow(60);
  const pace = await submitted(page, (query) => studio(query, net.url), 6);
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
  const { thread_id } = await api(server, "POST", "/threads", {});
  await page.goto(studio(`assistant=paced&thread=${thread_id}`, net.url));
  const pace = newPace();
  await page.getByLabel("pace").fill(pace.name);
  await page.getByLabel("count").fill("1");
  net.deafen(/^POST .*\/runs\/stream/);
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
    let last;
    const look = () => {
      const text = document.querySelector(part)?.textContent;
      if (text && text !== last) void window.showed((last = text));
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
    // These are about the page, so one server is enough.
    (isLangGraphs ? () => {} : check)(
      `a lost run of ${of} is not shown as failed${about}`,
      async ({ page, allow, later }) => {
        allow(lost);
        const net = await proxy(server, later);
        const shown = await watched(page);
        await page.addInitScript((ms) => {
          const now = Date.now;
          Date.now = () => now() + ms;
        }, hours * 3_600_000);
        const existing = await create();
        await page.goto(studio(`assistant=paced${existing && "&thread=" + existing}`, net.url));
        if (existing)
          await page
            .getByText("No steps yet")
            .or(page.getByRole("region", { name: "Steps" }))
            .first()
            .waitFor();
        const before = existing ? (await api(server, "GET", `/threads/${existing}/runs`)).length : 0;
        const pace = newPace();
        await page.getByLabel("pace").fill(pace.name);
        await page.getByLabel("count").fill("1");
        net.deafen(/^POST .*\/runs\/stream/);
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
      },
    );

if (!isLangGraphs)
  check("a run whose request never arrived has failed", async ({ page, allow, later }) => {
    allow(lost);
    const net = await proxy(server, later);
    await page.goto(studio("assistant=paced", net.url));
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

if (!isLangGraphs)
  check("a gateway that gives up on a run starts it once", async ({ page, allow, later }) => {
    allow(/504/);
    const shown = await watched(page);
    await page.goto(studio("assistant=paced"));
    const pace = newPace();
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

onEach("a run is sent at once while names of threads are loaded", async ({ page, net, fails, later }) => {
  await unextended(page); // such a server lists threads without their titles
  const metadata = { graph_id: "paced" }; // the page lists the threads of one graph
  await Promise.all(Array.from({ length: 40 }, () => api(server, "POST", "/threads", { metadata })));
  // No name arrives before the run is sent.
  let release;
  const sent = new Promise((resolve) => (release = resolve));
  later(release);
  const forNames = (r) => (r.method() === "GET" ? /[0-9a-f-]{36}/.test(r.url()) : !!r.postDataJSON()?.ids);
  await page.route(/\/threads\/(search|[0-9a-f-]{36})(\/state)?$/, async (r) => {
    if (forNames(r.request())) await sent;
    await r.continue();
  });
  const named = page.waitForRequest((r) => /\/threads\/(search|[0-9a-f-]{36})/.test(r.url()) && forNames(r));
  await page.goto(elsewhere("assistant=paced", net.url));
  const pace = newPace();
  await page.getByLabel("pace").fill(pace.name);
  await page.getByLabel("count").fill("1");
  await named;
  await fails(undefined, forNames);
  await button(page, "Submit").click();
  await until(() => net.requests.some((r) => /^POST \/threads\/[^/]+\/runs\/stream/.test(r)), "the run to be sent");
  release();
  await pace.allow(1);
  await status(page, "Done");
});

onEach("runs that cannot be read say why", async ({ page, allow, net, at, fails }) => {
  allow(/422/);
  const { thread_id } = await api(server, "POST", "/threads", {});
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "router", input: { target: "left" } });
  const refused = async (address) => {
    await page.goto(address);
    await fails();
    await page.getByRole("heading", { name: "Failed to load runs" }).waitFor();
    await page.getByText("select is not a list").waitFor();
  };
  net.refuse(/^POST \/search\/runs/, 422, "select is not a list");
  if (!isLangGraphs) await refused(at("view=runs"));
  // On a server that cannot search, runs are listed thread by thread.
  await unextended(page);
  net.refuse(/^GET \/threads\/[^/]+\/runs\?/, 422, "select is not a list");
  await refused(elsewhere("view=runs", net.url));
});

onEach("a server that requires a key is not shown as connected", async ({ page, allow, net, at, fails }) => {
  allow(/401/);
  net.refuse(/^(GET|POST) \/(assistants|threads|store|runs)\b/, 401, "no key");
  await page.goto(at());
  await fails();
  await page.getByRole("heading", { name: "This server requires a key" }).waitFor();
  await button(page, /Key required/).waitFor();
  same(await button(page, /^Connected/).count(), 0);
});

onEach("a server that denies access is not shown as connected", async ({ page, allow, net, at, fails }) => {
  allow(/403/);
  net.refuse(/^POST \/assistants\/search\b/, 403, "this key may not list assistants");
  await page.goto(at());
  await fails();
  await page.getByRole("heading", { name: "This server requires a key" }).waitFor();
  await page.getByText("this key may not list assistants").waitFor();
  await button(page, /^Key required/).waitFor();
  same(await button(page, /^Connected/).count(), 0);
});

const saysWhy = async ({ page, allow, net, at, fails }) => {
  allow(/500/);
  const shown = await watched(page, ".app-server-text");
  net.refuse(/^POST \/assistants\/search\b/, 500, "the disk is full");
  await page.goto(at("assistant=router"));
  await fails();
  await page.getByRole("heading", { name: "Failed to load the assistants" }).waitFor();
  await page.getByText("the disk is full").waitFor();
  await button(page, /^Server error/).waitFor();
  same(await page.getByText(/not responding|Cannot reach/i).count(), 0);
  same(
    [...shown].filter((text) => text.startsWith("Connected")),
    [],
  );
  net.accept();
  await page.getByLabel("target").waitFor();
  await button(page, /^Connected/).waitFor();
};
// The page asks another server first whether it is up, and shows that.
if (!isLangGraphs) onEach("a server that fails says why, until it works", saysWhy);

onEach("an input can be sent before its schema arrives, and without it", async ({ page, allow, at, fails }) => {
  allow(/500/);
  let answer;
  const asked = new Promise((resolve) => (answer = resolve));
  await page.route(
    /\/schemas$/,
    async (r) => (await asked, r.fulfill({ status: 500, json: { detail: "no schemas today" } })),
  );
  await page.goto(at("assistant=router"));
  await page.getByText(/still computing the schema/).waitFor();
  const editor = page.getByRole("textbox", { name: "Input as JSON" });
  await write(editor, '{"target": "left"}');
  await fails(undefined, (r) => r.url().endsWith("/schemas"));
  await button(page, "Submit").click();
  await status(page, "Done");
  answer();
  await page.getByText(/no schemas today/).waitFor();
  same((await editor.innerText()).trim(), '{"target": "left"}');
});

onEach("a run whose thread waits for an answer is listed as such", async ({ page, at, fails }) => {
  const name = "waits " + Date.now();
  const { thread_id } = await api(server, "POST", "/threads", { metadata: { thread_name: name } });
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "hitl", input: { topic: "cats" } });
  await page.goto(at("view=runs"));
  await fails();
  await page.getByRole("tab", { name: /^Needs answer/ }).click();
  const row = page.getByRole("article", { name: new RegExp(`of ${name}$`) });
  await row.getByText("Needs answer").waitFor();
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "hitl", command: { resume: true } });
  await row.waitFor({ state: "detached" });
});

onEach("lists are up to date after the network failed", async ({ page, at, fails }) => {
  await page.goto(at("view=runs"));
  await page.getByRole("tab", { name: /^All/ }).waitFor();
  const name = "unseen " + Date.now();
  await fails(async () => {
    const { thread_id } = await api(server, "POST", "/threads", { metadata: { thread_name: name } });
    await api(server, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "hitl", input: { topic: "cats" } });
  });
  const row = page.getByRole("article", { name: new RegExp(`of ${name}$`) });
  await row.getByText("Needs answer").waitFor();
  await page.getByText(/does not answer/).waitFor({ state: "detached" });
});

// One of the three waits for a minute.
await run({ jobs: 3, origin: undefined });
