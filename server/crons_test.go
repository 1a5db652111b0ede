package server_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server"
)

// threadless is a ledger whose threads cannot be read while it is away.
type threadless struct {
	ledger.Backend
	away atomic.Bool
}

func (b *threadless) Get(ctx context.Context, kind ledger.Kind, id uuid.UUID) (*ledger.Row, error) {
	if kind == ledger.Threads && b.away.Load() {
		return nil, fmt.Errorf("dial 10.0.0.1: %w", checkpoint.ErrUnavailable)
	}
	return b.Backend.Get(ctx, kind, id)
}

// A thread that cannot be read is not a missing thread: the client may send the request
// again.
func TestCronReturns503DuringOutage(t *testing.T) {
	db := newMemory()
	rows := &threadless{Backend: db.rows}
	db.rows = rows
	c := serveOn(t, db, &server.Options{})
	thread := c.thread()
	const body = `{"assistant_id":"router","schedule":"0 0 1 1 *","input":{}}`
	rows.away.Store(true)
	if status, _, raw := c.do("POST", "/threads/"+thread+"/runs/crons", body); status != http.StatusServiceUnavailable {
		t.Errorf("during an outage: %d %s", status, raw)
	}
	rows.away.Store(false)
	c.ok("POST", "/threads/"+thread+"/runs/crons", body, nil)
	if status, _, raw := c.do("POST", "/threads/"+uuid.NewString()+"/runs/crons", body); status != http.StatusNotFound {
		t.Errorf("on a missing thread: %d %s", status, raw)
	}
}
