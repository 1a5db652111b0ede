// The main views, each with something to see: what looks.mjs checks and screenshots.mjs takes pictures of.

// api calls the server.
export async function api(url, method, path, body) {
  const r = await fetch(url + path, {
    method,
    headers: { "content-type": "application/json" },
    body: body && JSON.stringify(body),
  });
  if (!r.ok) throw new Error(`${method} ${path}: ${r.status} ${await r.text()}`);
  const text = await r.text();
  return text ? JSON.parse(text) : undefined;
}

const human = (text) => ({ messages: [{ type: "human", content: text }] });

// prepare fills a server and returns the addresses of the views.
export async function prepare(url) {
  const post = (path, body) => api(url, "POST", path, body ?? {});
  const thread = async (assistant, name, ...inputs) => {
    const { thread_id } = await post("/threads", { metadata: { thread_name: name } });
    for (const input of inputs)
      await post(`/threads/${thread_id}/runs/wait`, {
        assistant_id: assistant,
        ...(input.command ? input : { input }),
      }).catch(() => {});
    return thread_id;
  };
  const chat = await thread("agent", "Weather in Paris", human("Hello there"), human("What is the weather in Paris?"));
  const question = await thread("hitl", "A poem about cats", { topic: "cats" });
  const traced = await thread("traced", "Plan, search and answer", human("What is the tallest tree?"));
  await thread("failing", "Fails at the second step", { mode: "error" });
  await post("/runs/crons", { assistant_id: "agent", schedule: "0 8 * * 1-5", input: human("Good morning") });
  const items = [
    [["users", "ada", "memories"], "tea", { kind: "preference", content: "Ada prefers green tea to coffee." }],
    [["users", "ada", "memories"], "cat", { kind: "fact", content: "Ada has a cat called Mog." }],
    [["users", "grace", "memories"], "ship", { kind: "fact", content: "Grace served on a ship." }],
    [["docs", "manual"], "intro", { title: "Introduction", body: "A graph has nodes and edges." }],
  ];
  for (const [namespace, key, value] of items) await api(url, "PUT", "/store/items", { namespace, key, value });
  const studio = (query) => `${url}/studio/?${new URLSearchParams(query)}`;
  return [
    { name: "graph", address: studio({ assistant: "hitl", thread: question }) },
    { name: "chat", address: studio({ view: "chat", assistant: "agent", thread: chat }) },
    { name: "trace", address: studio({ view: "trace", assistant: "traced", thread: traced }) },
    { name: "inbox", address: studio({ view: "inbox" }) },
    { name: "runs", address: studio({ view: "runs" }) },
    { name: "namespaces", address: studio({ view: "store" }) },
    { name: "store", address: studio({ view: "store", item: "users/ada/memories/tea" }) },
    { name: "users", address: studio({ view: "memory" }) },
    { name: "memory", address: studio({ view: "memory", user: "ada" }) },
    { name: "crons", address: studio({ view: "runs", part: "crons" }) },
  ];
}

// settled waits until nothing is loaded any more.
export async function settled(page) {
  await page.getByRole("button", { name: /^Connected/ }).waitFor();
  await page.waitForFunction(() => !document.querySelector(".app-view .spinner, .skeleton"));
  await page.evaluate(() => document.fonts.ready);
}

// unextended makes the server, opened as a third-party server with ?baseUrl=, look like one without Treadle's routes.
export const unextended = (page) =>
  page.route("**/info", async (route) => {
    const answer = await route.fetch().catch(() => null);
    if (!answer) return route.abort();
    const { flags, context: _, ...info } = await answer.json();
    return route.fulfill({ response: answer, json: { ...info, flags: { ...flags, search: false, spans: false } } });
  });
