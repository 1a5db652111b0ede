// The nodes of an assistant's graph before or after which its runs pause.
import { keyed } from "./keyed";

interface Breakpoints {
  before: string[];
  after: string[];
}

export type When = keyof Breakpoints;

const none: Breakpoints = { before: [], after: [] };
const store = keyed<Breakpoints>(none);

export const useBreakpoints = (assistant: string): Breakpoints => store.use(assistant);

export const clearBreakpoints = (assistant: string) => store.set(assistant, none);

export function toggleBreakpoint(assistant: string, node: string, when: When) {
  const b = store.get(assistant);
  const nodes = b[when];
  store.set(assistant, { ...b, [when]: nodes.includes(node) ? nodes.filter((n) => n !== node) : [...nodes, node] });
}
