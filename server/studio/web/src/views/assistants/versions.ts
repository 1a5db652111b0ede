// The versions of an assistant, and what each changed.
import { diffOf, type Change } from "../../data/diff";

interface Version {
  version: number;
  created_at: string;
  name?: string;
  description?: string | null;
  config?: unknown;
  context?: unknown;
  metadata?: unknown;
}

const isObject = (v: unknown): v is Record<string, unknown> => typeof v === "object" && v !== null && !Array.isArray(v);

/** parts returns what a version sets. Servers copy the context into the configuration. */
function parts(v: Version): Record<string, unknown> {
  const config = isObject(v.config) ? v.config : {};
  const context = isObject(v.context) ? v.context : {};
  const { configurable, ...rest } = config;
  const own = Object.entries(isObject(configurable) ? configurable : {}).filter(
    ([key, value]) => JSON.stringify(context[key]) !== JSON.stringify(value),
  );
  return {
    ...(v.name === undefined ? {} : { name: v.name }),
    ...(v.description ? { description: v.description } : {}),
    ...(Object.keys(context).length ? { context } : {}),
    ...(own.length || Object.keys(rest).length
      ? { config: { ...rest, ...(own.length ? { configurable: Object.fromEntries(own) } : {}) } }
      : {}),
    ...(isObject(v.metadata) && Object.keys(v.metadata).length ? { metadata: v.metadata } : {}),
  };
}

/** changesOf returns the versions, newest first, with what each changed compared with the one before it. */
export function changesOf<V extends Version>(versions: V[]): { version: V; changes: Change[] }[] {
  const newest = [...versions].sort((a, b) => b.version - a.version);
  return newest.map((version, i) => {
    const before = newest[i + 1];
    return { version, changes: diffOf(before ? parts(before) : {}, parts(version)) };
  });
}

/** matchingAssistants returns the assistants with a text in their name, graph, or ID, by graph. */
export function matchingAssistants<A extends { assistant_id: string; graph_id: string; name: string }>(
  all: A[],
  typed: string,
): [string, A[]][] {
  const words = typed.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const graphs = new Map<string, A[]>();
  for (const a of all) {
    const text = `${a.name} ${a.graph_id} ${a.assistant_id}`.toLowerCase();
    if (!words.every((w) => text.includes(w))) continue;
    graphs.set(a.graph_id, [...(graphs.get(a.graph_id) ?? []), a]);
  }
  return [...graphs];
}
