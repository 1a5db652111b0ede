package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
)

// failing is a ledger that may be unavailable to some calls.
type failing struct {
	ledger.Backend

	mu     sync.Mutex
	update func(lock uuid.UUID) bool // reports whether to fail; nil means never
	get    func(kind ledger.Kind) bool
}

// set replaces the functions.
func (f *failing) set(update func(uuid.UUID) bool, get func(ledger.Kind) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.update, f.get = update, get
}

func (f *failing) Update(ctx context.Context, lock uuid.UUID, fn func(ledger.Tx) error) error {
	f.mu.Lock()
	fails := f.update != nil && f.update(lock)
	f.mu.Unlock()
	if fails {
		return checkpoint.ErrUnavailable
	}
	return f.Backend.Update(ctx, lock, fn)
}

func (f *failing) Get(ctx context.Context, kind ledger.Kind, id uuid.UUID) (*ledger.Row, error) {
	f.mu.Lock()
	fails := f.get != nil && f.get(kind)
	f.mu.Unlock()
	if fails {
		return nil, checkpoint.ErrUnavailable
	}
	return f.Backend.Get(ctx, kind, id)
}

func newFailing() (*memory, *failing) {
	db := newMemory()
	f := &failing{Backend: db.rows}
	db.rows = f
	return db, f
}

// A client cancels a task that waits, and the database is away for one of the transactions.
// Whichever that is, the task is canceled in the end, and never completed.
func TestCancelOfTaskOutlastsOutage(t *testing.T) {
	for k := range 4 {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			db, rows := newFailing()
			c := serveOn(t, db, nil)
			task := c.task("hitl", `{"kind":"data","data":{"topic":"cats"}}`, "")
			left := k
			rows.set(func(lock uuid.UUID) bool {
				if lock.String() == task.ContextID {
					left--
				}
				return lock.String() == task.ContextID && left == -1
			}, nil)
			params := fmt.Sprintf(`{"id":%q}`, task.ID)
			c.do("POST", "/a2a/hitl", fmt.Sprintf(`{"jsonrpc":"2.0","id":"1","method":"tasks/cancel","params":%s}`, params))
			rows.set(nil, nil)
			for until := time.Now().Add(tooLong); ; {
				var got a2a.Task
				if e := c.agent("hitl", "tasks/get", params, &got); e != nil {
					t.Fatalf("%+v", e)
				}
				if got.Status.State == a2a.TaskStateCanceled {
					return
				}
				if got.Status.State != a2a.TaskStateInputRequired || time.Now().After(until) {
					t.Fatalf("the task is %s", got.Status.State)
				}
				c.do("POST", "/a2a/hitl", fmt.Sprintf(`{"jsonrpc":"2.0","id":"2","method":"tasks/cancel","params":%s}`, params))
			}
		})
	}
}

// broken reports whether the response to a request breaks off after its head.
func (c *client) broken(path, body string) bool {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err == nil {
		c.t.Logf("status %d: %s", resp.StatusCode, raw)
	}
	return err != nil && resp.StatusCode == http.StatusOK
}

// A stream that cannot be continued breaks off: if it ended normally, the client would take it
// for complete.
func TestStreamOfTaskBreaksOffInOutage(t *testing.T) {
	release := make(chan struct{})
	b := treadle.New[llm.Chat]("slow")
	treadle.AddNode(b, "wait", func(ctx context.Context, _ llm.Chat) (said, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return said{llm.Messages{llm.Assistant("done")}}, ctx.Err()
	})
	b.Sequence(treadle.Start, "wait", treadle.End)
	db, rows := newFailing()
	c := startGraphs(t, db, nil, treadle.Must(b.Compile(nil)))
	defer close(release)
	var task a2a.Task
	if e := c.agent("slow", "message/send", `{"message":{"role":"user","messageId":"m1","parts":[{"kind":"text","text":"hi"}]},"configuration":{"blocking":false}}`, &task); e != nil {
		t.Fatalf("message/send: %+v", e)
	}
	named := false // the server has read the task
	rows.set(nil, func(kind ledger.Kind) bool {
		fails := kind == ledger.Runs && named
		named = named || kind == ledger.Runs
		return fails
	})
	defer rows.set(nil, nil)
	if !c.broken("/a2a/slow", fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tasks/resubscribe","params":{"id":%q}}`, task.ID)) {
		t.Error("the stream ends normally")
	}
}

// A page repeats the request for a run that has ended and whose events are gone, and the
// database is away when the server reads the result.
func TestStreamOfPageBreaksOffInOutage(t *testing.T) {
	db, rows := newFailing()
	first := serveOn(t, db, nil)
	thread := uuid.New()
	first.page("fanout", thread.String()).turnAs("1", "")
	if err := rows.DropEvents(t.Context(), thread, uuid.Nil); err != nil {
		t.Fatal(err)
	}
	c := serveOn(t, db, nil)
	ended := false // the server knows that the run has ended
	rows.set(nil, func(kind ledger.Kind) bool {
		ended = ended || kind == ledger.Runs
		return kind == ledger.Threads && ended
	})
	defer rows.set(nil, nil)
	if !c.broken("/agui/fanout", fmt.Sprintf(`{"threadId":%q,"runId":"1"}`, thread)) {
		t.Error("the stream ends normally")
	}
}
