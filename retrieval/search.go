package retrieval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// SearchOptions configures a search. A nil *SearchOptions means the defaults.
type SearchOptions struct {
	// Limit is the maximum number of hits; 0 means 5.
	Limit int
	// Ranking selects how chunks are ranked; store.Auto means store.Hybrid if the store has
	// an embedder, and store.Keyword otherwise.
	Ranking store.Ranking
	// Filter selects chunks by the JSON of a [Chunk].
	Filter store.Filter
	// Reranker, if not nil, ranks the best chunks again.
	Reranker store.Reranker
	// Diversity, from 0 to 1, prefers chunks that differ from the hits before them (maximal
	// marginal relevance). It requires a store with an embedder; 0 ranks by relevance alone.
	Diversity float64
	// Neighbors adds this number of chunks before and after each hit to its Text. A chunk
	// becomes part of the best hit only.
	Neighbors int
	// Parents replaces the Text of each hit with the text of its whole document, and returns each
	// document only once. If a document has more than 1000 chunks, Text contains the chunks
	// around the hit.
	Parents bool
}

// A Hit is a chunk that a search found. With Neighbors or Parents, Text, Start, and End
// include the chunks around it.
type Hit struct {
	Chunk
	// Score ranks the hits of a search; see [store.Ranking].
	Score float64 `json:"score"`
}

const (
	defaultHits = 5
	// pool is the number of chunks from which a reranker or MMR selects.
	pool = 50
	// maxParent is the maximum number of chunks of a document that Parents returns.
	maxParent = 1000
)

// Search returns the chunks that match the query best. It reports to the run of ctx as a
// retriever with the name of the index's namespace.
func (x *Index) Search(ctx context.Context, query string, opts *SearchOptions) ([]Hit, error) {
	return x.SearchAll(ctx, []string{query}, opts)
}

// SearchAll is like [Index.Search], but searches for several queries, for example several
// phrasings of a question. It combines their results by rank: each hit scores the sum of
// 1/(60+rank) over the queries. With a single query, the search's scores are unchanged.
func (x *Index) SearchAll(ctx context.Context, queries []string, opts *SearchOptions) ([]Hit, error) {
	var o SearchOptions
	if opts != nil {
		o = *opts
	}
	if err := x.check(&o); err != nil {
		return nil, fmt.Errorf("retrieval: search: %w", err)
	}
	lists := make([][]Hit, len(queries))
	for i, q := range queries {
		var err error
		lists[i], err = llm.Retrieve(ctx, x.root[len(x.root)-1], q, func(ctx context.Context, q string) ([]Hit, error) {
			return x.search(ctx, q, &o)
		})
		if err != nil {
			return nil, err
		}
	}
	hits := fuse(lists)
	hits = hits[:min(o.Limit, len(hits))]
	return x.expand(ctx, hits, &o)
}

// check sets the defaults.
func (x *Index) check(opts *SearchOptions) error {
	switch {
	case opts.Limit < 0:
		return fmt.Errorf("invalid Limit %d: want 1 or more, or 0 for %d", opts.Limit, defaultHits)
	case opts.Neighbors < 0:
		return fmt.Errorf("invalid Neighbors %d: want 0 or more", opts.Neighbors)
	case !(opts.Diversity >= 0 && opts.Diversity <= 1): // also rejects NaN
		return fmt.Errorf("invalid Diversity %v: want 0 to 1", opts.Diversity)
	case opts.Diversity > 0 && !x.store.Embeds():
		return errors.New("diversity requires an embedder: set Options.Embedder of the store")
	case opts.Parents && opts.Neighbors > 0:
		return errors.New("both Neighbors and Parents are set: set only one")
	}
	opts.Limit = cmp.Or(opts.Limit, defaultHits)
	if opts.Ranking == store.Auto {
		opts.Ranking = store.Keyword
		if x.store.Embeds() {
			opts.Ranking = store.Hybrid
		}
	}
	return nil
}

// search returns the hits of one query.
func (x *Index) search(ctx context.Context, query string, opts *SearchOptions) ([]Hit, error) {
	limit := opts.Limit
	if opts.Reranker != nil || opts.Diversity > 0 {
		limit = max(limit, pool)
	}
	items, err := x.store.Search(ctx, x.chunks(), &store.SearchOptions{Query: query, Filter: opts.Filter, Ranking: opts.Ranking, Limit: limit, NoRefresh: true})
	if err != nil {
		return nil, fmt.Errorf("retrieval: search: %w", err)
	}
	hits := make([]Hit, len(items))
	for i, item := range items {
		if err := item.Decode(&hits[i].Chunk); err != nil {
			return nil, err
		}
		hits[i].Score = item.Score
	}
	if opts.Reranker != nil {
		if err := rerank(ctx, query, hits, opts.Reranker); err != nil {
			return nil, err
		}
	}
	if opts.Diversity > 0 {
		return x.diverse(ctx, hits, opts)
	}
	return hits, nil
}

// rerank sorts hits by the scores of a reranker.
func rerank(ctx context.Context, query string, hits []Hit, r store.Reranker) error {
	if len(hits) == 0 {
		return nil
	}
	texts := make([]string, len(hits))
	for i, h := range hits {
		texts[i] = h.Text
	}
	scores, err := r.Rerank(ctx, query, texts)
	if err != nil {
		return fmt.Errorf("retrieval: rerank: %w", err)
	}
	if len(scores) != len(hits) {
		return fmt.Errorf("retrieval: rerank: %d scores for %d texts", len(scores), len(hits))
	}
	for i := range hits {
		if math.IsNaN(scores[i]) {
			return fmt.Errorf("retrieval: rerank: score of text %d is not a number", i)
		}
		hits[i].Score = scores[i]
	}
	slices.SortStableFunc(hits, byScore)
	return nil
}

func byScore(a, b Hit) int { return cmp.Compare(b.Score, a.Score) }

// diverse selects hits by maximal marginal relevance: relevance, scaled to 0 to 1, less the
// similarity to the nearest hit selected before, weighted by Diversity.
func (x *Index) diverse(ctx context.Context, hits []Hit, opts *SearchOptions) ([]Hit, error) {
	texts := make([]string, len(hits))
	for i, h := range hits {
		texts[i] = h.Text
	}
	vectors, err := x.store.Embed(ctx, texts...)
	if err != nil {
		return nil, fmt.Errorf("retrieval: compare hits: %w", err)
	}
	relevance := scaled(hits)
	nearest := make([]float64, len(hits)) // similarity to the nearest selected hit
	taken := make([]bool, len(hits))
	var out []Hit
	for len(out) < min(opts.Limit, len(hits)) {
		best, value := -1, math.Inf(-1)
		for i := range hits {
			if v := (1-opts.Diversity)*relevance[i] - opts.Diversity*nearest[i]; !taken[i] && v > value {
				best, value = i, v
			}
		}
		taken[best] = true
		out = append(out, hits[best])
		for i := range hits {
			nearest[i] = max(nearest[i], dot(vectors[i], vectors[best]))
		}
	}
	return out, nil
}

// scaled returns the scores of hits, the best first, from 1 for the best to 0 for the last.
func scaled(hits []Hit) []float64 {
	out := make([]float64, len(hits))
	for i, h := range hits {
		out[i] = 1
		if hits[0].Score > hits[len(hits)-1].Score {
			out[i] = (h.Score - hits[len(hits)-1].Score) / (hits[0].Score - hits[len(hits)-1].Score)
		}
	}
	return out
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// rankOffset is the constant of reciprocal rank fusion that is common in the literature.
const rankOffset = 60

// fuse combines the hits of several queries.
func fuse(lists [][]Hit) []Hit {
	if len(lists) == 1 {
		return lists[0]
	}
	var out []Hit
	at := map[string]int{}
	for _, hits := range lists {
		for rank, h := range hits {
			key := keyOf(h.Source, h.Number)
			i, ok := at[key]
			if !ok {
				i, at[key] = len(out), len(out)
				h.Score = 0
				out = append(out, h)
			}
			out[i].Score += 1 / float64(rankOffset+rank+1)
		}
	}
	slices.SortStableFunc(out, byScore)
	return out
}

// expand adds the chunks around each hit to it.
func (x *Index) expand(ctx context.Context, hits []Hit, opts *SearchOptions) ([]Hit, error) {
	if !opts.Parents && opts.Neighbors == 0 {
		return hits, nil
	}
	taken := map[string]bool{} // keys of the chunks that are part of a hit
	var out []Hit
	for _, h := range hits {
		if taken[keyOf(h.Source, h.Number)] {
			continue
		}
		lo, hi := h.Number-opts.Neighbors, h.Number+opts.Neighbors+1
		if opts.Parents {
			lo, hi = h.Number-maxParent/2, h.Number+maxParent/2
		}
		chunks, err := x.get(ctx, h.Source, lo, hi)
		if err != nil {
			return nil, err
		}
		chunks = around(chunks, h.Number, func(c Chunk) bool {
			return c.Document == h.Document && !taken[keyOf(c.Source, c.Number)]
		})
		for _, c := range chunks {
			taken[keyOf(c.Source, c.Number)] = true
		}
		if len(chunks) > 0 {
			h.Text, h.Start = join(chunks)
			h.End = h.Start + len(h.Text)
			h.Line, h.Page, h.Headings = chunks[0].Line, chunks[0].Page, chunks[0].Headings
		}
		out = append(out, h)
	}
	return out, nil
}

// around returns the consecutive chunks around the chunk with a number for which ok returns
// true.
func around(chunks []Chunk, number int, ok func(Chunk) bool) []Chunk {
	at := slices.IndexFunc(chunks, func(c Chunk) bool { return c.Number == number })
	if at < 0 {
		return nil // deleted since the search
	}
	lo, hi := at, at+1
	for lo > 0 && chunks[lo-1].Number == chunks[lo].Number-1 && ok(chunks[lo-1]) {
		lo--
	}
	for hi < len(chunks) && chunks[hi].Number == chunks[hi-1].Number+1 && ok(chunks[hi]) {
		hi++
	}
	return chunks[lo:hi]
}
