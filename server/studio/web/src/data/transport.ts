// Sends requests. A browser opens at most six connections to a server without HTTP/2, so that slow responses could keep
// a run from starting. Background requests therefore wait for each other, and writes take the place of reads.

import { newId } from "./ids";

/** The number of background requests in flight. */
const most = 4;
/** The number of reads that stay in flight while something is written. The rest of the connections is for streams. */
const kept = 3;
/** The time before a read that failed is repeated. */
const repeated = 1_000;

type Fetch = typeof globalThis.fetch;

export interface Transport {
  /** fetch sends a request at once. */
  fetch: Fetch;
  /** background is like fetch, but reads wait until few others are in flight. */
  background: Fetch;
}

/** A Flight is a read that was sent, and that can be sent again. */
interface Flight {
  background: boolean;
  displace(): void;
}

/** isRead reports whether a request changes nothing and ends soon, so that it can be repeated. */
function isRead(method: string, path: string): boolean {
  if (method === "GET") return !path.endsWith("/stream");
  return method === "POST" && /\/(search|history|subgraphs|namespaces|count|versions)$|\/search\/\w+$/.test(path);
}

/** isStart reports whether a request starts a run. */
const isStart = (method: string, path: string) => method === "POST" && /\/runs(\/stream)?$/.test(path);

/**
 * newTransport returns a transport. Only reads are repeated: a gateway may report a timeout of a run that started. A
 * browser sends a request again by itself if a reused connection breaks. With keys, for servers that know them, such a
 * repeated request starts no second run.
 */
export function newTransport(keys: boolean, send: Fetch = (input, init) => fetch(input, init)): Transport {
  const flights = new Set<Flight>();
  const waiting = new Set<() => void>();
  let background = 0;

  /** turn waits until another background request may be sent. */
  const turn = (signal: AbortSignal | null | undefined) =>
    new Promise<void>((resolve, reject) => {
      const start = () => {
        waiting.delete(start);
        signal?.removeEventListener("abort", abort);
        background++;
        resolve();
      };
      const abort = () => {
        waiting.delete(start);
        reject(signal!.reason as Error);
      };
      if (signal?.aborted) return abort();
      signal?.addEventListener("abort", abort);
      waiting.add(start);
      next();
    });
  const next = () => {
    for (const start of waiting) {
      if (background >= most) return;
      start();
    }
  };

  /** fly sends a read, and returns its whole response, or null if the request was displaced. */
  const fly = async (input: Parameters<Fetch>[0], init: RequestInit, isBackground: boolean) => {
    const { signal } = init;
    if (isBackground) await turn(signal);
    const controller = new AbortController();
    const abort = () => controller.abort(signal?.reason);
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort);
    let displaced = false;
    const flight = {
      background: isBackground,
      displace() {
        displaced = true;
        flights.delete(flight);
        controller.abort();
      },
    };
    flights.add(flight);
    try {
      const answer = await send(input, { ...init, signal: controller.signal });
      // The connection is in use until the whole body has arrived.
      const body = await answer.arrayBuffer();
      const { status, statusText, headers } = answer;
      return new Response(body.byteLength > 0 ? body : null, { status, statusText, headers });
    } catch (err) {
      if (displaced) return null;
      throw err;
    } finally {
      signal?.removeEventListener("abort", abort);
      flights.delete(flight);
      if (isBackground) background--;
      next();
    }
  };

  const read = async (input: Parameters<Fetch>[0], init: RequestInit, isBackground: boolean): Promise<Response> => {
    for (let failed = false; ;) {
      const answer = await fly(input, init, isBackground);
      if (!answer) continue;
      if (failed || (answer.status < 500 && answer.status !== 429)) return answer;
      failed = true;
      await new Promise((resolve) => setTimeout(resolve, repeated));
    }
  };

  /** makeRoom ends the youngest reads, background requests first. They are sent again afterward. */
  const makeRoom = () => {
    const youngest = [...flights].reverse().sort((a, b) => Number(b.background) - Number(a.background));
    for (const flight of youngest.slice(0, Math.max(0, flights.size - kept))) flight.displace();
  };

  const request = (isBackground: boolean): Fetch => {
    return (input, init = {}) => {
      const path = new URL(input instanceof Request ? input.url : String(input), "http://unused").pathname;
      const { method = "GET" } = init;
      if (isRead(method, path)) return read(input, init, isBackground);
      makeRoom();
      const headers = new Headers(init.headers);
      if (keys && isStart(method, path)) headers.set("idempotency-key", newId());
      // A run is canceled even if the page is closed immediately.
      return send(input, { ...init, headers, keepalive: path.endsWith("/cancel") });
    };
  };
  return { fetch: request(false), background: request(true) };
}
