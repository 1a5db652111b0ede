// A chat on CopilotKit's components, with a tool of the page and an approval.

import { HttpAgent } from "@ag-ui/client";
import { CopilotChat, CopilotKitProvider, useFrontendTool, useInterrupt } from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import { useState } from "react";
import { z } from "zod";
import { query, show } from "./chat.jsx";

const agents = { default: new HttpAgent({ url: query.get("agent") }) };
const thread = crypto.randomUUID();

function Page() {
  return (
    <CopilotKitProvider agents__unsafe_dev_only={agents}>
      <Chat />
    </CopilotKitProvider>
  );
}

function Chat() {
  const [color, setColor] = useState("white");
  useFrontendTool({
    name: "paint",
    description: "Paint the page.",
    parameters: z.object({ color: z.string() }),
    handler: async ({ color }) => {
      setColor(color);
      return `painted ${color}`;
    },
  });
  useInterrupt({
    // The connector sends an event with the question as a text, and no interrupt as AG-UI has it.
    render: ({ event, interrupt, resolve }) => (
      <p>
        <span id="interrupt">{interrupt ? JSON.stringify(interrupt.metadata.value) : event.value}</span>
        <button onClick={() => resolve({ decisions: [{ type: "approve" }] })}>Approve</button>
      </p>
    ),
  });
  return (
    <>
      <p>
        <span id="color">{color}</span> <span id="thread">{thread}</span>
      </p>
      <CopilotChat threadId={thread} />
    </>
  );
}

show(Page);
