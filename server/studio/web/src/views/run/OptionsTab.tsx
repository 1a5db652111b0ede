import type { Choices } from "./drafts";

const strategies = {
  reject: "Reject the new run",
  enqueue: "Run it afterward",
  interrupt: "Stop the old run and keep its work",
  rollback: "Stop the old run and roll it back",
};

const durabilities = {
  sync: "Before the next step starts",
  async: "While the next step runs",
  exit: "When the run ends",
};

/** OptionsTab configures how the server handles a run. */
export function OptionsTab({
  assistant,
  value,
  onChange,
}: {
  assistant: string;
  value: Choices;
  onChange(to: Choices): void;
}) {
  return (
    <div className="run-options" key={assistant}>
      <Choice
        label="If the thread already has a run"
        options={strategies}
        value={value.multitaskStrategy}
        onChange={(multitaskStrategy) => onChange({ ...value, multitaskStrategy })}
        hint="Multitask strategy."
      />
      <Choice
        label="Checkpoints are saved"
        options={durabilities}
        value={value.durability}
        onChange={(durability) => onChange({ ...value, durability })}
        hint="Durability."
      />
    </div>
  );
}

function Choice<T extends string>({
  label,
  options,
  value,
  onChange,
  hint,
}: {
  label: string;
  options: Record<T, string>;
  value: T | undefined;
  onChange(to: T | undefined): void;
  hint: string;
}) {
  return (
    <label className="field">
      <span className="label">{label}</span>
      <select
        className="input"
        value={value ?? ""}
        onChange={(e) => onChange((e.target.value || undefined) as T | undefined)}
      >
        <option value="">Server default</option>
        {(Object.entries(options) as [T, string][]).map(([id, text]) => (
          <option key={id} value={id}>
            {text} ({id})
          </option>
        ))}
      </select>
      <span className="hint">{hint}</span>
    </label>
  );
}
