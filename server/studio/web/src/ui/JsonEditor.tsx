import { lazy, Suspense } from "react";
import type { Props } from "./CodeEditor";

const load = () => import("./CodeEditor");

// It is loaded after the page, and before it is needed: the server may not respond then.
void load().catch(() => undefined);

const CodeEditor = lazy(load);

/** JsonEditor edits JSON as text; parse in ui/json reports its problems. */
export const JsonEditor = (props: Props) => (
  <Suspense fallback={<div className="editor" aria-busy />}>
    <CodeEditor {...props} />
  </Suspense>
);
