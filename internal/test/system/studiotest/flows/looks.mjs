// How the views look: in both themes, on a wide and on a narrow screen, for everybody.
import { barriers, check, run, same } from "../../../browsertest/kit.mjs";
import { prepare, settled } from "../scenes.mjs";

const scenes = await prepare(process.argv[2]);

for (const { name, address } of scenes) {
  check(name, async ({ page }) => {
    const [wide, narrow] = [
      { width: 1440, height: 900 },
      { width: 360, height: 740 },
    ];
    await page.setViewportSize(wide);
    await page.goto(address);
    for (const size of [wide, narrow]) {
      await page.setViewportSize(size);
      await settled(page);
      same(await barriers(page), [], `barriers at ${size.width} pixels`);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      if (width > size.width) throw new Error(`the page is ${width} pixels wide on a screen of ${size.width}`);
    }
  });
}

await run({ origin: process.argv[2] });
