// Markdown from models, as safe HTML.
import DOMPurify from "dompurify";
import { Marked, type Token } from "marked";

const escaped = (s: string) =>
  s.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]!);

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    // The sanitizer removes handlers, but Chromium reports each one that it parses on the console.
    html({ text }) {
      return text.replace(/([\s/"'])on(\w+\s*=)/gi, "$1data-$2");
    },
    // The button has no handler: Markdown listens for clicks on it.
    code({ text, lang }) {
      const language = `<span>${escaped(lang?.split(/\s/)[0] ?? "")}</span>`;
      const head = `<div class="markdown-code-head">${language}<button type="button" data-copy>Copy</button></div>`;
      return `<div class="markdown-code">${head}<pre tabindex="0"><code>${escaped(text)}</code></pre></div>`;
    },
  },
});

const purify = DOMPurify(window);

/** shows reports whether the page's policy allows loading an image. */
export function shows(src: string): boolean {
  if (/^data:image\//i.test(src)) return true;
  if (!/^(https?:)?\//i.test(src)) return false;
  try {
    return new URL(src, window.location.href).origin === window.location.origin;
  } catch {
    return false;
  }
}

purify.addHook("uponSanitizeElement", (node) => {
  if (!(node instanceof Element) || node.nodeName !== "IMG") return;
  const src = node.getAttribute("src") ?? "";
  if (shows(src)) return;
  // An image from another origin becomes a link.
  const link = node.ownerDocument.createElement("a");
  link.setAttribute("href", src);
  link.textContent = node.getAttribute("alt") || "image";
  node.replaceWith(/^https?:/i.test(src) ? link : node.ownerDocument.createTextNode(node.getAttribute("alt") ?? ""));
});

purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer");
  }
  if (node.nodeName === "INPUT" && node.getAttribute("type") !== "checkbox") node.remove();
  // Text cannot imitate the page's controls.
  if (node.hasAttribute("class") && !/^markdown-code(-head)?$/.test(node.getAttribute("class")!))
    node.removeAttribute("class");
});

const words = (...lines: string[]): string[] => lines.flatMap((line) => line.split(" "));

const allowed = {
  ALLOWED_TAGS: words(
    "a b blockquote br button code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img input kbd li mark",
    "ol p pre q s small span strong sub summary sup table tbody td tfoot th thead tr u ul",
  ),
  ALLOWED_ATTR: words(
    "align alt checked class colspan data-copy disabled height href rel rowspan src start",
    "tabindex target title type width",
  ),
  ALLOW_ARIA_ATTR: false,
  ALLOW_DATA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|tel:|data:image\/|\/|#)/i,
};

/** The number of texts cached as HTML, so that a message is parsed once. */
const kept = 600;
const cache = new Map<string, string>();

/** toHtml converts Markdown to safe HTML. */
export function toHtml(text: string): string {
  const known = cache.get(text);
  if (known !== undefined) return known;
  const html = purify.sanitize(marked.parse(text, { async: false }), allowed);
  cache.set(text, html);
  if (cache.size > kept) cache.delete(cache.keys().next().value!);
  return html;
}

/** Blocks is a growing text: the blocks that no longer change, and the rest. */
export interface Blocks {
  done: string[];
  length: number;
  rest: string;
}

export const noBlocks: Blocks = { done: [], length: 0, rest: "" };

/** grow splits a text that extends the previous one. Only the part that can still change is parsed again. */
export function grow(before: Blocks, text: string): Blocks {
  const rest = text.slice(before.length);
  const tokens: Token[] = marked.lexer(rest);
  // The last block may continue, and a list or a table absorbs what follows it.
  const closed = tokens.length - 3;
  if (closed <= 0) return { ...before, rest };
  const raw = tokens.slice(0, closed).map((t) => t.raw);
  const size = raw.reduce((n, r) => n + r.length, 0);
  // The lexer normalizes some texts, so its pieces differ from the text.
  if (!rest.startsWith(raw.join(""))) return { ...before, rest };
  return {
    done: [...before.done, ...raw.filter((r) => r.trim())],
    length: before.length + size,
    rest: rest.slice(size),
  };
}

/** htmlOfRest returns the HTML of a part that still changes, which is not worth caching. */
export const htmlOfRest = (text: string): string => purify.sanitize(marked.parse(text, { async: false }), allowed);
