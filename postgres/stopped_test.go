package postgres

import (
	"sync"
	"testing"

	guuid "github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
)

// A stopped process does not send anything, but its connections stay open.
func TestLocksOfStoppedProcessAreReleased(t *testing.T) {
	url := pgtest.URL(t)
	other := fresh(t, url, Options{})
	stopped := open(t, databasetest.Set(t, url, "idle_in_transaction_session_timeout", "300ms"), &Options{Schema: other.conn.Schema})
	lock, times := guuid.New(), 0
	holds, passed := make(chan struct{}), make(chan struct{})
	var hold sync.Once
	ended := make(chan error)
	go func() {
		ended <- stopped.Ledger().Update(t.Context(), lock, func(tx ledger.Tx) error {
			times++
			hold.Do(func() { close(holds) })
			<-passed
			_, err := tx.Get(ledger.Threads, guuid.New())
			return err
		})
	}()
	<-holds
	if err := other.Ledger().Update(t.Context(), lock, func(ledger.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
	close(passed)
	if err := <-ended; err != nil || times != 2 {
		t.Errorf("transaction of the stopped process: %v after %d attempts, want 2", err, times)
	}
}
