// How the views look: in both themes, on a wide and on a narrow screen, for everybody.
import { barriers, check, run, same } from "../../browsertest/kit.mjs";
import { prepare, settled } from "../scenes.mjs";

const scenes = await prepare(process.argv[2]);

for (const { name, address } of scenes) {
  check(name, async ({ page }) => {
    for (const size of [{ width: 1440, height: 900 }, { width: 360, height: 740 }]) {
      await page.setViewportSize(size);
      await page.goto(address);
      await settled(page);
      same(await barriers(page), [], `barriers at ${size.width} pixels`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      if (wide > size.width) throw new Error(`the page is ${wide} pixels wide on a screen of ${size.width}`);
    }
  });
}

await run({ origin: process.argv[2] });
