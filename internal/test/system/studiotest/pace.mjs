// What scripts use to decide how far runs go: graphs_paced.go says how.

import { randomUUID } from "node:crypto";
import { api } from "./scenes.mjs";

// newPace returns a pace: its name, for the graph paced or for a message to the talker, and a function that lets what has this
// pace go on n times.
export function newPace(server) {
  const name = randomUUID();
  return { name, allow: (n) => api(server, "POST", "/runs/wait", { assistant_id: "allow", input: { pace: name, n } }) };
}
