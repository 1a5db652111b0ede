import { expect, test } from "vitest";
import { answerOf, draftOf, formOf, isDecided, type ActionDraft, type Decision } from "./forms";

const kinds = (value: unknown) => {
  const form = formOf(value);
  return form.kind === "plain" ? form.kinds : form.kind;
};

test.each<[string, unknown, unknown]>([
  ["a text", "What is your name?", ["text", "yes/no", "json"]],
  ["a text that asks for yes or no", "Should I send it? ", ["yes/no", "text", "json"]],
  ["a text that merely starts like one", "Island or sea?", ["text", "yes/no", "json"]],
  ["another value", 3, ["json", "text", "yes/no"]],
  ["a named type", { question: "Budget", type: "confirm" }, ["yes/no", "json", "text"]],
  ["options", { question: "Which?", options: ["a", "b"] }, ["choices", "json"]],
  ["a schema", { question: "Order", response_schema: { type: "object" } }, ["fields", "json"]],
  ["a schema of a boolean", { schema: { type: "boolean" } }, ["yes/no", "json", "text"]],
  ["an object", { draft: "x" }, ["json", "text", "yes/no"]],
  ["a middleware request", { action_requests: [{ name: "mail", args: {} }] }, "review"],
  ["an inbox request", { action_request: { action: "mail" } }, "review"],
])("formOf recognizes %s", (_, value, want) => expect(kinds(value)).toEqual(want));

test("the rest of a question is shown, without its text, choices, and schema", () => {
  expect(formOf({ question: "Which?", options: ["a"], draft: "x" })).toMatchObject({
    text: "Which?",
    about: { draft: "x" },
  });
});

test("choices have labels and values", () => {
  expect(formOf({ options: ["a", 2, { label: "Three", value: 3 }, { name: "four" }] })).toMatchObject({
    choices: [
      { label: "a", value: "a" },
      { label: "2", value: 2 },
      { label: "Three", value: 3 },
      { label: "four", value: { name: "four" } },
    ],
  });
});

const decided = (value: unknown, ...drafts: Partial<ActionDraft>[]) => {
  const form = formOf(value);
  const actions = drafts.map((d): ActionDraft => ({ decision: null, args: {}, message: "", ...d }));
  return answerOf(form, { ...draftOf(form), actions })?.value;
};

const decisions = (...all: Decision[]) => all.map((decision) => ({ decision, message: "why", args: { to: "bob" } }));

test("a middleware request is answered with its decisions, in the style of its names", () => {
  const action_requests = ["a", "b", "c"].map((name) => ({ name, args: { to: "ada" } }));
  expect(decided({ action_requests }, ...decisions("approve", "edit", "reject"))).toEqual({
    decisions: [
      { type: "approve" },
      { type: "edit", edited_action: { name: "b", args: { to: "bob" } } },
      { type: "reject", message: "why" },
    ],
  });
  expect(decided({ actionRequests: action_requests.slice(0, 1) }, ...decisions("edit"))).toEqual({
    decisions: [{ type: "edit", editedAction: { name: "a", args: { to: "bob" } } }],
  });
});

test("an inbox request is answered with a list", () => {
  const request = (action: string) => ({
    action_request: { action, args: { to: "ada" } },
    config: { allow_accept: true },
  });
  expect(decided([request("a"), request("b"), request("c")], ...decisions("approve", "respond", "edit"))).toEqual([
    { type: "accept", args: null },
    { type: "response", args: "why" },
    { type: "edit", args: { action: "c", args: { to: "bob" } } },
  ]);
  expect(formOf(request("a"))).toMatchObject({
    actions: [{ allowed: ["approve"], schema: { properties: { to: { type: "string" } }, required: ["to"] } }],
  });
});

test.each<[Partial<ActionDraft>, boolean]>([
  [{}, false],
  [{ decision: "approve" }, true],
  [{ decision: "edit", wrong: true }, false],
  [{ decision: "respond" }, false],
  [{ decision: "respond", message: "x" }, true],
])("isDecided of %j", (draft, want) =>
  expect(isDecided({ decision: null, args: {}, message: "", ...draft })).toBe(want),
);

test.each<[string, unknown, object, unknown]>([
  ["no", "Sure?", { kind: "yes/no", yes: false }, { value: false }],
  ["no choice yet", "Sure?", { kind: "yes/no" }, null],
  ["a text", "Name?", { kind: "text", text: "Ada" }, { value: "Ada" }],
  ["no text yet", "Name?", { kind: "text" }, null],
  ["a choice", { options: ["a", "b"] }, { kind: "choices", choice: 1 }, { value: "b" }],
  ["JSON", "x", { kind: "json", json: "[1]" }, { value: [1] }],
  ["invalid JSON", "x", { kind: "json", json: "[1" }, null],
  ["invalid fields", { schema: { type: "integer" } }, { kind: "fields", fields: "x" }, null],
  ["fields", { schema: { type: "integer" } }, { kind: "fields", fields: 3 }, { value: 3 }],
])("answerOf returns %s", (_, question, draft, want) => {
  const form = formOf(question);
  expect(answerOf(form, { ...draftOf(form), ...draft })).toEqual(want);
});
