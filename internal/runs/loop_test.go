package runs

import (
	"context"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// counted counts the queries for runs that may begin.
type counted struct {
	ledger.Backend
	looks atomic.Int64
}

func (c *counted) Find(ctx context.Context, q *ledger.Query) iter.Seq2[*ledger.Row, error] {
	if q.Kind == ledger.Threads && q.Open && !q.DueBy.IsZero() {
		c.looks.Add(1)
	}
	return c.Backend.Find(ctx, q)
}

func TestARunThatIsForOthersIsNotLookedForAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &counted{Backend: ledger.NewMemory()}
		l := ledger.New(b, nil)
		r, err := New(Options{Ledger: l, Logger: slog.New(slog.DiscardHandler), Claims: []string{"mine"}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Create(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Graph: "another"}, Create: &ledger.Thread{}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
		if n := b.looks.Load(); n > 50 {
			t.Errorf("%d looks in 10 s for a run of another graph", n)
		}
		if err := r.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
