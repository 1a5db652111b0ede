// The draft of an assistant's next run. It outlives the panel, which is created
// again for each thread.
import { keyed } from "../../data/keyed";
import type { RunOptions } from "../../data/types";
import { parse, pretty } from "../../ui/json";

/** An InputDraft is an input, as a form value and as text. */
export interface InputDraft {
  value: unknown;
  text: string;
  /** The reason that the text is not JSON. The value is then the last valid one. */
  error?: string;
  raw: boolean;
}

export const inputs = keyed<InputDraft>({ value: {}, text: "{}", raw: false });

export const withValue = (d: InputDraft, value: unknown): InputDraft => ({
  ...d,
  value: value ?? {},
  text: pretty(value ?? {}),
  error: undefined,
});

export function withText(d: InputDraft, text: string): InputDraft {
  const { value, error } = parse(text);
  return error ? { ...d, text, error } : { ...d, text, value: value === undefined ? {} : value, error: undefined };
}

/** A ConfigDraft is the configuration of a run. */
export interface ConfigDraft {
  context: Record<string, unknown>;
  configurable: Record<string, unknown>;
  recursionLimit?: unknown;
  tags: string[];
}

export const configs = keyed<ConfigDraft | null>(null);

/** configOf omits empty parts: some servers reject a context together with a configuration. */
export function configOf(d: ConfigDraft): Pick<RunOptions, "config" | "context"> {
  const config = {
    ...(Object.keys(d.configurable).length ? { configurable: d.configurable } : {}),
    ...(typeof d.recursionLimit === "number" ? { recursion_limit: d.recursionLimit } : {}),
    ...(d.tags.length ? { tags: d.tags } : {}),
  };
  return {
    ...(Object.keys(config).length ? { config } : {}),
    ...(Object.keys(d.context).length ? { context: d.context } : {}),
  };
}

export type Choices = Pick<RunOptions, "multitaskStrategy" | "durability">;
export const choices = keyed<Choices>({});
