import { useState } from "react";
import { useTell } from "./Toast";

/** useSave saves a form: it shows an error, or calls done, and is busy in between. */
export function useSave() {
  const tell = useTell();
  const [busy, setBusy] = useState(false);
  const save = async (what: () => Promise<unknown>, done: () => void) => {
    setBusy(true);
    const saved = await tell.attempt(() => what().then(() => true));
    setBusy(false);
    if (saved) done();
  };
  return { busy, save };
}
