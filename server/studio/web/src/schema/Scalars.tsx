// Fields of one value.
import { useState } from "react";
import { parse } from "../ui/json";
import type { ControlProps } from "./form";

const text = (v: unknown): string =>
  v === undefined || v === null ? "" : typeof v === "string" ? v : JSON.stringify(v);

/** TextField grows with its text. */
export function TextField({
  id,
  value,
  onChange,
  required,
  described,
  wrong,
  placeholder,
  long,
}: ControlProps & { placeholder?: string; long?: boolean }) {
  return (
    <textarea
      id={id}
      className={long ? "input schema-text schema-long" : "input schema-text"}
      rows={1}
      value={text(value)}
      placeholder={placeholder}
      aria-describedby={described}
      aria-invalid={wrong || undefined}
      onChange={(e) => onChange(e.target.value === "" && !required ? undefined : e.target.value)}
    />
  );
}

/** NumberField keeps text that is not a number, so that the form can report it. */
export function NumberField({
  id,
  value,
  onChange,
  integer,
  described,
  wrong,
  placeholder,
}: ControlProps & { integer: boolean; placeholder?: string }) {
  const [typed, setTyped] = useState(text(value));
  const number = (t: string): unknown => (t.trim() === "" ? undefined : Number.isFinite(Number(t)) ? Number(t) : t);
  // 1.0 is shown as typed, although the value is 1.
  const shown = number(typed) === (value ?? undefined) ? typed : text(value);
  return (
    <input
      id={id}
      className="input schema-number"
      inputMode={integer ? "numeric" : "decimal"}
      autoComplete="off"
      value={shown}
      placeholder={placeholder}
      aria-describedby={described}
      aria-invalid={wrong || undefined}
      onChange={(e) => {
        setTyped(e.target.value);
        onChange(number(e.target.value));
      }}
    />
  );
}

export function EnumField({
  id,
  value,
  onChange,
  options,
  required,
  described,
  wrong,
}: ControlProps & { options: unknown[] }) {
  const at = options.findIndex((o) => o === value || JSON.stringify(o) === JSON.stringify(value));
  return (
    <select
      id={id}
      className="input schema-enum"
      value={at}
      aria-describedby={described}
      aria-invalid={wrong || undefined}
      onChange={(e) => onChange(Number(e.target.value) < 0 ? undefined : options[Number(e.target.value)])}
    >
      {at < 0 || !required ? (
        <option value={-1}>
          {value === undefined || value === null ? "not set" : at < 0 ? text(value) : "not set"}
        </option>
      ) : null}
      {options.map((o, i) => (
        <option key={i} value={i}>
          {text(o)}
        </option>
      ))}
    </select>
  );
}

/** AnyField accepts JSON. Text that is not JSON is sent as a string. */
export function AnyField({ id, value, onChange, described, wrong }: ControlProps) {
  const read = (t: string): unknown => {
    const { value: parsed, error } = parse(t);
    return error ? t : parsed;
  };
  const [typed, setTyped] = useState(value === undefined ? "" : JSON.stringify(value));
  const current = JSON.stringify(read(typed)) === JSON.stringify(value);
  const shown = current ? typed : value === undefined ? "" : JSON.stringify(value);
  const asText = shown.trim() !== "" && !!parse(shown).error;
  return (
    <>
      <textarea
        id={id}
        className="input schema-text schema-json"
        rows={1}
        value={shown}
        placeholder="JSON or text"
        spellCheck={false}
        aria-describedby={described}
        aria-invalid={wrong || undefined}
        onChange={(e) => {
          setTyped(e.target.value);
          onChange(read(e.target.value));
        }}
      />
      {asText ? <span className="schema-hint">Not JSON; sent as text.</span> : null}
    </>
  );
}
