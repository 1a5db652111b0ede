// A proxy between a page and its server, for flows on networks that are slow or fail.

import { connect, createServer } from "node:net";

// proxy forwards connections to a server. The proxy ends with the check.
export async function proxy(server, later) {
  const { hostname, port } = new URL(server);
  const open = new Set();
  const requests = [];
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
  const note = (data) => {
    const line = /^[A-Z]+ \S+/.exec(data.toString("latin1"))?.[0];
    if (line) requests.push(line);
    return true;
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
    forward(client, upstream, note);
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
    // deafen forwards requests but no responses, until mend.
    deafen: () => (state = "deaf"),
    // outage breaks all connections and refuses others, until mend.
    outage: () => ((state = "down"), drop()),
    mend: () => (state = "up"),
  };
}
