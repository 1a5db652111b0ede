import { useMemo, useState } from "react";
import { useAssistant, useAssistants, useConnection } from "../../app/connection";
import { CreateDialog } from "../../ui/Dialog";
import { JsonEditor } from "../../ui/JsonEditor";
import { parseObject } from "../../ui/json";
import { useSave } from "../../ui/useSave";
import { inWords, nextTimes, parseSchedule } from "./schedule";

const own = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const zones = ["UTC", ...Intl.supportedValuesOf("timeZone")];

/** CronDialog creates a cron. */
export function CronDialog({ onClose, onCreated }: { onClose(): void; onCreated(): void }) {
  const { client } = useConnection();
  const { data: assistants = [] } = useAssistants();
  const chosen = useAssistant();
  const { busy, save } = useSave();
  const [assistant, setAssistant] = useState(chosen?.assistant_id ?? "");
  const [schedule, setSchedule] = useState("0 9 * * 1-5");
  const [zone, setZone] = useState(own);
  const [end, setEnd] = useState("");
  const [keep, setKeep] = useState(true);
  const [text, setText] = useState("{}");
  const { object, error } = parseObject(text.trim() || "{}");
  const knownZone = zones.includes(zone);
  const ready = !!object && assistant !== "" && schedule.trim() !== "" && knownZone;
  const create = () => {
    if (!ready) return;
    const post = () =>
      client.createCron({
        assistant_id: assistant,
        schedule: schedule.trim(),
        input: object,
        on_run_completed: keep ? "keep" : "delete",
        ...(zone === "UTC" ? {} : { timezone: zone }),
        ...(end ? { end_time: new Date(end).toISOString() } : {}),
      });
    void save(post, onCreated);
  };
  return (
    <CreateDialog title="Create cron" ready={ready} busy={busy} onCreate={create} onClose={onClose}>
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
          <input
            className="input mono"
            value={schedule}
            onChange={(e) => setSchedule(e.target.value)}
            spellCheck={false}
            aria-describedby="cron-preview"
          />
        </label>
        <Preview schedule={schedule} zone={knownZone ? zone : "UTC"} />
        <div className="runs-pair">
          <label className="field">
            <span className="label">Time zone</span>
            <input
              className="input"
              list="cron-zones"
              value={zone}
              onChange={(e) => setZone(e.target.value)}
              spellCheck={false}
            />
            {knownZone ? null : <span className="wrong">Unknown time zone.</span>}
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
          <JsonEditor label="Input" value={text} onChange={setText} onSubmit={create} />
          {error ? <span className="wrong">{error}</span> : null}
        </div>
        <label className="row">
          <input type="checkbox" checked={keep} onChange={(e) => setKeep(e.target.checked)} /> Keep the thread of each
          run
        </label>
      </div>
    </CreateDialog>
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
        <p>Five fields: minute, hour, day of the month, month, day of the week. The server may accept other formats.</p>
      ) : (
        <>
          <p>{inWords(schedule)}</p>
          <ol aria-label="Next times">
            {times.map((t) => (
              <li key={t.getTime()}>
                {t.toLocaleString(undefined, {
                  timeZone: zone,
                  weekday: "short",
                  day: "numeric",
                  month: "short",
                  year: "numeric",
                  hour: "2-digit",
                  minute: "2-digit",
                })}
              </li>
            ))}
          </ol>
          {times.length === 0 ? <p>This schedule never runs.</p> : null}
        </>
      )}
    </div>
  );
}
