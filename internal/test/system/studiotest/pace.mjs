// What scripts use to decide how far runs go: graphs_paced.go says how.

import { randomUUID } from "node:crypto";
import { isLangGraphs, server } from "./flow.mjs";
import { api } from "./scenes.mjs";

// newPace returns a pace: its name, for the graph paced or for a message to the talker, and a function that lets the
// runs with this pace go on n times.
export function newPace() {
  const name = randomUUID();
  const allow = (n) =>
    isLangGraphs
      ? api(server, "POST", "/pace", { pace: name, n })
      : api(server, "POST", "/runs/wait", { assistant_id: "allow", input: { pace: name, n } });
  return { name, allow };
}
