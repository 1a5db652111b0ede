// Answering the questions of all threads in one place.
import { becomes, same, until } from "../../../browsertest/kit.mjs";
import { proxy } from "../../../browsertest/proxy.mjs";
import { barriers, check, run, server, studio } from "../flow.mjs";
import { api } from "../scenes.mjs";

// waiting returns a thread that waits at its first question.
async function waiting(assistant, name) {
  const { thread_id } = await api(server, "POST", "/threads", { metadata: { thread_name: name } });
  await api(server, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id: assistant, input: {} });
  return {
    id: thread_id,
    answers: (n) =>
      until(async () => {
        const { values } = await api(server, "GET", `/threads/${thread_id}/state`);
        return values.answers?.length >= n ? values.answers : null;
      }, `${n} answers`),
  };
}

const of = (page, name) => page.getByRole("article", { name, exact: true });
const badge = (page) => page.getByRole("navigation", { name: "Views" }).getByTitle(/question/);

for (const latency of [0, 60]) {
  check(
    `questions of several graphs are answered in the inbox, with ${latency} ms latency`,
    async ({ page, later }) => {
      const net = await proxy(server, later);
      net.slow(latency);
      const survey = await waiting("survey", `Survey ${latency}`);
      const mail = await waiting("inbox", `Mail ${latency}`);
      await page.goto(studio("view=inbox", net.url));
      const [asks, approves] = [of(page, `Survey ${latency}`), of(page, `Mail ${latency}`)];
      await asks.getByText("4 questions wait for an answer").waitFor();
      await badge(page).waitFor();
      await approves.getByRole("button", { name: "Approve" }).click();
      await approves.waitFor({ state: "detached" });
      same(await mail.answers(1), ['[{"type":"accept","args":null}]']);
      await asks.getByRole("button", { name: "green" }).click();
      await asks.getByRole("button", { name: "Answer 1" }).click();
      await asks.getByText("3 questions wait for an answer").waitFor();
      same(await survey.answers(1), ['colour="green"']);
      await asks.getByRole("link", { name: `Survey ${latency}` }).click();
      await becomes(() => new URL(page.url()).searchParams.get("thread"), survey.id);
      await page.getByRole("region", { name: "Interrupts" }).waitFor();
    },
  );
}

check("an answer that comes too late is rejected and reaches no other question", async ({ page, allow }) => {
  allow(/409|422/);
  const mail = await waiting("inbox", "Late mail");
  await page.goto(studio("view=inbox"));
  const asks = of(page, "Late mail");
  await asks.getByRole("button", { name: "Approve" }).waitFor();
  const resume = [{ type: "ignore", args: null }];
  await api(server, "POST", `/threads/${mail.id}/runs/wait`, { assistant_id: "inbox", command: { resume } });
  await asks.getByRole("button", { name: "Approve" }).click();
  await asks.waitFor({ state: "detached" });
  same(await mail.answers(1), ['[{"type":"ignore","args":null}]']);
});

check(
  "a thread that sleeps asks nothing",
  async ({ page }) => {
    const nap = await waiting("nap", "A nap");
    await waiting("inbox", "Awake");
    await page.goto(studio("view=inbox"));
    await of(page, "Awake").waitFor();
    same(await of(page, "A nap").count(), 0);
    await page.goto(studio({ assistant: "nap", thread: nap.id }));
    await page.getByText(/^sleep sleeps until/).waitFor();
    same(await page.getByRole("region", { name: "Interrupts" }).count(), 0);
  },
  { deviates: "threads that sleep" },
);

// page100 is a page of threads that is full, whose threads wait if they have questions.
const page100 = (offset, asks) =>
  Array.from({ length: 100 }, (_, i) => ({
    thread_id: `00000000-0000-4000-8000-${String(offset + i).padStart(12, "0")}`,
    created_at: "2026-01-01T00:00:00Z",
    updated_at: "2026-01-01T00:00:00Z",
    metadata: { graph_id: asks ? "asks" : "paused", thread_name: `thread ${offset + i}` },
    status: "interrupted",
    interrupts: asks ? { task: [{ id: `q${offset + i}`, value: "Really?" }] } : {},
  }));

// interrupted makes the server return pages of interrupted threads.
const interrupted = (page, pages) =>
  page.route("**/threads/search", (r) => {
    const { status, offset = 0 } = r.request().postDataJSON();
    return status === "interrupted" ? r.fulfill({ json: pages[offset / 100] ?? [] }) : r.continue();
  });

check("the inbox says when there are more questions than it shows", async ({ page }) => {
  await interrupted(page, [page100(0, true), page100(100, true).slice(0, 7)]);
  await page.goto(studio("view=inbox"));
  await page.getByRole("heading", { name: "100+ threads wait for an answer" }).waitFor();
  await page.getByTitle("100+ questions wait").waitFor();
  await page.getByRole("button", { name: "Load more" }).click();
  await page.getByRole("heading", { name: "107 threads wait for an answer" }).waitFor();
  await page.getByTitle("107 questions wait").waitFor();
  same(await page.getByRole("button", { name: "Load more" }).count(), 0);
});

check("the inbox looks for questions behind threads that ask nothing", async ({ page }) => {
  await interrupted(page, [page100(0, false), page100(100, false), page100(200, true).slice(0, 3)]);
  await page.goto(studio("view=inbox&graph=other"));
  await page.getByRole("heading", { name: "3 threads wait for an answer" }).waitFor();
  await page.getByText("No thread of other waits for an answer.").waitFor();
  await page.getByRole("combobox", { name: "Graph" }).selectOption("asks");
  await of(page, "thread 200").waitFor();
  same(new URL(page.url()).searchParams.get("graph"), "asks");
});

check("the badge shows that questions could not be loaded", async ({ page, allow }) => {
  allow(/500/);
  let failing = true;
  await page.route("**/threads/search", (r) =>
    failing && r.request().postDataJSON().status === "interrupted"
      ? r.fulfill({ status: 500, json: { detail: "the disk is full" } })
      : r.continue(),
  );
  await page.goto(studio("view=runs"));
  await page.getByTitle("Failed to load questions: the disk is full").waitFor();
  await page.getByRole("button", { name: /^Inbox/ }).click();
  await page.getByRole("heading", { name: "Failed to load questions" }).waitFor();
  failing = false;
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("heading", { name: /wait/ }).waitFor();
});

check("the inbox has no barriers", async ({ page }) => {
  await waiting("survey", "Barriers");
  await page.goto(studio("view=inbox"));
  await of(page, "Barriers").waitFor();
  same(await barriers(page), []);
});

await run({ origin: undefined });
