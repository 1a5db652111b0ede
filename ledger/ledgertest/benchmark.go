package ledgertest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

const (
	// benchThreads is the number of threads that Benchmark searches.
	benchThreads = 10_000
	// maxSearch is the goal for the median time of a search.
	maxSearch = 100 * time.Millisecond
)

// Benchmark measures searches for text among 10,000 threads of 240 words. It fails if the
// median of a search exceeds 100 ms. It calls filled, if not nil, before it measures.
func Benchmark(b *testing.B, backend ledger.Backend, filled func()) {
	l := ledger.New(backend, &ledger.Options{TextChanged: func(uuid.UUID) {}})
	fillTexts(b, l, benchThreads)
	if filled != nil {
		filled()
	}
	for _, q := range []struct {
		name string
		ledger.ThreadSearch
	}{
		{"rare word", ledger.ThreadSearch{Text: "needle"}},
		{"common word", ledger.ThreadSearch{Text: "refund"}},
		{"prefix in title", ledger.ThreadSearch{Text: "thr"}},
		{"common words", ledger.ThreadSearch{Text: "refund order customer"}},
		{"rare and common words", ledger.ThreadSearch{Text: "refund needle order"}},
		{"unknown word", ledger.ThreadSearch{Text: "nowhere"}},
		{"own threads", ledger.ThreadSearch{Text: "refund", Filter: ledger.Filter{Auth: []ledger.Condition{{Key: "owner", Values: []any{"7"}}}}}},
	} {
		b.Run(q.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if _, err := l.SearchThreads(b.Context(), &q.ThreadSearch); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			median := took[len(took)/2]
			b.ReportMetric(float64(median.Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			if median > maxSearch {
				b.Errorf("the median is %v, more than %v", median, maxSearch)
			}
		})
	}
}

// fillTexts creates and indexes n threads. Ten of them contain the word needle.
func fillTexts(t testing.TB, l *ledger.Ledger, n int) {
	t.Helper()
	vocabulary := strings.Fields("order refund invoice shipping address payment delay customer broken replace manual account cancel upgrade berlin")
	var group sync.WaitGroup
	for worker := range 10 {
		group.Go(func() {
			for i := worker; i < n; i += 10 {
				var text strings.Builder
				for w := range 120 {
					fmt.Fprintf(&text, "%s topic%d ", vocabulary[(i+w)%len(vocabulary)], (i*7+w*13)%997)
				}
				if i%(n/10) == 0 {
					text.WriteString(" needle")
				}
				if err := createText(t, l, i, text.String()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// createText creates and indexes a thread.
func createText(t testing.TB, l *ledger.Ledger, i int, text string) error {
	thread := &ledger.Thread{Metadata: ledger.Object{"owner": fmt.Sprint(i % 50), "graph_id": "agent"}}
	if err := l.CreateThread(t.Context(), thread); err != nil {
		return err
	}
	u, err := l.UnindexedThread(t.Context(), thread.ID)
	if err != nil {
		return err
	}
	return l.IndexThread(t.Context(), u, &ledger.ThreadText{Title: fmt.Sprint("Thread ", i), Texts: []string{text}})
}
