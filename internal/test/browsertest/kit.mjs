// What scripts that drive pages share: their checks, and a Chromium to run them in.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus, loadavg } from "node:os";
import { isDeepStrictEqual } from "node:util";
import { chromium } from "playwright-core";

const checks = [];

// colors are those of the pages: light or dark.
const colors = process.env.TREADLE_TEST_COLORS ?? "light";

// patience is by how much longer things may take while other programs use the processors.
export const patience = () => Math.min(8, Math.max(1, loadavg()[0] / cpus().length));

// check adds a check. It gets:
//   page     a page in a profile that no other check has
//   another  a function that opens one more page in this profile
//   allow    a function that takes a regular expression: errors on the console that match it do not fail the check
//   trust    a function that takes one more origin that pages may ask
//   later    a function that takes a function to call when the check has ended
export function check(name, run) {
  checks.push({ name, run });
}

// run runs all checks whose name begins with only, several at a time, prints a line of JSON for each, and ends the
// process. With origins, a check fails if its pages ask another one for something.
export async function run({ jobs = 2, timeout = 120_000, only = "", origin } = {}) {
  const origins = origin && [origin].flat();
  const browser = await chromium.launch({
    executablePath: process.env.TREADLE_TEST_CHROMIUM ?? "/usr/bin/chromium",
    chromiumSandbox: process.env.TREADLE_TEST_SANDBOX === "true",
  });
  const queue = checks.filter((c) => c.name.startsWith(only));
  let failed = false;
  const work = async () => {
    for (let c = queue.shift(); c; c = queue.shift()) {
      const error = await runCheck(browser, c, timeout, origins);
      failed ||= error !== undefined;
      console.log(JSON.stringify({ name: c.name, ok: error === undefined, error }));
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  await browser.close();
  process.exit(failed ? 1 : 0);
}

// runCheck returns what is wrong, if anything is.
async function runCheck(browser, c, limit, origins) {
  const timeout = limit * patience();
  const context = await browser.newContext({ colorScheme: colors });
  context.setDefaultTimeout(timeout / 3);
  const errors = [];
  const allowed = [];
  const trusted = origins && [...origins];
  const ends = [];
  context.on("weberror", (e) => errors.push(`exception in the page: ${e.error().stack ?? e.error()}`));
  context.on("console", (m) => {
    if (m.type() === "error" || m.type() === "warning")
      errors.push(`${m.type()} on the console: ${m.text()} (${m.location().url})`);
  });
  context.on("request", (r) => {
    if (trusted && /^(http|ws)s?:/.test(r.url()) && !trusted.some((o) => r.url().startsWith(o + "/")))
      errors.push(`a request to another origin: ${r.url()}`);
  });
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end after ${timeout / 1000} s`)), timeout);
  });
  try {
    const page = await context.newPage();
    const kit = {
      page,
      another: () => context.newPage(),
      allow: (pattern) => allowed.push(pattern),
      trust: (origin) => trusted?.push(origin),
      later: (fn) => ends.push(fn),
    };
    await Promise.race([c.run(kit), late]);
  } catch (err) {
    allowed.length = 0; // what was allowed may be the reason
    const shown = await Promise.all(
      context.pages().map((p) => p.innerText("body", { timeout: 1000 }).catch(() => "(no page)")),
    );
    errors.unshift(`${err?.stack ?? err}\nshown:\n${shown.join("\n---\n")}`);
  }
  clearTimeout(timer);
  for (const end of ends) await end();
  const wrong = errors.filter((e) => !allowed.some((pattern) => pattern.test(e)));
  // Requests in flight are given up with the page; what it says about that is no error of the check.
  for (const p of context.pages()) await p.unrouteAll({ behavior: "ignoreErrors" });
  await context.close();
  return wrong.length ? wrong.join("\n").slice(0, 8000) : undefined;
}

// same compares two values.
export function same(got, want, about = "values differ") {
  assert.deepEqual(got, want, `${about}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

// becomes calls fn until it returns what is wanted: pages show what happened a moment later.
export async function becomes(fn, want, about, ms = 40_000) {
  for (const end = Date.now() + ms * patience(); ; await sleep(20)) {
    const got = await fn();
    if (isDeepStrictEqual(got, want)) return;
    if (Date.now() > end) same(got, want, about);
  }
}

// slowness is by how much slower this machine is than one that figures are given for; at least 1.
export function slowness() {
  const times = Array.from({ length: 8 }, () => {
    const before = process.cpuUsage();
    spend(10_000_000);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  });
  return Math.max(1, Math.min(...times) / 15);
}

function spend(times) {
  let n = 0;
  for (let i = 0; i < times; i++) n = (Math.imul(n, 31) + i) | 0;
  return n;
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// until calls fn until it returns something, and returns it.
export async function until(fn, what, ms = 40_000) {
  for (const end = Date.now() + ms * patience(); ; await sleep(20)) {
    const value = await fn();
    if (value !== undefined && value !== null && value !== false) return value;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
  }
}

// write replaces the text of a code editor. An editor that appears, or takes the focus, at the same moment may lose the
// selection that the new text is to replace, so the text is read back.
export async function write(editor, text) {
  await until(async () => {
    await editor.fill(text);
    return (await editor.innerText()).trim() === text;
  }, `the editor to have ${text}`);
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// barriers returns what keeps people who use a keyboard or a screen reader, or who see little, from using the page, as
// axe finds it: all but the minor ones, a line each. The page is inspected in light and, unless dark is false, in dark
// colours.
export async function barriers(page, { dark: both = true } = {}) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const found = await violations(page);
  if (!both || colors === "dark") return found;
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await violations(page);
  await page.emulateMedia({ colorScheme: colors });
  return [...found, ...dark.map((line) => "in dark colours: " + line)];
}

function violations(page) {
  return page.evaluate(async () => {
    // A transition in progress has colours that are neither those before nor those after it.
    const ends = document.getAnimations().filter((a) => a.effect.getComputedTiming().endTime !== Infinity);
    await Promise.allSettled(ends.map((a) => a.finished));
    const { violations } = await window.axe.run(document, {
      resultTypes: ["violations"],
      rules: { "target-size": { enabled: true } },
    });
    return violations
      .filter((v) => v.impact !== "minor")
      .flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(" ")}: ${n.failureSummary.replaceAll("\n", " ")}`));
  });
}
