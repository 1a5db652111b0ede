import { useState } from "react";

/** The number of entries of a list or an object that are shown before a button for more. */
const page = 100;
/** Longer texts are truncated until they are expanded. */
const longText = 600;

/** JsonView shows a collapsible JSON value. open is the initially expanded depth. */
export function JsonView({ value, open = 2 }: { value: unknown; open?: number }) {
  return (
    <div className="json">
      <Value value={value} open={open} />
    </div>
  );
}

function Value({ value, open, name }: { value: unknown; open: number; name?: string }) {
  const key = name === undefined ? null : <span className="json-key">{name}: </span>;
  if (typeof value === "object" && value !== null) return <Container value={value} open={open} label={key} />;
  return (
    <div>
      {key}
      <Scalar value={value} />
    </div>
  );
}

function Scalar({ value }: { value: unknown }) {
  const [whole, setWhole] = useState(false);
  if (typeof value === "string") {
    const cut = !whole && value.length > longText;
    return (
      <>
        <span className="json-string">"{cut ? value.slice(0, longText) + "…" : value}"</span>
        {cut ? (
          <button type="button" className="json-fold" onClick={() => setWhole(true)}>
            {value.length.toLocaleString()} characters: show all
          </button>
        ) : null}
      </>
    );
  }
  return (
    <span className={typeof value === "number" ? "json-number" : "json-atom"}>
      {value === undefined ? "–" : String(value)}
    </span>
  );
}

function Container({ value, open, label }: { value: object; open: number; label: React.ReactNode }) {
  const [shown, setShown] = useState(open > 0);
  const [limit, setLimit] = useState(page);
  const list = Array.isArray(value);
  const entries = shown ? Object.entries(value as Record<string, unknown>) : [];
  const size = list ? value.length : Object.keys(value).length;
  const [a, b] = list ? "[]" : "{}";
  if (size === 0)
    return (
      <div>
        {label}
        {a}
        {b}
      </div>
    );
  return (
    <div>
      <button type="button" className="json-fold" aria-expanded={shown} onClick={() => setShown(!shown)}>
        <span aria-hidden>{shown ? "▾" : "▸"}</span>
        <span className="hidden">{shown ? "Fold" : "Unfold"}</span>
      </button>
      {label}
      {a}
      {shown ? null : (
        <>
          {" "}
          {size} {list ? (size === 1 ? "entry" : "entries") : size === 1 ? "key" : "keys"} {b}
        </>
      )}
      {shown ? (
        <>
          <div className="json-children">
            {entries.slice(0, limit).map(([k, v]) => (
              <Value key={k} name={k} value={v} open={open - 1} />
            ))}
            {size > limit ? (
              <button type="button" className="json-fold" onClick={() => setLimit(limit + page * 5)}>
                {(size - limit).toLocaleString()} more
              </button>
            ) : null}
          </div>
          {b}
        </>
      ) : null}
    </div>
  );
}
