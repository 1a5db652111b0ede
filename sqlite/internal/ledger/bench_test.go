package ledger

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/ledger/ledgertest"
)

// BenchmarkLedger is what a run of a thread, or a temporary one, costs the ledger:
// its creation, claimed by its creator, and its end.
func BenchmarkLedger(b *testing.B) {
	kwargs := json.RawMessage(`{"input":{"messages":[{"role":"user","content":"What is the weather in Paris today?"}]},"config":{"configurable":{"user":"ada"}},"stream_mode":["values"]}`)
	for _, temporary := range []bool{false, true} {
		name := "thread"
		if temporary {
			name = "temporary"
		}
		b.Run(name, func(b *testing.B) {
			l := ledger.New(open(b, filepath.Join(b.TempDir(), "bench.db")).Ledger(), &ledger.Options{Lease: time.Hour})
			worker, assistant := uuid.New(), uuid.New()
			if _, err := l.Beat(b.Context(), worker, "bench"); err != nil {
				b.Fatal(err)
			}
			threads := make([]uuid.UUID, 100)
			for i := range threads {
				t := &ledger.Thread{Metadata: ledger.Object{"owner": "ada", "graph_id": "agent", "assistant_id": assistant.String()}}
				if err := l.CreateThread(b.Context(), t); err != nil {
					b.Fatal(err)
				}
				threads[i] = t.ID
			}
			var creating, finishing time.Duration
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				begun := time.Now()
				c, err := l.CreateRun(b.Context(), &ledger.NewRun{
					Run:            &ledger.Run{Thread: threads[i%len(threads)], Assistant: assistant, Graph: "agent", Kwargs: kwargs, Temporary: temporary},
					ThreadMetadata: ledger.Object{"graph_id": "agent", "assistant_id": assistant.String()},
					Worker:         worker,
				})
				if err != nil || !c.Claimed {
					b.Fatal(c, err)
				}
				created := time.Now()
				_, err = l.Finish(b.Context(), &ledger.End{Run: c.Run, Worker: worker, Status: ledger.Success, Small: ledger.Object{"topic": "weather"}, Seq: c.Run.Seq + 10, Claim: true})
				if err != nil {
					b.Fatal(err)
				}
				creating += created.Sub(begun)
				finishing += time.Since(created)
			}
			b.ReportMetric(float64(creating.Microseconds())/float64(i), "µs/create")
			b.ReportMetric(float64(finishing.Microseconds())/float64(i), "µs/finish")
		})
	}
}

// BenchmarkThreadSearch reads the first page of 100,000 threads, all of which have the
// metadata graph_id, half of them kind, and one in 1,000 owner.
func BenchmarkThreadSearch(b *testing.B) {
	const threads, writers = 100_000, 64
	l := ledger.New(open(b, filepath.Join(b.TempDir(), "bench.db")).Ledger(), nil)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := w; i < threads; i += writers {
				t := &ledger.Thread{Metadata: ledger.Object{"graph_id": "agent"}}
				if i%2 == 0 {
					t.Metadata["kind"] = "chat"
				}
				if i%1000 == 0 {
					t.Metadata["owner"] = "ada"
				}
				if err := l.CreateThread(b.Context(), t); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	for name, filter := range map[string]ledger.Object{
		"no filter":                   nil,
		"one that all match":          {"graph_id": "agent"},
		"one that half match":         {"kind": "chat"},
		"one that a thousandth match": {"owner": "ada"},
		"three":                       {"graph_id": "agent", "kind": "chat", "owner": "ada"},
		"one that none match":         {"owner": "nobody"},
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				page, _, err := l.Threads(b.Context(), &ledger.ThreadQuery{Filter: ledger.Filter{Contains: filter}, Page: ledger.Page{Limit: 10, Ahead: 1}})
				if err != nil || len(page) != 10 && name != "one that none match" {
					b.Fatal(page, err)
				}
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs/page")
		})
	}
}

// BenchmarkTextSearch searches for text among 10,000 threads.
func BenchmarkTextSearch(b *testing.B) {
	ledgertest.Benchmark(b, open(b, filepath.Join(b.TempDir(), "bench.db")).Ledger(), nil)
}
