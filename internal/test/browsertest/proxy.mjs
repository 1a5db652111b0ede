// A proxy between a page and its server, for flows on networks that are slow or fail.

import { connect, createServer } from "node:net";

// proxy forwards connections to a server. The proxy ends with the check.
export async function proxy(server, later) {
  const { hostname, port } = new URL(server);
  const open = new Set();
  const requests = [];
  const refusals = [];
  let latency = 0;
  let state = "up";
  const forward = (from, to, pass) => {
    from.on("data", (data) => {
      from.pause();
      setTimeout(() => {
        if (!to.destroyed && pass(data)) to.write(data);
        from.resume();
      }, latency);
    });
    from.on("close", () => setTimeout(() => to.destroy(), latency));
    from.on("error", () => to.destroy());
  };
  // note returns the method and the path if the data begins a request.
  const note = (data) => {
    const line = /^[A-Z]+ \S+(?= HTTP)/.exec(data.toString("latin1"))?.[0];
    if (line) requests.push(line);
    return line;
  };
  const listener = createServer((client) => {
    if (state === "down") {
      client.destroy();
      return;
    }
    const upstream = connect(Number(port), hostname);
    for (const s of [client, upstream]) {
      open.add(s);
      s.on("close", () => open.delete(s));
    }
    let refused = false;
    forward(client, upstream, (data) => {
      const line = note(data);
      const answer = line && refusals.find((r) => r.pattern.test(line))?.answer;
      if (!answer || refused) return !refused;
      refused = true;
      setTimeout(() => client.end(answer), latency);
      return false;
    });
    forward(upstream, client, () => state === "up");
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
    // deafen forwards requests but no responses, until mend.
    deafen: () => (state = "deaf"),
    // outage breaks all connections and refuses others, until mend.
    outage: () => ((state = "down"), drop()),
    mend: () => (state = "up"),
  };
}
