import { useState } from "react";
import { keep, listedIn, prices, pricesIn } from "../../data/prices";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { JsonEditor } from "../../ui/JsonEditor";
import { parseObject, pretty } from "../../ui/json";

/** PriceDialog edits the prices used to compute costs. */
export function PriceDialog({ onClose }: { onClose(): void }) {
  const [text, setText] = useState(() => pretty(prices()));
  const { object, error } = parseObject(text);
  const read = object ? pricesIn(object) : error!;
  const wrong = typeof read === "string" ? read : null;
  const save = () => {
    if (typeof read === "string") return;
    keep(read);
    onClose();
  };
  return (
    <Dialog
      title="Model prices"
      open
      onClose={onClose}
      foot={
        <>
          <Button
            onClick={() => {
              keep({});
              setText(pretty(prices()));
            }}
          >
            Reset to list prices
          </Button>
          <Button kind="primary" disabled={wrong !== null} onClick={save}>
            Save
          </Button>
        </>
      }
    >
      <div className="column">
        <p className="muted small">
          US dollars for a million tokens, by the model's name without its version. The list is of {listedIn}, and
          providers change their prices. What you change is kept in this browser. A cost that a provider tells is shown
          as it is.
        </p>
        <JsonEditor label="Prices" value={text} onChange={setText} onSubmit={save} />
        {wrong ? <p className="trace-wrong">{wrong}</p> : null}
      </div>
    </Dialog>
  );
}
