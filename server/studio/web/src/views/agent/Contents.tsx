import { useMemo } from "react";
import { around, diffLines, type Line } from "../../data/lines";
import { bytes } from "../../ui/format";
import type { Stored } from "./work";

const signs: Record<Line["kind"], string> = { same: " ", added: "+", removed: "−" };
const words: Record<Line["kind"], string> = { same: "", added: "added: ", removed: "removed: " };

/** Contents shows a version of a file, or how it differs from the previous one. Null means that there is none. */
export function Contents({
  part,
  content,
  before,
}: {
  part: "text" | "changes";
  content: Stored | null;
  before: Stored | null;
}) {
  if (content?.text === null || (part === "changes" && before?.text === null))
    return <p className="agent-note muted">Not text: {bytes((content ?? before!).bytes)}.</p>;
  if (part === "changes") return <Difference before={before?.text ?? ""} after={content?.text ?? ""} />;
  if (!content) return <p className="agent-note muted">The file does not exist at this checkpoint.</p>;
  return <pre className="agent-text">{content.text || "(empty)"}</pre>;
}

function Difference({ before, after }: { before: string; after: string }) {
  const blocks = useMemo(() => around(diffLines(before, after)), [before, after]);
  if (before === after) return <p className="agent-note muted">No line changed.</p>;
  return (
    <div className="agent-diff">
      {blocks.map((block, i) =>
        Array.isArray(block) ? (
          block.map((line, j) => (
            <div key={`${i}.${j}`} className="agent-line" data-kind={line.kind}>
              <span aria-hidden>{signs[line.kind]}</span>
              <span className="hidden">{words[line.kind]}</span>
              <span>{line.text || " "}</span>
            </div>
          ))
        ) : (
          <div key={i} className="agent-skipped muted small">
            {block.skipped === 1 ? "1 line unchanged" : `${block.skipped.toLocaleString()} lines unchanged`}
          </div>
        ),
      )}
    </div>
  );
}
