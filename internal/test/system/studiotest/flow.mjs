// What the flows share: the studio, the server that it shows, and their checks.
//
//	node flows/run.mjs STUDIO [ONLY [SERVER]]
//
// SERVER is LangGraph's own Python server, which the studio then opens with ?baseUrl=. Without it, the studio shows the
// server that it comes from.
import { barriers as find, check as add, run as runAll } from "../../browsertest/kit.mjs";

export const host = process.argv[2];
const [, , , only, other] = process.argv;

// server is the address of the API.
export const server = other ?? host;

// isLangGraphs reports whether the server is LangGraph's own.
export const isLangGraphs = other !== undefined;

// origins are those that the page may ask.
export const origins = [...new Set([host, server])];

// studio returns the address of the page with a query. With at, the server is reached through a proxy at this address.
export function studio(query = "", at = undefined) {
  const all = new URLSearchParams(query);
  if (isLangGraphs) all.set("baseUrl", at ?? server);
  return `${isLangGraphs ? host : (at ?? host)}/studio/?${all}`;
}

// elsewhere is like studio, but the page does not take the server for its own.
export function elsewhere(query = "", at = server) {
  const all = new URLSearchParams(query);
  all.set("baseUrl", at);
  return studio(all, at);
}

// check adds a check. The option deviates says what LangGraph's own server lacks or does otherwise, so that the check
// cannot pass there. It begins a row of the table in docs/studio.md.
export function check(name, body, { deviates } = {}) {
  if (!(isLangGraphs && deviates)) add(name, body);
}

// barriers is like the kit's, but returns none with LangGraph's server: they do not depend on the server, and finding
// them takes longer than most checks.
export const barriers = async (page, options) => (isLangGraphs ? [] : find(page, options));

// run runs the checks of the flow.
export const run = (options) => runAll({ only, origin: origins, ...options });
