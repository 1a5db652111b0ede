// Takes pictures of the main views, for docs/studio/:
//
//   go run ./internal/test/system/studiotest/serve dev --port 2099 --db :memory: &
//   node internal/test/system/studiotest/screenshots.mjs http://127.0.0.1:2099 docs/studio
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { prepare, settled } from "./scenes.mjs";

const [url, dir] = process.argv.slice(2);
const { chromium } = createRequire(new URL("../../browsertest/kit.mjs", import.meta.url))("playwright-core");
const browser = await chromium.launch({
  executablePath: process.env.TREADLE_TEST_CHROMIUM ?? "/usr/bin/chromium",
  chromiumSandbox: process.getuid() !== 0,
});
mkdirSync(dir, { recursive: true });
for (const scene of await prepare(url)) {
  for (const colorScheme of ["light", "dark"]) {
    const page = await browser.newPage({
      viewport: { width: 1440, height: 900 },
      colorScheme,
      reducedMotion: "reduce",
    });
    await page.goto(scene.address);
    await settled(page);
    await page.screenshot({ path: `${dir}/${scene.name}-${colorScheme}.png` });
    await page.close();
  }
}
await browser.close();
