// The commands of the palette, and which of them match what is typed.

export interface Command {
  id: string;
  label: string;
  /** The kind of the command, shown next to its label. */
  group: string;
  run(): void;
}

/** matching returns the commands whose label or group contains all words, those whose label starts with them first. */
export function matching<T extends Pick<Command, "label" | "group">>(commands: T[], typed: string): T[] {
  const text = typed.trim().toLowerCase();
  if (!text) return commands;
  const words = text.split(/\s+/);
  const rank = (c: T) => {
    const label = c.label.toLowerCase();
    if (label.startsWith(text)) return 0;
    if (words.every((w) => label.split(/\W+/).some((part) => part.startsWith(w)))) return 1;
    return words.every((w) => `${c.group.toLowerCase()} ${label}`.includes(w)) ? 2 : 3;
  };
  return commands
    .map((command) => ({ command, rank: rank(command) }))
    .filter((r) => r.rank < 3)
    .sort((a, b) => a.rank - b.rank)
    .map((r) => r.command);
}

/** The shortcuts of the page, by where they work. */
export const shortcuts: { where: string; keys: [string, string][] }[] = [
  {
    where: "Everywhere",
    keys: [
      ["Ctrl+K", "Open commands"],
      ["?", "Show shortcuts"],
      ["Esc", "Close what is open"],
    ],
  },
  { where: "Run panel", keys: [["Ctrl+Enter", "Submit"]] },
  {
    where: "Chat",
    keys: [
      ["Enter", "Send"],
      ["Shift+Enter", "New line"],
    ],
  },
  {
    where: "Threads",
    keys: [
      ["↑ ↓", "Previous or next thread"],
      ["Home End", "First or last loaded thread"],
    ],
  },
  {
    where: "Graph",
    keys: [
      ["← ↑ → ↓", "Move"],
      ["+ −", "Zoom"],
      ["0", "Show all"],
    ],
  },
];

/** isTyping reports whether a key goes to a field. */
export function isTyping(target: EventTarget | null): boolean {
  const e = target as HTMLElement | null;
  return !!e?.closest?.("input, textarea, select, [contenteditable=true], .cm-editor");
}
