import { expect, test } from "vitest";
import { matching } from "./commands";

const commands = [
  { label: "Graph", group: "View" },
  { label: "Runs", group: "View" },
  { label: "weather agent", group: "Assistant" },
  { label: "agent", group: "Assistant" },
  { label: "New thread", group: "Thread" },
];
const labels = (typed: string) => matching(commands, typed).map((c) => c.label);

test.each([
  ["", ["Graph", "Runs", "weather agent", "agent", "New thread"]],
  ["run", ["Runs"]],
  ["AGENT", ["agent", "weather agent"]],
  ["agent weather", ["weather agent"]],
  ["view", ["Graph", "Runs"]],
  ["assistant agent", ["weather agent", "agent"]],
  ["thread", ["New thread"]],
  ["nothing", []],
])("%j finds %j", (typed, want) => expect(labels(typed)).toEqual(want));
