import { expect, test } from "vitest";
import { newClient } from "./client";

const run = { run_id: "r", thread_id: "t", status: "success", metadata: {} };
const states = [{ values: {}, next: [], tasks: [], checkpoint: { checkpoint_id: "1" } }];
const thread = { thread_id: "t", status: "idle", metadata: {} };

/** client returns a client of a server with the given responses, and the requests that it receives. */
function client(own: boolean, responses: Record<string, unknown>) {
  const asked: string[] = [];
  const fetch = (input: RequestInfo | URL, init: RequestInit = {}) => {
    const { pathname } = new URL(String(input));
    asked.push(`${init.method ?? "GET"} ${pathname}`);
    const found = responses[pathname];
    const status = found === undefined ? 500 : 200;
    return Promise.resolve(new Response(JSON.stringify(found ?? { detail: "the disk is full" }), { status }));
  };
  return { client: newClient("http://server", null, { fetch, background: fetch }, own), asked };
}

test("Treadle's server returns a thread, its newest run, and its states together", async () => {
  const { client: c, asked } = client(true, { "/threads/t/overview": { thread, run, states } });
  expect(await c.overview("t", 30)).toMatchObject({ run, states, thread });
  expect(asked).toEqual(["GET /threads/t/overview"]);
});

test("other servers return them one by one, and a thread with a run says nothing more", async () => {
  const { client: c, asked } = client(false, {
    "/threads/t/runs": [run],
    "/threads/t/history": states,
    "/threads/t": thread,
  });
  expect(await c.overview("t", 30)).toMatchObject({ run, states, thread: null });
  expect(asked.sort()).toEqual(["GET /threads/t/runs", "POST /threads/t/history"]);
  expect(await c.subgraphs("t", ["inner:1"], 100)).toEqual({});
});

test("a thread without runs, and one whose runs cannot be read, is loaded itself", async () => {
  const others = { "/threads/t/history": states, "/threads/t": thread };
  expect(await client(false, { ...others, "/threads/t/runs": [] }).client.overview("t", 30)).toMatchObject({
    run: null,
    thread,
    error: undefined,
  });
  const { error } = await client(false, others).client.overview("t", 30);
  expect(error).toBe("Failed to load the newest run: the disk is full");
});

test("subgraphs are loaded together, and not at all if there are none", async () => {
  const { client: c, asked } = client(true, { "/threads/t/subgraphs": { subgraphs: { "inner:1": states } } });
  expect(await c.subgraphs("t", [], 100)).toEqual({});
  expect(asked).toEqual([]);
  expect(await c.subgraphs("t", ["inner:1"], 100)).toEqual({ "inner:1": states });
});
