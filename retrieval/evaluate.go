package retrieval

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// A Question is a query with the names of the sources that answer it.
type Question struct {
	Query   string
	Sources []string
}

// Metrics are the means over questions of how well a search finds their sources. Each is
// from 0 to 1; more is better.
type Metrics struct {
	Recall float64 // share of the sources found
	MRR    float64 // 1/rank of the first source found
	NDCG   float64 // sources found, those with a lower rank weighted less
}

// Evaluate searches for each question and compares the sources of the hits with the
// expected ones. A source counts at its best rank; SearchOptions.Limit limits the number of
// hits.
func (x *Index) Evaluate(ctx context.Context, questions []Question, opts *SearchOptions) (Metrics, error) {
	var sum Metrics
	if len(questions) == 0 {
		return sum, errors.New("retrieval: evaluate: no questions")
	}
	limit := defaultHits
	if opts != nil && opts.Limit > 0 {
		limit = opts.Limit
	}
	for _, q := range questions {
		if len(q.Sources) == 0 {
			return Metrics{}, fmt.Errorf("retrieval: evaluate: question %q has no sources", q.Query)
		}
		hits, err := x.Search(ctx, q.Query, opts)
		if err != nil {
			return Metrics{}, err
		}
		m := measure(hits, q.Sources, limit)
		sum.Recall += m.Recall
		sum.MRR += m.MRR
		sum.NDCG += m.NDCG
	}
	n := float64(len(questions))
	return Metrics{sum.Recall / n, sum.MRR / n, sum.NDCG / n}, nil
}

func measure(hits []Hit, sources []string, limit int) (m Metrics) {
	want := map[string]bool{}
	for _, s := range sources {
		want[s] = true
	}
	all := len(want)
	seen := map[string]bool{}
	var gain, ideal float64
	for rank := 1; rank <= min(all, limit); rank++ {
		ideal += 1 / math.Log2(float64(rank+1))
	}
	for _, h := range hits {
		if seen[h.Source] {
			continue
		}
		seen[h.Source] = true
		rank := len(seen)
		if !want[h.Source] {
			continue
		}
		m.Recall += 1 / float64(all)
		gain += 1 / math.Log2(float64(rank+1))
		if m.MRR == 0 {
			m.MRR = 1 / float64(rank)
		}
	}
	m.NDCG = gain / ideal
	return m
}
