// Assistants: searching, renaming, deleting, and comparing their versions.
import { becomes, same } from "../../../browsertest/kit.mjs";
import { barriers, check, run, server, studio } from "../flow.mjs";
import { api } from "../scenes.mjs";

const dialog = (page, name) => page.getByRole("dialog", { name });
const row = (page, name) => dialog(page, "Assistants").getByRole("listitem", { name, exact: true });

async function manage(page) {
  await page.locator(".app-assistant").click();
  await page.getByRole("menuitem", { name: "Manage assistants…" }).click();
  await dialog(page, "Assistants").waitFor();
}

const create = (name, configurable) =>
  api(server, "POST", "/assistants", { graph_id: "router", name, config: { configurable } });

check("an assistant is found, renamed, and deleted", async ({ page }) => {
  const { assistant_id: id } = await create("Helper one", {});
  await create("Helper two", {});
  await page.goto(studio(`assistant=${id}`));
  await manage(page);
  const search = dialog(page, "Assistants").getByRole("searchbox", { name: "Search assistants" });
  await search.fill("router one");
  await row(page, "Helper two").waitFor({ state: "detached" });
  await row(page, "Helper one").getByText("selected").waitFor();
  same(await barriers(page), []);
  await row(page, "Helper one").getByRole("button", { name: "Rename…" }).click();
  await dialog(page, "Rename assistant").getByLabel("Name").fill("Helper uno");
  await dialog(page, "Rename assistant").getByRole("button", { name: "Rename" }).click();
  await search.fill("router uno");
  await row(page, "Helper uno").waitFor();
  same((await api(server, "GET", `/assistants/${id}`)).name, "Helper uno");

  await row(page, "Helper uno").getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("button", { name: "Delete assistant" }).click();
  await row(page, "Helper uno").waitFor({ state: "detached" });
  await search.fill("");
  await row(page, "Helper two").waitFor();
  await becomes(async () => (await fetch(`${server}/assistants/${id}`)).status, 404);
  same(new URL(page.url()).searchParams.get("assistant"), null);
});

check("the default assistant of a graph can be neither renamed nor deleted", async ({ page }) => {
  await page.goto(studio("assistant=router"));
  await manage(page);
  const fanout = row(page, "fanout");
  await fanout.getByText("default").waitFor();
  same(await fanout.getByRole("button", { name: /Rename|Delete/ }).count(), 0);
  await fanout.getByRole("button", { name: "Select" }).click();
  await becomes(() => page.locator(".app-assistant").innerText(), "fanout");
});

check("versions are compared, and an older one is used", async ({ page }) => {
  const { assistant_id: id } = await create("Versioned", { model: "small", tone: "kind" });
  await api(server, "PATCH", `/assistants/${id}`, { config: { configurable: { model: "large", tone: "kind" } } });
  await page.goto(studio(`assistant=${id}`));
  await manage(page);
  await row(page, "Versioned").getByRole("button", { name: "Versions" }).click();
  const versions = dialog(page, "Versions of Versioned");
  const second = versions.getByRole("listitem", { name: "Version 2", exact: true });
  await second.getByText("in use").waitFor();
  await second.getByText(/\.model$/).waitFor();
  await second.getByText('"small"').waitFor();
  await second.getByText('"large"').waitFor();
  same(await second.getByText(/tone/).count(), 0);
  same(await barriers(page), []);
  await versions.getByRole("listitem", { name: "Version 1", exact: true }).getByRole("button", { name: "Use" }).click();
  await becomes(async () => (await api(server, "GET", `/assistants/${id}`)).version, 1);
  await row(page, "Versioned")
    .getByText(/version 1/)
    .waitFor();
});

check("prompts in the configuration are long fields that name their nodes", async ({ page }) => {
  await page.route("**/assistants/*/schemas", async (r) => {
    const answer = await r.fetch();
    const prompt = { type: "string", langgraph_type: "prompt", langgraph_nodes: ["route"] };
    await r.fulfill({ json: { ...(await answer.json()), context_schema: { type: "object", properties: { prompt } } } });
  });
  await page.goto(studio("assistant=router"));
  await page.getByRole("tab", { name: "Config", exact: true }).click();
  await page.getByText("Used by route").waitFor();
  const field = page.getByRole("textbox", { name: "prompt" });
  const { height } = await field.boundingBox();
  if (height < 100) throw new Error(`the field of the prompt is ${height} pixels high`);
  await field.fill("Be brief.");
  await page.getByRole("button", { name: "Save as new assistant…" }).waitFor();
});

await run();
