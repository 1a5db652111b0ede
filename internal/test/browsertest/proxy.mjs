// A proxy between a page and its server, for flows on networks that are slow or fail.

import { connect, createServer } from "node:net";

// proxy forwards connections to a server. The proxy ends with the check.
export async function proxy(server, later) {
  const { hostname, port } = new URL(server);
  const open = new Set();
  const requests = [];
  const arrivals = [];
  const refusals = [];
  const held = new Set();
  let holds = /^$/;
  let latency = 0;
  let isUp = true;
  let ignored = null;
  const forward = (from, to, pass) => {
    from.on("data", (data) => {
      from.pause();
      setTimeout(async () => {
        if ((await pass(data)) && !to.destroyed) to.write(data);
        from.resume();
      }, latency);
    });
    from.on("close", () => setTimeout(() => to.destroy(), latency));
    from.on("error", () => to.destroy());
  };
  const listener = createServer((client) => {
    if (!isUp) {
      client.destroy();
      return;
    }
    const upstream = connect(Number(port), hostname);
    for (const s of [client, upstream]) {
      open.add(s);
      s.on("close", () => open.delete(s));
    }
    // A browser sends a request on a connection when the response to the last one has arrived.
    let hold;
    let refused = false;
    let deaf = false;
    const note = (data) => {
      const line = /^[A-Z]+ \S+(?= HTTP)/.exec(data.toString("latin1"))?.[0];
      if (!line) return !refused;
      requests.push(line);
      deaf = ignored?.test(line) ?? false;
      arrivals.push({ line, at: Date.now() });
      hold = undefined;
      const answer = refusals.find((r) => r.pattern.test(line))?.answer;
      if (answer && !refused) {
        refused = true;
        setTimeout(() => client.end(answer), latency);
      }
      if (refused) return false;
      if (!holds.test(line)) return true;
      hold = { line };
      hold.released = new Promise((resolve) => (hold.release = resolve));
      held.add(hold);
      return true;
    };
    client.on("close", () => hold && held.delete(hold));
    forward(client, upstream, note);
    forward(upstream, client, async () => {
      await hold?.released;
      return !deaf;
    });
  });
  const drop = () => open.forEach((s) => s.destroy());
  await new Promise((ready) => listener.listen(0, "127.0.0.1", ready));
  later(() => {
    drop();
    listener.close();
  });
  return {
    url: `http://127.0.0.1:${listener.address().port}`,
    // requests are the methods and paths of those that have arrived.
    requests,
    // arrivals are the same, with the times at which they have arrived.
    arrivals,
    // hold keeps back the responses to requests whose method and path match a pattern, until release.
    hold: (pattern) => (holds = pattern),
    // held are the methods and paths of the requests whose responses are kept back.
    held: () => [...held].map((h) => h.line),
    release() {
      holds = /^$/;
      held.forEach((h) => h.release());
      held.clear();
    },
    // slow adds a latency, in milliseconds, in each direction.
    slow: (ms) => (latency = ms),
    // drop breaks all connections.
    drop,
    // refuse answers the requests whose method and path match a pattern, in place of the server.
    refuse: (pattern, status, detail) => {
      const body = JSON.stringify({ detail });
      const headers = ["content-type: application/json", `content-length: ${Buffer.byteLength(body)}`];
      const head = [`HTTP/1.1 ${status} Refused`, ...headers, "access-control-allow-origin: *", "connection: close"];
      refusals.push({ pattern, answer: [...head, "", body].join("\r\n") });
    },
    // accept ends what refuse began.
    accept: () => (refusals.length = 0),
    // deafen forwards requests whose method and path match a pattern, but not their responses, until mend.
    deafen: (pattern) => (ignored = pattern),
    // outage breaks all connections and refuses others, until mend.
    outage: () => ((isUp = false), drop()),
    mend: () => ((isUp = true), (ignored = null)),
  };
}
