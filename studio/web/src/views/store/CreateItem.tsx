import { useState } from "react";
import { asObject, useItemChanges } from "../../data/items";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { JsonEditor, parse } from "../../ui/JsonEditor";
import { useTell } from "../../ui/Toast";

/** CreateItem asks for a new item. */
export function CreateItem({ namespace, onClose, onCreated }: { namespace: string[]; onClose(): void; onCreated(namespace: string[], key: string): void }) {
  const changes = useItemChanges();
  const tell = useTell();
  const [path, setPath] = useState(namespace.join("."));
  const [key, setKey] = useState("");
  const [text, setText] = useState('{\n  "text": ""\n}');
  const [busy, setBusy] = useState(false);
  const labels = path.split(".").map((l) => l.trim());
  const parsed = parse(text);
  const { object, error } = parsed.error ? { error: parsed.error } : asObject(parsed.value);
  const ready = object && key.trim() && labels.every(Boolean);
  const save = async () => {
    if (!ready) return;
    setBusy(true);
    const saved = await tell.attempt(() => changes.put({ namespace: labels, key: key.trim() }, object).then(() => true));
    setBusy(false);
    if (saved) onCreated(labels, key.trim());
  };
  return (
    <Dialog
      title="Create item"
      open
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" busy={busy} disabled={!ready} onClick={() => void save()}>
            Create
          </Button>
        </>
      }
    >
      <div className="column">
        <label className="field">
          <span className="label">Namespace</span>
          <input className="input" value={path} onChange={(e) => setPath(e.target.value)} placeholder="memories.ada" spellCheck={false} />
          <span className="hint">Labels with dots between them.</span>
        </label>
        <label className="field">
          <span className="label">Key</span>
          <input className="input" value={key} onChange={(e) => setKey(e.target.value)} spellCheck={false} />
          <span className="hint">An item with the same key is replaced.</span>
        </label>
        <div className="field">
          <span className="label">Value</span>
          <JsonEditor label="Value" value={text} onChange={setText} onSubmit={() => void save()} />
          {error ? <span className="wrong">{error}</span> : null}
        </div>
      </div>
    </Dialog>
  );
}
