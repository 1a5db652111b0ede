// The form of a question that accepts any answer.
import { SchemaForm } from "../../schema/SchemaForm";
import { Button } from "../../ui/Button";
import { JsonEditor } from "../../ui/JsonEditor";
import { parse } from "../../ui/json";
import { TabBar } from "../../ui/Tabs";
import { answerOf, type Draft, type Form, type Kind } from "./forms";

const labels: Record<Kind, string> = {
  "yes/no": "Yes or no",
  text: "Text",
  choices: "Choices",
  fields: "Form",
  json: "JSON",
};

interface Props {
  form: Extract<Form, { kind: "plain" }>;
  draft: Draft;
  onChange(draft: Draft): void;
  /** Set if this is the only question: the answer is sent immediately. */
  onSend?(draft: Draft): void;
  disabled: boolean;
  label: string;
}

/** Kinds selects the kind of answer, because a question does not always determine it. */
export function Kinds({ form, draft, onChange }: Pick<Props, "form" | "draft" | "onChange">) {
  return (
    <TabBar<Kind>
      label="Answer type"
      value={draft.kind}
      onChange={(kind) => onChange({ ...draft, kind })}
      tabs={form.kinds.map((id) => ({ id, label: labels[id] }))}
    />
  );
}

export function Plain(props: Props) {
  const { form, draft, onSend, disabled } = props;
  const clicks = draft.kind === "yes/no" || draft.kind === "choices";
  return (
    <div className="column">
      <Input {...props} />
      {onSend && !clicks ? (
        <div>
          <Button kind="primary" disabled={disabled || !answerOf(form, draft)} onClick={() => onSend(draft)}>
            Answer
          </Button>
        </div>
      ) : null}
    </div>
  );
}

function Input({ form, draft, onChange, onSend, disabled, label }: Props) {
  const choose = (d: Draft) => {
    onChange(d);
    onSend?.(d);
  };
  const submit = () => (answerOf(form, draft) ? onSend?.(draft) : undefined);
  switch (draft.kind) {
    case "yes/no":
      return (
        <div className="row" role="group" aria-label={label}>
          <Button
            className="interrupts-choice"
            kind={onSend ? "primary" : undefined}
            aria-pressed={draft.yes === true}
            disabled={disabled}
            onClick={() => choose({ ...draft, yes: true })}
          >
            Yes
          </Button>
          <Button
            className="interrupts-choice"
            aria-pressed={draft.yes === false}
            disabled={disabled}
            onClick={() => choose({ ...draft, yes: false })}
          >
            No
          </Button>
        </div>
      );
    case "choices":
      return (
        <div className="row wrap" role="group" aria-label={label}>
          {form.choices.map((c, i) => (
            <Button
              key={i}
              className="interrupts-choice"
              aria-pressed={draft.choice === i}
              disabled={disabled}
              onClick={() => choose({ ...draft, choice: i })}
            >
              {c.label}
            </Button>
          ))}
        </div>
      );
    case "text":
      return (
        <textarea
          className="input"
          rows={2}
          aria-label={label}
          value={draft.text}
          onChange={(e) => onChange({ ...draft, text: e.target.value })}
          onKeyDown={(e) => {
            if (e.key !== "Enter" || e.shiftKey || e.nativeEvent.isComposing) return;
            e.preventDefault();
            submit();
          }}
        />
      );
    case "fields":
      return (
        <SchemaForm
          schema={form.schema}
          value={draft.fields}
          onChange={(fields) => onChange({ ...draft, fields })}
          label={label}
        />
      );
    case "json": {
      const { error } = parse(draft.json);
      return (
        <div className="field">
          <JsonEditor
            value={draft.json}
            onChange={(json) => onChange({ ...draft, json })}
            label={label}
            onSubmit={submit}
          />
          {error ? (
            <span className="wrong">{error}</span>
          ) : (
            <span className="hint">Any JSON, such as true, "text", or an object.</span>
          )}
        </div>
      );
    }
  }
}
