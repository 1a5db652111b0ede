import { expect, test } from "vitest";
import { appendedTo, diffOf, same, updateOf } from "./diff";

test.each([
  ["equal values", { a: 1, b: [{ c: null }] }, { b: [{ c: null }], a: 1 }, true],
  ["another value", { a: 1 }, { a: 2 }, false],
  ["a missing key", { a: 1, b: undefined }, { a: 1 }, false],
  ["a list and an object", [], {}, false],
  ["null and an object", null, {}, false],
  ["a longer list", [1], [1, 2], false],
])("same compares %s", (_, a, b, want) => expect(same(a, b)).toBe(want));

test.each([
  ["no change", { a: 1 }, { a: 1 }, []],
  ["a new key", {}, { a: 1 }, [{ kind: "added", key: "a", after: 1 }]],
  ["a first state", undefined, { a: 1 }, [{ kind: "added", key: "a", after: 1 }]],
  ["a new list", {}, { a: [1] }, [{ kind: "list", key: "a", at: 0, removed: [], added: [1], length: 1 }]],
  ["a new empty list", {}, { a: [] }, [{ kind: "added", key: "a", after: [] }]],
  ["a removed key", { a: 1 }, {}, [{ kind: "removed", key: "a", before: 1 }]],
  ["a nested change", { a: { b: 1 } }, { a: { b: 2 } }, [{ kind: "changed", key: "a.b", before: 1, after: 2 }]],
  ["another type", { a: 1 }, { a: [1] }, [{ kind: "changed", key: "a", before: 1, after: [1] }]],
  ["a key set to null", { a: {} }, { a: null }, [{ kind: "changed", key: "a", before: {}, after: null }]],
  ["an append", { a: [1] }, { a: [1, 2] }, [{ kind: "list", key: "a", at: 1, removed: [], added: [2], length: 2 }]],
  [
    "a replaced entry",
    { a: [1, 2, 3] },
    { a: [1, 9, 3] },
    [{ kind: "list", key: "a", at: 1, removed: [2], added: [9], length: 3 }],
  ],
  [
    "a removed duplicate",
    { a: [1, 1, 1] },
    { a: [1, 1] },
    [{ kind: "list", key: "a", at: 2, removed: [1], added: [], length: 2 }],
  ],
  [
    "a change below the depth limit",
    { a: { b: { c: { d: 1 } } } },
    { a: { b: { c: { d: 2 } } } },
    [{ kind: "changed", key: "a.b.c", before: { d: 1 }, after: { d: 2 } }],
  ],
  ["values that are not objects", 1, 2, [{ kind: "changed", key: "", before: 1, after: 2 }]],
])("diffOf returns %s", (_, before, after, want) => expect(diffOf(before, after)).toEqual(want));

test("updateOf sets removed keys to null", () => {
  expect(updateOf({ a: 1, b: [1], c: 2 }, { a: 1, b: [2], d: 3 })).toEqual({ b: [2], d: 3, c: null });
});

test.each([
  [[1], [1, 2, 3], [2, 3]],
  [[], [1], [1]],
  [[1], [1], null],
  [[1], [2, 1], null],
  ["a", ["a", "b"], null],
])("appendedTo compares %j and %j", (before, after, want) => expect(appendedTo(before, after)).toEqual(want));
