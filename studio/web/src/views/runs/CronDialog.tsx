import { useMemo, useState } from "react";
import { useAssistant, useAssistants, useConnection } from "../../app/connection";
import { asObject } from "../../data/items";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { JsonEditor, parse } from "../../ui/JsonEditor";
import { useTell } from "../../ui/Toast";
import { inWords, nextTimes, parseSchedule } from "./schedule";

const own = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const zones = ["UTC", ...Intl.supportedValuesOf("timeZone")];

/** CronDialog asks for a new cron. */
export function CronDialog({ onClose, onCreated }: { onClose(): void; onCreated(): void }) {
  const { client, request } = useConnection();
  const { data: assistants = [] } = useAssistants();
  const chosen = useAssistant();
  const tell = useTell();
  const [assistant, setAssistant] = useState(chosen?.assistant_id ?? "");
  const [schedule, setSchedule] = useState("0 9 * * 1-5");
  const [zone, setZone] = useState(own);
  const [end, setEnd] = useState("");
  const [keep, setKeep] = useState(true);
  const [text, setText] = useState("{}");
  const [busy, setBusy] = useState(false);
  const parsed = parse(text);
  const { object, error } = parsed.error ? { error: parsed.error } : asObject(parsed.value ?? {});
  const knownZone = zones.includes(zone);
  const ready = object && assistant && schedule.trim() && knownZone;
  const save = async () => {
    if (!ready) return;
    setBusy(true);
    const payload = { schedule: schedule.trim(), input: object, onRunCompleted: keep ? ("keep" as const) : ("delete" as const) };
    const saved = await tell.attempt(async () => {
      // The SDK sends neither a zone nor an end.
      if (zone === "UTC" && !end) await client.crons.create(assistant, payload);
      else await request("POST", "/runs/crons", { assistant_id: assistant, schedule: payload.schedule, input: object, on_run_completed: payload.onRunCompleted, timezone: zone, ...(end ? { end_time: new Date(end).toISOString() } : {}) });
      return true;
    });
    setBusy(false);
    if (saved) onCreated();
  };
  return (
    <Dialog
      title="Create cron"
      open
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" busy={busy} disabled={!ready} onClick={() => void save()}>
            Create
          </Button>
        </>
      }
    >
      <div className="column runs-form">
        <label className="field">
          <span className="label">Assistant</span>
          <select className="input" value={assistant} onChange={(e) => setAssistant(e.target.value)}>
            {assistants.map((a) => (
              <option key={a.assistant_id} value={a.assistant_id}>
                {a.name}
              </option>
            ))}
          </select>
        </label>
        <label className="field">
          <span className="label">Schedule</span>
          <input className="input mono" value={schedule} onChange={(e) => setSchedule(e.target.value)} spellCheck={false} aria-describedby="cron-preview" />
        </label>
        <Preview schedule={schedule} zone={knownZone ? zone : "UTC"} />
        <div className="runs-pair">
          <label className="field">
            <span className="label">Time zone</span>
            <input className="input" list="cron-zones" value={zone} onChange={(e) => setZone(e.target.value)} spellCheck={false} />
            {knownZone ? null : <span className="wrong">There is no such time zone.</span>}
            <datalist id="cron-zones">
              {zones.map((z) => (
                <option key={z} value={z} />
              ))}
            </datalist>
          </label>
          <label className="field">
            <span className="label">Until (optional)</span>
            <input className="input" type="datetime-local" value={end} onChange={(e) => setEnd(e.target.value)} />
          </label>
        </div>
        <div className="field">
          <span className="label">Input</span>
          <JsonEditor label="Input" value={text} onChange={setText} onSubmit={() => void save()} />
          {error ? <span className="wrong">{error}</span> : null}
        </div>
        <label className="row">
          <input type="checkbox" checked={keep} onChange={(e) => setKeep(e.target.checked)} /> Keep the thread of each run
        </label>
      </div>
    </Dialog>
  );
}

function Preview({ schedule, zone }: { schedule: string; zone: string }) {
  const times = useMemo(() => {
    const s = parseSchedule(schedule);
    return s ? nextTimes(s, 3, zone) : null;
  }, [schedule, zone]);
  return (
    <div id="cron-preview" className="runs-preview" role="status">
      {times === null ? (
        <p>Five fields: minute, hour, day of the month, month, day of the week. The server says whether it can read others.</p>
      ) : (
        <>
          <p>{inWords(schedule)}</p>
          <ol aria-label="Next times">
            {times.map((t) => (
              <li key={t.getTime()}>{t.toLocaleString(undefined, { timeZone: zone, weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" })}</li>
            ))}
          </ol>
          {times.length === 0 ? <p>It is never due.</p> : null}
        </>
      )}
    </div>
  );
}
