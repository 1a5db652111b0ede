// Fields that contain fields.
import { useState } from "react";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { Labelled, useForm, type ControlProps } from "./SchemaForm";
import { blank, isObject, nameOfVariant, variantOf, type AnySchema } from "./schema";

export function ListField({ value, onChange, items, name, path }: ControlProps & { items: AnySchema }) {
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
                <Button kind="quiet" size="small" label={`Move ${name} ${i + 1} up`} onClick={() => onChange(list.map((old, k) => (k === i ? list[i - 1] : k === i - 1 ? v : old)))}>
                  <span className="schema-up">
                    <Icon name="down" size={11} />
                  </span>
                </Button>
              ) : null}
              <Button kind="quiet" size="small" label={`Remove ${name} ${i + 1}`} onClick={() => onChange(list.filter((_, k) => k !== i))}>
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

/** MapField edits an object whose keys are free. */
export function MapField({ value, onChange, values, name, path }: ControlProps & { values: AnySchema }) {
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
          onChange={(to) => onChange(Object.fromEntries(entries.map(([old, w], n) => [old, n === i ? (to === undefined ? null : to) : w])))}
          action={
            <Button kind="quiet" size="small" label={`Remove ${k} from ${name}`} onClick={() => onChange(Object.fromEntries(entries.filter(([old]) => old !== k)))}>
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

/** UnionField chooses between schemas; a value that is there chooses by itself. */
export function UnionField({ value, onChange, variants, name, path, required }: ControlProps & { variants: AnySchema[] }) {
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
      <Labelled key={at} schema={variants[at]} name={`${name} as ${nameOfVariant(variants[at], root).toLowerCase()}`} value={value} onChange={onChange} path={path} kept={required} />
    </div>
  );
}
