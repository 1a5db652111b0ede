// Checks that run on networks that are fast, slow, and fail.
import { until } from "../../browsertest/kit.mjs";
import { proxy } from "../../browsertest/proxy.mjs";
import { check, isLangGraphs, server, studio } from "./flow.mjs";

/** The errors on the console while requests get no response. */
export const lost = /ERR_|Failed to load resource|net::/;

// networks are functions that prepare a proxy and a page, and return how the network fails, if it does.
const networks = {
  "": () => {},
  " with a latency of 60 ms": (net) => void net.slow(60),
  " over connections that break": (net) => async (during) => {
    net.drop();
    await during();
  },
  " through an outage of a minute": async (net, page) => {
    await page.clock.install();
    return (during, held) => outage(net, page, during, held);
  },
};

// The networks are a matter of the page, so LangGraph's server gets only the first one.
const tried = Object.entries(networks).filter(([about]) => !isLangGraphs || about === "");

// onEach adds a check for each network. It gets the parts of a check with:
//   net    the proxy
//   at     a function that returns the address of the page with a query, through the proxy
//   fails  a function in which the network fails, if it does. It takes a function to call in the meantime, and one that
//          reports whether the check holds a request back, which therefore cannot fail.
export function onEach(name, body, options) {
  for (const [about, prepare] of tried)
    check(
      name + about,
      async (kit) => {
        kit.allow(lost);
        const net = await proxy(server, kit.later);
        kit.trust(net.url);
        const fail = await prepare(net, kit.page);
        const fails = async (during = () => {}, held = () => false) => (fail ? fail(during, held) : during());
        await body({ ...kit, net, at: (query) => studio(query, net.url), fails });
      },
      options,
    );
}

// outage makes the server unreachable for a minute by the page's clock. The clock goes on only when all requests that
// the page has made have failed, so that the page makes all attempts of a real minute.
async function outage(net, page, during, held) {
  let failed = 0;
  const pending = new Set();
  const begin = (r) => r.url().startsWith(net.url) && !held(r) && pending.add(r);
  const end = (r) => pending.delete(r) && failed++;
  page.on("request", begin);
  page.on("requestfailed", end);
  page.on("requestfinished", end);
  net.outage();
  await during();
  for (let second = 0; second < 60; second++) {
    await page.clock.runFor(1_000);
    await page.evaluate(() => {}); // what the page asks for has begun
    await until(() => pending.size === 0, "requests to fail");
  }
  net.mend();
  for (const [event, listener] of Object.entries({ request: begin, requestfailed: end, requestfinished: end }))
    page.off(event, listener);
  if (failed < 15) throw new Error(`the page made only ${failed} requests in a minute without its server`);
}
