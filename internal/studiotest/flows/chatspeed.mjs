// How fast the chat is. The checks are alone, so that they measure the page and not each other.
import { check, run, same } from "../../browsertest/kit.mjs";

const url = process.argv[2];

check("2,000 tokens stream without a frame longer than 100 ms", async ({ page }) => {
  await page.goto(`${url}/studio/?view=chat&assistant=talker`);
  const field = page.getByRole("textbox", { name: "Message", exact: true });
  await field.fill("hello");
  await field.press("Enter");
  await page.getByText(/Answer \d+ to: hello/).waitFor();
  await page.getByRole("button", { name: "Send", exact: true }).waitFor();
  await page.evaluate(() => {
    window.tasks = [];
    window.frames = [];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((e) => Math.round(e.duration)))).observe({ type: "longtask" });
    let last = performance.now();
    const frame = (now) => {
      window.frames.push(now - last);
      last = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  await field.fill("tokens 2000");
  await field.press("Enter");
  await page.getByText(/w1999/).waitFor();
  await page.getByRole("button", { name: "Send", exact: true }).waitFor();
  const { tasks, frames } = await page.evaluate(() => ({ tasks: window.tasks, frames: window.frames }));
  const words = (await page.locator(".chat-ai .markdown").last().innerText()).split(/\s+/).filter(Boolean);
  same(words.length, 2000);
  console.error(`long tasks: ${JSON.stringify(tasks)}; ${frames.length} frames, the longest took ${Math.round(Math.max(...frames))} ms`);
  if (frames.length < 60) throw new Error(`only ${frames.length} frames were drawn`);
  const long = tasks.filter((t) => t > 100);
  same(long, [], "tasks longer than 100 ms");
});

await run({ jobs: 1 });
