// The pending interrupts of a thread, each with a form.
import { useSession, useSessionPart } from "../../data/session";
import { useTell } from "../../ui/Toast";
import { useThreadAssistant } from "./assistant";
import { Questions } from "./Questions";

/** Interrupts shows the pending interrupts of the thread, or nothing if there are none. */
export function Interrupts() {
  const session = useSession();
  const questions = useSessionPart((s) => s.questions);
  const assistant = useThreadAssistant();
  const tell = useTell();
  if (questions.length === 0) return null;
  return (
    <Questions
      label="Interrupts"
      questions={questions}
      disabled={!assistant}
      onAnswer={async (answers) => {
        if (!assistant) return false;
        await tell.attempt(session.answer(assistant, answers));
        return session.getState().run?.phase !== "error";
      }}
    />
  );
}
