// The form for reviewing actions, such as tool calls.
import { check } from "../../schema/schema";
import { SchemaForm } from "../../schema/SchemaForm";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { JsonEditor } from "../../ui/JsonEditor";
import { parse, pretty } from "../../ui/json";
import { JsonView } from "../../ui/JsonView";
import { Markdown } from "../../ui/Markdown";
import type { Action, ActionDraft, Decision } from "./forms";

/** label returns the text of the button for a decision. */
const label = (d: Decision, changed: boolean) =>
  d === "approve" && changed ? "Approve with changes" : (labels[d] ?? d);

const labels: Record<Decision, string> = { approve: "Approve", edit: "Edit", respond: "Respond", reject: "Reject" };
const done: Record<Decision, string> = { approve: "Approved", edit: "Edited", respond: "Answered", reject: "Rejected" };

/** invalid returns why the edited text is not JSON, if a text is edited. */
const invalid = ({ text }: ActionDraft): string | undefined =>
  text === undefined ? undefined : (parse(text).error ?? "Invalid JSON: the text is empty.");

interface Props {
  action: Action;
  draft: ActionDraft;
  onChange(draft: ActionDraft): void;
  /** This is the only missing decision: onSend sends a decision that needs nothing more. */
  onSend?(draft: ActionDraft): void;
  disabled: boolean;
}

export function Review({ action, draft, onChange, onSend, disabled }: Props) {
  const changed = draft.wrong || JSON.stringify(draft.args) !== JSON.stringify(action.args);
  const canApprove = action.allowed.includes("approve");
  const choose = (chosen: Decision) => {
    // Arguments that were changed are never lost: an approval includes them.
    const decision = chosen === "approve" && changed ? "edit" : chosen;
    const undone = draft.decision === chosen && !onSend;
    const next: ActionDraft = { ...draft, decision: undone ? null : decision };
    onChange(next);
    if (chosen === "approve") onSend?.(next);
  };
  return (
    <div className="interrupts-action">
      <div className="row">
        <Icon name="tool" size={14} />
        <strong className="mono">{action.name}</strong>
        <span className="grow" />
        {draft.decision && !onSend ? (
          <span className={draft.decision === "reject" ? "badge bad" : "badge ok"}>{done[draft.decision]}</span>
        ) : null}
      </div>
      {action.description && !/^Tool execution (requires|pending) approval/i.test(action.description) ? (
        <Markdown text={action.description} />
      ) : null}
      {draft.decision === "edit" ? (
        <EditArgs action={action} draft={draft} changed={changed} onChange={onChange} />
      ) : (
        <JsonView value={draft.args} open={3} />
      )}
      {draft.wrong ? (
        <p className="interrupts-wrong" role="status">
          {invalid(draft) ?? "The arguments do not match their schema."}
          {draft.decision === "edit" ? "" : " Edit them to approve."}
        </p>
      ) : null}
      <div className="row wrap" role="group" aria-label={"Decide about " + action.name}>
        {action.allowed.map((d) => (
          <Button
            key={d}
            kind={d === "approve" && onSend ? "primary" : d === "reject" ? "danger" : undefined}
            aria-pressed={draft.decision === d}
            className="interrupts-choice"
            disabled={disabled || (d === "approve" && draft.wrong)}
            onClick={() => choose(d)}
          >
            {label(d, changed)}
          </Button>
        ))}
      </div>
      {draft.decision === "respond" || draft.decision === "reject" ? (
        <label className="field">
          <span className="label">
            {draft.decision === "respond" ? "Answer in place of the result" : "Reason (optional)"}
          </span>
          <textarea
            className="input"
            rows={2}
            value={draft.message}
            onChange={(e) => onChange({ ...draft, message: e.target.value })}
            autoFocus
          />
        </label>
      ) : null}
      {onSend && draft.decision && draft.decision !== "approve" && !(draft.decision === "edit" && canApprove) ? (
        <div>
          <Button
            kind="primary"
            disabled={disabled || draft.wrong || (draft.decision === "respond" && !draft.message)}
            onClick={() => onSend(draft)}
          >
            {draft.decision === "edit"
              ? "Run with these arguments"
              : draft.decision === "respond"
                ? "Send answer"
                : "Reject and continue"}
          </Button>
        </div>
      ) : null}
    </div>
  );
}

/** EditArgs edits arguments as a form, or as JSON. */
function EditArgs({
  action,
  draft,
  changed,
  onChange,
}: {
  action: Action;
  draft: ActionDraft;
  changed: boolean;
  onChange(draft: ActionDraft): void;
}) {
  const { schema } = action;
  const text = draft.text ?? (schema ? null : pretty(draft.args));
  const edit = (text: string) => {
    const { value, error } = parse(text);
    const wrong = !!error || value === undefined;
    onChange({ ...draft, text, args: wrong ? draft.args : value, wrong });
  };
  return (
    <div className="column">
      {schema && text === null ? (
        <SchemaForm
          schema={schema}
          value={draft.args}
          onChange={(args) => onChange({ ...draft, args, wrong: check(schema, args).length > 0 })}
          label={"Arguments of " + action.name}
        />
      ) : null}
      {text !== null ? <JsonEditor value={text} onChange={edit} label={"Arguments of " + action.name} /> : null}
      <div className="row">
        {schema ? (
          <Button
            kind="quiet"
            size="small"
            disabled={text !== null && draft.wrong}
            onClick={() => onChange({ ...draft, text: text === null ? pretty(draft.args) : undefined })}
          >
            {text === null ? "Edit as JSON" : "Edit as form"}
          </Button>
        ) : null}
        {changed ? (
          <Button
            kind="quiet"
            size="small"
            onClick={() => onChange({ ...draft, args: action.args, text: undefined, wrong: false })}
          >
            Reset
          </Button>
        ) : null}
      </div>
    </div>
  );
}
