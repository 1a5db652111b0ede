package ledgertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

var priorities = []test{
	{"runs are claimed by priority", func(f *fixture) {
		for name, graphs := range map[string][]string{"all graphs": nil, "these graphs": {"a", "b"}} {
			q := f.queue(&ledger.Options{Priorities: true})
			q.wait("late", 5, "a", false)
			q.wait("usual 1", 0, "b", false)
			q.wait("usual 2", 0, "a", false)
			q.wait("usual, temporary", 0, "a", true)
			q.wait("early, temporary", -1, "b", true)
			q.wait("early", -1, "a", false)
			q.wait("first", -5, "b", false)
			q.wait("last, temporary", 5, "a", true)
			q.want(name, graphs, "first", "early", "early, temporary", "usual 1", "usual 2", "usual, temporary", "late", "last, temporary")
		}
	}},
	{"runs are claimed by due time without priorities", func(f *fixture) {
		// A process without priorities eventually claims runs to which another process has
		// given one.
		q := f.queue(nil)
		q.wait("a", 5, "a", false)
		q.wait("b", -5, "b", false)
		q.wait("c", 3, "a", true)
		q.wait("d", 0, "a", false)
		q.want("threads and temporary runs", []string{"a", "b"}, "a", "b", "d", "c")
	}},
	{"priorities among many threads of other graphs", func(f *fixture) {
		for _, o := range []*ledger.Options{nil, {Priorities: true}} {
			q := f.queue(o)
			for i := range 120 {
				q.wait(fmt.Sprint("other ", i), 0, "other", false)
			}
			q.wait("ours", 4, "a", false)
			q.want("ours", []string{"a"}, "ours")
			for range 120 {
				q.claim([]string{"other"})
			}
		}
	}},
	{"thread keeps its first priority", func(f *fixture) {
		q := f.queue(&ledger.Options{Priorities: true})
		thread := q.wait("low", 3, "a", false)
		q.wait("usual", 0, "a", false)
		q.create("low again", &ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: "a"}, Priority: new(-5)})
		q.want("thread", nil, "usual", "low")
		t, err := q.Thread(f.Context(), thread, nil)
		if err != nil || t.Priority == nil || *t.Priority != 3 {
			f.Errorf("got priority %v, %v", t.Priority, err)
		}
	}},
	{"missing priority counts as zero", func(f *fixture) {
		// Rows from before priorities were introduced have none.
		q := f.queue(&ledger.Options{Priorities: true})
		q.wait("late", 1, "a", false)
		q.create("old", &ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Graph: "a"}, Create: &ledger.Thread{}})
		q.create("old, temporary", &ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Graph: "a", Temporary: true}})
		q.wait("early", -1, "a", false)
		q.want("all", []string{"a"}, "early", "old", "old, temporary", "late")
	}},
	{"temporary run keeps its key at any priority", func(f *fixture) {
		q := f.queue(&ledger.Options{Priorities: true})
		q.create("first", &ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Graph: "a", Temporary: true, Key: "k"}, Priority: new(2)})
		made, err := q.CreateRun(f.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Graph: "a", Temporary: true, Key: "k"}, Priority: new(-2)})
		if err != nil || !made.Old || q.names[made.Run.ID] != "first" {
			f.Errorf("second run with the same key: %+v, %v", made, err)
		}
	}},
	{"priorities out of range are rejected", func(f *fixture) {
		q := f.queue(nil)
		for _, p := range []int{-6, 6} {
			if _, err := q.CreateRun(f.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Temporary: true}, Priority: &p}); err == nil || !strings.Contains(err.Error(), "priority") {
				f.Errorf("priority %d: %v", p, err)
			}
		}
	}},
}

// queue is a ledger on the backend, with a worker and the names of the runs.
type queue struct {
	*fixture
	*ledger.Ledger
	worker uuid.UUID
	names  map[uuid.UUID]string
}

func (f *fixture) queue(opts *ledger.Options) *queue {
	f.Helper()
	o := ledger.Options{}
	if opts != nil {
		o = *opts
	}
	o.Lease = time.Hour // no other process takes the runs, however slow the machine is
	q := &queue{f, ledger.New(f.Backend, &o), uuid.New(), map[uuid.UUID]string{}}
	if _, err := q.Beat(f.Context(), q.worker, "test"); err != nil {
		f.Fatal(err)
	}
	return q
}

// create creates a pending run.
func (q *queue) create(name string, n *ledger.NewRun) {
	q.Helper()
	made, err := q.CreateRun(q.Context(), n)
	if err != nil {
		q.Fatal(err)
	}
	q.names[made.Run.ID] = name
}

// wait creates a pending run, temporary or on a new thread, and returns its thread.
func (q *queue) wait(name string, priority int, graph string, temporary bool) uuid.UUID {
	q.Helper()
	thread := uuid.New()
	q.create(name, &ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: graph, Temporary: temporary}, Create: &ledger.Thread{}, Priority: &priority})
	return thread
}

// claim claims a run and returns its name, or "".
func (q *queue) claim(graphs []string) string {
	q.Helper()
	runs, err := q.Claim(q.Context(), q.worker, graphs, 1)
	if err != nil {
		q.Fatal(err)
	}
	for _, r := range runs {
		return q.names[r.ID]
	}
	return ""
}

// want claims all runs one by one, and compares their names with the expected ones.
func (q *queue) want(what string, graphs []string, want ...string) {
	q.Helper()
	var got []string
	for name := q.claim(graphs); name != ""; name = q.claim(graphs) {
		got = append(got, name)
	}
	if !slices.Equal(got, want) {
		q.Errorf("%s: claimed %q, want %q", what, got, want)
	}
}
