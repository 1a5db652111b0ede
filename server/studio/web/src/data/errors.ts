// Errors of requests, as text.

/** httpStatusOf returns the HTTP status of an error, or undefined if there was no response. */
export const httpStatusOf = (err: unknown): number | undefined => (err as { status?: number } | null)?.status;

/** isAway reports whether an error says nothing about the run: the server, or a proxy before it, was not reached. */
export function isAway(err: unknown): boolean {
  const status = httpStatusOf(err);
  return status === undefined || status === 429 || (status >= 502 && status <= 504);
}

/** messageOf returns the text of an error, without the SDK's "HTTP 409:". */
export function messageOf(err: unknown): string {
  const text = err instanceof Error ? err.message : String(err);
  const body = /^HTTP \d+: (.*)$/s.exec(text)?.[1] ?? text;
  try {
    const parsed = JSON.parse(body) as Record<string, unknown>;
    return String(parsed.detail ?? parsed.error ?? parsed.message ?? body);
  } catch {
    return /^(Failed to fetch$|Unable to connect to)/.test(body) ? "Cannot reach the server." : body;
  }
}

/** textOfError returns the text of a task's or run's error, which servers send as text or as an object. */
export function textOfError(err: unknown): string {
  if (typeof err === "string") return err;
  const e = (err ?? {}) as Record<string, unknown>;
  return String(e.message ?? e.error ?? JSON.stringify(err));
}
