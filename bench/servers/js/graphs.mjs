// The graphs of the server jobs for LangGraph's JavaScript server.

import { existsSync } from "node:fs";
import { Annotation, Command, END, START, StateGraph } from "@langchain/langgraph";

const append = () => Annotation({ reducer: (a, b) => a.concat(b), default: () => [] });

const Trip = Annotation.Root({ target: Annotation(), x: Annotation(), path: append() });

export const router = new StateGraph(Trip)
  .addNode("route", (s) => new Command({ update: { path: ["route"] }, goto: s.target === "right" ? "right" : "left" }), {
    ends: ["left", "right"],
  })
  .addNode("left", () => ({ path: ["left"] }))
  .addNode("right", () => ({ path: ["right"] }))
  .addEdge(START, "route")
  .addEdge("left", END)
  .addEdge("right", END)
  .compile();

// The time is in nanoseconds since 1970. It is a string: JavaScript's numbers lack the digits.
const now = () => String(Math.round((performance.timeOrigin + performance.now()) * 1e3) * 1e3);

const First = Annotation.Root({ done: Annotation() });

export const first = new StateGraph(First)
  .addNode("emit", (_, config) => {
    config.writer({ at: now() });
    return { done: true };
  })
  .addEdge(START, "emit")
  .addEdge("emit", END)
  .compile();

const Burst = Annotation.Root({ gate: Annotation(), frames: Annotation(), done: Annotation() });

// burst waits until the file named gate exists, then sends its frames.
export const burst = new StateGraph(Burst)
  .addNode("emit", async (s, config) => {
    while (!existsSync(s.gate)) await new Promise((resolve) => setTimeout(resolve, 5));
    for (let i = 0; i < s.frames; i++) config.writer({ frame: i });
    return { done: true };
  })
  .addEdge(START, "emit")
  .addEdge("emit", END)
  .compile();
