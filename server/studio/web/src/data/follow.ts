// Reads the stream of a run to its end, over connections that break.
import type { StreamEvent } from "./client";
import { isAway } from "./errors";

/** The event of the window when the server responds again. */
export const serverIsBack = "treadle-server-is-back";

/** The delays between reconnection attempts. The last one is repeated until the server responds. */
const delays = [250, 500, 1_000, 2_000, 4_000, 8_000];

/** pause waits before an attempt to reconnect, or until the server responds again. */
export function pause(attempt: number): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      window.removeEventListener(serverIsBack, done);
      resolve();
    };
    const timer = setTimeout(done, delays[attempt] ?? delays.at(-1));
    window.addEventListener(serverIsBack, done);
  });
}

interface Reading {
  signal: AbortSignal;
  open(): AsyncIterable<StreamEvent>;
  /** isKnown reports whether the run's ID is known, so that its stream can be reopened. */
  isKnown(): boolean;
  /** reopen returns the events after an event. */
  reopen(after: string): AsyncIterable<StreamEvent>;
  onEvent(e: StreamEvent): void;
  onLost(): void;
  /** onResumed is called with the first event after a lost connection. */
  onResumed(): void;
}

/**
 * readToEnd reads a stream. If the connection is lost, it reconnects after the last event. It reports whether the
 * stream has ended, and throws the error of a stream that cannot be resumed.
 */
export async function readToEnd(r: Reading): Promise<boolean> {
  let last = "-1";
  let since = performance.now();
  for (let attempt = 0; ; attempt++) {
    try {
      for await (const e of attempt === 0 ? r.open() : r.reopen(last)) {
        if (r.signal.aborted) return false;
        if (attempt > 0) r.onResumed();
        attempt = 0;
        if (e.id) last = e.id;
        r.onEvent(e);
        // A backlog of events, as after joining a run, must not block rendering.
        if (performance.now() - since > 12) {
          await nextTask();
          since = performance.now();
        }
      }
      return !r.signal.aborted;
    } catch (err) {
      if (r.signal.aborted) return false;
      if (!isAway(err) || !r.isKnown()) throw err;
      r.onLost();
      await pause(attempt);
    }
  }
}

/** nextTask yields to the browser for rendering and input. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
