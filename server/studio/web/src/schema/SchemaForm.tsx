// A form generated from a JSON schema.
import { useMemo } from "react";
import { Labelled, Properties } from "./Field";
import { Context, type FormContext } from "./form";
import { check, fieldOf, type AnySchema, type Problem } from "./schema";
import "./schema.css";

interface FormProps {
  schema: AnySchema;
  value: unknown;
  onChange(value: unknown): void;
  /** Describes the value to screen readers. */
  label: string;
  /** The problems to show. By default: invalid values, but not missing ones. */
  problems?: Problem[];
}

/** SchemaForm edits a value described by a JSON schema. Empty fields are omitted from the value. */
export function SchemaForm({ schema, value, onChange, label, problems }: FormProps) {
  const field = useMemo(() => fieldOf(schema, schema), [schema]);
  const context = useMemo<FormContext>(
    () => ({ root: schema, problems: problems ?? check(schema, value).filter((p) => !p.missing) }),
    [schema, value, problems],
  );
  return (
    <Context value={context}>
      <div className="schema" role="group" aria-label={label}>
        {field.kind === "object" ? (
          <Properties field={field} value={value} onChange={onChange} path={[]} />
        ) : (
          <Labelled schema={schema} name={field.title ?? label} value={value} onChange={onChange} path={[]} />
        )}
      </div>
    </Context>
  );
}
