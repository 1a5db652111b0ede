// A form for a flat object.
type Json = Record<string, unknown>;

/** schemaOf is a schema that fits a flat object; undefined for other values. */
export function schemaOf(value: unknown): Json | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const entries = Object.entries(value);
  if (!entries.length || !entries.every(([, v]) => ["string", "number", "boolean"].includes(typeof v))) return undefined;
  return { type: "object", properties: Object.fromEntries(entries.map(([k, v]) => [k, { type: typeof v }])) };
}

export function Fields({ schema, value, onChange, label }: { schema: Json; value: unknown; onChange(value: unknown): void; label: string }) {
  const fields = Object.entries((schema.properties ?? {}) as Record<string, Json>);
  const object = (value ?? {}) as Json;
  const set = (key: string, v: unknown) => onChange({ ...object, [key]: v });
  return (
    <div className="column" role="group" aria-label={label}>
      {fields.map(([key, f]) =>
        f.type === "boolean" ? (
          <label key={key} className="row">
            <input type="checkbox" checked={!!object[key]} onChange={(e) => set(key, e.target.checked)} />
            {key}
          </label>
        ) : (
          <label key={key} className="field">
            <span className="label">{key}</span>
            {f.type === "number" || f.type === "integer" ? (
              <input className="input" type="number" step="any" value={String(object[key] ?? f.default ?? "")} onChange={(e) => set(key, e.target.value === "" ? undefined : Number(e.target.value))} />
            ) : (
              <textarea className="input" rows={String(object[key] ?? "").length > 80 ? 4 : 1} value={String(object[key] ?? "")} onChange={(e) => set(key, e.target.value)} />
            )}
          </label>
        ),
      )}
    </div>
  );
}
