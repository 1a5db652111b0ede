// MCP and A2A

import { check, has, idOf, ok, same, uuid } from "./kit.mjs";

const both = { accept: "application/json, text/event-stream" };
const mcp = ({ http }, id, method, params) => http("POST", "/mcp/", { jsonrpc: "2.0", ...(id && { id }), method, params }, both);

check("mcp.initialize", async (t) => {
  const { json } = await mcp(t, 1, "initialize", { protocolVersion: "2025-03-26", capabilities: {}, clientInfo: { name: "check", version: "1" } });
  has(json, { jsonrpc: "2.0", id: 1 });
  ok(json.result.capabilities.tools && json.result.serverInfo.name && json.result.protocolVersion, JSON.stringify(json));
  same((await mcp(t, 0, "notifications/initialized")).status, 202);
});

check("mcp.ping", async (t) => same((await mcp(t, 2, "ping")).json, { jsonrpc: "2.0", id: 2, result: {} }));

check("mcp.tools", async (t) => {
  const { tools } = (await mcp(t, 3, "tools/list")).json.result;
  const router = tools.find((x) => x.name === "router");
  same(router.inputSchema.type, "object");
  ok(router.inputSchema.properties.target && router.description, JSON.stringify(router));
}, { deviates: "lists only the newest assistants" });

check("mcp.call", async (t) => {
  const { result } = (await mcp(t, 4, "tools/call", { name: "router", arguments: { target: "right" } })).json;
  ok(!result.isError && /route.*right/s.test(result.content[0].text), JSON.stringify(result));
});

check("mcp.call_that_fails", async (t) => same((await mcp(t, 5, "tools/call", { name: "failing", arguments: { message: "m" } })).json.result.isError, true));

check("mcp.unknown_method", async (t) => same((await mcp(t, 6, "no/such")).json.error.code, -32601));

check("mcp.other_verbs", async ({ http }) => {
  same((await http("GET", "/mcp/", undefined, both)).status, 405);
  same((await http("DELETE", "/mcp/", undefined, both)).status, 404);
});

const a2a = ({ http }, assistant, id, method, params) => http("POST", `/a2a/${assistant}`, { jsonrpc: "2.0", id, method, params }, { accept: "application/json" });
const say = (text, more) => ({ message: { role: "user", parts: [{ kind: "text", text }], messageId: uuid(), ...more } });

check("a2a.card", async ({ http }) => {
  const { json } = await http("GET", `/.well-known/agent-card.json?assistant_id=${idOf("agent")}`);
  ok(json.url.endsWith(`/a2a/${idOf("agent")}`), json.url);
  has(json, { name: "agent", capabilities: { streaming: true } });
});

check("a2a.card_needs_an_assistant", async ({ http }) => same((await http("GET", "/.well-known/agent-card.json")).status, 400));

check("a2a.send", async (t) => {
  const { result } = (await a2a(t, idOf("agent"), "1", "message/send", say("hi there"))).json;
  has(result, { kind: "task", status: { state: "completed" } });
  has(result.artifacts[0].parts, [{ kind: "text", text: "Echo: hi there" }]);
});

check("a2a.conversation", async (t) => {
  const first = (await a2a(t, idOf("agent"), "1", "message/send", say("one"))).json.result;
  const second = (await a2a(t, idOf("agent"), "2", "message/send", say("two", { contextId: first.contextId }))).json.result;
  same(second.contextId, first.contextId);
  same((await t.client.threads.getState(first.contextId)).values.messages.length, 4);
});

check("a2a.stream", async ({ sse }) => {
  const s = await sse("POST", `/a2a/${idOf("agent")}`, { jsonrpc: "2.0", id: "2", method: "message/stream", params: say("hi there") });
  const results = (await s.done).map((f) => f.data.result);
  same(results[0].kind, "task");
  has(results.at(-1), { kind: "status-update", status: { state: "completed" }, final: true });
  const artifact = results.find((r) => r.kind === "artifact-update");
  has(artifact.artifact.parts, [{ kind: "text", text: "Echo: hi there" }]);
});

check("a2a.get_and_cancel", async (t) => {
  const task = (await a2a(t, idOf("agent"), "1", "message/send", say("x"))).json.result;
  const got = (await a2a(t, idOf("agent"), "2", "tasks/get", { id: task.id, contextId: task.contextId })).json.result;
  has(got, { id: task.id, status: { state: "completed" } });
  same((await a2a(t, idOf("agent"), "3", "tasks/cancel", { id: task.id, contextId: task.contextId })).json.error.code, -32002);
});

check("a2a.version_1_names", async (t) => {
  const { result } = (await a2a(t, idOf("agent"), "5", "SendMessage", say("hi"))).json;
  same(result.task.status.state, "TASK_STATE_COMPLETED");
});

check("a2a.version_1_stream", async ({ sse }) => {
  const s = await sse("POST", `/a2a/${idOf("agent")}`, { jsonrpc: "2.0", id: "2", method: "SendStreamingMessage", params: say("hi there") });
  const results = (await s.done).map((f) => f.data.result);
  same(results[0].task.status.state, "TASK_STATE_SUBMITTED");
  same(results.at(-1).statusUpdate.status.state, "TASK_STATE_COMPLETED");
}, { deviates: "wraps the task only, not its updates" });

check("a2a.version_1_tasks", async (t) => {
  const { task } = (await a2a(t, idOf("agent"), "1", "SendMessage", say("x"))).json.result;
  const got = (await a2a(t, idOf("agent"), "2", "GetTask", { id: task.id, contextId: task.contextId })).json.result;
  same((got.task ?? got).id, task.id);
  same((await a2a(t, idOf("agent"), "3", "CancelTask", { id: task.id, contextId: task.contextId })).json.error.code, -32002);
});

check("a2a.list", async (t) => {
  const { task } = (await a2a(t, idOf("agent"), "1", "SendMessage", say("x"))).json.result;
  const { tasks } = (await a2a(t, idOf("agent"), "2", "ListTasks", { contextId: task.contextId })).json.result;
  same(tasks.map((x) => x.id), [task.id]);
});

check("a2a.extended_card", async (t) => {
  has((await a2a(t, idOf("agent"), "1", "agent/getAuthenticatedExtendedCard", {})).json.result, { name: "agent" });
}, { deviates: "has no such card" });

check("a2a.errors", async (t) => {
  same((await a2a(t, idOf("hitl"), "6", "message/send", say("x"))).json.error.code, -32602);
  same((await a2a(t, idOf("agent"), "7", "no/such", {})).json.error.code, -32601);
  same((await a2a(t, idOf("agent"), "8", "message/send", {})).json.error.code, -32602);
});
