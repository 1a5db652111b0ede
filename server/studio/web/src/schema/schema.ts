// JSON schemas for forms: the kind of field that a schema requires, and the problems
// of a value.

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  properties?: Record<string, Schema | boolean>;
  required?: string[];
  additionalProperties?: Schema | boolean;
  items?: Schema | boolean;
  anyOf?: (Schema | boolean)[];
  oneOf?: (Schema | boolean)[];
  allOf?: (Schema | boolean)[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  format?: string;
  $ref?: string;
  $defs?: Record<string, Schema | boolean>;
  definitions?: Record<string, Schema | boolean>;
  langgraph_type?: string;
  /** The nodes that use the value, in the configuration of a graph. */
  langgraph_nodes?: string[];
}

export type AnySchema = Schema | boolean | null | undefined;

/** A Field is a schema after references and null are resolved. */
export type Field = {
  title?: string;
  description?: string;
  nullable: boolean;
  default?: unknown;
  nodes?: string[];
} & (
  | { kind: "text"; prompt?: boolean }
  | { kind: "boolean" | "any" | "messages" }
  | { kind: "number"; integer: boolean }
  | { kind: "enum"; options: unknown[] }
  | { kind: "list"; items: AnySchema }
  | { kind: "object"; properties: [string, AnySchema][]; required: string[] }
  | { kind: "map"; values: AnySchema }
  | { kind: "union"; variants: AnySchema[] }
);

type Value = Record<string, unknown>;

export const isObject = (v: unknown): v is Value => typeof v === "object" && v !== null && !Array.isArray(v);

/** resolve follows references and merges allOf. */
export function resolve(schema: AnySchema, root: AnySchema): Schema {
  let s: Schema = isObject(schema) ? schema : {};
  // A schema that refers to itself ends here.
  for (let depth = 0; depth < 20 && (s.$ref || s.allOf); depth++) {
    const { $ref, allOf, ...rest } = s;
    const parts = [...($ref ? [pointed($ref, root)] : []), ...(allOf ?? [])];
    s = Object.assign({}, ...parts.filter(isObject), rest) as Schema;
  }
  return s;
}

function pointed(ref: string, root: AnySchema): AnySchema {
  let at: unknown = root;
  for (const part of ref.replace(/^#\/?/, "").split("/"))
    if (part) at = isObject(at) ? at[decodeURIComponent(part).replace(/~1/g, "/").replace(/~0/g, "~")] : undefined;
  return at as AnySchema;
}

const isNull = (s: Schema): boolean => s.type === "null" || s.const === null;

/** fieldOf returns the kind of field that a schema requires. */
export function fieldOf(schema: AnySchema, root: AnySchema): Field {
  const s = resolve(schema, root);
  const choices = s.anyOf ?? s.oneOf;
  const types = Array.isArray(s.type) ? s.type.filter((t) => t !== "null") : s.type ? [s.type] : [];
  let nullable = Array.isArray(s.type) && s.type.includes("null");
  const head = {
    title: s.title,
    description: s.description,
    default: s.default,
    ...(Array.isArray(s.langgraph_nodes) ? { nodes: s.langgraph_nodes } : {}),
  };
  if (choices) {
    const variants = choices.filter((c) => !isNull(resolve(c, root)));
    nullable ||= variants.length < choices.length;
    const [only] = variants;
    if (variants.length === 1) {
      const inner = fieldOf(only, root);
      return {
        ...inner,
        title: head.title ?? inner.title,
        description: head.description ?? inner.description,
        ...(head.nodes ? { nodes: head.nodes } : {}),
        ...(inner.kind === "text" && s.langgraph_type === "prompt" ? { prompt: true } : {}),
        nullable: true,
      };
    }
    if (variants.every((v) => resolve(v, root).const !== undefined))
      return { ...head, nullable, kind: "enum", options: variants.map((v) => resolve(v, root).const) };
    return { ...head, nullable, kind: "union", variants };
  }
  if (s.langgraph_type === "messages" || isMessages(s, root)) return { ...head, nullable, kind: "messages" };
  if (s.const !== undefined) return { ...head, nullable, kind: "enum", options: [s.const] };
  if (s.enum)
    return {
      ...head,
      nullable: nullable || s.enum.includes(null),
      kind: "enum",
      options: s.enum.filter((o) => o !== null),
    };
  if (types.length > 1)
    return {
      ...head,
      nullable,
      kind: "union",
      variants: types.map((type) => ({ ...s, title: undefined, description: undefined, type })),
    };
  switch (types[0] ?? (s.properties ? "object" : s.items ? "array" : "")) {
    case "string":
      return { ...head, nullable, kind: "text", ...(s.langgraph_type === "prompt" ? { prompt: true } : {}) };
    case "integer":
    case "number":
      return { ...head, nullable, kind: "number", integer: types[0] === "integer" };
    case "boolean":
      return { ...head, nullable, kind: "boolean" };
    case "array":
      return { ...head, nullable, kind: "list", items: s.items };
    case "object":
      if (s.properties && Object.keys(s.properties).length)
        return {
          ...head,
          nullable,
          kind: "object",
          properties: Object.entries(s.properties),
          required: s.required ?? [],
        };
      return { ...head, nullable, kind: "map", values: s.additionalProperties };
    default:
      return { ...head, nullable, kind: "any" };
  }
}

/** isMessages reports whether a schema describes a list of messages. */
function isMessages(s: Schema, root: AnySchema): boolean {
  if (s.type !== "array" && !(Array.isArray(s.type) && s.type.includes("array"))) return false;
  const items = resolve(s.items, root);
  const shapes = items.anyOf ?? items.oneOf ?? [items];
  return shapes.some((shape) => {
    const m = resolve(shape, root);
    return (
      !!m.properties?.content &&
      !!m.properties.type &&
      (/Message/.test(m.title ?? "") || !!resolve(m.properties.type, root).enum)
    );
  });
}

/** blank returns the initial value of a new field of a schema. */
export function blank(schema: AnySchema, root: AnySchema): unknown {
  const f = fieldOf(schema, root);
  if (f.default !== undefined) return f.default;
  if (f.nullable) return null;
  switch (f.kind) {
    case "text":
      return "";
    case "boolean":
      return false;
    case "number":
      return 0;
    case "enum":
      return f.options[0];
    case "list":
    case "messages":
      return [];
    case "object":
      return Object.fromEntries(
        f.properties.filter(([name]) => f.required.includes(name)).map(([name, s]) => [name, blank(s, root)]),
      );
    case "map":
      return {};
    case "union":
      return blank(f.variants[0], root);
    case "any":
      return "";
  }
}

export interface Problem {
  /** The names from the outermost field to the invalid one. */
  path: (string | number)[];
  message: string;
  /** The field has no value yet. */
  missing?: boolean;
}

/** textOfProblem names the field and its problem. */
export const textOfProblem = (p: Problem): string => (p.path.length ? p.path.join(".") : "The value") + " " + p.message;

const kinds: Record<Field["kind"], string> = {
  text: "text",
  boolean: "true or false",
  any: "JSON",
  messages: "a list of messages",
  number: "a number",
  enum: "one of the choices",
  list: "a list",
  object: "an object",
  map: "an object",
  union: "of another kind",
};

/** check returns the problems of a value. Servers check it again and may apply further rules. */
export function check(
  schema: AnySchema,
  value: unknown,
  root: AnySchema = schema,
  path: (string | number)[] = [],
): Problem[] {
  const f = fieldOf(schema, root);
  if (value === undefined) return [{ path, message: "is required", missing: true }];
  if (value === null)
    return f.nullable || f.kind === "any" ? [] : [{ path, message: `must be ${kinds[f.kind]}, not null` }];
  const bad = (must = kinds[f.kind]): Problem[] => [{ path, message: "must be " + must }];
  switch (f.kind) {
    case "text":
      return typeof value === "string" ? [] : bad();
    case "boolean":
      return typeof value === "boolean" ? [] : bad();
    case "number":
      return checkNumber(resolve(schema, root), f.integer, value, bad);
    case "enum":
      return f.options.some((o) => same(o, value))
        ? []
        : bad("one of " + f.options.map((o) => JSON.stringify(o)).join(", "));
    case "list":
      return Array.isArray(value) ? value.flatMap((v, i) => check(f.items, v, root, [...path, i])) : bad();
    case "messages":
      return Array.isArray(value) || typeof value === "string" || isObject(value) ? [] : bad();
    case "map":
      return isObject(value)
        ? Object.entries(value).flatMap(([k, v]) => check(f.values, v, root, [...path, k]))
        : bad();
    case "object": {
      if (!isObject(value)) return bad();
      return f.properties.flatMap(([name, s]) =>
        value[name] === undefined && !f.required.includes(name) ? [] : check(s, value[name], root, [...path, name]),
      );
    }
    case "union":
      return f.variants.some((v) => check(v, value, root).length === 0)
        ? []
        : check(f.variants[variantOf(f.variants, value, root)], value, root, path);
    case "any":
      return [];
  }
}

function checkNumber(s: Schema, integer: boolean, value: unknown, bad: (must?: string) => Problem[]): Problem[] {
  if (typeof value !== "number") return bad(integer ? "a whole number" : "a number");
  if (integer && !Number.isInteger(value)) return bad("a whole number");
  if (s.minimum !== undefined && value < s.minimum) return bad(`at least ${s.minimum}`);
  if (s.maximum !== undefined && value > s.maximum) return bad(`at most ${s.maximum}`);
  return [];
}

const same = (a: unknown, b: unknown): boolean => a === b || JSON.stringify(a) === JSON.stringify(b);

/** variantOf returns the index of the schema that matches a value best. */
export function variantOf(variants: AnySchema[], value: unknown, root: AnySchema): number {
  if (value === undefined || value === null) return 0;
  const faults = variants.map((v) => {
    const problems = check(v, value, root);
    // A value of another kind matches worse than one with invalid parts.
    return problems.some((p) => p.path.length === 0) ? 1_000 : problems.length;
  });
  return faults.indexOf(Math.min(...faults));
}

/** nameOfVariant returns the name of a schema in a choice. */
export function nameOfVariant(schema: AnySchema, root: AnySchema): string {
  const f = fieldOf(schema, root);
  const names: Record<Field["kind"], string> = {
    text: "Text",
    boolean: "Yes or no",
    any: "JSON",
    messages: "Messages",
    number: "Number",
    enum: "Choice",
    list: "List",
    object: "Object",
    map: "Map",
    union: "Other",
  };
  return f.title ?? names[f.kind];
}
