import type { Message } from "@langchain/langgraph-sdk";
import { useMemo, useState } from "react";
import { go } from "../../app/location";
import { newId } from "../../data/ids";
import { useSession } from "../../data/session";
import type { Session } from "../../data/thread";
import { newestBelow, treeOf } from "../../data/tree";
import { isRunning, type RunOptions, type Step, type Values } from "../../data/types";
import { useTell } from "../../ui/Toast";
import { useThreadAssistant } from "../interrupts/assistant";
import { messagesOf, originsOf } from "./branches";
import { contentOf, withText } from "./content";
import { clearDraft, getDraft, setDraft } from "./drafts";
import type { Actions } from "./MessageRow";

/** originOf finds the checkpoint before a message, loading older checkpoints as needed. */
async function originOf(session: Session, head: string, key: string, id: string): Promise<Step> {
  for (;;) {
    const { steps, hasMore } = session.getState();
    const before = originsOf(treeOf(steps), head, key).get(id)?.before;
    if (before) return before;
    if (!hasMore) throw new Error("The thread has no checkpoint before this message.");
    await session.loadMore();
  }
}

/** useActions returns the actions of the chat. head is the shown checkpoint, or null if it is the newest one. */
export function useActions(key: string, head: Step | undefined, newest: boolean) {
  const session = useSession();
  const assistant = useThreadAssistant();
  const tell = useTell();
  const [editing, setEditing] = useState<{ id: string; text: string } | null>(null);
  const headId = head?.checkpoint?.checkpoint_id ?? "";
  const actions = useMemo(() => {
    const run = async (o: Omit<RunOptions, "assistant">) => {
      if (!assistant) throw new Error("No assistant to run.");
      go({ checkpoint: null }, "replace");
      await session.submit({ ...o, assistant });
    };
    // Runs from the newest checkpoint do not name it: the server determines the head.
    const from = newest ? undefined : head?.checkpoint;
    const fork = async (message: Message, added: Message[]) => {
      const before = await originOf(session, headId, key, message.id ?? "");
      const values = before.values;
      await run({
        checkpoint: before.checkpoint,
        input: added.length ? { [key]: added } : null,
        expected: { ...values, [key]: [...messagesOf(values, key), ...added] },
      });
    };
    return {
      async send() {
        const thread = session.threadId;
        const draft = getDraft(thread);
        const added = { type: "human", id: newId(), content: contentOf(draft.text.trim(), draft.images) } as Message;
        const values = (newest ? session.getState().values : head?.values) as Values;
        clearDraft(thread);
        await tell.attempt(
          run({
            checkpoint: from,
            input: { [key]: [added] },
            expected: { ...values, [key]: [...messagesOf(values, key), added] },
          }),
        );
        // A rejected run has saved nothing, so the text can be sent again.
        const after = session.getState();
        if (after.run?.phase === "error" && !messagesOf(after.values, key).some((m) => m.id === added.id))
          setDraft(session.threadId, draft);
      },
      /** proceed continues a stopped run. */
      proceed: () => tell.attempt(run({ checkpoint: from, input: null, expected: head?.values })),
      edit: (id, text = "") => setEditing(id === null ? null : { id, text }),
      resend(message, text) {
        setEditing(null);
        void tell.attempt(
          fork(message, [{ type: "human", id: newId(), content: withText(message.content, text.trim()) } as Message]),
        );
      },
      regenerate: (message) => void tell.attempt(fork(message, [])),
      show(checkpoint) {
        const { steps } = session.getState();
        const at = newestBelow(treeOf(steps), checkpoint);
        const isNewest = at === steps[0]?.checkpoint?.checkpoint_id;
        if (!isRunning(session.getState())) go({ checkpoint: isNewest ? null : at }, "replace");
      },
    } satisfies Actions & Record<string, unknown>;
    // eslint-disable-next-line react-hooks/exhaustive-deps -- The ID of head identifies its values.
  }, [session, assistant, tell, key, headId, newest]);
  return { actions, editing };
}
