import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useConnection, useServer } from "../../app/connection";
import { messageOf } from "../../data/errors";
import { useSession, useSessionPart } from "../../data/session";
import { idOf } from "../../data/tree";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { Loading, Notice } from "../../ui/States";
import { TabBar } from "../../ui/Tabs";
import { useTell } from "../../ui/Toast";
import { metaOf } from "../timeline/step";
import {
  bodyOf,
  curl,
  goProgram,
  goTest,
  javascript,
  problemOf,
  python,
  recipeOf,
  withoutSecrets,
  type Recipe,
} from "./code";
import type { StoredRun } from "./spans";

type Language = "curl" | "go" | "python" | "js" | "test";
const languages: Record<Language, { label: string; of(r: Recipe): string }> = {
  curl: { label: "curl", of: curl },
  go: { label: "Go", of: goProgram },
  python: { label: "Python", of: python },
  js: { label: "JavaScript", of: javascript },
  test: { label: "Go test", of: () => "" },
};

/** CodeDialog shows the request that started a run, for use elsewhere. */
export function CodeDialog({ run, assistant, onClose }: { run: StoredRun; assistant: string; onClose(): void }) {
  const session = useSession();
  const { client, url, apiKey } = useConnection();
  const tell = useTell();
  const [language, setLanguage] = useState<Language>("curl");
  const sent = useSessionPart((s) => (s.run?.id === run.id ? s.run.request : undefined));
  // The server may have deleted the run, but its checkpoints still contain the input.
  const stored = useQuery({
    queryKey: [url, "run", run.id],
    queryFn: () => session.runAt(run.id),
    enabled: !!run.id,
    retry: false,
  });
  const id = stored.data?.assistant_id ?? (metaOf(run.steps[0]!).assistant_id as string | undefined) ?? assistant;
  const all = useSessionPart((s) => s.steps);
  const graph = String(metaOf(run.steps[0]!).graph_id ?? stored.data?.metadata?.graph_id ?? id);
  const recipe = recipeOf(
    { url, key: !!apiKey, graph },
    bodyOf(id, stored.data?.kwargs, sent, run.steps),
    run.steps,
    all,
  );
  const last = run.steps.at(-1)!;
  const { info } = useServer();
  const recorded = useQuery({
    queryKey: [url, "spans with contents", session.threadId, run.id, idOf(last)],
    queryFn: ({ signal }) => client.spans(session.threadId!, run.id, signal, true),
    enabled: language === "test" && info?.flags?.spans === true && !!run.id,
  });
  const spans = recorded.data?.spans ?? [];
  const problem = language !== "test" ? "" : recorded.error ? messageOf(recorded.error) : problemOf(spans);
  const text =
    language === "test"
      ? goTest(recipe, {
          spans,
          values: withoutSecrets(last.values),
          next: last.next,
          failed: stored.data?.status === "error" || stored.data?.status === "timeout",
        })
      : languages[language].of(recipe);
  const loading = stored.isLoading || recorded.isLoading;
  return (
    <Dialog
      wide
      open
      title="Copy run as code"
      onClose={onClose}
      foot={
        <Button
          kind="primary"
          disabled={loading || !!problem}
          onClick={() => void tell.attempt(async () => (await navigator.clipboard.writeText(text), tell("Copied")))}
        >
          <Icon name="copy" /> Copy {languages[language].label}
        </Button>
      }
    >
      <TabBar<Language>
        label="Language"
        value={language}
        onChange={setLanguage}
        tabs={(Object.keys(languages) as Language[]).map((l) => ({ id: l, label: languages[l].label }))}
      />
      {loading ? (
        <Loading what="the run" />
      ) : problem ? (
        <Notice kind="warn">{problem}</Notice>
      ) : (
        <pre className="trace-code" tabIndex={0} aria-label={`The run in ${languages[language].label}`}>
          {text}
        </pre>
      )}
      {loading || problem
        ? null
        : recipe.notes.map((note) => (
            <Notice key={note} kind="warn">
              {note}
            </Notice>
          ))}
      <p className="muted small">
        {language === "test"
          ? "Runs your graph with the recorded responses of its models. Let newGraph return it."
          : "Repeats the run on a new thread."}{" "}
        Keys and other secrets are omitted.
      </p>
    </Dialog>
  );
}
