// Questions that wait for an answer, each with a form.
import { useMemo, useState } from "react";
import type { OpenQuestion } from "../../data/types";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { JsonView } from "../../ui/JsonView";
import { Markdown } from "../../ui/Markdown";
import { answerOf, draftOf, formOf, type Draft, type Form } from "./forms";
import { Kinds, Plain } from "./Plain";
import { Review } from "./Review";
import "./interrupts.css";

// Drafts by interrupt ID: unanswered interrupts are raised again
// with the same ID, and the view may have been closed in between.
const drafts = new Map<string, Draft>();

interface QuestionsProps {
  questions: OpenQuestion[];
  /** The name of the region, unless it is part of something with a name. */
  label?: string;
  disabled: boolean;
  /** onAnswer sends answers by interrupt ID and reports whether they were accepted. */
  onAnswer(answers: Record<string, unknown>): Promise<boolean>;
}

/** Questions shows the questions of one thread. */
export function Questions({ questions, label, disabled, onAnswer }: QuestionsProps) {
  const [, changed] = useState(0);
  const asked = useMemo(() => questions.map((question) => ({ question, form: formOf(question.value) })), [questions]);
  const send = async (answers: Record<string, unknown>) => {
    // Rejected answers can be changed. A node may ask again with the same ID.
    if (!(await onAnswer(answers))) return;
    for (const id of Object.keys(answers)) drafts.delete(id);
    changed((n) => n + 1);
  };
  const draft = (q: OpenQuestion, form: Form) => drafts.get(q.id) ?? draftOf(form);
  const ready = asked.flatMap(({ question, form }) => {
    const answer = answerOf(form, draft(question, form));
    return answer ? [[question.id, answer.value] as const] : [];
  });
  const several = asked.length > 1;
  return (
    <section className="interrupts" aria-label={label}>
      {several ? (
        <div className="interrupts-head">
          <Icon name="pause" />
          <strong>{asked.length} questions wait for an answer</strong>
        </div>
      ) : null}
      {asked.map(({ question, form }) => (
        <Question
          key={question.id}
          question={question}
          form={form}
          draft={draft(question, form)}
          several={several}
          disabled={disabled}
          onChange={(d) => {
            drafts.set(question.id, d);
            changed((n) => n + 1);
          }}
          onSend={(d) => {
            const answer = answerOf(form, d);
            if (answer) void send({ [question.id]: answer.value });
          }}
        />
      ))}
      {several ? (
        <div className="interrupts-foot">
          <span className="muted small grow">
            {ready.length} of {asked.length} filled in. Questions without an answer are asked again.
          </span>
          <Button
            kind="primary"
            disabled={disabled || ready.length === 0}
            onClick={() => void send(Object.fromEntries(ready))}
          >
            {ready.length === asked.length ? "Answer all" : `Answer ${ready.length}`}
          </Button>
        </div>
      ) : null}
    </section>
  );
}

interface Props {
  question: OpenQuestion;
  form: Form;
  draft: Draft;
  several: boolean;
  disabled: boolean;
  onChange(draft: Draft): void;
  onSend(draft: Draft): void;
}

function Question({ question, form, draft, several, disabled, onChange, onSend }: Props) {
  const alone = !several && (form.kind === "plain" || form.actions.length === 1);
  return (
    <article className="interrupts-card" aria-label={"Question of " + question.node}>
      <header className="interrupts-card-head">
        {several ? null : <Icon name="pause" size={14} />}
        <span className="badge warn">{question.node}</span>
        <span className="muted small">
          {form.kind === "review"
            ? form.actions.length > 1
              ? `asks about ${form.actions.length} actions`
              : "asks about an action"
            : "asks"}
        </span>
        <span className="grow" />
        {form.kind === "plain" ? <Kinds form={form} draft={draft} onChange={onChange} /> : null}
      </header>
      {form.kind === "review" ? (
        form.actions.map((action, i) => {
          const change = (a: Draft["actions"][number]) => ({
            ...draft,
            actions: draft.actions.map((old, j) => (j === i ? a : old)),
          });
          return (
            <Review
              key={i}
              action={action}
              draft={draft.actions[i]!}
              disabled={disabled}
              onChange={(a) => onChange(change(a))}
              onSend={alone ? (a) => onSend(change(a)) : undefined}
            />
          );
        })
      ) : (
        <>
          {form.text ? <Markdown text={form.text} /> : null}
          {form.about ? <JsonView value={form.about} open={2} /> : null}
          <Plain
            form={form}
            draft={draft}
            disabled={disabled}
            onChange={onChange}
            onSend={alone ? onSend : undefined}
            label={"Answer to " + question.node}
          />
        </>
      )}
      {alone ? null : (
        <div>
          <Button
            size={several ? "small" : undefined}
            kind={several ? undefined : "primary"}
            disabled={disabled || !answerOf(form, draft)}
            onClick={() => onSend(draft)}
          >
            {several ? "Answer this question" : "Send decisions"}
          </Button>
        </div>
      )}
    </article>
  );
}
