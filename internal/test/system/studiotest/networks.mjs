// Checks that run on networks that are fast, slow, and fail.
import { check } from "../../browsertest/kit.mjs";
import { proxy } from "../../browsertest/proxy.mjs";

/** The errors on the console while requests get no response. */
export const lost = /ERR_|Failed to load resource|net::/;

const networks = {
  "": () => {},
  " with a latency of 60 ms": (net) => net.slow(60),
  " over connections that break": (net) => (net.breaks = true),
};

// onEach adds a check for each network. It gets the parts of a check with net, the proxy, and with drop, a function that breaks
// all connections if the network's connections break.
export function onEach(server, name, body) {
  for (const [about, prepare] of Object.entries(networks))
    check(name + about, async (kit) => {
      kit.allow(lost);
      const net = await proxy(server, kit.later);
      prepare(net);
      await body({ ...kit, net, drop: () => net.breaks && net.drop() });
    });
}
