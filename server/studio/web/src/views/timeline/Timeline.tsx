// The checkpoints of the thread, newest at the bottom.
import { useCallback, useMemo, useState } from "react";
import { useAssistant, useAssistants } from "../../app/connection";
import { go, useLocation } from "../../app/location";
import { headOfBranch, rowsOf } from "../../data/branches";
import { useSession, useSessionPart } from "../../data/session";
import { idOf, newestBelow, parentOf, treeOf } from "../../data/tree";
import { isRunning, type Step } from "../../data/types";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { Empty, Failed, Loading, Notice } from "../../ui/States";
import { useTell } from "../../ui/Toast";
import type { Action } from "./Card";
import { CompareDialog } from "./CompareDialog";
import { checkpointOf, EditDialog } from "./EditDialog";
import { EndOfBranch } from "./EndOfBranch";
import { List } from "./List";
import { StateDialog } from "./StateDialog";
import { metaOf } from "./step";
import { useChosen } from "./useChosen";
import "./timeline.css";

type Shown = { what: "state" | "edit"; step: Step } | { what: "compare"; step: Step; with: Step } | null;

export function Timeline() {
  const status = useSessionPart((s) => s.status);
  const error = useSessionPart((s) => s.error);
  const empty = useSessionPart((s) => s.steps.length === 0 && !s.run);
  const session = useSession();
  if (status === "missing")
    return <Empty title="Thread not found">It may have been deleted. Select another thread, or start a run.</Empty>;
  if (status === "failed")
    return <Failed what="Failed to load the thread" error={error ?? ""} retry={() => void session.load()} />;
  if (status === "loading" && empty) return <Loading what="checkpoints" />;
  if (empty) return <Empty title="No steps yet">Each step of a run appears here with its writes.</Empty>;
  return <Steps error={error} />;
}

function Steps({ error }: { error: string | undefined }) {
  const session = useSession();
  const tell = useTell();
  const steps = useSessionPart((s) => s.steps);
  const hasMore = useSessionPart((s) => s.hasMore);
  const running = useSessionPart(isRunning);
  const { checkpoint } = useLocation();
  const assistantFor = useAssistantFor();
  const [unfolded, setUnfolded] = useState<ReadonlySet<string>>(new Set());
  const [shown, setShown] = useState<Shown>(null);

  const tree = useMemo(() => treeOf(steps), [steps]);
  const head = headOfBranch(tree, steps, checkpoint);
  const rows = useMemo(() => rowsOf(tree, head, unfolded), [tree, head, unfolded]);
  const last = tree.byId.get(head);
  const searching = useChosen(tree, steps);

  const replay = useCallback(
    (step: Step, id = idOf(step)) => {
      go({ checkpoint: id });
      void tell.attempt(() =>
        session.submit({ assistant: assistantFor(step), input: null, checkpoint: checkpointOf(step, id) }),
      );
    },
    [session, tell, assistantFor],
  );
  const act = useCallback(
    (action: Action, step: Step) => {
      switch (action) {
        case "state":
        case "edit":
          return setShown({ what: action, step });
        case "replay":
          return replay(step);
        case "compare":
          return setShown({ what: "compare", step, with: tree.byId.get(head) ?? step });
        case "link":
          return void tell.attempt(async () => {
            const url = new URL(window.location.href);
            url.searchParams.set("thread", session.threadId ?? "");
            url.searchParams.set("checkpoint", idOf(step));
            await navigator.clipboard.writeText(url.href);
            tell("Link copied");
          });
      }
    },
    [replay, session, tell, tree, head],
  );
  const toBranch = useCallback((id: string) => go({ checkpoint: newestBelow(tree, id) }), [tree]);
  const unfold = useCallback((id: string) => setUnfolded((all) => new Set([...all, id])), []);
  const compareEnds = () => {
    const other =
      steps.find((s) => idOf(s) !== head && !tree.children.has(idOf(s))) ??
      tree.byId.get(parentOf(last ?? steps[0]!)) ??
      steps[0]!;
    setShown({ what: "compare", step: other, with: last ?? steps[0]! });
  };

  return (
    <>
      <header className="panel-head">
        <h2>Timeline</h2>
        <span className="muted small cut">
          {steps.length.toLocaleString()}
          {hasMore ? "+" : ""} checkpoints
        </span>
        <span className="grow" />
        {checkpoint ? (
          <Button kind="quiet" size="small" onClick={() => go({ checkpoint: null })}>
            Newest
          </Button>
        ) : null}
        {steps.length > 1 ? (
          <Button size="small" onClick={compareEnds}>
            <Icon name="compare" size={13} /> Compare
          </Button>
        ) : null}
      </header>
      {error ? <Notice kind="warn">{error}</Notice> : null}
      {searching ? (
        <Notice kind="warn">
          {searching === "missing" ? "The linked checkpoint is not in this thread." : "Loading the linked checkpoint…"}
        </Notice>
      ) : null}
      <List rows={rows} selected={checkpoint} onAction={act} onBranch={toBranch} onUnfold={unfold} running={running}>
        <EndOfBranch head={last} newest={steps.length === 0 || head === idOf(steps[0]!)} onContinue={replay} />
      </List>
      {shown?.what === "state" ? (
        <StateDialog
          step={shown.step}
          onClose={() => setShown(null)}
          onEdit={() => setShown({ what: "edit", step: shown.step })}
        />
      ) : null}
      {shown?.what === "edit" ? (
        <EditDialog
          step={shown.step}
          parent={tree.byId.get(parentOf(shown.step))}
          assistant={assistantFor(shown.step)}
          onClose={() => setShown(null)}
          onForked={(id, on) => {
            setShown(null);
            if (on) replay(shown.step, id);
            else go({ checkpoint: id });
          }}
        />
      ) : null}
      {shown?.what === "compare" ? (
        <CompareDialog left={shown.step} right={shown.with} steps={steps} tree={tree} onClose={() => setShown(null)} />
      ) : null}
    </>
  );
}

/**
 * useAssistantFor returns the assistant that continues from a step: the selected one if it has the step's graph, or
 * else the one that ran it.
 */
function useAssistantFor(): (step: Step) => string {
  const chosen = useAssistant();
  const { data } = useAssistants();
  return useCallback(
    (step: Step) => {
      const { graph_id, assistant_id } = metaOf(step);
      if (!chosen || (graph_id && chosen.graph_id !== graph_id)) {
        const ran = data?.find((a) => a.assistant_id === assistant_id) ?? data?.find((a) => a.graph_id === graph_id);
        if (ran) return ran.assistant_id;
      }
      return chosen?.assistant_id ?? "";
    },
    [chosen, data],
  );
}
