import { expect, test } from "vitest";
import { headOfBranch, rowsOf } from "./branches";
import { newestBelow, pathTo, treeOf } from "./tree";
import type { Step } from "./types";

const step = (id: string, parent: string | null): Step =>
  ({
    checkpoint: { checkpoint_id: id },
    parent_checkpoint: parent ? { checkpoint_id: parent } : null,
    values: {},
    next: [],
    tasks: [],
  }) as unknown as Step;

/** steps parses "a<b" as b with the parent a, and returns the steps newest first. */
const steps = (...all: string[]): Step[] =>
  all
    .map((text) => text.split("<"))
    .map(([first, second]) => (second ? step(second, first!) : step(first!, null)))
    .reverse();

const drawn = (all: Step[], chosen: string | null = null, unfolded: string[] = []) => {
  const tree = treeOf(all);
  return rowsOf(tree, headOfBranch(tree, all, chosen), new Set(unfolded)).map((r) =>
    [
      r.kind === "branch" ? `${r.key} (${r.count})` : r.key,
      r.lane,
      [r.leaves ? "leaves" : "", r.up ? "up" : "", r.down ? "down" : ""].filter(Boolean).join(" "),
      r.fork ? `${r.fork.at + 1}/${r.fork.of.length}` : "",
    ].join("|"),
  );
};

const fork = steps("a", "a<b", "b<c", "a<d", "d<e");

test("a thread without forks is one lane", () => {
  expect(drawn(steps("a", "a<b", "b<c"))).toEqual(["a|0|down|", "b|0|up down|", "c|0|up|"]);
});

test("another branch is collapsed next to the newest one", () => {
  expect(drawn(fork)).toEqual(["a|0|down|", "branch b (2)|1|leaves|1/2", "d|0|up down|2/2", "e|0|up|"]);
});

test("a selected checkpoint decides the shown branch", () => {
  expect(drawn(fork, "b")).toEqual(["a|0|down|", "branch d (2)|1|leaves|2/2", "b|0|up down|1/2", "c|0|up|"]);
});

test("an expanded branch shows its steps", () => {
  expect(drawn(fork, null, ["b"])).toEqual([
    "a|0|down|",
    "b|1|leaves down|1/2",
    "c|1|up|",
    "d|0|up down|2/2",
    "e|0|up|",
  ]);
});

test("steps whose parents are not loaded start a branch", () => {
  expect(drawn(steps("x<b", "b<c"))).toEqual(["b|0|down|", "c|0|up|"]);
});

test("an unknown checkpoint shows the newest branch", () => {
  expect(headOfBranch(treeOf(fork), fork, "z")).toBe("e");
  expect(headOfBranch(treeOf([]), [], null)).toBe("");
});

test("the newest checkpoint below another may be on any of its branches", () => {
  const tree = treeOf(fork);
  expect([newestBelow(tree, "a"), newestBelow(tree, "b"), newestBelow(tree, "e")]).toEqual(["e", "c", "e"]);
});

test("a cycle of checkpoints ends", () => {
  const tree = treeOf(steps("c<a", "a<b", "b<c"));
  expect(pathTo(tree, "c").map((s) => s.checkpoint.checkpoint_id)).toEqual(["a", "b", "c"]);
});

test("a thread of 12,000 steps is laid out", () => {
  const all = steps("00000", ...Array.from({ length: 12_000 }, (_, i) => pad(i) + "<" + pad(i + 1)));
  expect(rowsOf(treeOf(all), pad(12_000), new Set())).toHaveLength(12_001);
});

const pad = (n: number) => String(n).padStart(5, "0");
