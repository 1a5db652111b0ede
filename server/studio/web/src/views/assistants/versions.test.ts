import { expect, test } from "vitest";
import { changesOf, matchingAssistants } from "./versions";

const at = "2026-01-01T00:00:00Z";

test("each version is compared with the one before it", () => {
  const versions = [
    { version: 1, created_at: at, name: "agent", config: {} },
    { version: 3, created_at: at, name: "agent", config: { configurable: { model: "b" } } },
    { version: 2, created_at: at, name: "agent", config: { configurable: { model: "a" } } },
  ];
  expect(changesOf(versions).map(({ version, changes }) => [version.version, changes])).toEqual([
    [3, [{ kind: "changed", key: "config.configurable.model", before: "a", after: "b" }]],
    [2, [{ kind: "added", key: "config", after: { configurable: { model: "a" } } }]],
    [1, [{ kind: "added", key: "name", after: "agent" }]],
  ]);
});

test("a context that the server copied into the configuration is one change", () => {
  const context = { tone: "kind" };
  const versions = [
    { version: 1, created_at: at },
    { version: 2, created_at: at, context, config: { configurable: context } },
  ];
  expect(changesOf(versions)[0]!.changes).toEqual([{ kind: "added", key: "context", after: context }]);
});

test("assistants are found by name, graph, and ID, and grouped by graph", () => {
  const all = [
    { assistant_id: "1a", graph_id: "agent", name: "agent" },
    { assistant_id: "2b", graph_id: "agent", name: "Kind agent" },
    { assistant_id: "3c", graph_id: "router", name: "router" },
  ];
  const found = (typed: string) => matchingAssistants(all, typed).map(([g, list]) => [g, list.map((a) => a.name)]);
  expect(found("")).toEqual([
    ["agent", ["agent", "Kind agent"]],
    ["router", ["router"]],
  ]);
  expect(found("AGENT kind")).toEqual([["agent", ["Kind agent"]]]);
  expect(found("3c")).toEqual([["router", ["router"]]]);
  expect(found("nothing")).toEqual([]);
});
