package sqlite

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
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
			l := ledger.New(open(b, filepath.Join(b.TempDir(), "bench.db"), nil).Ledger(), &ledger.Options{Lease: time.Hour})
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
