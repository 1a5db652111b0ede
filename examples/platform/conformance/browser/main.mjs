// Drives the pages on LangGraph's hooks through what users do, and prints a line of JSON for each check.
//
//   node main.mjs --url URL [--only PREFIX]
//
// The server at URL serves the graphs of internal/test/platform and those of browser_test.go.

import { becomes, check, run, same, until } from "../../../../internal/test/browsertest/kit.mjs";
import { add, api, args, ended, gate, get } from "./site.mjs";
import "./agentchat.mjs";
import "./assistantui.mjs";
import "./agui.mjs";

// clients are the hooks: the page that uses one, and the package that the page gets as the SDK.
const clients = {
  "sdk 1.12": { page: "classic", sdk: "sdk1", branches: true },
  "sdk 2.0": { page: "classic", sdk: "sdk2", branches: true },
  react: { page: "protocol" },
  "react over websocket": { page: "protocol", transport: "websocket" },
};

// components are pages that show components which the server sends.
const components = {
  "components 1.12": { page: "components", sdk: "sdk1" },
  "components 2.0": { page: "components", sdk: "sdk2" },
};

const addresses = {};
for (const [name, { page, sdk }] of Object.entries({ ...clients, ...components })) {
  addresses[name] = add(name, page, sdk && { "@langchain/langgraph-sdk": sdk });
}

// cut cuts the connections through which a page follows its thread.
async function cut(chat) {
  if ((await get(`/cut/${await chat.thread()}`, { method: "POST" })) === 0) throw new Error("there is no connection to cut");
}

// Chat is a page, with the eyes and the hands of a user.
class Chat {
  constructor(page, name) {
    Object.assign(this, { page, name, client: clients[name] });
  }

  async open(assistant = "chat", thread) {
    const query = new URLSearchParams({ api, assistant });
    if (this.client.transport) query.set("transport", this.client.transport);
    if (thread) query.set("thread", thread);
    await this.page.goto(`${addresses[this.name]}?${query}`);
    await this.page.waitForSelector("#status");
  }

  async reload() {
    await this.page.reload();
    await this.page.waitForSelector("#status");
  }

  button(name) {
    return this.page.getByRole("button", { name, exact: true });
  }

  async send(text) {
    await this.page.fill("#text", text);
    await this.button("Send").click();
  }

  async start(input) {
    await this.page.fill("#input", JSON.stringify(input));
    await this.button("Start").click();
  }

  async edit(text) {
    const last = this.page.locator("li[data-type=human]").last();
    await last.locator(".draft").fill(text);
    await last.getByRole("button", { name: "Edit" }).click();
  }

  // switch shows another thread, or a new one.
  switch(thread = "new") {
    return this.page.fill("#switch", thread);
  }

  // thread waits until the page has a thread, and returns it.
  thread() {
    return until(() => this.page.innerText("#thread"), "a thread");
  }

  status(want) {
    return this.page.waitForFunction((s) => document.querySelector("#status")?.innerText === s, want);
  }

  texts() {
    return this.page.locator("li .text").allTextContents();
  }

  values() {
    return this.page.innerText("#values").then(JSON.parse);
  }

  // shows waits until these are the messages, and nothing goes on.
  async shows(...want) {
    await this.sees(...want);
    // A page may read the thread again after the end of a run.
    await becomes(async () => [await this.page.innerText("#status"), await this.texts()], ["idle", want], "messages");
  }

  // sees waits until these are the messages, which may go on.
  async sees(...want) {
    await this.page
      .waitForFunction((w) => JSON.stringify([...document.querySelectorAll("li .text")].map((e) => e.textContent)) === w, JSON.stringify(want))
      .catch((err) => {
        throw new Error(`waited in vain for the messages ${JSON.stringify(want)}`, { cause: err });
      });
  }

  // grew checks that every text that the page has shown since it was loaded of an answer that ends
  // as want continues the one before: that nothing was shown twice or taken back.
  async grew(want) {
    const shown = await this.page.evaluate(() => window.shown.filter((m) => m.type === "ai").map((m) => m.text));
    for (const [i, text] of shown.entries()) {
      if (!want.startsWith(text)) throw new Error(`${JSON.stringify(text)} was shown on the way to ${JSON.stringify(want)}`);
      if (i > 0 && text.length < shown[i - 1].length) throw new Error(`${JSON.stringify(shown[i - 1])} was taken back to ${JSON.stringify(text)}`);
    }
    return shown;
  }
}

// flow adds a check for each client.
function flow(name, drive, wanted = () => true) {
  for (const [client, options] of Object.entries(clients)) {
    if (!wanted(options)) continue;
    check(`${client}/${name}`, (kit) => drive(new Chat(kit.page, client), kit));
  }
}

flow("an answer appears word by word", async (chat) => {
  const g = gate();
  await chat.open();
  await chat.send(`one two ${g.word} three four`);
  await chat.sees(`one two ${g.word} three four`, `Answer 1: one two ${g.word} `);
  await chat.status("streaming");
  await g.open();
  const answer = `Answer 1: one two ${g.word} three four`;
  await chat.shows(`one two ${g.word} three four`, answer);
  await chat.grew(answer);
  await chat.send("more");
  await chat.shows(`one two ${g.word} three four`, answer, "more", "Answer 1: more");
  await ended(await chat.thread(), "success", "success");
});

flow("tools are called", async (chat) => {
  await chat.open("agent");
  await chat.send("what is the weather");
  await chat.shows("what is the weather", "", "sunny in Paris", "It is sunny in Paris today.");
});

flow("stop cancels the run, and the chat goes on", async (chat) => {
  const g = gate();
  await chat.open();
  await chat.send(`stop ${g.word} here`);
  await chat.sees(`stop ${g.word} here`, `Answer 1: stop ${g.word} `);
  await chat.button("Stop").click();
  await chat.status("idle");
  await ended(await chat.thread(), "interrupted");
  await chat.send("go on");
  await until(async () => (await chat.texts()).includes("Answer 1: go on"), "the next answer");
  await chat.status("idle");
  await ended(await chat.thread(), "success", "interrupted");
  // The answer that was stopped is not in the thread.
  const { values } = await get(`/threads/${await chat.thread()}/state`);
  same(values.messages.map((m) => m.content), [`stop ${g.word} here`, "go on", "Answer 1: go on"]);
  await chat.reload();
  await chat.shows(`stop ${g.word} here`, "go on", "Answer 1: go on");
});

flow("an interrupt is approved", async (chat, { allow }) => {
  // The protocol client shows the question of the stored state before its stream has told of it, and refuses an answer that
  // comes in between. A user would click again.
  const tooEarly = /No pending interrupt to respond to/;
  let refused = false;
  allow(tooEarly);
  chat.page.on("pageerror", (err) => (refused ||= tooEarly.test(err.message)));
  await chat.open("hitl");
  await chat.start({ topic: "rain" });
  const question = '{"question":"approve?","topic":"rain"}';
  await chat.page.waitForFunction((q) => document.querySelector("#interrupt")?.innerText === q, question);
  await chat.status("idle");
  await ended(await chat.thread(), "success");
  await chat.reload();
  await chat.page.waitForFunction((q) => document.querySelector("#interrupt")?.innerText === q, question);
  await chat.button("Approve").click();
  await until(async () => {
    if (refused) {
      refused = false;
      await chat.button("Approve").click();
    }
    return (await chat.values()).log?.at(-1) === "finished";
  }, "the end of the run");
  await chat.status("idle");
  await becomes(async () => (await chat.values()).log, ["proposed:rain", 'reviewed:{"ok":true}', "finished"]);
  same((await chat.values()).approval, { ok: true });
  await becomes(() => chat.page.locator("#interrupt").count(), 0, "questions shown");
  await chat.reload();
  await until(async () => (await chat.values()).log?.length === 3, "the state");
  await becomes(() => chat.page.locator("#interrupt").count(), 0, "questions shown after a reload");
});

flow("a message is edited", async (chat) => {
  await chat.open();
  await chat.send("zero");
  await chat.shows("zero", "Answer 1: zero");
  await chat.send("first");
  await chat.shows("zero", "Answer 1: zero", "first", "Answer 1: first");
  await chat.edit("second");
  await chat.shows("zero", "Answer 1: zero", "second", "Answer 1: second");
  await chat.send("third");
  await chat.shows("zero", "Answer 1: zero", "second", "Answer 1: second", "third", "Answer 1: third");
  await chat.reload();
  await chat.shows("zero", "Answer 1: zero", "second", "Answer 1: second", "third", "Answer 1: third");
});

flow("an answer is made again", async (chat) => {
  await chat.open();
  await chat.send("again");
  await chat.shows("again", "Answer 1: again");
  await chat.button("Regenerate").click();
  await chat.shows("again", "Answer 2: again");
  await chat.button("Regenerate").click();
  await chat.shows("again", "Answer 3: again");
  await chat.reload();
  await chat.shows("again", "Answer 3: again");
});

flow(
  "branches are counted and shown",
  async (chat) => {
    const branches = () => chat.page.locator(".branch").allTextContents();
    await chat.open();
    await chat.send("first");
    await chat.shows("first", "Answer 1: first");
    await becomes(branches, []);
    await chat.edit("second");
    await chat.shows("second", "Answer 1: second");
    await until(async () => (await branches())[0] === "2 of 2", "the second branch");
    await chat.button("Previous").click();
    await chat.shows("first", "Answer 1: first");
    await becomes(branches, ["1 of 2"]);
    await chat.button("Next").click();
    await chat.shows("second", "Answer 1: second");
    await chat.button("Regenerate").click();
    await chat.shows("second", "Answer 2: second");
    await becomes(branches, ["2 of 2", "2 of 2"]);
    await chat.button("Previous").last().click();
    await chat.shows("second", "Answer 1: second");
    await chat.button("Previous").first().click();
    await chat.shows("first", "Answer 1: first");
    // A message continues the branch that was shown. Then the hook shows the branch that was begun last.
    await chat.send("third");
    await ended(await chat.thread(), "success", "success", "success", "success");
    const { values } = await get(`/threads/${await chat.thread()}/state`);
    same(values.messages.map((m) => m.content), ["first", "Answer 1: first", "third", "Answer 1: third"]);
    await chat.shows("second", "Answer 2: second");
    await chat.button("Previous").first().click();
    await chat.shows("first", "Answer 1: first", "third", "Answer 1: third");
  },
  (client) => client.branches,
);

flow("a page that is reloaded in mid-stream rejoins the run", async (chat) => {
  const [g1, g2] = [gate(), gate()];
  const text = `one two ${g1.word} three ${g2.word} four five`;
  await chat.open();
  await chat.send(text);
  await chat.sees(text, `Answer 1: one two ${g1.word} `);
  await chat.reload();
  await chat.sees(text, `Answer 1: one two ${g1.word} `);
  await chat.status("streaming");
  await g1.open();
  await chat.sees(text, `Answer 1: one two ${g1.word} three ${g2.word} `);
  await chat.grew(`Answer 1: ${text}`);
  await chat.reload();
  await chat.sees(text, `Answer 1: one two ${g1.word} three ${g2.word} `);
  await g2.open();
  await chat.shows(text, `Answer 1: ${text}`);
  await chat.grew(`Answer 1: ${text}`);
  await ended(await chat.thread(), "success");
  await chat.send("more");
  await chat.shows(text, `Answer 1: ${text}`, "more", "Answer 1: more");
});

flow("a page whose connection is cut goes on where it was", async (chat, { allow }) => {
  allow(/ERR_INCOMPLETE_CHUNKED_ENCODING/); // Chromium writes it on the console
  const [g1, g2] = [gate(), gate()];
  const text = `one two ${g1.word} three ${g2.word} four five`;
  await chat.open();
  await chat.send(text);
  await chat.sees(text, `Answer 1: one two ${g1.word} `);
  await cut(chat);
  await g1.open();
  await chat.sees(text, `Answer 1: one two ${g1.word} three ${g2.word} `);
  await cut(chat);
  await g2.open();
  await chat.shows(text, `Answer 1: ${text}`);
  await chat.grew(`Answer 1: ${text}`);
  await ended(await chat.thread(), "success");
});

flow("a run that ends while the page is away is shown whole", async (chat) => {
  const g = gate();
  const text = `away ${g.word} done`;
  await chat.open();
  await chat.send(text);
  await chat.sees(text, `Answer 1: away ${g.word} `);
  const thread = await chat.thread();
  const url = chat.page.url();
  await chat.page.goto("about:blank");
  await g.open();
  await ended(thread, "success");
  await chat.page.goto(url);
  await chat.shows(text, `Answer 1: ${text}`);
});

flow("threads are switched in mid-stream", async (chat) => {
  const [g1, g2] = [gate(), gate()];
  const text = `alpha ${g1.word} beta ${g2.word} gamma`;
  await chat.open();
  await chat.send(text);
  await chat.sees(text, `Answer 1: alpha ${g1.word} `);
  const first = await chat.thread();

  await chat.switch();
  await chat.shows();
  await chat.send("other");
  await chat.shows("other", "Answer 1: other");
  const second = await chat.thread();
  if (first === second) throw new Error("both chats are on one thread");

  // Back in mid-stream.
  await chat.switch(first);
  await chat.sees(text, `Answer 1: alpha ${g1.word} `);
  await g1.open();
  await chat.sees(text, `Answer 1: alpha ${g1.word} beta ${g2.word} `);

  // The run ends while another thread is shown, which sees nothing of it.
  await chat.switch(second);
  await chat.shows("other", "Answer 1: other");
  await chat.page.evaluate(() => (window.shown = []));
  await g2.open();
  await ended(first, "success");
  await chat.send("more");
  await chat.shows("other", "Answer 1: other", "more", "Answer 1: more");
  const shown = await chat.page.evaluate(() => window.shown.map((m) => m.text));
  same(shown.filter((t) => /alpha|beta|gamma/.test(t)), [], "texts of the other thread");
  await ended(second, "success", "success");

  await chat.switch(first);
  await chat.shows(text, `Answer 1: ${text}`);
});

flow("the error of a run is shown", async (chat, { allow }) => {
  allow(/on the console: StreamError: boom: crash/); // the SDK writes it there
  await chat.open("failing");
  await chat.start({ message: "crash" });
  await chat.page.waitForFunction(() => document.querySelector("#error")?.innerText.includes("boom: crash"));
  await chat.status("idle");
  await ended(await chat.thread(), "error");
  await chat.reload();
  await until(async () => (await chat.values()).prepared, "the state");
});

flow("two pages show one run", async (chat, { another }) => {
  const g = gate();
  await chat.open();
  await chat.send("before");
  await chat.shows("before", "Answer 1: before");
  await chat.send(`both ${g.word} see`);
  await chat.sees("before", "Answer 1: before", `both ${g.word} see`, `Answer 1: both ${g.word} `);
  const other = new Chat(await another(), chat.name);
  await other.open("chat", await chat.thread());
  await g.open();
  for (const c of [chat, other]) await c.shows("before", "Answer 1: before", `both ${g.word} see`, `Answer 1: both ${g.word} see`);
}, (client) => !client.branches);

for (const name of Object.keys(components)) {
  check(`${name}/a component of the server is shown`, async ({ page }) => {
    const address = `${addresses[name]}?${new URLSearchParams({ api, assistant: "weather" })}`;
    await page.goto(address);
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByText("Paris: 21 °C").waitFor();
    const thread = await until(() => page.innerText("#thread"), "a thread");
    await ended(thread, "success");
    await page.goto(`${address}&thread=${thread}`);
    await page.getByText("Paris: 21 °C").waitFor();
    same(await page.getByText("Paris").count(), 1, "components");
  });
}

await run({ only: args.only });
