import { expect, test, vi } from "vitest";
import { batched } from "./batch";

const upper = vi.fn((ids: string[]) => Promise.resolve(new Map(ids.map((id) => [id, id.toUpperCase()]))));

test("calls within a moment share requests of limited size", async () => {
  const load = batched(upper, 2);
  expect(await Promise.all(["a", "b", "a", "c"].map(load))).toEqual(["A", "B", "A", "C"]);
  expect(upper.mock.calls).toEqual([[["a", "b"]], [["c"]]]);
  expect(await load("d")).toBe("D");
  expect(upper).toHaveBeenCalledTimes(3);
});

test("a missing value is undefined, and a failed request rejects its calls only", async () => {
  const load = batched<string>((ids) => {
    if (ids.includes("bad")) return Promise.reject(new Error("no"));
    return Promise.resolve(new Map<string, string>());
  }, 1);
  expect(await Promise.allSettled([load("bad"), load("good")])).toEqual([
    { status: "rejected", reason: new Error("no") },
    { status: "fulfilled", value: undefined },
  ]);
});
