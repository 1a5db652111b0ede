import { expect, test } from "vitest";
import { labelsOf, linkOf } from "./labels";

test.each([[[]], [["users"]], [["users", "ada/lovelace", "50%", "a b", "é"]]])("%j survives a link", (labels) => {
  expect(labelsOf(linkOf(labels))).toEqual(labels);
});

test("an invalid label is taken literally", () => {
  expect(labelsOf("a/50%/b")).toEqual(["a", "50%", "b"]);
  expect(labelsOf(undefined)).toEqual([]);
});
