// Talking to a graph whose state has messages.
import { connect, createServer } from "node:net";
import { becomes, same, sleep, until } from "../../../browsertest/kit.mjs";
import { barriers, check, run, server, studio } from "../flow.mjs";
import { onEach } from "../networks.mjs";
import { newPace } from "../pace.mjs";
import { api } from "../scenes.mjs";

const chat = (query, at) => studio({ view: "chat", assistant: "talker", ...query }, at);

// open opens the chat of an assistant.
async function open(page, query = {}) {
  await page.goto(chat(query));
  await field(page).waitFor();
}

const field = (page) => page.getByRole("textbox", { name: "Message", exact: true });
const messages = (page) => page.getByRole("listitem").filter({ has: page.locator(".chat-ai, .chat-human") });
const sent = (page) => page.getByRole("button", { name: "Send", exact: true }).waitFor();

// say sends a message and waits until the run has ended.
async function say(page, text) {
  await begin(page, text);
  await page.getByText(text, { exact: true }).last().waitFor();
  await sent(page);
}

async function begin(page, text) {
  await field(page).fill(text);
  await field(page).press("Enter");
}

// stop stops the run, and waits until the server has been told.
const stop = (page) =>
  Promise.all([
    page.waitForResponse((r) => /\/cancel/.test(r.url())),
    page.getByRole("button", { name: "Stop" }).click(),
  ]);

// words are those of the only answer; numbered are those that it has in the end.
const words = async (page) =>
  (await page.locator(".chat-ai .markdown").allInnerTexts()).join(" ").split(/\s+/).filter(Boolean);
const numbered = (n) => Array.from({ length: n }, (_, i) => "w" + i);

const thread = (page) => until(() => new URL(page.url()).searchParams.get("thread"), "a thread in the address");
const stored = async (page) => (await api(server, "GET", `/threads/${await thread(page)}/state`)).values.messages;

check("Enter sends, Shift+Enter begins a new line, and the answer is shown", async ({ page }) => {
  await open(page);
  await field(page).click();
  await page.keyboard.type("one");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("two");
  await page.keyboard.press("Enter");
  await page.getByText(/Answer \d+ to: one/).waitFor();
  await sent(page);
  await becomes(() => field(page).inputValue(), "");
  same((await stored(page))[0].content, "one\ntwo");
  await say(page, "three");
  same((await stored(page)).length, 4);
  await page.getByText(/Answer \d+ to: three/).waitFor();
});

check("markdown is shown, and what is dangerous in it is not", async ({ page }) => {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await open(page);
  await say(page, "markdown");
  await page.getByRole("heading", { name: "Plan" }).waitFor();
  await page.getByRole("cell", { name: "20 s" }).waitFor();
  const link = page.getByRole("link", { name: "a link" });
  same([await link.getAttribute("target"), await link.getAttribute("rel")], ["_blank", "noopener noreferrer"]);
  const bad = await page
    .locator(".markdown")
    .evaluateAll((all) =>
      all.flatMap((m) =>
        [...m.querySelectorAll("script, iframe, style, img, [onerror], [href^=javascript], [style], [id]")].map(
          (e) => e.outerHTML,
        ),
      ),
    );
  same(bad, []);
  same(await page.evaluate(() => window.hacked), undefined);
  await page.getByRole("button", { name: "Copy", exact: true }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  await becomes(() => page.evaluate(() => navigator.clipboard.readText()), 'func main() {\n\tfmt.Println("hello")\n}');
  await messages(page).last().hover();
  await messages(page).last().getByRole("button", { name: "Copy message" }).click();
  await until(
    async () => (await page.evaluate(() => navigator.clipboard.readText())).startsWith("## Plan"),
    "the message on the clipboard",
  );
});

check("tool calls and reasoning are folded, and tokens are counted", async ({ page }) => {
  await open(page);
  await say(page, "weather Paris Rome");
  const call = page.getByRole("group").filter({ hasText: "Paris" });
  await call.getByText("get_weather").click();
  await call.getByText("Arguments").waitFor();
  await call.getByText("sunny in Paris").waitFor();
  await becomes(() => page.getByText("Arguments").count(), 1, "only one call is open");
  await call.getByText("get_weather").click();
  await call.getByText("Arguments").waitFor({ state: "detached" });

  await say(page, "think");
  await page.getByText("12 in · 34 out").waitFor();
  same(await page.getByText("First I think.").count(), 0);
  await page.getByText("Reasoning", { exact: true }).click();
  await page.getByText("First I think.").waitFor();
});

check("a tool call is approved, edited, or rejected with a reason", async ({ page }) => {
  await open(page);
  await say(page, "mail ada");
  await page.getByText("Send this mail?").waitFor();
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText('Result: sent "Hello ada" to ada@example.com').waitFor();
  await page.getByRole("region", { name: "Interrupts" }).waitFor({ state: "detached" });

  await open(page);
  await say(page, "mail ada");
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await page.getByRole("textbox", { name: /^text/ }).fill("Good morning");
  await page.getByRole("button", { name: "Approve with changes" }).click();
  await page.getByText('Result: sent "Good morning" to ada@example.com').waitFor();

  await open(page);
  await say(page, "mail ada");
  await page.getByRole("button", { name: "Reject", exact: true }).click();
  await page.getByRole("textbox", { name: /Reason/ }).fill("too early");
  await page.getByRole("button", { name: "Reject and continue" }).click();
  await page.getByText(/Result: User rejected .* too early/).waitFor();
  await page.getByText("failed", { exact: true }).waitFor();
});

check("several calls of one answer are decided together", async ({ page }) => {
  await open(page);
  await say(page, "mail ada bob");
  const send = page.getByRole("button", { name: "Send decisions" });
  await page.getByRole("button", { name: "Approve" }).first().click();
  await becomes(() => send.isDisabled(), true, "a decision is missing");
  await page.getByRole("button", { name: "Respond" }).last().click();
  await page.getByRole("textbox", { name: /Answer in place/ }).fill("I called him");
  await send.click();
  await sent(page);
  const [, , a, b] = await until(async () => ((await stored(page)).length >= 4 ? stored(page) : null), "results");
  same([a.content, b.content].sort(), ["I called him", 'sent "Hello ada" to ada@example.com']);
});

check("a message is edited and sent again on a branch, and branches can be switched", async ({ page }) => {
  await open(page);
  await say(page, "first question");
  await say(page, "second question");
  const second = messages(page).filter({ hasText: "second question" }).first();
  await second.hover();
  await second.getByRole("button", { name: "Edit and resend" }).click();
  await page.getByRole("textbox", { name: "Edited message" }).fill("another question");
  await page.getByRole("button", { name: "Resend", exact: true }).click();
  await page.getByText(/Answer \d+ to: another question/).waitFor();
  await sent(page);
  await becomes(() => page.getByText(/Answer \d+ to: second question/).count(), 0);
  same((await stored(page)).length, 4, "the new branch has four messages");
  await page.getByRole("group", { name: "Branches" }).getByText("2/2").waitFor();
  await page.getByRole("button", { name: "Previous branch" }).click();
  await page.getByText(/Answer \d+ to: second question/).waitFor();
  await becomes(() => page.getByText(/another question/).count(), 0);
  // The address leads to the branch, and what is sent now goes on with it.
  await page.reload();
  await page.getByText(/Answer \d+ to: second question/).waitFor();
  await say(page, "third question");
  same(
    (await stored(page)).filter((m) => m.type === "human").map((m) => m.content),
    ["first question", "second question", "third question"],
  );
  await page.getByRole("group", { name: "Branches" }).getByText("1/2").waitFor();
});

check("the first message is edited too", async ({ page }) => {
  await open(page);
  await say(page, "begin");
  for (const [text, at] of [
    ["begin again", "2/2"],
    ["begin once more", "3/3"],
  ]) {
    await messages(page).first().hover();
    await messages(page).first().getByRole("button", { name: "Edit and resend" }).click();
    await page.getByRole("textbox", { name: "Edited message" }).fill(text);
    await page.keyboard.press("Enter");
    await page.getByText(new RegExp(`Answer \\d+ to: ${text}`)).waitFor();
    await sent(page);
    await page.getByRole("group", { name: "Branches" }).getByText(at).waitFor();
    same((await stored(page)).length, 2);
  }
});

check("an answer is generated again", async ({ page }) => {
  await open(page);
  await say(page, "again please");
  const answer = page.getByText(/Answer \d+ to: again please/);
  const before = await answer.textContent();
  await messages(page).last().hover();
  await page.getByRole("button", { name: "Regenerate" }).last().click();
  await until(async () => {
    const texts = await answer.allTextContents();
    return texts.length === 1 && texts[0] !== before;
  }, "another answer");
  await sent(page);
  const branches = page.getByRole("group", { name: "Branches" });
  await branches.getByText("2/2").waitFor();
  await branches.getByRole("button", { name: "Previous branch" }).click();
  await branches.getByText("1/2").waitFor();
  await becomes(() => answer.allTextContents(), [before]);
});

check("a run is stopped, and goes on", async ({ page }) => {
  await open(page);
  const pace = newPace();
  await pace.allow(8);
  await begin(page, `paced ${pace.name} 40`);
  await page.getByText(/w5 /).waitFor();
  await stop(page);
  await page.getByText(/Not saved/).waitFor();
  await sent(page);
  same((await stored(page)).length, 1);
  await pace.allow(8);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText(/w5 /).waitFor();
  await stop(page);
  await sent(page);
});

check("a run is stopped although the page is left at once", async ({ page }) => {
  await open(page);
  const pace = newPace();
  await pace.allow(8);
  await begin(page, `paced ${pace.name} 40`);
  await page.getByText(/w5 /).waitFor();
  const id = await thread(page);
  await page.evaluate(() => {
    [...document.querySelectorAll("button")]
      .find((b) => b.textContent.trim() === "Stop" || b.ariaLabel === "Stop")
      .click();
    location.href = "about:blank";
  });
  await becomes(async () => (await api(server, "GET", `/threads/${id}/runs`)).map((r) => r.status), ["interrupted"]);
});

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

check("images are chosen, pasted and dropped", async ({ page }) => {
  await open(page);
  await page
    .locator("input[type=file]")
    .setInputFiles({ name: "dot.png", mimeType: "image/png", buffer: Buffer.from(pixel, "base64") });
  const attached = page.getByRole("list", { name: "Attached images" }).getByRole("listitem");
  await attached.first().waitFor();
  for (const kind of ["paste", "drop"]) {
    await page.evaluate(
      ([kind, pixel]) => {
        const data = new DataTransfer();
        data.items.add(
          new File([Uint8Array.from(atob(pixel), (c) => c.charCodeAt(0))], kind + ".png", { type: "image/png" }),
        );
        const target = document.querySelector(kind === "paste" ? ".chat-composer textarea" : ".chat-scroll");
        target.dispatchEvent(
          kind === "paste"
            ? new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })
            : new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }),
        );
      },
      [kind, pixel],
    );
    await page.getByRole("img", { name: kind + ".png" }).waitFor();
  }
  await page.getByRole("button", { name: "Remove dot.png" }).click();
  await becomes(() => attached.count(), 2);
  await say(page, "look");
  await page.getByText(/look \(2 images\)/).waitFor();
  await becomes(() => messages(page).first().getByRole("img").count(), 2);
});

check("a reload in the middle of an answer loses no token and doubles none", async ({ page }) => {
  await open(page);
  const pace = newPace();
  await pace.allow(30);
  await begin(page, `paced ${pace.name} 120`);
  await page.getByText(/w20 /).waitFor();
  await page.reload();
  await page.getByText(/w20 /).waitFor();
  await pace.allow(40);
  await page.getByText(/w60 /).waitFor();
  await pace.allow(50);
  await page.getByText(/w119/).waitFor();
  await sent(page);
  await becomes(() => words(page), numbered(120));
});

// newWire is another address of the server, whose connections can be cut.
async function newWire() {
  const { hostname, port } = new URL(server);
  const sockets = new Set();
  const listener = createServer((from) => {
    const to = connect(Number(port), hostname);
    for (const [a, b] of [
      [from, to],
      [to, from],
    ]) {
      sockets.add(a);
      a.on("error", () => b.destroy())
        .on("close", () => (sockets.delete(a), b.destroy()))
        .pipe(b);
    }
  });
  await new Promise((ready) => listener.listen(0, "127.0.0.1", ready));
  const cut = () => sockets.forEach((s) => s.destroy());
  return { address: `http://127.0.0.1:${listener.address().port}`, cut, close: () => (listener.close(), cut()) };
}

check("a lost connection is made again, from the last event on", async ({ page, allow, later, trust }) => {
  allow(/net::ERR_/);
  const wire = await newWire();
  trust(wire.address);
  later(wire.close);
  await page.goto(chat({}, wire.address));
  await field(page).waitFor();
  const pace = newPace();
  await pace.allow(30);
  await begin(page, `paced ${pace.name} 90`);
  await page.getByText(/w29/).waitFor();
  const joined = page.waitForRequest((r) => /\/runs\/[^/]+\/stream/.test(r.url()) && r.method() === "GET");
  wire.cut();
  const last = (await joined).headers()["last-event-id"];
  if (!(parseInt(last) > 0)) throw new Error(`the connection is made again from ${last}`);
  await pace.allow(30);
  await page.getByText(/w59/).waitFor();
  await pace.allow(30);
  await page.getByText(/w89/).waitFor();
  await sent(page);
  await becomes(() => words(page), numbered(90));
});

check("a message that cannot be sent can be sent again", async ({ page, allow }) => {
  allow(/Failed to load resource/);
  await open(page);
  await say(page, "hello");
  await page.route(
    "**/runs/stream",
    (r) => r.fulfill({ status: 409, contentType: "application/json", body: '{"detail":"the thread is busy"}' }),
    { times: 1 },
  );
  await begin(page, "refused");
  await page.getByText("the thread is busy").waitFor();
  await until(async () => (await field(page).inputValue()) === "refused", "the text again");
  await field(page).press("Enter");
  await page.getByText(/Answer \d+ to: refused/).waitFor();
});

onEach("images with addresses that run scripts are shown as text", async ({ page, net, fails }) => {
  const { thread_id } = await api(server, "POST", "/threads", {});
  const image = (address) => ({ type: "image_url", image_url: { url: address } });
  const content = [image("javascript:window.hacked=true"), { type: "image", url: " JavaScript:window.hacked=true" }];
  const human = { type: "human", content: [{ type: "text", text: "look" }, ...content] };
  const input = { messages: [human] };
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "talker", input });
  await page.goto(chat({ thread: thread_id }, net.url));
  await fails();
  const shown = messages(page).first();
  await shown.getByText("javascript:window.hacked=true", { exact: true }).first().waitFor();
  same(await shown.getByText(/javascript:/i).count(), 2);
  same(await shown.locator("a, img").count(), 0);
  same(await page.evaluate(() => "hacked" in window), false);
});

check("a server without schemas has a chat", async ({ page, allow }) => {
  allow(/501/);
  await page.route("**/assistants/*/schemas", (r) => r.fulfill({ status: 501, json: { detail: "no schemas" } }));
  await page.goto(chat({}));
  await field(page).fill("without schemas");
  await field(page).press("Enter");
  await messages(page)
    .getByText(/to: without schemas/)
    .waitFor();
});

check("a graph without messages leads to the graph view", async ({ page }) => {
  await page.goto(chat({ assistant: "survey" }));
  await page.getByRole("heading", { name: "This graph has no messages" }).waitFor();
  await page.getByRole("button", { name: "Open graph" }).click();
  await becomes(() => new URL(page.url()).searchParams.get("view"), null);
});

check("2,000 messages can be scrolled", async ({ page }) => {
  const { thread_id } = await api(server, "POST", "/threads", {});
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, {
    assistant_id: "talker",
    input: { messages: [{ type: "human", content: "hello" }] },
  });
  const many = Array.from({ length: 2000 }, (_, i) => ({
    type: i % 2 ? "ai" : "human",
    id: "m" + i,
    content: `message **${i}**`,
  }));
  await api(server, "POST", `/threads/${thread_id}/state`, { values: { messages: many }, as_node: "model" });
  await open(page, { thread: thread_id });
  await page.getByText("message 1999").waitFor();
  const rendered = await messages(page).count();
  if (rendered > 60) throw new Error(`${rendered} messages are rendered at once`);
  const conversation = page.getByRole("region", { name: "Conversation" });
  await until(async () => {
    await conversation.evaluate((el) => (el.scrollTop = 0));
    return page.getByText(/Answer \d+ to: hello/).isVisible();
  }, "the first answer");
  await page.getByRole("button", { name: "Newest" }).click();
  await page.getByText("message 1999").waitFor();
  await say(page, "and one more");
  await page.getByText(/Answer \d+ to: and one more/).waitFor();
});

check("tokens do not move what is read above", async ({ page }) => {
  const { thread_id } = await api(server, "POST", "/threads", {});
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, {
    assistant_id: "talker",
    input: { messages: [{ type: "human", content: "hello" }] },
  });
  const long = Array.from({ length: 10 }, (_, i) => ({
    type: i % 2 ? "ai" : "human",
    id: "m" + i,
    content: "many words ".repeat(200),
  }));
  await api(server, "POST", `/threads/${thread_id}/state`, { values: { messages: long }, as_node: "model" });
  await open(page, { thread: thread_id });
  const pace = newPace();
  await pace.allow(10);
  await begin(page, `paced ${pace.name} 400`);
  await page.getByText(/w5 /).last().waitFor();
  const conversation = page.getByRole("region", { name: "Conversation" });
  const gap = () => conversation.evaluate((el) => Math.round(el.scrollHeight - el.scrollTop - el.clientHeight));
  await until(async () => (await gap()) < 2, "the end of the conversation");
  await conversation.hover();
  await until(async () => {
    await page.mouse.wheel(0, -600);
    return page.getByRole("button", { name: "Newest" }).isVisible();
  }, "leaving the end");
  const place = () => conversation.evaluate((el) => el.scrollTop);
  let top = -1;
  await until(async () => top === (await sleep(150), (top = await place())), "the end of scrolling");
  const height = await conversation.evaluate((el) => el.scrollHeight);
  await pace.allow(300);
  await until(() => conversation.evaluate((el, h) => el.scrollHeight > h + 20, height), "more lines");
  same(await place(), top);
  await page.getByRole("button", { name: "Newest" }).click();
  await until(async () => (await gap()) < 2, "the end of the conversation");
  await stop(page);
  await sent(page);
});

check("the chat can be used by everybody", async ({ page }) => {
  await open(page);
  for (const text of ["think", "markdown", "weather Paris", "mail ada bob"]) await say(page, text);
  await page.getByText("get_weather").click();
  await page.getByRole("button", { name: "Edit", exact: true }).first().click();
  for (const size of [
    { width: 1440, height: 900 },
    { width: 360, height: 740 },
  ]) {
    await page.setViewportSize(size);
    same(await barriers(page), [], `barriers at ${size.width} pixels`);
    await becomes(() => page.evaluate(() => document.documentElement.scrollWidth), size.width, "the width of the page");
  }
});

await run();
