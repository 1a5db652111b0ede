package postgres

import (
	"testing"

	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

// In both ways to talk to the server the store passes the suite, and does as
// memory does.
func TestStore(t *testing.T) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			url := quick(t)
			shelf := func(t *testing.T) store.Backend { return &fresh(t, url, o).shelf }
			t.Run("suite", func(t *testing.T) { storetest.Run(t, shelf) })
			t.Run("differential", func(t *testing.T) { storetest.Differential(t, shelf) })
		})
	}
}
