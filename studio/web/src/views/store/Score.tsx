import type { Explanation, StoredItem } from "../../data/items";
import "./score.css";

/** aboutScores explains scores, of which the highest is top. */
export function aboutScores(top: number | null, items: Pick<StoredItem, "explanation">[] = []): string {
  const byMeaning = items.some((i) => i.explanation?.similarity_rank);
  const byWords = items.some((i) => i.explanation?.keyword_rank);
  if (byMeaning && byWords) return "Score: by the ranks of the item by meaning and by words. An item that is high in both comes first.";
  if (byMeaning) return "Score: how similar in meaning the item is to the query; 1 is the same. The item tells which of its texts is the most similar.";
  if (top === null) return "The server gave no scores: its store has no index, so the query may have had no effect.";
  // A similarity by meaning is never above 1.
  if (top > 1) return "Score: by the words that the item shares with the query, since the store has no index to search by meaning. The best match has the longest bar.";
  return "Score: how similar the item is to the query, from 0 to 1, by meaning if the server's store has an index, and else by the words they share.";
}

/** Score shows how well an item answers a query, beside the best one. */
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

/** Why tells what the score of an item is made of. */
export function Why({ score, explanation: e }: { score: number; explanation: Explanation }) {
  const field = e.field === "$" || !e.field ? "the whole value" : e.field;
  return (
    <section aria-label="Score">
      <h3>Score {score.toFixed(2)}</h3>
      <ul className="store-why">
        {e.similarity_rank ? (
          <li>
            By meaning: number {e.similarity_rank}. The similarity of <strong>{field}</strong> to the query is {(e.similarity ?? 0).toFixed(2)}.
          </li>
        ) : null}
        {e.keyword_rank ? (
          <li>
            By words: number {e.keyword_rank}, with {(e.keyword ?? 0).toFixed(2)}. It has <strong>{(e.terms ?? []).join(", ")}</strong>.
          </li>
        ) : null}
      </ul>
    </section>
  );
}
