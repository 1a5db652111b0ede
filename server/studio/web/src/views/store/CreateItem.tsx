import { useState } from "react";
import { useItemChanges } from "../../data/itemChanges";
import { CreateDialog } from "../../ui/Dialog";
import { JsonEditor } from "../../ui/JsonEditor";
import { parseObject } from "../../ui/json";
import { useSave } from "../../ui/useSave";

/** CreateItem creates an item. */
export function CreateItem({
  namespace,
  onClose,
  onCreated,
}: {
  namespace: string[];
  onClose(): void;
  onCreated(namespace: string[], key: string): void;
}) {
  const changes = useItemChanges();
  const { busy, save } = useSave();
  const [path, setPath] = useState(namespace.join("."));
  const [key, setKey] = useState("");
  const [text, setText] = useState('{\n  "text": ""\n}');
  const labels = path.split(".").map((l) => l.trim());
  const { object, error } = parseObject(text);
  const ready = !!object && key.trim() !== "" && labels.every(Boolean);
  const create = () => {
    if (ready)
      void save(
        () => changes.put({ namespace: labels, key: key.trim() }, object),
        () => onCreated(labels, key.trim()),
      );
  };
  return (
    <CreateDialog title="Create item" ready={ready} busy={busy} onCreate={create} onClose={onClose}>
      <div className="column">
        <label className="field">
          <span className="label">Namespace</span>
          <input
            className="input"
            value={path}
            onChange={(e) => setPath(e.target.value)}
            placeholder="memories.ada"
            spellCheck={false}
          />
          <span className="hint">Labels separated by dots.</span>
        </label>
        <label className="field">
          <span className="label">Key</span>
          <input className="input" value={key} onChange={(e) => setKey(e.target.value)} spellCheck={false} />
          <span className="hint">An item with the same key is replaced.</span>
        </label>
        <div className="field">
          <span className="label">Value</span>
          <JsonEditor label="Value" value={text} onChange={setText} onSubmit={create} />
          {error ? <span className="wrong">{error}</span> : null}
        </div>
      </div>
    </CreateDialog>
  );
}
