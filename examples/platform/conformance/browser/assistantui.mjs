// Drives the page on assistant-ui.

import { becomes, check, same, until } from "../../../../internal/test/browsertest/kit.mjs";
import { add, api, ended, gate, get } from "./site.mjs";

const address = add("assistant-ui", "assistantui");
const weather = '[get_weather {"city":"Paris"}: sunny in Paris] It is sunny in Paris today.';

// Chat is the page, with the eyes and the hands of a user.
class Chat {
  constructor(page) {
    this.page = page;
  }

  async open(assistant) {
    await this.page.goto(`${address}?${new URLSearchParams({ api, assistant })}`);
    await this.page.waitForSelector("#status");
  }

  button(name) {
    return this.page.getByRole("button", { name, exact: true });
  }

  async send(text) {
    await this.page.getByLabel("Message", { exact: true }).fill(text);
    await this.button("Send").click();
  }

  // edit edits a message of the user.
  async edit(old, text) {
    await this.page.locator("li", { hasText: old }).getByRole("button", { name: "Edit" }).click();
    await this.page.getByLabel("Edited message").fill(text);
    await this.button("Save").click();
  }

  // regenerate asks for another answer after a message.
  regenerate(answer) {
    return this.page.locator("li", { hasText: answer }).last().getByRole("button", { name: "Regenerate" }).click();
  }

  thread() {
    return until(() => this.page.innerText("#thread"), "a thread");
  }

  // texts are those of the messages, without the dot at the end of an answer that goes on.
  async texts() {
    return (await this.page.locator("li .text").allTextContents()).map((text) => text.replace(/ ●$/, ""));
  }

  // shows waits until these are the messages, and nothing goes on.
  shows(...want) {
    return becomes(async () => [await this.page.innerText("#status"), await this.texts()], ["idle", want], "messages");
  }

  async stored() {
    return (await get(`/threads/${await this.thread()}/state`)).values.messages;
  }
}

function flow(name, drive) {
  check(`assistant-ui/${name}`, ({ page }) => drive(new Chat(page)));
}

flow("an answer appears word by word", async (chat) => {
  const g = gate();
  await chat.open("chat");
  await chat.send(`one ${g.word} two`);
  await becomes(async () => [await chat.page.innerText("#status"), await chat.texts()], ["streaming", [`one ${g.word} two`, `Answer 1: one ${g.word} `]]);
  await g.open();
  await chat.shows(`one ${g.word} two`, `Answer 1: one ${g.word} two`);
  await chat.send("more");
  await chat.shows(`one ${g.word} two`, `Answer 1: one ${g.word} two`, "more", "Answer 1: more");
  await ended(await chat.thread(), "success", "success");
});

flow("a tool turn is shown, edited after, and regenerated", async (chat) => {
  await chat.open("agent");
  await chat.send("weather");
  await chat.shows("weather", weather);
  await chat.send("thanks");
  await chat.shows("weather", weather, "thanks", "Echo: thanks");
  const before = await chat.stored();
  same(before.map((m) => m.type), ["human", "ai", "tool", "ai", "human", "ai"]);

  // The answer after the tool turn again.
  await chat.regenerate("Echo: thanks");
  await ended(await chat.thread(), "success", "success", "success");
  await chat.shows("weather", weather, "thanks", "Echo: thanks");
  const again = await chat.stored();
  same(again.slice(0, 5).map((m) => m.id), before.slice(0, 5).map((m) => m.id));
  same([again.length, again[5].id === before[5].id], [6, false]);

  await chat.edit("thanks", "never mind");
  await chat.shows("weather", weather, "never mind", "Echo: never mind");
  await ended(await chat.thread(), "success", "success", "success", "success");
  const edited = await chat.stored();
  same(edited.slice(0, 4).map((m) => m.id), before.slice(0, 4).map((m) => m.id));
  same(edited.slice(4).map((m) => m.content), ["never mind", "Echo: never mind"]);

  // The tool turn itself again.
  await chat.regenerate(weather);
  await ended(await chat.thread(), "success", "success", "success", "success", "success");
  await chat.shows("weather", weather);
  const anew = await chat.stored();
  same(anew.map((m) => m.type), ["human", "ai", "tool", "ai"]);
  same([anew[0].id === before[0].id, anew[2].id === before[2].id], [true, false]);
});

flow("an interrupt is approved", async (chat) => {
  await chat.open("hitl");
  await chat.button("Choose a topic").click();
  await chat.send("go");
  await becomes(() => chat.page.locator("#interrupt").allInnerTexts(), ['{"question":"approve?","topic":"rain"}'], "questions");
  await chat.button("Approve").click();
  await becomes(() => chat.page.locator("#interrupt").count(), 0, "questions shown");
  await ended(await chat.thread(), "success", "success");
  const { values, next } = await get(`/threads/${await chat.thread()}/state`);
  same([values.log, next], [["proposed:rain", 'reviewed:{"ok":true}', "finished"], []]);
});
