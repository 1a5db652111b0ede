// What somebody does who has just run "treadle dev" and read nothing: talks to the demo, answers its question, changes
// what was said, pauses a graph, edits its state and forks.
import { check, run, until, write } from "../../browsertest/kit.mjs";

const studio = process.argv[2] + "/studio/";

async function assistant(page, name) {
  await page.locator(".app-assistant").click();
  await page.getByRole("menuitem", { name, exact: true }).click();
}

check("the demo is talked to, asks, and what was said is edited", async ({ page }) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(studio);
  await assistant(page, "agent");
  await page.getByRole("button", { name: "Chat", exact: true }).click();
  const field = page.getByRole("textbox", { name: "Message", exact: true });
  const say = async (text) => {
    await page.getByRole("button", { name: "Send", exact: true }).waitFor();
    await field.fill(text);
    await field.press("Enter");
  };
  await say("what is 6 * 7");
  await page
    .getByText(/\b42\b/)
    .last()
    .waitFor();
  await say("note shopping: milk");
  await page.getByText("Write the note shopping.md?").waitFor();
  await page.getByRole("button", { name: "No", exact: true }).click();
  await page.getByText("I did not write shopping.md.").waitFor();
  await page.getByRole("button", { name: "Send", exact: true }).waitFor();
  const first = page
    .getByRole("listitem")
    .filter({ has: page.locator(".chat-human") })
    .first();
  await first.hover();
  await first.getByRole("button", { name: "Edit and resend" }).click();
  await page.getByRole("textbox", { name: "Edited message" }).fill("what is 6 * 8");
  await page.getByRole("button", { name: "Resend", exact: true }).click();
  await page
    .getByText(/\b48\b/)
    .last()
    .waitFor();
  await page.getByRole("group", { name: "Branches" }).getByText("2/2").waitFor();
});

check("a graph of the demo is paused, edited and forked", async ({ page }) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(studio);
  await assistant(page, "essay");
  await page.getByRole("button", { name: "Node draft", exact: true }).hover();
  await page.getByRole("button", { name: "Pause before draft" }).click();
  await page.getByLabel("topic").fill("owls");
  await page.getByRole("button", { name: "Submit", exact: true }).click();
  await page.getByText("next: draft", { exact: true }).waitFor();
  const step = page.getByRole("article", { name: /^Step \d+$/ }).last();
  const name = await step.getAttribute("aria-label");
  await page.getByRole("button", { name: `Actions of ${name}`, exact: true }).click();
  await page.getByRole("menuitem", { name: "Edit and fork" }).click();
  const dialog = page.getByRole("dialog");
  await write(dialog.getByRole("textbox", { name: "Values" }), '{"topic": "cats"}');
  await dialog.getByRole("button", { name: "Fork", exact: true }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("form", { name: "Run" }).getByRole("button", { name: "Continue" }).click();
  await until(
    async () => /On cats, with/.test(await page.locator("body").innerText()),
    "a draft on the topic of the fork",
  );
});

await run({ jobs: 1 });
