// The panel that starts runs: the input, the configuration, and the buttons.
import { useState } from "react";
import { useAssistant, useSchemas } from "../../app/connection";
import { go, useLocation } from "../../app/location";
import { clearBreakpoints, useBreakpoints } from "../../data/breakpoints";
import { messageOf } from "../../data/errors";
import { useSession, useSessionState } from "../../data/session";
import { looks, statusOf, statusOfSession } from "../../data/status";
import { idOf } from "../../data/tree";
import { isRunning, type RunOptions } from "../../data/types";
import { check, textOfProblem, type AnySchema, type Problem } from "../../schema/schema";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { Menu } from "../../ui/Menu";
import { Loading, Notice } from "../../ui/States";
import { TabBar } from "../../ui/Tabs";
import { useTell } from "../../ui/Toast";
import { useLate } from "../../ui/useLate";
import { ConfigTab, useConfig } from "./ConfigTab";
import { choices, configOf, inputs, withText, withValue } from "./drafts";
import { InputTab } from "./InputTab";
import { OptionsTab } from "./OptionsTab";
import { RunStatus } from "./RunStatus";
import "./run.css";

type Part = "input" | "config" | "options";

/**
 * inputProblems returns the problems that keep a run from starting. Schemas of Python graphs call every key of the
 * state required, though an input may leave keys out, so the server decides about missing keys.
 */
const inputProblems = (schema: AnySchema, value: unknown) =>
  check(schema, value).filter((p) => !p.missing || p.path.length !== 1);

export function RunPanel() {
  const assistant = useAssistant();
  const schemas = useSchemas(assistant?.assistant_id);
  // Some servers take a minute to compute schemas. Until then, and without them, the input is JSON.
  const late = useLate(2_000);
  if (!assistant || (schemas.isPending && !late)) return <Loading what="the graph's input" />;
  const why = schemas.isError
    ? `The server did not return the schema of the input (${messageOf(schemas.error)}), so there is no form.`
    : schemas.isPending
      ? "The server is still computing the schema of the input. Until then, enter JSON."
      : null;
  return (
    <Panel
      key={assistant.assistant_id}
      id={assistant.assistant_id}
      schema={(schemas.data?.input_schema ?? true) as AnySchema}
      formless={why}
    />
  );
}

function Panel({ id, schema, formless }: { id: string; schema: AnySchema; formless: string | null }) {
  const [part, setPart] = useState<Part>("input");
  const [problems, setProblems] = useState<Problem[]>();
  const draft = inputs.use(id);
  const options = choices.use(id);
  const run = useRun(id);
  const submit = () => {
    const found = draft.raw ? [] : inputProblems(schema, draft.value);
    if (draft.error || found.length) {
      setProblems(found);
      setPart("input");
      return;
    }
    setProblems(undefined);
    run.start(draft.value);
  };
  const set = (to: typeof draft) => {
    inputs.set(id, to);
    // Invalid fields are checked again as they change.
    if (problems) setProblems(inputProblems(schema, to.value));
  };
  return (
    <form
      className="run"
      aria-label="Run"
      onSubmit={(e) => {
        e.preventDefault();
        submit();
      }}
      onKeyDown={(e) => {
        if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey) || e.defaultPrevented) return;
        e.preventDefault();
        submit();
      }}
    >
      <div className="panel-head">
        <TabBar<Part>
          label="Run settings"
          value={part}
          onChange={setPart}
          tabs={[
            { id: "input", label: "Input" },
            { id: "config", label: "Config" },
            { id: "options", label: "Options" },
          ]}
        />
        <span className="grow" />
        {part === "input" ? (
          <TabBar<"form" | "json">
            label="Input editor"
            value={draft.raw ? "json" : "form"}
            onChange={(to) => inputs.set(id, { ...draft, raw: to === "json" })}
            tabs={[
              { id: "form", label: "Form" },
              { id: "json", label: "JSON" },
            ]}
          />
        ) : null}
      </div>
      <div className="panel-body run-body">
        {part === "input" ? (
          <>
            {formless ? <Notice kind="warn">{formless}</Notice> : null}
            {problems?.length ? <Notice>{problems.map(textOfProblem).join("; ")}</Notice> : null}
            <InputTab
              schema={schema}
              draft={draft}
              onText={(t) => set(withText(draft, t))}
              onValue={(v) => set(withValue(draft, v))}
              problems={problems}
              onSubmit={submit}
            />
          </>
        ) : part === "config" ? (
          <ConfigTab />
        ) : (
          <OptionsTab assistant={id} value={options} onChange={(to) => choices.set(id, to)} />
        )}
      </div>
      <Foot id={id} run={run} />
    </form>
  );
}

/** useRun starts runs with the settings of the panel's other tabs, from the selected checkpoint. */
function useRun(assistant: string) {
  const session = useSession();
  const tell = useTell();
  const { checkpoint, thread } = useLocation();
  const points = useBreakpoints(assistant);
  const options = choices.use(assistant);
  const config = useConfig();
  return {
    start(input: unknown) {
      const stored = session.getState().steps.find((s) => idOf(s) === checkpoint)?.checkpoint;
      const from = checkpoint
        ? (stored ?? { thread_id: thread ?? "", checkpoint_ns: "", checkpoint_id: checkpoint, checkpoint_map: null })
        : null;
      const o: RunOptions = {
        assistant,
        input,
        checkpoint: from,
        interruptBefore: points.before.length ? points.before : undefined,
        interruptAfter: points.after.length ? points.after : undefined,
        ...options,
        ...(config ? configOf(config) : {}),
      };
      // The next run continues from this one, not from the same checkpoint again.
      if (checkpoint) go({ checkpoint: null }, "replace");
      void tell.attempt(() => session.submit(o));
    },
    stop: (how: "interrupt" | "rollback") => void tell.attempt(() => session.stop(how)),
  };
}

function Foot({ id, run }: { id: string; run: ReturnType<typeof useRun> }) {
  const state = useSessionState();
  const { checkpoint } = useLocation();
  const running = isRunning(state);
  const base = checkpoint ? state.steps.find((s) => idOf(s) === checkpoint) : state.steps[0];
  const status = checkpoint ? base && statusOf({ head: base }) : statusOfSession(state);
  const action = status && looks[status].action;
  const paused = !running && !!action && (base?.next.length ?? 0) > 0;
  return (
    <div className="run-foot">
      <BreakpointList assistant={id} />
      <div className="row wrap run-buttons">
        <RunStatus state={state} next={paused && !checkpoint ? base!.next : []} />
        <span className="grow" />
        {running ? (
          <span className="row run-split">
            <Button kind="danger" disabled={!state.run?.id} onClick={() => run.stop("interrupt")}>
              <Icon name="stop" size={14} /> Stop
            </Button>
            <Menu
              label="Stop the run"
              trigger={
                <Button kind="danger" label="Other ways to stop" disabled={!state.run?.id}>
                  <Icon name="down" size={12} />
                </Button>
              }
              items={[
                { label: "Stop and keep work", onSelect: () => run.stop("interrupt") },
                { label: "Cancel and roll back", danger: true, onSelect: () => run.stop("rollback") },
              ]}
            />
          </span>
        ) : null}
        {paused ? (
          <Button
            kind={checkpoint ? undefined : "primary"}
            onClick={() => run.start(null)}
            title="Continue without new input"
          >
            <Icon name="play" size={14} /> {checkpoint ? "Continue from here" : action}
          </Button>
        ) : null}
        <Button
          kind={running || (paused && !checkpoint) ? undefined : "primary"}
          type="submit"
          title="Ctrl+Enter"
          aria-keyshortcuts="Control+Enter"
        >
          <Icon name={checkpoint ? "fork" : "play"} size={14} /> {checkpoint ? "Fork from here" : "Submit"}
        </Button>
      </div>
    </div>
  );
}

/** BreakpointList shows where the next run pauses. */
function BreakpointList({ assistant }: { assistant: string }) {
  const { before, after } = useBreakpoints(assistant);
  if (!before.length && !after.length) return null;
  return (
    <div className="row run-points">
      <Icon name="pause" size={12} />
      <span className="grow">
        {[
          before.length ? "Pause before: " + before.join(", ") : "",
          after.length ? "Pause after: " + after.join(", ") : "",
        ]
          .filter(Boolean)
          .join(" · ")}
      </span>
      <Button kind="quiet" size="small" onClick={() => clearBreakpoints(assistant)}>
        Clear
      </Button>
    </div>
  );
}
