// Placeholders for content.
import type { ReactNode } from "react";
import { Button } from "./Button";

export function Empty({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <div className="state">
      <h2>{title}</h2>
      {children ? <p>{children}</p> : null}
      {action}
    </div>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <div className="state" role="status">
      <span className="spinner" aria-hidden />
      <p>Loading {what}…</p>
    </div>
  );
}

export function Failed({ what, error, retry }: { what: string; error: string; retry?: () => void }) {
  return (
    <div className="state" role="alert">
      <h2>{what}</h2>
      <p>{error}</p>
      {retry ? <Button onClick={retry}>Try again</Button> : null}
    </div>
  );
}

/** Notice shows an error alongside content. */
export function Notice({ kind, children }: { kind?: "warn"; children: ReactNode }) {
  return (
    <div className={kind ? "notice " + kind : "notice"} role="alert">
      <div className="grow">{children}</div>
    </div>
  );
}
