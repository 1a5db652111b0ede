package server_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/test/platform"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

// Runs with large messages retain no more than the limit, on one thread and on many,
// whether clients read their states or not.
func TestMemoryAfterLoadIsLimited(t *testing.T) {
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "test.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	const limit = 4 * mib
	c := serveOn(t, db, &server.Options{MemoryLimit: limit})
	input := fmt.Sprintf(`{"assistant_id":"router","if_not_exists":"create","input":{"target":"left","x":"%s"}}`, strings.Repeat("x", 200_000))
	thread := func(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }
	c.ok("POST", "/threads/"+thread(0)+"/runs/wait", input, nil)
	before := heap()
	for i := range 75 {
		switch i % 3 {
		case 0: // one thread
			c.ok("POST", "/threads/"+thread(0)+"/runs/wait", input, nil)
		case 1: // a separate thread
			c.ok("POST", "/threads/"+thread(i)+"/runs/wait", input, nil)
		default: // in the background: no client reads its states
			var run struct {
				ID string `json:"run_id"`
			}
			c.ok("POST", "/threads/"+thread(i)+"/runs", input, &run)
			c.do("GET", "/threads/"+thread(i)+"/runs/"+run.ID+"/join", "")
		}
	}
	c.search("{}") // the index of texts holds those that it is reading
	grown := heap() - before
	for began := time.Now(); grown > 2*limit && time.Since(began) < tooLong; grown = heap() - before {
		pause(t)
	}
	if grown > 2*limit {
		t.Errorf("live heap grew by %d bytes with a limit of %d, for messages of 15 MB", grown, limit)
	}
	used := 0.0
	for _, kind := range []string{"heads", "feeds", "events", "ledger", "database"} {
		n := c.metric("treadle_memory_bytes", map[string]string{"kind": kind})
		if n < 0 {
			t.Errorf("kind %q missing in the metrics", kind)
		}
		used += n
	}
	if used > limit || used < limit/8 {
		t.Errorf("%.0f bytes used with a limit of %d", used, limit)
	}
	if got := c.metric("treadle_memory_limit_bytes", nil); got != limit {
		t.Errorf("the metrics show a limit of %.0f bytes, want %d", got, limit)
	}
}

func TestMemoryLimitIsChecked(t *testing.T) {
	graphs, err := platform.All()
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(":memory:", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := server.New(db, graphs, &server.Options{MemoryLimit: -1}); err == nil || !strings.Contains(err.Error(), "MemoryLimit") {
		t.Errorf("error for a negative limit: %v", err)
	}
}
