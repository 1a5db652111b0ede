// Markdown of models, as HTML that is safe to show.
import DOMPurify from "dompurify";
import { Marked, type Token } from "marked";

const escaped = (s: string) => s.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]!);

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    // The sanitiser removes handlers, but Chromium reports each one that it parses on the console.
    html({ text }) {
      return text.replace(/([\s/"'])on(\w+\s*=)/gi, "$1data-$2");
    },
    // The button has no handler: Markdown listens for clicks on it.
    code({ text, lang }) {
      return `<div class="markdown-code"><div class="markdown-code-head"><span>${escaped(lang?.split(/\s/)[0] ?? "")}</span><button type="button" data-copy>Copy</button></div><pre tabindex="0"><code>${escaped(text)}</code></pre></div>`;
    },
  },
});

const purify = DOMPurify(window);

/** shows reports whether the page's policy lets an image be loaded. */
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
  // An image of another origin becomes a link.
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
  // Text cannot borrow the looks of the page's own controls.
  if (node.hasAttribute("class") && !/^markdown-code(-head)?$/.test(node.getAttribute("class")!)) node.removeAttribute("class");
});

const allowed = {
  ALLOWED_TAGS: "a b blockquote br button code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img input kbd li mark ol p pre q s small span strong sub summary sup table tbody td tfoot th thead tr u ul".split(" "),
  ALLOWED_ATTR: "align alt checked class colspan data-copy disabled height href rel rowspan src start tabindex target title type width".split(" "),
  ALLOW_ARIA_ATTR: false,
  ALLOW_DATA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|tel:|data:image\/|\/|#)/i,
};

/** How many texts are kept as HTML, so that a message is parsed once. */
const kept = 600;
const cache = new Map<string, string>();

/** toHtml is a text of Markdown as safe HTML. */
export function toHtml(text: string): string {
  const known = cache.get(text);
  if (known !== undefined) return known;
  const html = purify.sanitize(marked.parse(text, { async: false }), allowed);
  cache.set(text, html);
  if (cache.size > kept) cache.delete(cache.keys().next().value!);
  return html;
}

/** Blocks are a text that grows: those that no longer change, and the rest. */
export interface Blocks {
  done: string[];
  length: number;
  rest: string;
}

export const noBlocks: Blocks = { done: [], length: 0, rest: "" };

/** grow divides a text that begins with the one of before. Only the part that can still change is parsed again. */
export function grow(before: Blocks, text: string): Blocks {
  const rest = text.slice(before.length);
  const tokens: Token[] = marked.lexer(rest);
  // The last block may go on, and a list or a table takes what comes behind it.
  const closed = tokens.length - 3;
  if (closed <= 0) return { ...before, rest };
  const raw = tokens.slice(0, closed).map((t) => t.raw);
  const size = raw.reduce((n, r) => n + r.length, 0);
  // The lexer normalises some texts; then its pieces are not those of the text.
  if (!rest.startsWith(raw.join(""))) return { ...before, rest };
  return { done: [...before.done, ...raw.filter((r) => r.trim())], length: before.length + size, rest: rest.slice(size) };
}

/** htmlOfRest is the HTML of a part that still changes, which is not worth keeping. */
export const htmlOfRest = (text: string): string => purify.sanitize(marked.parse(text, { async: false }), allowed);
