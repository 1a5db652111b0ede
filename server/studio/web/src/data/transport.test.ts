import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { newTransport } from "./transport";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

/** open returns a transport to a server that responds when it is told to. */
function open(keys = false) {
  const log: string[] = [];
  const sent = new Map<string, string | null>();
  const inFlight = new Map<string, (status: number) => void>();
  const transport = newTransport(keys, (input, init = {}) => {
    const path = input as string;
    log.push(path);
    sent.set(path, new Headers(init.headers).get("idempotency-key"));
    return new Promise((resolve, reject) => {
      inFlight.set(path, (status) => {
        inFlight.delete(path);
        resolve(new Response(status === 204 ? null : path, { status }));
      });
      init.signal?.addEventListener("abort", () => {
        inFlight.delete(path);
        reject(new DOMException("aborted", "AbortError"));
      });
    });
  });
  const answer = async (path: string, status = 200) => {
    inFlight.get(path)!(status);
    await vi.advanceTimersByTimeAsync(0);
  };
  return { ...transport, log, sent, inFlight, answer };
}

const settle = () => vi.advanceTimersByTimeAsync(0);
const post = { method: "POST" };

test("at most 4 background requests are in flight, in their order", async () => {
  const t = open();
  const all = ["/1", "/2", "/3", "/4", "/5", "/6"].map((path) => t.background(path));
  await settle();
  expect(t.log).toEqual(["/1", "/2", "/3", "/4"]);
  await t.answer("/2");
  expect(t.log).toEqual(["/1", "/2", "/3", "/4", "/5"]);
  expect(await (await all[1])!.text()).toBe("/2");
  await t.answer("/1", 204);
  expect((await all[0])!.status).toBe(204);
  expect(t.log.at(-1)).toBe("/6");
});

test("a request that is aborted while it waits is not sent", async () => {
  const t = open();
  for (const path of ["/1", "/2", "/3", "/4"]) void t.background(path);
  const controller = new AbortController();
  const waiting = t.background("/5", { signal: controller.signal });
  controller.abort();
  await expect(waiting).rejects.toThrow();
  void t.background("/6");
  await settle();
  await t.answer("/1");
  expect(t.log).toEqual(["/1", "/2", "/3", "/4", "/6"]);
});

test("a read that is aborted in flight makes room for another", async () => {
  const t = open();
  const controller = new AbortController();
  const first = t.background("/1", { signal: controller.signal });
  for (const path of ["/2", "/3", "/4", "/5"]) void t.background(path);
  await settle();
  controller.abort();
  await expect(first).rejects.toThrow("aborted");
  await settle();
  expect([...t.inFlight.keys()]).toEqual(["/2", "/3", "/4", "/5"]);
});

test("what the user waits for is sent at once", async () => {
  const t = open();
  for (const path of ["/1", "/2", "/3", "/4", "/5"]) void t.background(path);
  await settle();
  void t.fetch("/threads/t/history", post);
  void t.fetch("/search/runs", post);
  expect(t.log.slice(4)).toEqual(["/threads/t/history", "/search/runs"]);
});

test.each(["/threads/t/runs/stream", "/runs/crons", "/threads/t/runs/r/cancel", "/assistants"])(
  "a request to %s takes the place of the youngest background reads, which are sent again",
  async (path) => {
    const t = open();
    const reads = ["/1", "/2", "/3", "/4"].map((path) => t.background(path));
    await settle();
    void t.fetch("/state");
    const before = t.log.length;
    void t.background(path, post);
    expect([...t.inFlight.keys()]).toEqual(["/1", "/2", "/state", path]);
    await settle();
    expect(t.log.slice(before)).toEqual([path, "/4", "/3"]);
    await t.answer("/3");
    expect(await (await reads[2])!.text()).toBe("/3");
  },
);

test("a stream is neither repeated nor displaced", async () => {
  const t = open();
  for (let i = 0; i < 4; i++) void t.fetch(`/threads/${i}/runs/r/stream`);
  void t.fetch("/threads/t/runs/stream", post);
  expect(t.inFlight.size).toBe(5);
  const lost = t.fetch("/threads/5/runs/r/stream");
  await t.answer("/threads/5/runs/r/stream", 503);
  expect((await lost).status).toBe(503);
});

test("a read that fails is repeated once, and a write never", async () => {
  const t = open();
  const read = t.background("/1");
  await settle();
  await t.answer("/1", 503);
  await vi.advanceTimersByTimeAsync(1_000);
  await t.answer("/1", 504);
  expect((await read).status).toBe(504);
  const write = t.fetch("/threads/t/runs/stream", post);
  await t.answer("/threads/t/runs/stream", 504);
  expect((await write).status).toBe(504);
  expect(t.log).toEqual(["/1", "/1", "/threads/t/runs/stream"]);
});

test("each run that is started has a key, on servers that know keys", () => {
  const starts = ["/threads/t/runs/stream", "/threads/t/runs"];
  const t = open(true);
  const other = open(false);
  for (const path of [...starts, "/threads/t/runs/r/cancel", "/assistants"]) {
    void t.fetch(path, post);
    void other.fetch(path, post);
  }
  const keys = starts.map((path) => t.sent.get(path));
  expect(new Set(keys).size).toBe(2);
  for (const key of keys) expect(key).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect([t.sent.get("/threads/t/runs/r/cancel"), t.sent.get("/assistants")]).toEqual([null, null]);
  expect([...other.sent.values()]).toEqual([null, null, null, null]);
});
