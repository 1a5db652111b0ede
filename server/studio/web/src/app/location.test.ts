import { afterEach, beforeEach, expect, test, vi } from "vitest";

/** open returns the module for a page at an address, and the window's address. */
async function open(search: string) {
  const location = { search, pathname: "/studio/" };
  const set = (_: unknown, __: string, href: string) => (location.search = href.startsWith("?") ? href : "");
  const listeners: (() => void)[] = [];
  vi.stubGlobal("window", {
    location,
    history: { pushState: vi.fn(set), replaceState: vi.fn(set) },
    addEventListener: (_: string, listener: () => void) => listeners.push(listener),
  });
  return { ...(await import("./location")), location, back: () => listeners.forEach((l) => l()) };
}

beforeEach(() => vi.resetModules());
afterEach(() => vi.unstubAllGlobals());

test("hrefOf names the view unless it is the graph", async () => {
  const { hrefOf } = await open("");
  expect(hrefOf({ view: "graph" })).toBe("/studio/");
  expect(hrefOf({ view: "chat", thread: "t" })).toBe("?view=chat&thread=t");
});

test("an unknown view is the graph", async () => {
  const { hrefOf } = await open("?view=nowhere&assistant=a");
  expect(hrefOf({})).toBe("?assistant=a");
});

test("another thread removes the checkpoint and the run, unless they are given", async () => {
  const { hrefOf } = await open("?thread=t&checkpoint=c&run=r&assistant=a");
  expect(hrefOf({ thread: "u" })).toBe("?assistant=a&thread=u");
  expect(hrefOf({ thread: "t" })).toBe("?assistant=a&thread=t&checkpoint=c&run=r");
  expect(hrefOf({ thread: "u", run: "s" })).toBe("?assistant=a&thread=u&run=s");
});

test("only the view of two runs names both", async () => {
  const { hrefOf } = await open("?view=compare&thread=t&checkpoint=c&with=d&other=b&left=l&right=r");
  expect(hrefOf({})).toBe("?view=compare&thread=t&checkpoint=c&other=b&with=d&left=l&right=r");
  expect(hrefOf({ view: "graph" })).toBe("?thread=t&checkpoint=c");
});

test("go changes the address", async () => {
  const { go, hrefOf, location } = await open("?thread=t");
  go({ checkpoint: "c" });
  expect(location.search).toBe("?thread=t&checkpoint=c");
  expect(hrefOf({})).toBe("?thread=t&checkpoint=c");
  go({ thread: null }, "replace");
  expect(location.search).toBe("");
});

test("going back restores the address", async () => {
  const { go, hrefOf, location, back } = await open("?thread=t");
  go({ thread: "u" });
  location.search = "?thread=t";
  back();
  expect(hrefOf({})).toBe("?thread=t");
});

test("values are escaped", async () => {
  const { hrefOf } = await open("");
  expect(hrefOf({ baseUrl: "http://h:1/a?b&c" })).toBe("?baseUrl=http%3A%2F%2Fh%3A1%2Fa%3Fb%26c");
});

test("another view removes the parameters of the previous one", async () => {
  const { go, hrefOf, setParams, location } = await open("?view=runs&status=failed&graph=g");
  expect(hrefOf({ thread: "t" })).toBe("?view=runs&thread=t&status=failed&graph=g");
  expect(hrefOf({ view: "store" })).toBe("?view=store");
  expect(hrefOf({ view: "store", params: { item: "i" } })).toBe("?view=store&item=i");
  setParams({ graph: "", error: "no" });
  expect(location.search).toBe("?view=runs&status=failed&error=no");
  go({ view: "graph" });
  expect(location.search).toBe("");
});
