import "./score.css";

/** aboutScores explains scores, of which the highest is top. */
export function aboutScores(top: number | null): string {
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
