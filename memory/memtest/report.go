package memtest

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A Report is what a run has measured, in the order in which it happened.
type Report struct {
	Cases, Failed int
	// Ranks has an element for each memory that a recall was to find: its place,
	// from 1, or 0 if it was not recalled.
	Ranks []int
	// Tokens are those of each recall.
	Tokens []int
	// Reflects is how long each reflection took without the model, Recalls how long
	// each recall took.
	Reflects, Recalls []time.Duration
	// Requests is how often a model was asked, and RequestTokens how many tokens
	// that were, by the guess of llm.CountTokens.
	Requests, RequestTokens int
}

// RecallAt is the share of the memories wanted that were among the first k
// recalled, from 0 to 1; 1 if none was wanted.
func (r *Report) RecallAt(k int) float64 {
	if len(r.Ranks) == 0 {
		return 1
	}
	n := 0
	for _, rank := range r.Ranks {
		if rank > 0 && rank <= k {
			n++
		}
	}
	return float64(n) / float64(len(r.Ranks))
}

// String is the report as a table.
func (r *Report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("cases", "%d, %d failed", r.Cases, r.Failed)
	row("recall@1, @3, @5, @10", "%.3f, %.3f, %.3f, %.3f of %d", r.RecallAt(1), r.RecallAt(3), r.RecallAt(5), r.RecallAt(10), len(r.Ranks))
	row("tokens per recall", "p50 %d, p95 %d, %d recalls", quantile(r.Tokens, 50), quantile(r.Tokens, 95), len(r.Tokens))
	row("recall", "p50 %v, p95 %v", quantile(r.Recalls, 50), quantile(r.Recalls, 95))
	row("reflect without the model", "p50 %v, p95 %v, %d sessions", quantile(r.Reflects, 50), quantile(r.Reflects, 95), len(r.Reflects))
	row("requests of the model", "%d with %d tokens", r.Requests, r.RequestTokens)
	_ = w.Flush() // a Builder takes everything
	return b.String()
}

// quantile is the smallest of the values that p per cent of them do not exceed.
func quantile[T int | time.Duration](values []T, p int) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)*p+99)/100-1]
}
