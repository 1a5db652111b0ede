import { expect, test } from "vitest";
import {
  blank,
  check,
  fieldOf,
  nameOfVariant,
  resolve,
  textOfProblem,
  variantOf,
  type AnySchema,
  type Schema,
} from "./schema";

const message = { type: "object", title: "HumanMessage", properties: { content: {}, type: { enum: ["human"] } } };

const root: AnySchema = {
  $defs: { "a/b": { type: "string" }, Loop: { $ref: "#/$defs/Loop" }, Message: message },
};

test.each<[string, AnySchema, object]>([
  ["text", { type: "string" }, { kind: "text", nullable: false }],
  ["a nullable number", { type: ["integer", "null"] }, { kind: "number", integer: true, nullable: true }],
  ["a boolean", { type: "boolean" }, { kind: "boolean" }],
  ["an enum", { enum: ["a", null, "b"] }, { kind: "enum", options: ["a", "b"], nullable: true }],
  ["a constant", { const: 3 }, { kind: "enum", options: [3] }],
  ["constants", { oneOf: [{ const: "a" }, { const: "b" }] }, { kind: "enum", options: ["a", "b"] }],
  ["an optional text", { anyOf: [{ type: "string" }, { type: "null" }] }, { kind: "text", nullable: true }],
  ["a union", { anyOf: [{ type: "string" }, { type: "number" }] }, { kind: "union" }],
  ["several types", { type: ["string", "number"] }, { kind: "union" }],
  ["a list", { items: { type: "string" } }, { kind: "list", items: { type: "string" } }],
  ["messages", { type: "array", items: { anyOf: [{ $ref: "#/$defs/Message" }] } }, { kind: "messages" }],
  ["an object", { properties: { a: {} }, required: ["a"] }, { kind: "object", required: ["a"] }],
  ["a map", { type: "object", additionalProperties: { type: "number" } }, { kind: "map", values: { type: "number" } }],
  ["a reference", { $ref: "#/$defs/a~1b" }, { kind: "text" }],
  ["a reference to itself", { $ref: "#/$defs/Loop" }, { kind: "any" }],
  ["an unknown reference", { $ref: "#/$defs/none" }, { kind: "any" }],
  ["true", true, { kind: "any" }],
  ["nothing", undefined, { kind: "any" }],
])("fieldOf recognizes %s", (_, schema, want) => expect(fieldOf(schema, root)).toMatchObject(want));

test("resolve merges allOf and keeps the schema's own title", () => {
  expect(resolve({ allOf: [{ type: "string", title: "x" }], title: "y" }, root)).toEqual({
    type: "string",
    title: "y",
  });
});

test.each<[string, AnySchema, unknown, string[]]>([
  ["a valid value", { type: "string" }, "a", []],
  ["another type", { type: "string" }, 1, ["The value must be text"]],
  ["null", { type: "string" }, null, ["The value must be text, not null"]],
  ["nullable null", { type: ["string", "null"] }, null, []],
  ["a fraction", { type: "integer" }, 1.5, ["The value must be a whole number"]],
  ["a small number", { type: "number", minimum: 2 }, 1, ["The value must be at least 2"]],
  ["a large number", { type: "number", maximum: 2 }, 3, ["The value must be at most 2"]],
  ["another choice", { enum: ["a", "b"] }, "c", ['The value must be one of "a", "b"']],
  [
    "problems inside of an object",
    {
      type: "object",
      required: ["a"],
      properties: { a: { type: "string" }, b: { type: "array", items: { type: "number" } } },
    },
    { b: [1, "x"] },
    ["a is required", "b.1 must be a number"],
  ],
  ["a map", { type: "object", additionalProperties: { type: "number" } }, { a: "x" }, ["a must be a number"]],
  [
    "the best variant",
    { anyOf: [{ type: "number" }, { type: "array", items: { type: "string" } }] },
    [1],
    ["0 must be text"],
  ],
  ["messages as a text", { langgraph_type: "messages" }, "hello", []],
])("check finds %s", (_, schema, value, want) => expect(check(schema, value).map(textOfProblem)).toEqual(want));

test.each<[AnySchema, unknown]>([
  [{ type: "string" }, ""],
  [{ type: "string", default: "x" }, "x"],
  [{ type: ["string", "null"] }, null],
  [{ type: "integer" }, 0],
  [{ type: "boolean" }, false],
  [{ enum: ["b", "a"] }, "b"],
  [{ type: "array" }, []],
  [{ type: "object" }, {}],
  [{ properties: { a: { type: "string" }, b: { type: "string" } }, required: ["b"] }, { b: "" }],
  [{ anyOf: [{ type: "number" }, { type: "string" }] }, 0],
])("blank value of %j", (schema, want) => expect(blank(schema, schema)).toEqual(want));

test("variantOf prefers the right kind to fewer problems", () => {
  const variants = [
    { type: "string" },
    { type: "object", properties: { a: { type: "number" } }, required: ["a", "b"] },
  ];
  expect(variantOf(variants, { a: "x" }, true)).toBe(1);
  expect(variantOf(variants, undefined, true)).toBe(0);
  expect(variants.map((v) => nameOfVariant(v, true))).toEqual(["Text", "Object"]);
});

test("a prompt of some nodes is a long text that names them", () => {
  const schema: Schema = { type: "string", langgraph_type: "prompt", langgraph_nodes: ["plan", "answer"] };
  const want = { kind: "text", prompt: true, nodes: ["plan", "answer"] };
  expect(fieldOf(schema, schema)).toMatchObject(want);
  const optional: Schema = { ...schema, type: undefined, anyOf: [{ type: "string" }, { type: "null" }] };
  expect(fieldOf(optional, optional)).toMatchObject({ ...want, nullable: true });
});
