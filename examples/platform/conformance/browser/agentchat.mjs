// Drives agent-chat-ui, as create-agent-chat-app writes it, with the SDK 1.12.

import { fileURLToPath } from "node:url";
import { becomes, check, same, until } from "../../../../internal/test/browsertest/kit.mjs";
import { add, api, ended, gate, get } from "./site.mjs";

const source = fileURLToPath(new URL("node_modules/create-agent-chat-app/templates/vite/src", import.meta.url));
const address = add("agent-chat-ui", `${source}/main.tsx`, { "@": source, "@langchain/langgraph-sdk": "sdk1" });

async function open(page, assistantId) {
  await page.goto(`${address}?${new URLSearchParams({ apiUrl: api, assistantId })}`);
}

async function send(page, text) {
  await page.getByPlaceholder("Type your message...").fill(text);
  await page.getByRole("button", { name: "Send", exact: true }).click();
}

// outdated matches the warnings of its router.
const outdated = /React Router Future Flag Warning/;

const thread = (page) => until(() => new URL(page.url()).searchParams.get("threadId"), "a thread");
const shown = (page, text) => page.getByText(text, { exact: true }).waitFor();

check("agent-chat-ui/an answer appears word by word", async ({ page, allow }) => {
  allow(outdated);
  const g = gate();
  await open(page, "chat");
  await send(page, `one ${g.word} two`);
  await shown(page, `Answer 1: one ${g.word}`);
  await g.open();
  await shown(page, `Answer 1: one ${g.word} two`);
  await ended(await thread(page), "success");
});

check("agent-chat-ui/a tool turn is shown, and again after a reload", async ({ page, allow }) => {
  allow(outdated);
  await open(page, "agent");
  await send(page, "weather");
  await shown(page, "It is sunny in Paris today.");
  await ended(await thread(page), "success");
  const { values } = await get(`/threads/${await thread(page)}/state`);
  same(values.messages.map((m) => m.type).slice(-4), ["human", "ai", "tool", "ai"]);
  await page.reload();
  await shown(page, "It is sunny in Paris today.");
  await send(page, "thanks");
  await shown(page, "Echo: thanks");
  await becomes(async () => (await get(`/threads/${await thread(page)}/state`)).values.messages.at(-1).content, "Echo: thanks", "the last message");
});
