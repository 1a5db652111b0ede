import type { ButtonHTMLAttributes } from "react";

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: "primary" | "danger" | "quiet";
  size?: "small";
  /** The button is an icon: label is its accessible name and tooltip. */
  label?: string;
  busy?: boolean;
}

export function Button({ kind, size, label, busy, className, children, disabled, ...rest }: Props) {
  const names = ["button", kind, size, label && "icon", className].filter(Boolean).join(" ");
  return (
    <button type="button" className={names} aria-label={label} title={label} disabled={disabled || busy} {...rest}>
      {busy ? <span className="spinner" aria-hidden /> : null}
      {busy && label ? null : children}
    </button>
  );
}
