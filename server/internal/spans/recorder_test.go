package spans

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/ledger"
)

// away is a ledger's database, which may be unavailable.
type away struct {
	ledger.Backend
	away atomic.Bool
}

func (a *away) Update(ctx context.Context, lock uuid.UUID, fn func(ledger.Tx) error) error {
	if a.away.Load() {
		return checkpoint.ErrUnavailable
	}
	return a.Backend.Update(ctx, lock, fn)
}

// The run ends after the outage, so its spans must outlast it, too.
func TestSpansOutlastLongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := &away{Backend: ledger.NewMemory()}
		l := ledger.New(rows, nil)
		made, err := l.CreateRun(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Graph: "g"}, Create: &ledger.Thread{}})
		if err != nil {
			t.Fatal(err)
		}
		r := New(Options{Ledger: l, Logger: slog.New(slog.DiscardHandler)})
		ctx, run := r.Start(t.Context(), made.Run)
		rows.away.Store(true)
		_, s := observe.TracerOf(ctx).Start(ctx, &observe.Op{Kind: observe.Tool, Name: "lookup", Input: "a", Call: &observe.Call{}})
		s.End("b", nil)
		time.Sleep(10 * time.Minute) //nolint:forbidigo // virtual time
		rows.away.Store(false)
		run.End()
		page, err := l.RunSpans(t.Context(), made.Run, ledger.SpanQuery{Content: true})
		if err != nil || len(page.Spans) != 1 || page.Spans[0].Status != ledger.SpanSuccess || string(page.Spans[0].Output) != `"b"` {
			t.Errorf("spans %+v, error %v", page, err)
		}
		r.Close(t.Context())
	})
}
