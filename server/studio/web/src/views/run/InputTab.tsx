import { SchemaForm } from "../../schema/SchemaForm";
import { fieldOf, type AnySchema, type Problem } from "../../schema/schema";
import { JsonEditor } from "../../ui/JsonEditor";
import { Notice } from "../../ui/States";
import type { InputDraft } from "./drafts";

interface Props {
  schema: AnySchema;
  draft: InputDraft;
  onText(text: string): void;
  onValue(value: unknown): void;
  problems?: Problem[];
  onSubmit(): void;
}

/** InputTab edits the input as a form or as JSON. */
export function InputTab({ schema, draft, onText, onValue, problems, onSubmit }: Props) {
  // A graph without an input schema has no form.
  const formless = !schema || fieldOf(schema, schema).kind === "any";
  if (draft.raw || formless)
    return (
      <>
        <JsonEditor label="Input as JSON" value={draft.text} onChange={onText} onSubmit={onSubmit} />
        {draft.error ? (
          <p className="run-wrong" role="alert">
            {draft.error}
          </p>
        ) : null}
      </>
    );
  return (
    <>
      {draft.error ? (
        <Notice kind="warn">The JSON is not valid, so the form shows the last input that was. {draft.error}</Notice>
      ) : null}
      <SchemaForm schema={schema} value={draft.value} onChange={onValue} label="Input" problems={problems} />
    </>
  );
}
