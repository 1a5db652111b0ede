import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { StreamEvent } from "./client";
import { pause, readToEnd, serverIsBack } from "./follow";

beforeEach(() => {
  vi.stubGlobal("window", new EventTarget());
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const away = () => new TypeError("Failed to fetch");
const failure = (status: number) => Object.assign(new Error(`HTTP ${status}: no`), { status });

/** stream yields events with these IDs, and then throws, if it is given an error. */
async function* stream(ids: string[], error?: Error): AsyncGenerator<StreamEvent> {
  await Promise.resolve();
  for (const id of ids) yield { id, event: "values", data: id };
  if (error) throw error;
}

/** read reads streams, one per connection, and returns what happened. */
function read(streams: AsyncIterable<StreamEvent>[], isKnown = true) {
  const log: string[] = [];
  const controller = new AbortController();
  const next = (name: string) => {
    log.push(name);
    return streams.shift() ?? stream([]);
  };
  const whole = readToEnd({
    signal: controller.signal,
    open: () => next("open"),
    isKnown: () => isKnown,
    reopen: (after) => next("after " + after),
    onEvent: (e) => log.push("event " + e.id),
    onLost: () => log.push("lost"),
    onResumed: () => log.push("resumed"),
  });
  return { whole, log, controller };
}

test("a stream is read to its end", async () => {
  const { whole, log } = read([stream(["1", "2"])]);
  expect(await whole).toBe(true);
  expect(log).toEqual(["open", "event 1", "event 2"]);
});

test("a lost connection is resumed after the last event, as often as it takes", async () => {
  const { whole, log } = read([
    stream(["1"], away()),
    stream([], failure(503)),
    stream([], away()),
    stream(["2"], away()),
    stream(["3"]),
  ]);
  await vi.runAllTimersAsync();
  expect(await whole).toBe(true);
  expect(log).toEqual([
    ...["open", "event 1", "lost"],
    ...["after 1", "lost", "after 1", "lost", "after 1", "resumed", "event 2", "lost"],
    ...["after 2", "resumed", "event 3"],
  ]);
});

test("a run without an ID cannot be resumed", async () => {
  await expect(read([stream([], away())], false).whole).rejects.toThrow("Failed to fetch");
});

test("an error of the server ends the stream", async () => {
  await expect(read([stream(["1"], failure(409))]).whole).rejects.toThrow("HTTP 409");
});

test("an aborted stream reports no events and no end", async () => {
  const { whole, log, controller } = read([stream(["1"])]);
  controller.abort();
  expect(await whole).toBe(false);
  expect(log).toEqual(["open"]);
});

test("pauses grow, and end when the server is back", async () => {
  const done = vi.fn();
  void pause(0).then(done);
  await vi.advanceTimersByTimeAsync(249);
  expect(done).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(done).toHaveBeenCalledOnce();
  void pause(100).then(done);
  await vi.advanceTimersByTimeAsync(7_999);
  expect(done).toHaveBeenCalledOnce();
  window.dispatchEvent(new Event(serverIsBack));
  await vi.advanceTimersByTimeAsync(0);
  expect(done).toHaveBeenCalledTimes(2);
});
