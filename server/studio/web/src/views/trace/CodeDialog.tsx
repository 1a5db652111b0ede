import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useConnection } from "../../app/connection";
import { useSession, useSessionPart } from "../../data/session";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { Loading } from "../../ui/States";
import { TabBar } from "../../ui/Tabs";
import { useTell } from "../../ui/Toast";
import { metaOf } from "../timeline/step";
import { bodyOf, curl, goProgram, python, type Request } from "./code";
import type { StoredRun } from "./spans";

type Language = "curl" | "go" | "python";
const languages: Record<Language, { label: string; of(r: Request): string }> = {
  curl: { label: "curl", of: curl },
  go: { label: "Go", of: goProgram },
  python: { label: "Python", of: python },
};

/** CodeDialog shows the request that started a run, for use elsewhere. */
export function CodeDialog({ run, assistant, onClose }: { run: StoredRun; assistant: string; onClose(): void }) {
  const session = useSession();
  const { url, apiKey } = useConnection();
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
  const request: Request = {
    url,
    thread: session.threadId ?? "",
    key: !!apiKey,
    body: bodyOf(id, stored.data?.kwargs, sent, run.steps),
  };
  const text = languages[language].of(request);
  return (
    <Dialog
      wide
      open
      title="Copy run as code"
      onClose={onClose}
      foot={
        <Button
          kind="primary"
          disabled={stored.isLoading}
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
      {stored.isLoading ? (
        <Loading what="the run" />
      ) : (
        <pre className="trace-code" tabIndex={0} aria-label={`The run in ${languages[language].label}`}>
          {text}
        </pre>
      )}
      <p className="muted small">Sends the same request to the same thread. Keys and other secrets are omitted.</p>
    </Dialog>
  );
}
