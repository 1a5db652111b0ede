// The palette of commands, and the list of shortcuts.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useId, useMemo, useRef, useState } from "react";
import { messageOf } from "../data/errors";
import { useHasSearch } from "../data/search";
import { Dialog } from "../ui/Dialog";
import { short } from "../ui/format";
import { useDebounced } from "../ui/useDebounced";
import { matching, shortcuts, type Command } from "./commands";
import { useAssistants, useConnection } from "./connection";
import { go, views } from "./location";
import { setTheme } from "./theme";
import "./palette.css";

const titleOf = (name: string) => name[0]!.toUpperCase() + name.slice(1);

/** The number of threads that the palette finds. */
const most = 8;

function useThreads(typed: string) {
  const { client, url } = useConnection();
  const indexed = useHasSearch();
  const text = useDebounced(typed.trim());
  const q = useQuery({
    queryKey: [url, "palette", text],
    queryFn: ({ signal }) => client.searchThreads({ text, limit: most }, signal),
    enabled: !!indexed && text.length > 1,
  });
  return { threads: typed.trim().length > 1 ? (q.data?.threads ?? []) : [], error: q.error, indexed };
}

export default function Palette({ onClose, onShortcuts }: { onClose(): void; onShortcuts(): void }) {
  const { data: assistants } = useAssistants();
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const { threads, error, indexed } = useThreads(typed);
  const id = useId();
  const list = useRef<HTMLUListElement>(null);
  const commands = useMemo<Command[]>(
    () => [
      { id: "new", label: "New thread", group: "Thread", run: () => go({ view: "graph", thread: null }) },
      ...views.map((view) => ({ id: view, label: titleOf(view), group: "View", run: () => go({ view }) })),
      ...(assistants ?? []).map((a) => ({
        id: a.assistant_id,
        label: a.name,
        group: "Assistant",
        run: () => go({ assistant: a.assistant_id, thread: null }),
      })),
      ...(["system", "light", "dark"] as const).map((theme) => ({
        id: theme,
        label: `${titleOf(theme)} colors`,
        group: "Page",
        run: () => setTheme(theme),
      })),
      { id: "shortcuts", label: "Show shortcuts", group: "Page", run: onShortcuts },
    ],
    [assistants, onShortcuts],
  );
  const options: Command[] = [
    ...matching(commands, typed),
    ...threads.map((t) => ({
      id: t.thread_id,
      label: t.title || short(t.thread_id),
      group: "Thread",
      run: () => go({ view: "graph", thread: t.thread_id }),
    })),
  ];
  const active = Math.min(at, options.length - 1);
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [active]);
  const run = (command: Command | undefined) => {
    if (!command) return;
    onClose();
    command.run();
  };
  const onKeyDown = (e: React.KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowDown: active + 1, ArrowUp: active - 1 };
    const to = steps[e.key];
    if (to !== undefined) setAt((to + options.length) % Math.max(1, options.length));
    else if (e.key === "Enter") run(options[active]);
    else return;
    e.preventDefault();
  };
  return (
    <Dialog title="Commands" open onClose={onClose}>
      <input
        className="input"
        role="combobox"
        aria-label="Find a command or a thread"
        aria-expanded
        aria-controls={id}
        aria-activedescendant={options[active] ? `${id}-${active}` : undefined}
        placeholder={indexed ? "Command, assistant, or words of a thread" : "Command or assistant"}
        value={typed}
        onChange={(e) => (setTyped(e.target.value), setAt(0))}
        onKeyDown={onKeyDown}
        spellCheck={false}
        autoFocus
      />
      <ul className="palette-list" id={id} role="listbox" aria-label="Commands" ref={list}>
        {options.map((o, i) => (
          <li
            key={o.group + o.id}
            id={`${id}-${i}`}
            role="option"
            aria-selected={i === active}
            className="palette-option"
            onClick={() => run(o)}
            onPointerMove={() => setAt(i)}
          >
            <span className="grow cut">{o.label}</span>
            <span className="muted small">{o.group}</span>
          </li>
        ))}
      </ul>
      <p className="muted small" role="status">
        {error
          ? `Failed to search threads: ${messageOf(error)}`
          : options.length === 0
            ? "Nothing matches."
            : indexed === false
              ? "This server cannot search for threads."
              : ""}
      </p>
    </Dialog>
  );
}

export function Shortcuts({ onClose }: { onClose(): void }) {
  return (
    <Dialog title="Shortcuts" open onClose={onClose}>
      {shortcuts.map(({ where, keys }) => (
        <section key={where} className="palette-keys">
          <h3>{where}</h3>
          <dl>
            {keys.map(([key, what]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{what}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
      <p className="muted small">On a Mac, the command key works in place of Ctrl.</p>
    </Dialog>
  );
}
