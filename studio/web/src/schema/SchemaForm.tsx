// A form that is made from a JSON schema.
import { createContext, use, useId, useMemo, type ReactNode } from "react";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { ListField, MapField, UnionField } from "./Containers";
import { AnyField, EnumField, NumberField, TextField } from "./Scalars";
import { MessagesField } from "./MessagesField";
import { check, fieldOf, isObject, type AnySchema, type Field, type Problem } from "./schema";
import "./schema.css";

interface FormProps {
  schema: AnySchema;
  value: unknown;
  onChange(value: unknown): void;
  /** What the value is, for screen readers. */
  label: string;
  /** What is shown as wrong. Without it: values that do not fit, but not those that are missing. */
  problems?: Problem[];
}

interface FormContext {
  root: AnySchema;
  problems: Problem[];
}

const Context = createContext<FormContext>({ root: undefined, problems: [] });
export const useForm = (): FormContext => use(Context);

/** SchemaForm edits a value that a JSON schema describes. Fields that are left empty are left out of the value. */
export function SchemaForm({ schema, value, onChange, label, problems }: FormProps) {
  const field = useMemo(() => fieldOf(schema, schema), [schema]);
  const context = useMemo<FormContext>(() => ({ root: schema, problems: problems ?? check(schema, value).filter((p) => !p.missing) }), [schema, value, problems]);
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

interface FieldProps {
  value: unknown;
  onChange(value: unknown): void;
  path: (string | number)[];
}

/** Properties are the fields of an object. */
export function Properties({ field, value, onChange, path }: FieldProps & { field: Extract<Field, { kind: "object" }> }) {
  const object = isObject(value) ? value : {};
  const set = (name: string, to: unknown) => {
    const { [name]: _, ...rest } = object;
    if (to === undefined) return onChange(rest);
    // Keys stay in the order of the schema.
    const next = { ...rest, [name]: to };
    const known = field.properties.flatMap(([n]) => (n in next ? [[n, next[n]] as const] : []));
    onChange({ ...Object.fromEntries(known), ...next });
  };
  return field.properties.map(([name, schema]) => (
    <Labelled key={name} schema={schema} name={name} value={object[name]} onChange={(to) => set(name, to)} path={[...path, name]} required={field.required.includes(name)} />
  ));
}

/** Labelled is a field with its name, its description and what is wrong with it. One that is kept has a value also when it is empty. */
export function Labelled({ schema, name, value, onChange, path, required, kept, action }: FieldProps & { schema: AnySchema; name: string; required?: boolean; kept?: boolean; action?: ReactNode }) {
  const { root, problems } = useForm();
  const field = useMemo(() => fieldOf(schema, root), [schema, root]);
  const id = useId();
  const at = path.join("\0");
  const wrong = problems.find((p) => p.path.join("\0") === at);
  const hint = [field.title && field.title.toLowerCase() !== name.toLowerCase().replace(/_/g, " ") ? field.title : "", field.description].filter(Boolean).join(". ");
  const single = ["text", "number", "enum", "any", "boolean"].includes(field.kind);
  const described = wrong ? id + "-wrong" : hint ? id + "-hint" : undefined;
  // Other fields are left out when they are emptied.
  const unset = value !== undefined && !required && !kept && (field.kind === "boolean" || !single);
  return (
    <div className="schema-field" data-kind={field.kind} role={single ? undefined : "group"} aria-labelledby={single ? undefined : id + "-label"} data-wrong={wrong ? true : undefined}>
      <div className="schema-label">
        {single ? (
          <label className="schema-name" htmlFor={id}>
            {name}
          </label>
        ) : (
          <span className="schema-name" id={id + "-label"}>
            {name}
          </span>
        )}
        {required ? <span className="schema-required">required</span> : null}
        <span className="grow" />
        {unset ? (
          <Button kind="quiet" size="small" label={`Leave out ${name}`} onClick={() => onChange(undefined)}>
            <Icon name="close" size={11} />
          </Button>
        ) : null}
        {action}
      </div>
      <Control id={id} field={field} name={name} value={value} onChange={onChange} path={path} required={required || kept} described={described} wrong={!!wrong} />
      {hint ? (
        <span className="schema-hint" id={id + "-hint"}>
          {hint}
        </span>
      ) : null}
      {wrong ? (
        <span className="schema-wrong" id={id + "-wrong"} role="alert">
          {name} {wrong.message}
        </span>
      ) : null}
    </div>
  );
}

export interface ControlProps extends FieldProps {
  id: string;
  name: string;
  required?: boolean;
  described?: string;
  wrong: boolean;
}

function Control({ field, ...p }: ControlProps & { field: Field }): ReactNode {
  switch (field.kind) {
    case "text":
      return <TextField {...p} placeholder={typeof field.default === "string" ? field.default : undefined} />;
    case "number":
      return <NumberField {...p} integer={field.integer} placeholder={field.default == null ? undefined : String(field.default)} />;
    case "boolean":
      return (
        <span className="schema-check">
          <input id={p.id} type="checkbox" checked={p.value === true} aria-describedby={p.described} onChange={(e) => p.onChange(e.target.checked)} />
          <span className="muted small">{p.value === undefined ? "not set" : String(p.value)}</span>
        </span>
      );
    case "enum":
      return <EnumField {...p} options={field.options} />;
    case "any":
      return <AnyField {...p} />;
    case "messages":
      return <MessagesField {...p} />;
    case "list":
      return <ListField {...p} items={field.items} />;
    case "map":
      return <MapField {...p} values={field.values} />;
    case "union":
      return <UnionField {...p} variants={field.variants} />;
    case "object":
      return (
        <div className="schema-nested">
          <Properties field={field} value={p.value} onChange={p.onChange} path={p.path} />
        </div>
      );
  }
}
