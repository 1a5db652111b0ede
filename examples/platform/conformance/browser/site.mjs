// What the checks of all pages share: the server, a site with the pages, and the gates at which answers wait.

import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { basename } from "node:path";
import { parseArgs } from "node:util";
import esbuild from "esbuild";
import { until } from "../../../../internal/test/browsertest/kit.mjs";

export const { values: args } = parseArgs({ options: { url: { type: "string" }, only: { type: "string", default: "" } } });
export const api = args.url;

const bundles = new Map(); // functions that return the files of a bundle by name, by the path of the page
const handlers = new Map(); // by path

// add adds a page to the site, by its name in pages or its file, with packages that replace others. The page is bundled when it is first
// opened. It returns the address.
export function add(name, page, alias) {
  let built;
  const build = async () => {
    const { outputFiles } = await esbuild.build({
      entryPoints: [page.startsWith("/") ? page : `pages/${page}.jsx`],
      entryNames: "page",
      outdir: "out",
      bundle: true,
      splitting: true, // what a package loads only if it needs it
      write: false,
      format: "esm",
      jsx: "automatic",
      alias,
      define: { "process.env.NODE_ENV": '"production"', "import.meta.env": "{}" },
      // The styles of applications need Tailwind's compiler.
      loader: { ".ttf": "dataurl", ".woff": "dataurl", ".woff2": "dataurl", ...(page.startsWith("/") && { ".css": "empty" }) },
      logLevel: "error",
    });
    return new Map(outputFiles.map((f) => [basename(f.path), f.text]));
  };
  const path = `/${encodeURIComponent(name)}`;
  bundles.set(path, () => (built ??= build()));
  return origin + path;
}

// handle adds a function that answers requests to a path of the site. It returns the address.
export function handle(path, handler) {
  handlers.set(path, handler);
  return origin + path;
}

const site = createServer(async (req, res) => {
  try {
    await answer(new URL(req.url, "http://localhost").pathname, req, res);
  } catch (err) {
    if (!res.headersSent) res.statusCode = 500;
    res.end(String(err?.stack ?? err));
  }
});

async function answer(pathname, req, res) {
  const handler = handlers.get(pathname);
  if (handler) return handler(req, res);
  const [, path, file] = /^(\/[^/]*)(?:\/(.*))?$/.exec(pathname);
  const files = await bundles.get(path)?.();
  if (!files) return res.end();
  if (file !== undefined) {
    const text = files.get(file);
    if (text === undefined) res.statusCode = 404;
    return res.setHeader("content-type", file.endsWith(".css") ? "text/css" : "text/javascript").end(text);
  }
  const style = files.has("page.css") ? `<link rel="stylesheet" href="${path}/page.css">` : "";
  const html = `<!doctype html><title>chat</title>${style}<div id="root"></div><script type="module" src="${path}/page.js"></script>`;
  return res.setHeader("content-type", "text/html").end(html);
}
await new Promise((ready) => site.listen(0, "127.0.0.1", ready));
const origin = `http://127.0.0.1:${site.address().port}`;

// get asks the server for something without an SDK.
export async function get(path, init) {
  const res = await fetch(api + path, init);
  if (!res.ok) throw new Error(`${path}: ${res.status} ${await res.text()}`);
  return res.json();
}

// gate is a place in an answer at which the model waits until it is opened.
export function gate() {
  const name = randomUUID().slice(0, 8);
  return { word: `gate:${name}`, open: () => fetch(`${api}/gates/${name}`, { method: "POST" }) };
}

// ended waits until the runs of a thread have these statuses, the latest first.
export const ended = (thread, ...want) =>
  until(
    async () => JSON.stringify((await get(`/threads/${thread}/runs`)).map((r) => r.status)) === JSON.stringify(want),
    `runs of ${thread} with the statuses ${want}`,
  );
