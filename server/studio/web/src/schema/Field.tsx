// A field of any kind, and the fields that contain fields.
import { useId, useMemo, useState, type ReactNode } from "react";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { useForm, type ControlProps, type FieldProps } from "./form";
import { MessagesField } from "./MessagesField";
import { AnyField, EnumField, NumberField, TextField } from "./Scalars";
import { blank, fieldOf, isObject, nameOfVariant, variantOf, type AnySchema, type Field } from "./schema";

/** Properties renders the fields of an object. */
export function Properties({
  field,
  value,
  onChange,
  path,
}: FieldProps & { field: Extract<Field, { kind: "object" }> }) {
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
    <Labelled
      key={name}
      schema={schema}
      name={name}
      value={object[name]}
      onChange={(to) => set(name, to)}
      path={[...path, name]}
      required={field.required.includes(name)}
    />
  ));
}

/** Labelled renders a field with its name, description, and problem. A kept field has a value even when it is empty. */
export function Labelled({
  schema,
  name,
  value,
  onChange,
  path,
  required,
  kept,
  action,
}: FieldProps & { schema: AnySchema; name: string; required?: boolean; kept?: boolean; action?: ReactNode }) {
  const { root, problems } = useForm();
  const field = useMemo(() => fieldOf(schema, root), [schema, root]);
  const id = useId();
  const at = path.join("\0");
  const wrong = problems.find((p) => p.path.join("\0") === at);
  const hint = [
    field.title && field.title.toLowerCase() !== name.toLowerCase().replace(/_/g, " ") ? field.title : "",
    field.description,
    field.nodes?.length ? `Used by ${field.nodes.join(", ")}` : "",
  ]
    .filter(Boolean)
    .join(". ");
  const single = ["text", "number", "enum", "any", "boolean"].includes(field.kind);
  const described = wrong ? id + "-wrong" : hint ? id + "-hint" : undefined;
  // Other fields are omitted when they are emptied.
  const unset = value !== undefined && !required && !kept && (field.kind === "boolean" || !single);
  return (
    <div
      className="schema-field"
      data-kind={field.kind}
      role={single ? undefined : "group"}
      aria-labelledby={single ? undefined : id + "-label"}
      data-wrong={wrong ? true : undefined}
    >
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
          <Button kind="quiet" size="small" label={`Remove ${name}`} onClick={() => onChange(undefined)}>
            <Icon name="close" size={11} />
          </Button>
        ) : null}
        {action}
      </div>
      <Control
        id={id}
        field={field}
        name={name}
        value={value}
        onChange={onChange}
        path={path}
        required={required || kept}
        described={described}
        wrong={!!wrong}
      />
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

function Control({ field, ...p }: ControlProps & { field: Field }): ReactNode {
  switch (field.kind) {
    case "text":
      return (
        <TextField
          {...p}
          long={field.prompt}
          placeholder={typeof field.default === "string" ? field.default : undefined}
        />
      );
    case "number":
      return (
        <NumberField
          {...p}
          integer={field.integer}
          placeholder={field.default == null ? undefined : String(field.default)}
        />
      );
    case "boolean":
      return (
        <span className="schema-check">
          <input
            id={p.id}
            type="checkbox"
            checked={p.value === true}
            aria-describedby={p.described}
            onChange={(e) => p.onChange(e.target.checked)}
          />
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

function ListField({ value, onChange, items, name, path }: ControlProps & { items: AnySchema }) {
  const { root } = useForm();
  const list = Array.isArray(value) ? (value as unknown[]) : [];
  return (
    <div className="schema-nested">
      {list.map((v, i) => (
        <Labelled
          key={i}
          schema={items}
          name={`${name} ${i + 1}`}
          value={v}
          path={[...path, i]}
          kept
          onChange={(to) => onChange(list.map((old, k) => (k === i ? (to === undefined ? null : to) : old)))}
          action={
            <>
              {i > 0 ? (
                <Button
                  kind="quiet"
                  size="small"
                  label={`Move ${name} ${i + 1} up`}
                  onClick={() => onChange(list.map((old, k) => (k === i ? list[i - 1] : k === i - 1 ? v : old)))}
                >
                  <span className="schema-up">
                    <Icon name="down" size={11} />
                  </span>
                </Button>
              ) : null}
              <Button
                kind="quiet"
                size="small"
                label={`Remove ${name} ${i + 1}`}
                onClick={() => onChange(list.filter((_, k) => k !== i))}
              >
                <Icon name="trash" size={12} />
              </Button>
            </>
          }
        />
      ))}
      <Button size="small" className="schema-add" onClick={() => onChange([...list, blank(items, root)])}>
        <Icon name="plus" size={12} /> Add to {name}
      </Button>
    </div>
  );
}

/** MapField edits an object with arbitrary keys. */
function MapField({ value, onChange, values, name, path }: ControlProps & { values: AnySchema }) {
  const { root } = useForm();
  const [key, setKey] = useState("");
  const entries = Object.entries(isObject(value) ? value : {});
  const taken = entries.some(([k]) => k === key);
  const add = () => {
    if (!key || taken) return;
    onChange(Object.fromEntries([...entries, [key, blank(values, root)]]));
    setKey("");
  };
  return (
    <div className="schema-nested">
      {entries.map(([k, v], i) => (
        <Labelled
          key={k}
          schema={values}
          name={k}
          value={v}
          path={[...path, k]}
          kept
          onChange={(to) =>
            onChange(
              Object.fromEntries(entries.map(([old, w], n) => [old, n === i ? (to === undefined ? null : to) : w])),
            )
          }
          action={
            <Button
              kind="quiet"
              size="small"
              label={`Remove ${k} from ${name}`}
              onClick={() => onChange(Object.fromEntries(entries.filter(([old]) => old !== k)))}
            >
              <Icon name="trash" size={12} />
            </Button>
          }
        />
      ))}
      <div className="row">
        <input
          className="input schema-key"
          value={key}
          aria-label={`New key of ${name}`}
          placeholder="New key"
          aria-invalid={taken || undefined}
          onChange={(e) => setKey(e.target.value)}
          onKeyDown={(e) => {
            if (e.key !== "Enter" || e.ctrlKey || e.metaKey) return;
            e.preventDefault();
            add();
          }}
        />
        <Button size="small" disabled={!key || taken} onClick={add}>
          <Icon name="plus" size={12} /> Add
        </Button>
      </div>
    </div>
  );
}

/** UnionField chooses between schemas; an existing value determines the choice. */
function UnionField({ value, onChange, variants, name, path, required }: ControlProps & { variants: AnySchema[] }) {
  const { root } = useForm();
  const [chosen, setChosen] = useState<number | null>(null);
  const at = value === undefined || value === null ? (chosen ?? 0) : variantOf(variants, value, root);
  return (
    <div className="schema-nested">
      <select
        className="input schema-enum"
        aria-label={`Kind of ${name}`}
        value={at}
        onChange={(e) => {
          setChosen(Number(e.target.value));
          onChange(value === undefined ? undefined : blank(variants[Number(e.target.value)], root));
        }}
      >
        {variants.map((v, i) => (
          <option key={i} value={i}>
            {nameOfVariant(v, root)}
          </option>
        ))}
      </select>
      <Labelled
        key={at}
        schema={variants[at]}
        name={`${name} as ${nameOfVariant(variants[at], root).toLowerCase()}`}
        value={value}
        onChange={onChange}
        path={path}
        kept={required}
      />
    </div>
  );
}
