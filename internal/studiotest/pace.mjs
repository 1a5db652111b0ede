// What scripts use to decide how far runs go: graphs_paced.go says how.

import { randomUUID } from "node:crypto";

// newPace returns a pace: its name, for the graph paced or for a message to the talker, and a function that lets what has this
// pace go on n times.
export function newPace(server) {
  const name = randomUUID();
  const allow = async (n) => {
    const answer = await fetch(server + "/runs/wait", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ assistant_id: "allow", input: { pace: name, n } }),
    });
    if (!answer.ok) throw new Error(`allow: ${answer.status} ${await answer.text()}`);
  };
  return { name, allow };
}
