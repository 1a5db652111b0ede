import { createContext, useCallback, useContext, useMemo, useState, type ReactNode } from "react";
import { messageOf } from "../data/errors";
import { Button } from "./Button";
import { Icon } from "./Icon";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

interface Tell {
  (text: string): void;
  /** attempt runs a function and shows its error. */
  attempt<T>(what: Promise<T> | (() => Promise<T>)): Promise<T | undefined>;
}

const Context = createContext<Tell | null>(null);
let next = 0;

export function Toasts({ children }: { children: ReactNode }) {
  const [toasts, set] = useState<Toast[]>([]);
  const add = useCallback((text: string, bad: boolean) => {
    const id = next++;
    set((all) => [...all.slice(-3), { id, text, bad }]);
    if (!bad) setTimeout(() => set((all) => all.filter((t) => t.id !== id)), 4_000);
  }, []);
  const tell = useMemo<Tell>(
    () =>
      Object.assign((text: string) => add(text, false), {
        async attempt<T>(what: Promise<T> | (() => Promise<T>)) {
          try {
            return await (typeof what === "function" ? what() : what);
          } catch (err) {
            add(messageOf(err), true);
            return undefined;
          }
        },
      }),
    [add],
  );
  return (
    <Context value={tell}>
      {children}
      <div className="toasts" role="status" aria-live="polite">
        {toasts.map((t) => (
          <div key={t.id} className={t.bad ? "toast bad" : "toast"}>
            <span className="grow">{t.text}</span>
            <Button
              kind="quiet"
              size="small"
              label="Dismiss"
              onClick={() => set((all) => all.filter((o) => o.id !== t.id))}
            >
              <Icon name="close" size={12} />
            </Button>
          </div>
        ))}
      </div>
    </Context>
  );
}

/** useTell returns a function that shows a toast: tell("Copied"), tell.attempt(() => client.…). */
export function useTell(): Tell {
  const tell = useContext(Context);
  if (!tell) throw new Error("useTell outside of Toasts");
  return tell;
}
