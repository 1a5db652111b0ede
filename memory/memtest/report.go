package memtest

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A Report contains the measurements of a run, in chronological order.
type Report struct {
	Cases, Failed int
	// Ranks contains the rank, starting at 1, of each memory that a recall should find, or
	// 0 if it was not recalled.
	Ranks []int
	// Tokens contains the number of tokens of each recall.
	Tokens []int
	// Reflects contains the duration of each reflection, excluding the model, and Recalls
	// the duration of each recall.
	Reflects, Recalls []time.Duration
	// Requests is the number of model requests, and RequestTokens the number of tokens in
	// them, as estimated by llm.CountTokens.
	Requests, RequestTokens int
}

// RecallAt returns the share, from 0 to 1, of expected memories that were among the first k
// recalled. It returns 1 if no memories were expected.
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

// String returns the report as a table.
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
	_ = w.Flush() // a Builder never fails
	return b.String()
}

// quantile returns the p-th percentile of the values: the smallest value that at least p
// percent of them do not exceed. It returns 0 if there are no values.
func quantile[T int | time.Duration](values []T, p int) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)*p+99)/100-1]
}
