package ledgertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/ledger"
)

// Differential performs the same random calls on a [ledger.Ledger] with the tested backend and
// on one in memory. It compares all results and checks the invariants of threads and runs after
// each call. It calls open once. open returns an empty backend and registers its cleanup with
// t.Cleanup.
func Differential(t *testing.T, open func(t *testing.T) ledger.Backend) {
	t.Helper()
	b := open(t)
	steps := 60
	if race.Enabled {
		steps = 15 // the calls are sequential, so more steps find no more races
	}
	rapid.Check(t, func(rt *rapid.T) {
		clearAll(t, b)
		c := newComparison(t, rt, b)
		for range rapid.IntRange(1, steps).Draw(rt, "steps") {
			c.step()
			c.check()
		}
		c.drain()
	})
}

// clearAll removes all rows and events of a backend.
func clearAll(t *testing.T, b ledger.Backend) {
	t.Helper()
	err := b.Update(t.Context(), uuid.Nil, func(tx ledger.Tx) error {
		for kind := ledger.Assistants; kind <= ledger.Unindexed; kind++ {
			rows, err := tx.Find(&ledger.Query{Kind: kind})
			if err != nil {
				return err
			}
			for _, r := range rows {
				if err := tx.Delete(kind, r.ID); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil {
		_, err = b.TrimEvents(t.Context(), time.Now().Add(time.Hour), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// clocked is a backend whose clock the test controls.
type clocked struct {
	ledger.Backend
	now *time.Time
}

// Update implements [ledger.Backend].
func (c clocked) Update(ctx context.Context, lock uuid.UUID, fn func(ledger.Tx) error) error {
	return c.Backend.Update(ctx, lock, func(tx ledger.Tx) error { return fn(clockedTx{tx, *c.now}) })
}

type clockedTx struct {
	ledger.Tx
	now time.Time
}

// Now implements [ledger.Tx].
func (tx clockedTx) Now() time.Time { return tx.now }

// comparison compares a ledger on the tested backend with one in memory.
type comparison struct {
	*rapid.T
	ctx     context.Context
	now     time.Time
	ledgers [2]*ledger.Ledger
	last    string // describes the last call
	ids     int

	priorities bool // whether runs have priorities

	held    []*ledger.Run // runs claimed by workers at any time
	created map[uuid.UUID]*ledger.Run
	ended   map[uuid.UUID]*ledger.Run // as of when they ended; nil if deleted
}

const lease = 6 * time.Second

func newComparison(t *testing.T, rt *rapid.T, b ledger.Backend) *comparison {
	c := &comparison{T: rt, ctx: t.Context(), now: start, created: map[uuid.UUID]*ledger.Run{}, ended: map[uuid.UUID]*ledger.Run{}}
	o := &ledger.Options{Lease: lease, MaxPending: 4, MaxAttempts: 2, Priorities: c.oneIn(2)}
	c.priorities = o.Priorities
	c.ledgers = [2]*ledger.Ledger{ledger.New(clocked{b, &c.now}, o), ledger.New(clocked{ledger.NewMemory(), &c.now}, o)}
	return c
}

// pick draws one of the given values.
func pick[T any](c *comparison, of ...T) T {
	return of[c.below(len(of))]
}

// below draws a number below n. It avoids rapid's ranges, which favor small numbers.
func (c *comparison) below(n int) int { return int(rapid.Uint32().Draw(c.T, "number") % uint32(n)) }

// oneIn draws a bool that is true in one of n cases.
func (c *comparison) oneIn(n int) bool { return c.below(n) == n-1 }

// both calls do on both ledgers, compares the results, and returns the result of the ledger in
// memory.
func both[T any](c *comparison, what string, do func(*ledger.Ledger) (T, error)) (T, error) {
	c.Helper()
	c.last = what
	got, gotErr := do(c.ledgers[0])
	want, wantErr := do(c.ledgers[1])
	if kindOf(gotErr) != kindOf(wantErr) {
		c.Fatalf("%s: got error %v, want %v", what, gotErr, wantErr)
	}
	if d := cmp.Diff(want, got, same, cmpopts.EquateErrors()); d != "" {
		c.Fatalf("%s (-want +got):\n%s", what, d)
	}
	return want, wantErr
}

var kinds = []error{ledger.ErrNotFound, ledger.ErrExists, ledger.ErrBusy, ledger.ErrLost, ledger.ErrFull, ledger.ErrStale, ledger.ErrNoLease}

// kindOf returns the text of the sentinel error that err matches.
func kindOf(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k) {
			return k.Error()
		}
	}
	if err != nil {
		return "other error: " + err.Error()
	}
	return ""
}

// list is a page and the total number of matches.
type list[T any] struct {
	Page  []T
	Total int
}

func listOf[T any](page []T, total int, err error) (list[T], error) { return list[T]{page, total}, err }

// thread, like worker, assistant, and cron, draws the ID of an object, which may not exist.
func (c *comparison) thread() uuid.UUID { return id(10 + c.below(4)) }
func (c *comparison) worker() uuid.UUID { return id(20 + c.below(3)) }
func (c *comparison) assistant() uuid.UUID {
	return id(30 + c.below(3))
}
func (c *comparison) cron() uuid.UUID { return id(40 + c.below(2)) }

// run draws the ID of a created run, or occasionally an unknown ID.
func (c *comparison) run() uuid.UUID {
	if len(c.created) == 0 || c.oneIn(20) {
		return id(99)
	}
	return id(1000 + 1 + c.below(c.ids))
}

func (c *comparison) graphs() []string {
	return pick(c, nil, nil, []string{"a"}, []string{"a", "b"}, []string{})
}

// metadata draws an object from a small set of values, so that objects sometimes match.
func (c *comparison) metadata() ledger.Object {
	o := ledger.Object{}
	for range c.below(4) {
		o[pick(c, "a", "b", "owner")] = c.value(2)
	}
	if c.oneIn(15) {
		for i := range 70 {
			o[fmt.Sprint("key ", i)] = json.Number(fmt.Sprint(i))
		}
	}
	return o
}

func (c *comparison) value(depth int) any {
	if depth > 0 && c.oneIn(3) {
		if c.oneIn(2) {
			return []any{c.value(depth - 1), c.value(depth - 1)}
		}
		return map[string]any{pick(c, "x", "y"): c.value(depth - 1)}
	}
	return pick[any](c, "ann", "bob", json.Number("1"), json.Number("1.0"), json.Number("2"), true, false, nil, "")
}

func (c *comparison) filter() *ledger.Filter {
	if c.oneIn(2) {
		return nil
	}
	f := &ledger.Filter{}
	if c.oneIn(2) {
		f.Contains = c.metadata()
	}
	if c.oneIn(4) {
		f.Auth = []ledger.Condition{{Key: "owner", Contains: c.oneIn(2), Values: []any{c.value(0)}, Optional: c.oneIn(3)}}
	}
	return f
}

func (c *comparison) page(fields ...string) ledger.Page {
	return ledger.Page{SortBy: pick(c, append(fields, "", "created_at")...), Ascending: c.oneIn(2), Offset: pick(c, 0, 0, 1, 3), Limit: pick(c, 0, 1, 2, 10)}
}

// step performs one random call.
func (c *comparison) step() {
	if c.oneIn(3) {
		c.now = c.now.Add(time.Duration(pick(c, 1, 100, 1_000_000, 2_000_000, 7_000_000, 100_000_000)) * time.Microsecond)
	}
	steps := []func(){
		c.createRun, c.createRun, c.createRun, c.createRun, c.claim, c.claim, c.finish, c.finish, c.finish, c.release, c.cancel, c.beat, c.beat,
		c.takeOver, c.deleteRun, c.readRuns, c.changeThread, c.readThreads, c.assistants, c.crons, c.crons, c.wakes, c.wakes, c.hooks, c.events,
	}
	steps[c.below(len(steps))]()
}

func (c *comparison) createRun() {
	c.ids++
	run := ledger.Run{
		ID:        id(1000 + c.ids),
		Thread:    c.thread(),
		Assistant: c.assistant(),
		Graph:     pick(c, "a", "b"),
		Metadata:  c.metadata(),
		Kwargs:    pick(c, nil, json.RawMessage(`{"input":1}`)),
		Strategy:  pick(c, "", ledger.Reject, ledger.Enqueue, ledger.Enqueue, ledger.Interrupt, ledger.Rollback),
		Temporary: c.oneIn(4),
		Key:       pick(c, "", "", "", "key"),
		Webhook:   pick(c, "", "http://hook"),
	}
	if c.oneIn(4) {
		run.Due = c.now.Add(time.Duration(c.below(5)-1) * time.Second)
	}
	n := ledger.NewRun{Run: &run, Filter: c.filter(), ThreadMetadata: pick(c, nil, ledger.Object{"graph_id": run.Graph}), Worker: pick(c, uuid.Nil, c.worker())}
	if c.priorities && c.oneIn(3) {
		n.Priority = pick(c, new(-5), new(0), new(5))
	}
	if !c.oneIn(4) {
		n.Create = &ledger.Thread{Metadata: c.metadata()}
	}
	recall := c.oneIn(3)
	made, err := both(c, fmt.Sprintf("create run %+v for %s, cached assistant: %t", run, n.Worker, recall), func(l *ledger.Ledger) (*ledger.Created, error) {
		n := n
		if recall {
			var err error
			if n.As, err = l.Recall(c.ctx, run.Assistant, n.Filter); err != nil {
				return nil, err
			}
		}
		return l.CreateRun(c.ctx, &n)
	})
	if err == nil {
		c.noteCreated(made)
	}
}

func (c *comparison) noteCreated(made *ledger.Created) {
	if !made.Old {
		c.created[made.Run.ID] = made.Run
	}
	if made.Claimed {
		c.noteClaimed(made.Run)
	}
}

// noteClaimed records claimed runs and checks that they could be claimed: each is due, and is
// the first pending run of its thread.
func (c *comparison) noteClaimed(runs ...*ledger.Run) {
	for _, run := range runs {
		if run.Status != ledger.Running || run.Attempt < 1 || run.Started.IsZero() || run.Kwargs == nil {
			c.Fatalf("%s: got claimed run %+v", c.last, run)
		}
		if run.Due.After(c.now) {
			c.Fatalf("%s: run %s starts at %v, before it is due at %v", c.last, run.ID, c.now, run.Due)
		}
		c.held = append(c.held, run)
		if run.Temporary {
			continue
		}
		waiting, err := c.ledgers[1].Runs(c.ctx, run.Thread, nil, ledger.Pending, ledger.Page{})
		if err != nil {
			c.Fatal(err)
		}
		for _, other := range waiting {
			if d := other.Due.Compare(run.Due); d < 0 || d == 0 && bytes.Compare(other.ID[:], run.ID[:]) < 0 {
				c.Fatalf("%s: run %s starts before run %s, which is due earlier", c.last, run.ID, other.ID)
			}
		}
	}
}

func (c *comparison) claim() {
	w, graphs, n := c.worker(), c.graphs(), c.below(4)
	claimed, _ := both(c, fmt.Sprintf("claim %d of %q for %s", n, graphs, w), func(l *ledger.Ledger) ([]*ledger.Run, error) { return l.Claim(c.ctx, w, graphs, n) })
	if len(claimed) > n {
		c.Fatalf("claimed %d runs, want at most %d", len(claimed), n)
	}
	c.noteClaimed(claimed...)
}

// someHeld draws a run that was claimed at some time, and may have been lost since. It returns
// nil if there is none.
func (c *comparison) someHeld() *ledger.Run {
	if len(c.held) == 0 {
		return nil
	}
	return c.held[c.below(len(c.held))]
}

func (c *comparison) finish() {
	run := c.someHeld()
	if run == nil {
		return
	}
	e := ledger.End{
		Run:    run,
		Worker: run.Worker,
		Status: pick(c, ledger.Success, ledger.Success, ledger.Error, ledger.TimedOut, ledger.RunCanceled),
		Delete: c.oneIn(5),
		Head:   "head",
		Next:   c.oneIn(3),
		Small:  pick(c, nil, ledger.Object{"topic": "x"}),
		Seq:    run.Seq + 5,
		Claim:  c.oneIn(2),
	}
	if c.oneIn(3) {
		e.Wake = c.now.Add(time.Duration(c.below(4)-1) * time.Second)
	}
	if c.oneIn(4) {
		e.Signals = []string{"paid"}
	}
	if e.Status != ledger.Success {
		e.Failure = &ledger.Failure{Class: "Error", Message: "no"}
	}
	if c.oneIn(10) {
		e.Worker = c.worker()
	}
	if run.Webhook != "" {
		e.Hook = func(r *ledger.Run) *ledger.Hook { return &ledger.Hook{URL: r.Webhook, Body: []byte(r.Status)} }
	}
	next, err := both(c, fmt.Sprintf("finish %s attempt %d as %s", run.ID, run.Attempt, e.Status), func(l *ledger.Ledger) (*ledger.Run, error) { return l.Finish(c.ctx, &e) })
	if err == nil && next != nil {
		c.noteClaimed(next)
	}
}

func (c *comparison) release() {
	if run := c.someHeld(); run != nil {
		_, _ = both(c, fmt.Sprintf("release %s attempt %d", run.ID, run.Attempt), func(l *ledger.Ledger) (any, error) { return nil, l.Release(c.ctx, run.Worker, run, run.Seq+3) })
	}
}

func (c *comparison) cancel() {
	ids := []uuid.UUID{c.run()}
	if c.oneIn(2) {
		ids = append(ids, c.run())
	}
	a, f := pick(c, ledger.CancelRun, ledger.RollbackRun), c.filter()
	thread := uuid.Nil
	if r := c.created[ids[0]]; r != nil && c.oneIn(2) {
		thread = r.Thread
	}
	_, _ = both(c, fmt.Sprintf("cancel %s: %s", ids, a), func(l *ledger.Ledger) ([2][]*ledger.Run, error) {
		running, ended, err := l.Cancel(c.ctx, thread, ids, a, f)
		return [2][]*ledger.Run{running, ended}, err
	})
}

func (c *comparison) deleteRun() {
	run, f := c.run(), c.filter()
	_, _ = both(c, fmt.Sprintf("delete run %s", run), func(l *ledger.Ledger) (*ledger.Run, error) { return l.DeleteRun(c.ctx, uuid.Nil, run, f) })
}

func (c *comparison) beat() {
	w := c.worker()
	if c.oneIn(6) {
		_, _ = both(c, fmt.Sprintf("%s leaves", w), func(l *ledger.Ledger) (any, error) { return nil, l.Leave(c.ctx, w) })
		return
	}
	held, _ := both(c, fmt.Sprintf("beat of %s", w), func(l *ledger.Ledger) ([]*ledger.Run, error) { return l.Beat(c.ctx, w, "worker") })
	for _, r := range held {
		if r.Worker != w || r.Status != ledger.Running {
			c.Fatalf("beat of %s returned %+v", w, r)
		}
	}
}

func (c *comparison) takeOver() {
	w, graphs, n := c.worker(), c.graphs(), c.below(4)
	runs, _ := both(c, fmt.Sprintf("takeover by %s", w), func(l *ledger.Ledger) ([2][]*ledger.Run, error) {
		taken, failed, err := l.TakeOver(c.ctx, w, graphs, n)
		return [2][]*ledger.Run{taken, failed}, err
	})
	for _, r := range runs[0] {
		if r.Worker != w || r.Attempt < 2 || r.Epoch == 0 {
			c.Fatalf("%s took over %+v", w, r)
		}
	}
	c.held = append(c.held, runs[0]...)
	if c.oneIn(3) {
		_, _ = both(c, "sweep", func(l *ledger.Ledger) (int, error) { return l.Sweep(c.ctx, 0, 1) })
	}
}

func (c *comparison) readRuns() {
	run, thread, f := c.run(), c.thread(), c.filter()
	in := pick(c, uuid.Nil, thread)
	_, _ = both(c, fmt.Sprintf("run %s", run), func(l *ledger.Ledger) (*ledger.Run, error) { return l.Run(c.ctx, in, run, f) })
	p, status := c.page(), pick(c, "", ledger.Pending, ledger.Success)
	p.SortBy = ""
	_, _ = both(c, fmt.Sprintf("%q runs of %s, %+v", status, thread, p), func(l *ledger.Ledger) ([]*ledger.Run, error) { return l.Runs(c.ctx, thread, f, status, p) })
	_, _ = both(c, "open runs", func(l *ledger.Ledger) ([]*ledger.Run, error) { return collect(l.OpenRuns(c.ctx, f)) })
	_, _ = both(c, "next due", func(l *ledger.Ledger) (time.Time, error) { return l.NextDue(c.ctx) })
}

func collect[T any](seq func(func(T, error) bool)) (all []T, err error) {
	for v, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

func (c *comparison) changeThread() {
	thread, f := c.thread(), c.filter()
	switch {
	case c.oneIn(3):
		t := ledger.Thread{ID: thread, Metadata: c.metadata(), TTL: pick(c, nil, &ledger.TTL{Strategy: "delete", Minutes: 0.1})}
		_, _ = both(c, fmt.Sprintf("create thread %s", thread), func(l *ledger.Ledger) (*ledger.Thread, error) {
			made := t
			err := l.CreateThread(c.ctx, &made)
			return &made, err
		})
	case c.oneIn(2):
		m, status, idle := c.metadata(), pick(c, "", ledger.Idle, ledger.Interrupted, ledger.Busy), c.oneIn(2)
		_, _ = both(c, fmt.Sprintf("patch thread %s", thread), func(l *ledger.Ledger) (*ledger.Thread, error) {
			return l.PatchThread(c.ctx, thread, f, idle, func(t *ledger.Thread) error {
				t.Metadata = m
				if status != "" {
					t.Status = status
				}
				return nil
			})
		})
	case c.oneIn(4):
		_, _ = both(c, fmt.Sprintf("delete thread %s", thread), func(l *ledger.Ledger) ([]*ledger.Run, error) { return l.DeleteThread(c.ctx, thread, f) })
	}
}

func (c *comparison) readThreads() {
	thread, f := c.thread(), c.filter()
	_, _ = both(c, fmt.Sprintf("thread %s", thread), func(l *ledger.Ledger) (*ledger.Thread, error) { return l.Thread(c.ctx, thread, f) })
	q := ledger.ThreadQuery{Status: pick(c, "", ledger.Idle, ledger.Busy, ledger.Interrupted, ledger.Failed), Page: c.page("thread_id", "status", "updated_at", "state_updated_at")}
	if f != nil {
		q.Filter = *f
	}
	if c.oneIn(5) {
		q.IDs = []uuid.UUID{thread, id(11)}
	}
	if c.oneIn(5) {
		q.Match = func(t *ledger.Thread) (bool, error) { return t.ID[15]%2 == 0, nil }
	}
	_, _ = both(c, fmt.Sprintf("threads %+v", q), func(l *ledger.Ledger) (list[*ledger.Thread], error) { return listOf(l.Threads(c.ctx, &q)) })
	_, _ = both(c, "expired threads", func(l *ledger.Ledger) ([]*ledger.Thread, error) { return l.Expired(c.ctx, 2) })
}

func (c *comparison) assistants() {
	a, f := c.assistant(), c.filter()
	m, version := c.metadata(), 1+c.below(3)
	switch {
	case c.oneIn(2):
		made := ledger.Assistant{ID: a, Graph: pick(c, "a", "b"), Name: pick(c, "Ann", "anna", "bob"), Metadata: m}
		_, _ = both(c, fmt.Sprintf("create assistant %s", a), func(l *ledger.Ledger) (*ledger.Assistant, error) {
			made := made
			err := l.CreateAssistant(c.ctx, &made)
			return &made, err
		})
	case c.oneIn(2):
		_, _ = both(c, fmt.Sprintf("patch assistant %s", a), func(l *ledger.Ledger) (*ledger.Assistant, error) {
			return l.PatchAssistant(c.ctx, a, f, func(a *ledger.Assistant) error {
				a.Metadata = m
				return nil
			})
		})
	case c.oneIn(2):
		_, _ = both(c, fmt.Sprintf("version %d of assistant %s", version, a), func(l *ledger.Ledger) (*ledger.Assistant, error) { return l.SetLatest(c.ctx, a, f, version) })
	case c.oneIn(3):
		_, _ = both(c, fmt.Sprintf("delete assistant %s", a), func(l *ledger.Ledger) (any, error) { return nil, l.DeleteAssistant(c.ctx, a, f) })
	}
	q := ledger.AssistantQuery{Graph: pick(c, "", "a"), Name: pick(c, "", "an"), Page: c.page("assistant_id", "name", "graph_id", "updated_at")}
	if f != nil {
		q.Filter = *f
	}
	_, _ = both(c, fmt.Sprintf("assistants %+v", q), func(l *ledger.Ledger) (list[*ledger.Assistant], error) { return listOf(l.Assistants(c.ctx, &q)) })
	_, _ = both(c, fmt.Sprintf("versions of %s", a), func(l *ledger.Ledger) ([]*ledger.Assistant, error) {
		return l.Versions(c.ctx, a, f, ledger.Page{Limit: 2})
	})
}

func (c *comparison) crons() {
	cron, f, m := c.cron(), c.filter(), c.metadata()
	next := c.now.Add(time.Duration(c.below(4)) * time.Second)
	switch {
	case c.oneIn(2):
		made := ledger.Cron{ID: cron, Assistant: c.assistant(), Schedule: "* * * * *", Next: &next, Enabled: true, Metadata: m}
		if c.oneIn(2) {
			thread := c.thread()
			made.Thread = &thread
		}
		_, _ = both(c, fmt.Sprintf("create cron %s", cron), func(l *ledger.Ledger) (*ledger.Cron, error) {
			made := made
			err := l.CreateCron(c.ctx, &made)
			return &made, err
		})
	case c.oneIn(4):
		_, _ = both(c, fmt.Sprintf("patch cron %s", cron), func(l *ledger.Ledger) (*ledger.Cron, error) {
			return l.PatchCron(c.ctx, cron, f, func(c *ledger.Cron) error {
				c.Metadata, c.Next = m, &next
				return nil
			})
		})
	case c.oneIn(8):
		_, _ = both(c, fmt.Sprintf("delete cron %s", cron), func(l *ledger.Ledger) (any, error) { return nil, l.DeleteCron(c.ctx, cron, f) })
	}
	due, _ := both(c, "due crons", func(l *ledger.Ledger) ([]*ledger.Cron, error) { return l.DueCrons(c.ctx, 2, nil) })
	for _, d := range due {
		c.tick(d)
	}
	q := ledger.CronQuery{Assistant: pick(c, uuid.Nil, c.assistant()), Thread: pick(c, uuid.Nil, c.thread()), Page: c.page("cron_id", "next_run_date", "thread_id")}
	_, _ = both(c, fmt.Sprintf("crons %+v", q), func(l *ledger.Ledger) (list[*ledger.Cron], error) { return listOf(l.Crons(c.ctx, &q)) })
}

func (c *comparison) tick(d *ledger.Cron) {
	c.ids++
	n := ledger.NewRun{Run: &ledger.Run{ID: id(1000 + c.ids), Graph: "a", Strategy: pick(c, ledger.Reject, ledger.Enqueue)}, Worker: c.worker()}
	n.Temporary = d.Thread == nil
	if n.Temporary {
		n.Thread = id(5000 + c.ids)
	} else {
		n.Thread = *d.Thread
	}
	next := d.Next.Add(time.Duration(1+c.below(60)) * time.Second)
	type ticked struct {
		Created *ledger.Created
		OK      bool
	}
	for again := range 2 {
		got, err := both(c, fmt.Sprintf("tick of %s", d.ID), func(l *ledger.Ledger) (ticked, error) {
			created, ok, err := l.Tick(c.ctx, d.ID, *d.Next, &next, &n)
			return ticked{created, ok}, err
		})
		if got.OK != (again == 0) {
			c.Fatalf("tick %d of %s at %v: %v", again, d.ID, *d.Next, got.OK)
		}
		if err == nil && got.OK {
			c.noteCreated(got.Created)
		}
	}
}

// wakes sends signals and wakes due threads. It checks that each wakes only once.
func (c *comparison) wakes() {
	if c.oneIn(2) {
		thread, name := c.thread(), pick(c, "paid", "sent")
		_, _ = both(c, fmt.Sprintf("signal %s to %s", name, thread), func(l *ledger.Ledger) (any, error) { return nil, l.Signalled(c.ctx, thread, name) })
	}
	due, _ := both(c, "due threads", func(l *ledger.Ledger) ([]ledger.DueThread, error) { return l.DueThreads(c.ctx, uuid.Nil, 2, nil) })
	type woken struct {
		Created *ledger.Created
		OK      bool
	}
	for _, t := range due {
		of, _ := both(c, "due thread", func(l *ledger.Ledger) (*ledger.Thread, error) { return l.Thread(c.ctx, t.ID, nil) })
		if of.Status == ledger.Busy || t.Wake.After(c.now) || !of.Wake.Equal(t.Wake) {
			c.Fatalf("thread %s: due at %v, but wakes at %v with status %s", t.ID, t.Wake, of.Wake, of.Status)
		}
		c.ids++
		made, worker := id(1000+c.ids), c.worker()
		fill := func(run *ledger.NewRun, t *ledger.Thread, last *ledger.Run) (bool, error) { //nolint:unparam // the type of WakeThread's parameter
			run.ID, run.Graph, run.Kwargs = made, "a", json.RawMessage(fmt.Sprintf(`{"seq":%d}`, t.Seq))
			if last != nil {
				run.Metadata = ledger.Object{"last": last.ID.String(), "kwargs": string(last.Kwargs)}
			}
			return true, nil
		}
		for again := range 2 {
			got, err := both(c, fmt.Sprintf("wake %s", t.ID), func(l *ledger.Ledger) (woken, error) {
				created, ok, err := l.WakeThread(c.ctx, t.ID, t.Wake, worker, fill)
				return woken{created, ok}, err
			})
			if err != nil || got.OK != (again == 0) {
				c.Fatalf("wake %d of %s: %v, %v", again, t.ID, got.OK, err)
			}
			if got.OK {
				c.noteCreated(got.Created)
			}
		}
	}
}

func (c *comparison) hooks() {
	due, _ := both(c, "due hooks", func(l *ledger.Ledger) ([]*ledger.Hook, error) { return l.DueHooks(c.ctx, 2, nil) })
	for _, h := range due {
		retry := pick(c, time.Time{}, c.now.Add(time.Second))
		_, _ = both(c, fmt.Sprintf("hook done %s", h.Run), func(l *ledger.Ledger) (any, error) { return nil, l.HookDone(c.ctx, h.Run, retry) })
	}
}

func (c *comparison) events() {
	run := c.someHeld()
	if run == nil {
		return
	}
	e := ledger.Events{Thread: run.Thread, Run: run.ID, First: uint64(10*c.ids + 1), Last: uint64(10*c.ids + 9), Data: []byte("events")}
	c.ids++
	_, _ = both(c, "append", func(l *ledger.Ledger) (any, error) { return nil, l.Append(c.ctx, &e) })
	_, _ = both(c, "events", func(l *ledger.Ledger) ([]*ledger.Events, error) {
		return collect(l.Events(c.ctx, run.Thread, run.ID, 5))
	})
}

// check checks that all threads and runs are consistent with each other.
func (c *comparison) check() {
	l := c.ledgers[1]
	var due []time.Time
	for n := range 4 {
		t, err := l.Thread(c.ctx, id(10+n), nil)
		if errors.Is(err, ledger.ErrNotFound) {
			continue
		}
		if err != nil {
			c.Fatal(err)
		}
		runs, err := l.Runs(c.ctx, t.ID, nil, "", ledger.Page{})
		if err != nil {
			c.Fatal(err)
		}
		running, first := 0, time.Time{}
		for _, r := range runs {
			switch r.Status {
			case ledger.Running:
				running++
			case ledger.Pending:
				if first.IsZero() || r.Due.Before(first) {
					first = r.Due
				}
			}
		}
		if running > 1 {
			c.Fatalf("after %s, thread %s has %d running runs", c.last, t.ID, running)
		}
		if busy := running > 0 || !first.IsZero(); busy != (t.Status == ledger.Busy) {
			c.Fatalf("after %s, thread %s is %s with %d running runs and a first pending run due at %v", c.last, t.ID, t.Status, running, first)
		}
		if running == 0 && !first.IsZero() {
			due = append(due, first)
		}
	}
	c.checkEnds()
	for id, created := range c.created {
		r, err := l.Run(c.ctx, uuid.Nil, id, nil)
		if err == nil && created.Temporary && r.Status == ledger.Pending {
			due = append(due, r.Due)
		}
	}
	next, err := l.NextDue(c.ctx)
	if err != nil {
		c.Fatal(err)
	}
	for _, d := range due {
		if next.IsZero() || next.After(d) {
			c.Fatalf("after %s, a run is due at %v, but NextDue returned %v", c.last, d, next)
		}
	}
}

// checkEnds checks that runs do not change after they end.
func (c *comparison) checkEnds() {
	for id := range c.created {
		r, err := c.ledgers[1].Run(c.ctx, uuid.Nil, id, nil)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			c.Fatal(err)
		}
		before, over := c.ended[id]
		switch {
		case over && r != nil && (before == nil || r.Status != before.Status || !r.Ended.Equal(before.Ended)):
			c.Fatalf("after %s, ended run changed from %+v to %+v", c.last, before, r)
		case r == nil || !r.Ended.IsZero():
			c.ended[id] = r
		}
	}
}

// drain executes all remaining runs, then checks that every run has ended and that no thread is
// busy.
func (c *comparison) drain() {
	w := id(29)
	for range 20 + 4*len(c.created) {
		c.now = c.now.Add(20 * time.Second)
		_, _ = both(c, "drain: beat", func(l *ledger.Ledger) ([]*ledger.Run, error) { return l.Beat(c.ctx, w, "last") })
		runs, _ := both(c, "drain: claim", func(l *ledger.Ledger) ([]*ledger.Run, error) { return l.Claim(c.ctx, w, nil, 100) })
		taken, _ := both(c, "drain: take over", func(l *ledger.Ledger) ([]*ledger.Run, error) {
			taken, _, err := l.TakeOver(c.ctx, w, nil, 100)
			return taken, err
		})
		for _, r := range slices.Concat(runs, taken) {
			_, err := both(c, "drain: finish", func(l *ledger.Ledger) (*ledger.Run, error) {
				return l.Finish(c.ctx, &ledger.End{Run: r, Worker: w, Status: ledger.Success})
			})
			if err != nil {
				c.Fatalf("finish run %s: %v", r.ID, err)
			}
		}
		if len(runs)+len(taken) == 0 {
			break
		}
	}
	c.check()
	if open, err := collect(c.ledgers[1].OpenRuns(c.ctx, nil)); err != nil || len(open) > 0 {
		c.Fatalf("%d runs never ended, %v: %+v", len(open), err, open)
	}
	for id := range c.created {
		if _, ok := c.ended[id]; !ok {
			c.Fatalf("run %s has not ended", id)
		}
	}
}
