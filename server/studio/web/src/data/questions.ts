import type { Interrupt } from "@langchain/langgraph-sdk";
import type { OpenQuestion, Step } from "./types";

/**
 * questionsOf returns the questions among the interrupts of a task. A task that sleeps or waits for a signal also
 * interrupts a run.
 */
export function questionsOf(interrupts: Interrupt[] | undefined, node: string, ns: string): OpenQuestion[] {
  return (interrupts ?? []).flatMap((i) => {
    const { interrupt_id, kind } = i as { interrupt_id?: string; kind?: string };
    const id = i.id ?? interrupt_id;
    return id && !kind ? [{ id, value: i.value, node, ns }] : [];
  });
}

/** A Wait is a task that sleeps or waits for a signal. */
export interface Wait {
  node: string;
  kind: string;
  /** The time at which the wait ends in any case, if there is one. */
  due?: string;
  value: unknown;
}

/** waitsOf returns the tasks of a step that wait for something other than an answer. */
export function waitsOf(step: Step): Wait[] {
  return (step.tasks ?? []).flatMap((t) =>
    (t.interrupts ?? []).flatMap((i) => {
      const { kind, due } = i as { kind?: string; due?: string };
      return kind ? [{ node: t.name, kind, due, value: i.value }] : [];
    }),
  );
}
