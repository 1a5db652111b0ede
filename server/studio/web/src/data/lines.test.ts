import { expect, test } from "vitest";
import { around, diffLines, type Line } from "./lines";

const signs = { same: " ", added: "+", removed: "-" };
const text = (lines: Line[]) => lines.map((l) => signs[l.kind] + l.text);

test("lines that stay are kept", () => {
  expect(text(diffLines("a\nb\nc\nd\n", "a\nc\nx\nd\n"))).toEqual([" a", "-b", " c", "+x", " d"]);
});

test("a new file adds all lines, and a deleted one removes them", () => {
  expect(text(diffLines("", "a\nb"))).toEqual(["+a", "+b"]);
  expect(text(diffLines("a\nb\n", ""))).toEqual(["-a", "-b"]);
  expect(diffLines("", "")).toEqual([]);
});

test("both texts can be rebuilt from random differences", () => {
  let seed = 1;
  const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
  for (let round = 0; round < 200; round++) {
    const [a, b] = [random(12), random(12)].map((n) => Array.from({ length: n }, () => "abc"[random(3)]!));
    const lines = diffLines(a!.join("\n"), b!.join("\n"));
    expect(lines.filter((l) => l.kind !== "added").map((l) => l.text)).toEqual(a);
    expect(lines.filter((l) => l.kind !== "removed").map((l) => l.text)).toEqual(b);
  }
});

test("two large texts are replaced as a whole", () => {
  const many = (word: string) => Array.from({ length: 3000 }, (_, i) => word + i).join("\n");
  const lines = diffLines("first\n" + many("a"), "first\n" + many("b"));
  expect(lines.length).toBe(6001);
  expect(lines[0]).toEqual({ kind: "same", text: "first" });
});

test("lines far from a change are left out", () => {
  const before = Array.from({ length: 20 }, (_, i) => String(i)).join("\n");
  const blocks = around(diffLines(before, before.replace("10", "x")));
  expect(blocks.map((b) => (Array.isArray(b) ? text(b).join("") : b.skipped))).toEqual([7, " 7 8 9-10+x 11 12 13", 6]);
});
