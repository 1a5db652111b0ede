/** duration formats a time in milliseconds. */
export function duration(ms: number): string {
  if (ms <= 0) return "<1 ms"; // by a clock of milliseconds
  if (ms < 1) return `${Math.max(1, Math.round(ms * 1_000))} µs`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
  return `${Math.floor(ms / 3_600_000)} h ${Math.round((ms % 3_600_000) / 60_000)} min`;
}

/** ago formats the time since or until a time. */
export function ago(time: string | number | null | undefined, now = Date.now()): string {
  if (!time) return "";
  const ms = now - new Date(time).getTime();
  const text = (n: number) =>
    n < 45_000
      ? "now"
      : n < 3_600_000
        ? `${Math.max(1, Math.round(n / 60_000))} min`
        : n < 86_400_000
          ? `${Math.round(n / 3_600_000)} h`
          : `${Math.round(n / 86_400_000)} d`;
  const abs = text(Math.abs(ms));
  return abs === "now" ? "now" : ms >= 0 ? abs + " ago" : "in " + abs;
}

/** clock formats the time of day, with the date if it is another day. */
export function clock(time: string | number | null | undefined): string {
  if (!time) return "";
  const d = new Date(time);
  const day =
    d.toDateString() === new Date().toDateString()
      ? ""
      : d.toLocaleDateString(undefined, { day: "numeric", month: "short" }) + " ";
  return day + d.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

/** short abbreviates an ID. */
export const short = (id: string): string => id.slice(0, 8);

/** nodeName returns the displayed name of a node. */
export const nodeName = (name: string): string => (name === "__start__" ? "start" : name === "__end__" ? "end" : name);

/** oneLine formats a value as one truncated line. */
export function oneLine(value: unknown, length = 120): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  const line = text.replace(/\s+/g, " ");
  return line.length > length ? line.slice(0, length - 1) + "…" : line;
}

/** bytes formats a size. */
export function bytes(n: number): string {
  return n < 1_000 ? `${n} B` : n < 1_000_000 ? `${(n / 1_000).toFixed(1)} kB` : `${(n / 1_000_000).toFixed(1)} MB`;
}
