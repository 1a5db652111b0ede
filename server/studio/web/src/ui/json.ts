// JSON as the text of an editor.

/** parse parses the text of an editor. Empty text yields undefined. */
export function parse(text: string): { value?: unknown; error?: string } {
  if (!text.trim()) return {};
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (err) {
    return { error: "Invalid JSON: " + (err as Error).message };
  }
}

/** parseObject parses text that must be a JSON object. */
export function parseObject(text: string): { object?: Record<string, unknown>; error?: string } {
  const { value, error } = parse(text);
  if (error) return { error };
  if (typeof value === "object" && value !== null && !Array.isArray(value))
    return { object: value as Record<string, unknown> };
  return { error: 'An object is needed, like {"text": "…"}.' };
}

export const pretty = (value: unknown): string => (value === undefined ? "" : JSON.stringify(value, null, 2));
