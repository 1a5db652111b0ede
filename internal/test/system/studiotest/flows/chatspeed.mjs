// How fast the chat is. The check is alone, so that it measures the page and not another check.
import os from "node:os";
import { becomes, check, run, slowness } from "../../../browsertest/kit.mjs";

const url = process.argv[2];

// mainTasks are the tasks of a page's main thread in a trace, each with its milliseconds by the clock and on the
// processor.
function mainTasks(trace) {
  const events = trace.traceEvents.filter((e) => e.ph === "X");
  const scripts = new Map();
  for (const e of events)
    if (e.name === "FunctionCall") scripts.set(`${e.pid} ${e.tid}`, (scripts.get(`${e.pid} ${e.tid}`) ?? 0) + 1);
  const [main] = [...scripts].sort((a, b) => b[1] - a[1])[0];
  return events
    .filter((e) => /RunTask$/.test(e.name) && `${e.pid} ${e.tid}` === main)
    .map((e) => ({ wall: e.dur / 1000, cpu: (e.tdur ?? 0) / 1000 }));
}

check("2,000 tokens stream without a frame longer than 100 ms", async ({ page }) => {
  await page.goto(`${url}/studio/?view=chat&assistant=talker`);
  const field = page.getByRole("textbox", { name: "Message", exact: true });
  const sent = page.getByRole("button", { name: "Send", exact: true });
  await field.fill("hello");
  await field.press("Enter");
  await page.getByText(/Answer \d+ to: hello/).waitFor();
  await sent.waitFor();
  await page.evaluate(() => {
    window.frames_ = 0;
    const frame = () => requestAnimationFrame(frame, window.frames_++);
    frame();
  });
  const browser = page.context().browser();
  await browser.startTracing(page, {
    categories: ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"],
  });
  await field.fill("tokens 2000");
  await field.press("Enter");
  await page.getByText(/w1999/).waitFor();
  await sent.waitFor();
  const tasks = mainTasks(JSON.parse((await browser.stopTracing()).toString()));
  const frames = await page.evaluate(() => window.frames_);
  const words = async () => (await page.locator(".chat-ai .markdown").last().innerText()).split(/\s+/).filter(Boolean);
  await becomes(
    words,
    Array.from({ length: 2000 }, (_, i) => "w" + i),
  );
  if (frames < 40) throw new Error(`only ${frames} frames were drawn`);
  // Where other processes use all processors, only time on a processor tells about the page.
  const idle = os.loadavg()[0] < os.cpus().length;
  const longest = Math.max(...tasks.map((t) => (idle ? t.wall : t.cpu)));
  if (longest > 100 * slowness()) throw new Error(`a task took ${longest} ms`);
});

await run({ jobs: 1, origin: url });
