import { memo, useMemo, useState, type MouseEvent } from "react";
import { copyText } from "./copy";
import { grow, htmlOfRest, noBlocks, toHtml } from "./markdown";
import "./markdown.css";

/** Markdown renders Markdown. growing means that more text will arrive. */
export const Markdown = memo(function Markdown({ text, growing }: { text: string; growing?: boolean }) {
  return (
    <div className="markdown" onClick={copyCode}>
      {growing ? <Growing text={text} /> : <Html html={toHtml(text)} />}
    </div>
  );
});

const Html = memo(function Html({ html }: { html: string }) {
  const inner = useMemo(() => ({ __html: html }), [html]);
  return <div dangerouslySetInnerHTML={inner} />;
});

/** Growing rerenders only the end of the text. */
function Growing({ text }: { text: string }) {
  const [blocks, setBlocks] = useState(noBlocks);
  const next = useMemo(() => grow(blocks.length <= text.length ? blocks : noBlocks, text), [blocks, text]);
  if (next.length !== blocks.length) setBlocks(next);
  return (
    <>
      {next.done.map((raw, i) => (
        <Html key={i} html={toHtml(raw)} />
      ))}
      <Html html={htmlOfRest(next.rest)} />
    </>
  );
}

/** copyCode handles the copy buttons in the HTML. */
function copyCode(e: MouseEvent) {
  const button = (e.target as Element).closest("button[data-copy]");
  const code = button?.closest(".markdown-code")?.querySelector("code");
  if (!button || !code) return;
  void copyText(code.textContent ?? "").then(
    () => {
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 2_000);
    },
    () => (button.textContent = "Not allowed"),
  );
}
