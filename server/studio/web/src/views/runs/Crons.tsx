import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { useAssistants, useConnection } from "../../app/connection";
import { go, hrefOf } from "../../app/location";
import type { ListedCron } from "../../data/client";
import { messageOf } from "../../data/errors";
import { Button } from "../../ui/Button";
import { Confirm } from "../../ui/Dialog";
import { ago, clock, short } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import { JsonView } from "../../ui/JsonView";
import { Empty, Failed, Loading, Notice } from "../../ui/States";
import { useTell } from "../../ui/Toast";
import { useNow } from "../../ui/useNow";
import { CronDialog } from "./CronDialog";
import { inWords } from "./schedule";

export const cronsKey = (url: string) => [url, "crons"];

/** Crons shows the schedules on which the server starts runs. */
export function Crons() {
  const { client, url } = useConnection();
  const cache = useQueryClient();
  const [creating, setCreating] = useState(false);
  const q = useQuery({
    queryKey: cronsKey(url),
    queryFn: ({ signal }) => client.listCrons(signal),
    refetchInterval: (q) => (q.state.error && !q.state.data ? false : 5_000),
  });
  const sorted = useSorted(q.data);
  const changed = () => cache.invalidateQueries({ queryKey: cronsKey(url) });
  const create = (
    <Button kind="primary" onClick={() => setCreating(true)}>
      <Icon name="plus" /> Create cron
    </Button>
  );
  const dialog = creating ? (
    <CronDialog onClose={() => setCreating(false)} onCreated={() => (setCreating(false), void changed())} />
  ) : null;
  if (q.isPending) return <Loading what="crons" />;
  if (!q.data) {
    const status = (q.error as { status?: number } | null)?.status;
    if (status && status >= 400 && status !== 500)
      return <Empty title="Crons unavailable">This server does not support crons: {messageOf(q.error)}</Empty>;
    return <Failed what="Failed to load crons" error={messageOf(q.error)} retry={() => void q.refetch()} />;
  }
  if (q.data.length === 0)
    return (
      <>
        <Empty title="No crons yet" action={create}>
          A cron starts runs on a schedule: a report every morning, or a mailbox check every five minutes.
        </Empty>
        {dialog}
      </>
    );
  return (
    <>
      <div className="runs-groups">
        <p className="muted small grow">Sorted by next run.</p>
        {create}
      </div>
      {q.isError ? <Notice kind="warn">{messageOf(q.error)} You see what was loaded before.</Notice> : null}
      <div className="runs-list">
        <ul className="runs-crons" aria-label="Crons">
          {sorted.map((c) => (
            <CronRow key={c.cron_id} cron={c} onChanged={changed} />
          ))}
        </ul>
      </div>
      {dialog}
    </>
  );
}

/**
 * useSorted sorts by next run, and sorts again only when a cron is added, so that rows do not move under the pointer.
 */
function useSorted(crons: ListedCron[] = []): ListedCron[] {
  const order = useRef(new Map<string, number>());
  if (crons.some((c) => !order.current.has(c.cron_id))) {
    const next = [...crons].sort(
      (a, b) =>
        Number(b.enabled !== false) - Number(a.enabled !== false) ||
        (a.next_run_date ?? "9").localeCompare(b.next_run_date ?? "9"),
    );
    order.current = new Map(next.map((c, i) => [c.cron_id, i]));
  }
  const place = order.current;
  return [...crons].sort((a, b) => (place.get(a.cron_id) ?? 0) - (place.get(b.cron_id) ?? 0));
}

function CronRow({ cron, onChanged }: { cron: ListedCron; onChanged(): Promise<void> }) {
  const { client } = useConnection();
  const { data: assistants } = useAssistants();
  const tell = useTell();
  const now = useNow(5_000);
  const [asking, ask] = useState(false);
  const [open, setOpen] = useState(false);
  // The clicked value, until the server has confirmed it.
  const [wanted, want] = useState<boolean | null>(null);
  const enable = async (on: boolean) => {
    want(on);
    await tell.attempt(() => client.crons.update(cron.cron_id, { enabled: on }));
    await onChanged();
    want(null);
  };
  const name = assistants?.find((a) => a.assistant_id === cron.assistant_id)?.name ?? short(cron.assistant_id);
  // Servers that cannot disable a cron do not report that it is enabled.
  const enabled = wanted ?? cron.enabled !== false;
  const ended = !cron.next_run_date || (!!cron.end_time && new Date(cron.end_time).getTime() < now);
  const words = inWords(cron.schedule);
  return (
    <li className="runs-cron" data-off={!enabled || undefined}>
      <div className="runs-row">
        <label className="runs-switch">
          <input
            type="checkbox"
            role="switch"
            aria-label={`${name}: ${words}`}
            checked={enabled}
            onChange={(e) => void enable(e.target.checked)}
          />
          <span aria-hidden />
        </label>
        <div className="runs-what">
          <span className="runs-words">
            {words} <code className="muted">{cron.schedule}</code>
          </span>
          <span className="muted small">
            {name} · {cron.timezone || "UTC"}
            {cron.thread_id ? (
              <>
                {" · on thread "}
                <a
                  href={hrefOf({ view: "graph", thread: cron.thread_id })}
                  onClick={(e) => (e.preventDefault(), go({ view: "graph", thread: cron.thread_id ?? null }))}
                >
                  {short(cron.thread_id)}
                </a>
              </>
            ) : null}
            {cron.end_time ? ` · until ${clock(cron.end_time)}` : ""}
          </span>
          <span className="small">
            {!enabled
              ? "Disabled"
              : ended
                ? "It is over"
                : `Next ${ago(cron.next_run_date, now)}, ${clock(cron.next_run_date)}`}
          </span>
        </div>
        <div className="runs-actions">
          <Button size="small" aria-expanded={open} onClick={() => setOpen(!open)}>
            Input
          </Button>
          <Button size="small" kind="danger" onClick={() => ask(true)}>
            <Icon name="trash" size={14} /> Delete
          </Button>
        </div>
      </div>
      {open ? <JsonView value={cron.payload?.input ?? null} /> : null}
      <Confirm
        title="Delete this cron?"
        action="Delete cron"
        open={asking}
        onClose={() => ask(false)}
        onConfirm={() => void tell.attempt(() => client.crons.delete(cron.cron_id)).then(onChanged)}
      >
        <p>
          {name} no longer runs on the schedule “{words.toLowerCase()}”. Runs that have started continue.
        </p>
      </Confirm>
    </li>
  );
}
