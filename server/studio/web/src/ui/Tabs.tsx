import * as Radix from "@radix-ui/react-tabs";
import type { ReactNode } from "react";

export interface Tab<T extends string> {
  id: T;
  label: ReactNode;
}

/** TabBar is a row of tabs; what they show is rendered by the caller. */
export function TabBar<T extends string>({
  tabs,
  value,
  onChange,
  label,
}: {
  tabs: Tab<T>[];
  value: T;
  onChange(to: T): void;
  label: string;
}) {
  return (
    <Radix.Root value={value} onValueChange={(v) => onChange(v as T)}>
      <Radix.List className="tabs" aria-label={label}>
        {tabs.map((t) => (
          <Radix.Trigger key={t.id} className="tab" value={t.id} aria-controls={undefined}>
            {t.label}
          </Radix.Trigger>
        ))}
      </Radix.List>
    </Radix.Root>
  );
}
