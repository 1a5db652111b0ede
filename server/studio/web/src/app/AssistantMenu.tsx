import { lazy, Suspense, useState } from "react";
import { Menu } from "../ui/Menu";
import { Icon } from "../ui/Icon";
import { useAssistant, useAssistants } from "./connection";
import { go } from "./location";

const Assistants = lazy(() => import("../views/assistants/Assistants"));

/** AssistantMenu selects the assistant to show and run. */
export function AssistantMenu() {
  const { data = [] } = useAssistants();
  const assistant = useAssistant();
  const [managing, manage] = useState(false);
  return (
    <>
      <Menu
        align="start"
        label="Assistants"
        trigger={
          <button type="button" className="button app-assistant" disabled={!assistant}>
            <span className="cut">{assistant ? assistant.name : "No assistant"}</span>
            <Icon name="down" size={12} />
          </button>
        }
        items={[
          { label: "Manage assistants…", onSelect: () => manage(true) },
          null,
          ...data.map((a) => ({
            label: (
              <span className="grow cut">
                {a.name}
                {a.name === a.graph_id ? null : <span className="muted"> {a.graph_id}</span>}
              </span>
            ),
            onSelect: () => go({ assistant: a.assistant_id, thread: null }),
          })),
        ]}
      />
      {managing ? (
        <Suspense fallback={null}>
          <Assistants onClose={() => manage(false)} />
        </Suspense>
      ) : null}
    </>
  );
}
