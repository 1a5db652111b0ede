import type { Explanation, StoredItem } from "../../data/items";
import "./score.css";

/** aboutScores explains scores; top is the highest. */
export function aboutScores(top: number | null, items: Pick<StoredItem, "explanation">[] = []): string {
  const byMeaning = items.some((i) => i.explanation?.similarity_rank);
  const byWords = items.some((i) => i.explanation?.keyword_rank);
  if (byMeaning && byWords)
    return "Score: combines the semantic and keyword ranks. Items that rank high in both come first.";
  if (byMeaning)
    return "Score: semantic similarity to the query; 1 means identical. Each item shows its most similar text.";
  if (top === null)
    return "The server returned no scores: its store has no index, so the query may have had no effect.";
  // A semantic similarity is never above 1.
  if (top > 1)
    return "Score: keyword match, because the store has no semantic index. The best match has the longest bar.";
  return "Score: similarity to the query, from 0 to 1: semantic if the store has an index, otherwise by keyword.";
}

/** Score shows how well an item matches a query, relative to the best match. */
export function Score({ score, top }: { score: number; top: number }) {
  const part = Math.max(0, score / Math.max(1, top));
  return (
    <span className="store-score" title={aboutScores(top)}>
      <span className="store-bar" aria-hidden>
        <span style={{ width: `${part * 100}%` }} />
      </span>
      <span className="hidden">score </span>
      {score.toFixed(2)}
    </span>
  );
}

/** Why explains the score of an item. */
export function Why({ score, explanation: e }: { score: number; explanation: Explanation }) {
  const field = e.field === "$" || !e.field ? "the whole value" : e.field;
  return (
    <section aria-label="Score">
      <h3>Score {score.toFixed(2)}</h3>
      <ul className="store-why">
        {e.similarity_rank ? (
          <li>
            By meaning: number {e.similarity_rank}. The similarity of <strong>{field}</strong> to the query is{" "}
            {(e.similarity ?? 0).toFixed(2)}.
          </li>
        ) : null}
        {e.keyword_rank ? (
          <li>
            By words: number {e.keyword_rank}, with {(e.keyword ?? 0).toFixed(2)}. It has{" "}
            <strong>{(e.terms ?? []).join(", ")}</strong>.
          </li>
        ) : null}
      </ul>
    </section>
  );
}
