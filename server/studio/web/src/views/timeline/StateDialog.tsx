import { useState } from "react";
import { idOf } from "../../data/tree";
import type { Step } from "../../data/types";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { pretty } from "../../ui/json";
import { JsonView } from "../../ui/JsonView";
import { TabBar } from "../../ui/Tabs";
import { useTell } from "../../ui/Toast";
import { metaOf, nameOf } from "./step";

type Part = "values" | "tasks" | "metadata";

/** StateDialog shows the state after a step. */
export function StateDialog({ step, onClose, onEdit }: { step: Step; onClose(): void; onEdit(): void }) {
  const tell = useTell();
  const [part, setPart] = useState<Part>("values");
  const parts: Record<Part, unknown> = {
    values: step.values,
    tasks: step.tasks ?? [],
    metadata: { checkpoint_id: idOf(step), created_at: step.created_at, next: step.next, ...metaOf(step) },
  };
  return (
    <Dialog
      wide
      open
      title={`State after ${nameOf(step).toLowerCase()}`}
      onClose={onClose}
      foot={
        <>
          <Button
            onClick={() =>
              void tell.attempt(async () => (await navigator.clipboard.writeText(pretty(parts[part])), tell("Copied")))
            }
          >
            <Icon name="copy" /> Copy
          </Button>
          <Button onClick={onEdit}>
            <Icon name="fork" /> Edit and fork
          </Button>
        </>
      }
    >
      <TabBar<Part>
        label="Checkpoint details"
        value={part}
        onChange={setPart}
        tabs={[
          { id: "values", label: "Values" },
          { id: "tasks", label: "Next tasks" },
          { id: "metadata", label: "Metadata" },
        ]}
      />
      <div className="timeline-state">
        <JsonView key={part} value={parts[part]} open={2} />
      </div>
    </Dialog>
  );
}
