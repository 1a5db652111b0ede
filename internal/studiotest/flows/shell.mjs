// The page around the views.
import { becomes, check, run, same } from "../../browsertest/kit.mjs";

const studio = process.argv[2] + "/studio/";

check("the studio opens and names its server", async ({ page }) => {
  await page.goto(studio);
  await page.getByRole("button", { name: /Connected/ }).waitFor();
  same(await page.title(), "Treadle Studio");
});

check("views and assistants have addresses", async ({ page }) => {
  await page.goto(studio);
  await page.getByRole("button", { name: "Store" }).click();
  await becomes(() => new URL(page.url()).searchParams.get("view"), "store");
  await page.goBack();
  await becomes(() => new URL(page.url()).searchParams.get("view"), null);
});

check("colours can be chosen and are kept", async ({ page }) => {
  await page.goto(studio);
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  await page.getByRole("button", { name: /Colours/ }).click();
  await becomes(theme, "light");
  await page.getByRole("button", { name: /Light colours/ }).click();
  await becomes(theme, "dark");
  await page.reload();
  await becomes(theme, "dark");
});

await run({ only: process.argv[3], origin: process.argv[2] });
