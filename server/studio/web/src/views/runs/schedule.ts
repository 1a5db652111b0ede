// Cron schedules: in words, and their next times.

interface Field {
  values: Set<number>;
  /** Whether the field was "*". */
  any: boolean;
}

export interface Schedule {
  minute: Field;
  hour: Field;
  day: Field;
  month: Field;
  weekday: Field;
}

const months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const days = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const dayNames = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const monthNames = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];

function field(text: string, min: number, max: number, names: string[] = [], first = 0): Field | null {
  const number = (s: string): number =>
    names.includes(s.toLowerCase()) ? names.indexOf(s.toLowerCase()) + first : /^\d+$/.test(s) ? Number(s) : NaN;
  const values = new Set<number>();
  for (const part of text.split(",")) {
    const [range = "", by, more] = part.split("/");
    const step = by === undefined ? 1 : Number(by);
    const [a = "", b, c] = range === "*" ? [String(min), String(max)] : range.split("-");
    const from = number(a);
    const to = b === undefined ? (by === undefined ? from : max) : number(b);
    if (
      more !== undefined ||
      c !== undefined ||
      !Number.isInteger(step) ||
      step < 1 ||
      !(from >= min && to <= max && from <= to)
    )
      return null;
    for (let v = from; v <= to; v += step) values.add(v);
  }
  return { values, any: text === "*" };
}

/**
 * parseSchedule parses the five fields of a schedule. It returns null for syntax that servers may interpret
 * differently.
 */
export function parseSchedule(text: string): Schedule | null {
  const parts = text.trim().split(/\s+/);
  if (parts.length !== 5) return null;
  const [m, h, d, mo, w] = parts as [string, string, string, string, string];
  const minute = field(m, 0, 59);
  const hour = field(h, 0, 23);
  const day = field(d, 1, 31);
  const month = field(mo, 1, 12, months, 1);
  const weekday = field(w, 0, 7, days);
  if (!minute || !hour || !day || !month || !weekday) return null;
  if (weekday.values.delete(7)) weekday.values.add(0);
  return { minute, hour, day, month, weekday };
}

const two = (n: number) => String(n).padStart(2, "0");
const sorted = (f: Field) => [...f.values].sort((a, b) => a - b);

function list(words: string[]): string {
  return words.length < 2 ? words.join("") : words.slice(0, -1).join(", ") + " and " + words.at(-1);
}

/** stepOf returns n if a field has every n-th value, starting with its first. */
function stepOf(f: Field, size: number): number | null {
  const all = sorted(f);
  const step = all.length > 1 ? all[1]! - all[0]! : 0;
  return step > 0 && all[0] === 0 && all.every((v, i) => v === i * step) && all.length === Math.ceil(size / step)
    ? step
    : null;
}

/** inWords describes a schedule. */
export function inWords(text: string): string {
  const s = parseSchedule(text);
  if (!s) return "At " + text;
  return timeWords(s) + dayWords(s);
}

function timeWords({ minute, hour }: Schedule): string {
  const everyMinute = stepOf(minute, 60);
  const everyHour = stepOf(hour, 24);
  const allHours = hour.values.size === 24;
  if (everyMinute && allHours) return everyMinute === 1 ? "Every minute" : `Every ${everyMinute} minutes`;
  if (everyMinute) return `${everyMinute === 1 ? "Every minute" : `Every ${everyMinute} minutes`} from ${hours(hour)}`;
  const past = list(sorted(minute).map(String));
  if (everyHour) {
    const each = everyHour === 1 ? "every hour" : `every ${everyHour} hours`;
    return minute.values.size === 1 && minute.values.has(0)
      ? each[0]!.toUpperCase() + each.slice(1)
      : `At minute ${past} of ${each}`;
  }
  if (hour.values.size * minute.values.size > 6)
    return `At minute ${past} of the hours ${list(sorted(hour).map(String))}`;
  return "At " + list(sorted(hour).flatMap((h) => sorted(minute).map((m) => `${two(h)}:${two(m)}`)));
}

function hours(f: Field): string {
  const all = sorted(f);
  const first = all[0]!;
  const last = all.at(-1)!;
  return last - first === all.length - 1 ? `${two(first)}:00 to ${two(last)}:59` : `the hours ${list(all.map(String))}`;
}

function dayWords({ day, month, weekday }: Schedule): string {
  const week = sorted(weekday);
  const weekText = week.join() === "1,2,3,4,5" ? "Monday to Friday" : list(week.map((d) => dayNames[d]!));
  const dayText = `day ${list(sorted(day).map(String))} of the month`;
  const on =
    !day.any && !weekday.any
      ? ` on ${dayText} and every ${weekText}`
      : !day.any
        ? ` on ${dayText}`
        : !weekday.any
          ? ` on ${weekText}`
          : "";
  return on + (month.any ? "" : ` in ${list(sorted(month).map((m) => monthNames[m - 1]!))}`);
}

/** nextTimes returns the next times of a schedule after a time, in a time zone. */
export function nextTimes(s: Schedule, count: number, zone = "UTC", after = Date.now()): Date[] {
  const out: Date[] = [];
  const offset = offsetsOf(zone);
  // Local times are computed as if they were in UTC.
  const from = after + offset(after);
  const start = new Date(from);
  let at = Date.UTC(start.getUTCFullYear(), start.getUTCMonth(), start.getUTCDate());
  for (let n = 0; n < 366 * 5 && out.length < count; n++, at += 86_400_000) {
    if (!dueOn(s, new Date(at))) continue;
    for (const h of sorted(s.hour))
      for (const m of sorted(s.minute)) {
        const wall = at + (h * 60 + m) * 60_000;
        const time = wall - offset(wall - offset(wall));
        // A time that clocks skip in spring does not exist.
        if (wall > from && time > after && time + offset(time) === wall && out.length < count) out.push(new Date(time));
      }
  }
  return out;
}

function dueOn({ day, month, weekday }: Schedule, d: Date): boolean {
  if (!month.values.has(d.getUTCMonth() + 1)) return false;
  const byDay = day.values.has(d.getUTCDate());
  const byWeek = weekday.values.has(d.getUTCDay());
  // As in cron: if both are set, either one matches.
  return !day.any && !weekday.any ? byDay || byWeek : byDay && byWeek;
}

/** offsetsOf returns the UTC offset of a zone at a time, in milliseconds. It throws if the zone is unknown. */
function offsetsOf(zone: string): (time: number) => number {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });
  return (time) => {
    const p = Object.fromEntries(format.formatToParts(time).map((x) => [x.type, Number(x.value)])) as Record<
      string,
      number
    >;
    return Date.UTC(p.year!, p.month! - 1, p.day, p.hour, p.minute, p.second) - Math.floor(time / 1_000) * 1_000;
  };
}
