// Drives the pages on CopilotKit and on AG-UI's own client: over the server's endpoint for AG-UI, and, as with CopilotKit's runtime, over
// its connector for LangGraph in Node.js.

import { EventEncoder } from "@ag-ui/encoder";
import { LangGraphAgent } from "@ag-ui/langgraph";
import { becomes, check, same } from "../../../../internal/test/browsertest/kit.mjs";
import { add, api, ended, gate, get, handle } from "./site.mjs";

// connector answers a page's request for a run by running a graph through CopilotKit's connector, as CopilotKit's runtime does.
const connector = handle("/connector", async (req, res) => {
  let body = "";
  for await (const part of req) body += part;
  const { threadId, messages, state, ...input } = JSON.parse(body);
  const agent = new LangGraphAgent({ deploymentUrl: api, graphId: "copilot", threadId, initialMessages: messages, initialState: state });
  const encoder = new EventEncoder();
  res.setHeader("content-type", encoder.getContentType());
  await agent.runAgent(input, { onEvent: ({ event }) => void res.write(encoder.encodeSSE(event)) });
  res.end();
});

const copilotkit = {
  address: add("copilotkit", "copilotkit"),
  send: async (page, text) => {
    await page.getByTestId("copilot-chat-textarea").fill(text);
    await page.getByTestId("copilot-send-button").click();
  },
  texts: (page) => page.locator("[data-testid=copilot-user-message], [data-testid=copilot-assistant-message]").allInnerTexts(),
  color: (page) => page.innerText("#color"),
};

const own = {
  address: add("ag-ui", "agui", { "@ag-ui/client": "agui1" }),
  send: async (page, text) => {
    await page.fill("#text", text);
    await page.getByRole("button", { name: "Send", exact: true }).click();
  },
  texts: async (page) => (await page.locator("li:is([data-type=user], [data-type=assistant]) .text").allTextContents()).filter(Boolean),
  color: async (page) => JSON.parse(await page.innerText("#values")).color,
};

// clients are the pages, and what they talk to.
const clients = {
  "copilotkit over ag-ui": { ...copilotkit, agent: `${api}/agui/helper` },
  "copilotkit over langgraph": { ...copilotkit, agent: connector },
  "ag-ui": { ...own, agent: `${api}/agui/helper` },
};

// Chat is a page, with the eyes and the hands of a user.
class Chat {
  constructor(page, client) {
    Object.assign(this, { page, client });
  }

  async open() {
    const { address, agent } = this.client;
    await this.page.goto(`${address}?${new URLSearchParams({ agent })}`);
    await this.page.waitForSelector("#thread");
  }

  send(text) {
    return this.client.send(this.page, text);
  }

  // shows waits until these are the messages.
  shows(...want) {
    return becomes(async () => (await this.client.texts(this.page)).map((t) => t.trim()).filter(Boolean), want, "messages");
  }

  thread() {
    return this.page.innerText("#thread");
  }

  async stored() {
    return (await get(`/threads/${await this.thread()}/state`)).values.messages.map((m) => [m.type, m.content]);
  }
}

function flow(name, drive) {
  for (const [title, client] of Object.entries(clients)) {
    check(`${title}/${name}`, ({ page }) => drive(new Chat(page, client)));
  }
}

flow("an answer appears word by word", async (chat) => {
  const g = gate();
  await chat.open();
  await chat.send(`one ${g.word} two`);
  await chat.shows(`one ${g.word} two`, `Answer 1: one ${g.word}`);
  await g.open();
  const turn = [`one ${g.word} two`, `Answer 1: one ${g.word} two`];
  await chat.shows(...turn);
  await chat.send("more");
  await chat.shows(...turn, "more", "Answer 1: more");
  await ended(await chat.thread(), "success", "success");
  same(await chat.stored(), [...turn, "more", "Answer 1: more"].map((text, i) => [i % 2 ? "ai" : "human", text]));
});

flow("a tool of the page is called", async (chat) => {
  await chat.open();
  await chat.send("paint it");
  await chat.shows("paint it", "Done: painted green.");
  same(await chat.client.color(chat.page), "green", "color");
  await ended(await chat.thread(), "success", "success");
  same(await chat.stored(), [["human", "paint it"], ["ai", ""], ["tool", "painted green"], ["ai", "Done: painted green."]]);
  await chat.send("more");
  await chat.shows("paint it", "Done: painted green.", "more", "Answer 1: more");
});

flow("a call is approved", async (chat) => {
  await chat.open();
  await chat.send("refund it");
  await becomes(() => chat.page.locator("#interrupt").count(), 1, "questions shown");
  same((await chat.stored()).length, 2, "messages before the approval");
  await chat.page.getByRole("button", { name: "Approve", exact: true }).click();
  await chat.shows("refund it", "Done: refunded order 42.");
  await becomes(() => chat.page.locator("#interrupt").count(), 0, "questions shown");
  await ended(await chat.thread(), "success", "success");
  same(await chat.stored(), [["human", "refund it"], ["ai", ""], ["tool", "refunded order 42"], ["ai", "Done: refunded order 42."]]);
});
