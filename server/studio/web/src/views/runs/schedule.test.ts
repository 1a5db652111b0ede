import { expect, test } from "vitest";
import { inWords, nextTimes, parseSchedule } from "./schedule";

test.each([
  ["* * * * *", "Every minute"],
  ["*/10 * * * *", "Every 10 minutes"],
  ["0 * * * *", "Every hour"],
  ["30 */2 * * *", "At minute 30 of every 2 hours"],
  ["*/5 9-17 * * *", "Every 5 minutes from 09:00 to 17:59"],
  ["30 7 * * 1-5", "At 07:30 on Monday to Friday"],
  ["0 8,20 * * 0", "At 08:00 and 20:00 on Sunday"],
  ["0 8 * * 7", "At 08:00 on Sunday"],
  ["0 0 1 jan,Jul *", "At 00:00 on day 1 of the month in January and July"],
  ["0 0 1 * mon", "At 00:00 on day 1 of the month and every Monday"],
  ["5,10 1-9 * * *", "At minute 5 and 10 of the hours 1, 2, 3, 4, 5, 6, 7, 8 and 9"],
  ["@daily", "At @daily"],
])("inWords describes %s", (text, want) => expect(inWords(text)).toBe(want));

test.each(["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "*/0 * * * *"])(
  "parseSchedule rejects %j",
  (text) => expect(parseSchedule(text)).toBeNull(),
);
test.each(["5-1 * * * *", "1/2/3 * * * *", "1-2-3 * * * *", "a * * * *", "* * * * L"])(
  "parseSchedule rejects %j",
  (text) => expect(parseSchedule(text)).toBeNull(),
);

const times = (text: string, after: string, zone = "UTC", count = 3) =>
  nextTimes(parseSchedule(text)!, count, zone, Date.parse(after)).map((d) => d.toISOString().slice(0, 16));

test.each([
  ["30 7 * * *", "2026-01-01T07:30:00Z", "UTC", ["2026-01-02T07:30", "2026-01-03T07:30", "2026-01-04T07:30"]],
  ["0 0 29 2 *", "2026-01-01T00:00:00Z", "UTC", ["2028-02-29T00:00"]],
  ["0 0 31 2 *", "2026-01-01T00:00:00Z", "UTC", []],
  ["0 9 13 * fri", "2026-02-01T00:00:00Z", "UTC", ["2026-02-06T09:00", "2026-02-13T09:00", "2026-02-20T09:00"]],
  ["0 9 * * *", "2026-07-01T00:00:00Z", "Europe/Berlin", ["2026-07-01T07:00", "2026-07-02T07:00", "2026-07-03T07:00"]],
  ["0 9 * * *", "2026-01-01T00:00:00Z", "Europe/Berlin", ["2026-01-01T08:00", "2026-01-02T08:00", "2026-01-03T08:00"]],
])("%s after %s in %s", (text, after, zone, want) => expect(times(text, after, zone)).toEqual(want));

test("a time that clocks skip in spring is left out", () => {
  expect(times("30 2 * * *", "2026-03-28T12:00:00Z", "Europe/Berlin", 2)).toEqual([
    "2026-03-30T00:30",
    "2026-03-31T00:30",
  ]);
});

test("an unknown time zone throws", () => {
  expect(() => times("* * * * *", "2026-01-01T00:00:00Z", "Mars/Base")).toThrow(/time zone/i);
});
