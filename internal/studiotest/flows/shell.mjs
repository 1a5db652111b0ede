// The page around the views.
import { check, run, same } from "../../browsertest/kit.mjs";

const studio = process.argv[2] + "/studio/";

check("the studio opens and names its server", async ({ page }) => {
  const elsewhere = [];
  page.on("request", (r) => {
    if (!r.url().startsWith(process.argv[2])) elsewhere.push(r.url());
  });
  await page.goto(studio);
  await page.getByRole("button", { name: /Connected/ }).waitFor();
  same(await page.title(), "Treadle Studio");
  same(elsewhere, []);
});

check("views and assistants have addresses", async ({ page }) => {
  await page.goto(studio);
  await page.getByRole("button", { name: "Store" }).click();
  same(new URL(page.url()).searchParams.get("view"), "store");
  await page.goBack();
  same(new URL(page.url()).searchParams.get("view"), null);
});

check("colours can be chosen and are kept", async ({ page }) => {
  await page.goto(studio);
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  await page.getByRole("button", { name: /Colours/ }).click();
  same(await theme(), "light");
  await page.getByRole("button", { name: /Light colours/ }).click();
  same(await theme(), "dark");
  await page.reload();
  same(await theme(), "dark");
});

await run();
