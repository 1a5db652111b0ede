// What the studio says about LangGraph's own server, and differs there.
import { becomes } from "../../browsertest/kit.mjs";
import { check, run, server, studio } from "./flow.mjs";
import { api } from "./scenes.mjs";

const button = (page, name) => page.getByRole("button", { name });
const form = (page) => page.getByRole("form", { name: "Run" });
const status = (page, text) => form(page).getByText(text, { exact: true }).first().waitFor();
const threads = (page) => page.getByRole("complementary", { name: "Threads" });

check("a failed run says why, live and by link", async ({ page }) => {
  await page.goto(studio({ assistant: "failing" }));
  await page.getByLabel("message").fill("no paper");
  await button(page, "Submit").click();
  await status(page, "Failed");
  await becomes(() => form(page).locator(".run-error").innerText(), "boom: no paper");
  await button(page, /^Node boom: failed/).waitFor();
  await page.goto(studio({ assistant: "failing", thread: new URL(page.url()).searchParams.get("thread") }));
  await status(page, "Failed");
  await becomes(() => form(page).locator(".run-error").innerText(), "boom: no paper");
  await threads(page)
    .getByRole("link", { name: /Failed/ })
    .first()
    .waitFor();
});

check("the trace, the runs, and the lists say what they lack", async ({ page }) => {
  const { thread_id: id } = await api(server, "POST", "/threads", {});
  await api(server, "POST", `/threads/${id}/runs/wait`, { assistant_id: "nested", input: { value: "x" } });
  await page.goto(studio({ view: "trace", assistant: "nested", thread: id }));
  await page.getByRole("tree", { name: "Trace" }).getByText("child_one").waitFor();
  await page.getByText(/does not record calls/).waitFor();
  await page.goto(studio({ view: "runs" }));
  await page.getByText(/lists runs thread by thread/).waitFor();
  await page.getByRole("article").first().waitFor();
  await page.goto(studio({ view: "runs", part: "crons" }));
  await page.getByText("No crons yet").first().waitFor();
  await page.goto(studio({ assistant: "nested" }));
  await threads(page).getByRole("searchbox").fill("x");
  await threads(page)
    .getByText(/cannot search for text/)
    .waitFor();
});

await run();
