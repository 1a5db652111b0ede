import * as Radix from "@radix-ui/react-dropdown-menu";
import type { ReactNode } from "react";

export interface MenuItem {
  label: ReactNode;
  onSelect(): void;
  danger?: boolean;
  disabled?: boolean;
}

/** Menu opens below its trigger, a button. null in items is a separator. */
export function Menu({
  trigger,
  items,
  label,
  align = "end",
}: {
  trigger: ReactNode;
  items: (MenuItem | null)[];
  label?: string;
  align?: "start" | "end";
}) {
  return (
    <Radix.Root modal={false}>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content className="menu" align={align} sideOffset={4} collisionPadding={8}>
          {label ? <Radix.Label className="menu-label">{label}</Radix.Label> : null}
          {items.map((item, i) =>
            item ? (
              <Radix.Item
                key={i}
                className={item.danger ? "menu-item danger" : "menu-item"}
                disabled={item.disabled}
                onSelect={item.onSelect}
              >
                {item.label}
              </Radix.Item>
            ) : (
              <Radix.Separator key={i} className="menu-separator" />
            ),
          )}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
