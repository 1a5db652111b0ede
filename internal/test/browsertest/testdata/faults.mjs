// Checks of pages that have faults, and of one that has none.

import { check, run, same } from "../kit.mjs";

const faults = {
  sound: "",
  throws: "throw new Error('oops')",
  logs: "console.error('oops')",
  allowed: "console.error('oops')",
};
for (const [name, script] of Object.entries(faults)) {
  check(name, async ({ page, allow }) => {
    if (name === "allowed") allow(/oops/);
    await page.setContent(`<title>a page</title><p>hello</p><script>${script}</script>`);
    same(await page.textContent("p"), "hello");
  });
}
check("differs, which is not to be allowed", async ({ page, allow }) => {
  allow(/./);
  await page.setContent("<p>hello</p>");
  same(await page.textContent("p"), "goodbye");
});
check("differs", async ({ page }) => {
  await page.setContent("<p>hello</p>");
  same(await page.textContent("p"), "goodbye");
});
await run();
