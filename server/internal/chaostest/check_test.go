package chaostest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/ledger"
)

// runRow is the row of a run.
type runRow struct {
	ID      uuid.UUID `json:"run_id"`
	Thread  uuid.UUID `json:"thread_id"`
	Status  string    `json:"status"`
	Worker  uuid.UUID `json:"worker"`
	Attempt int       `json:"attempt"`
	Order   string    `json:"order"`
	Failure *struct {
		Class string `json:"error"`
	} `json:"failure"`
	Started time.Time `json:"started"`
	Webhook string    `json:"webhook"`
	row     *ledger.Row
}

func (r *runRow) open() bool { return r.Status == "pending" || r.Status == "running" }

// threadRow is the row of a thread.
type threadRow struct {
	ID         uuid.UUID                    `json:"thread_id"`
	Status     string                       `json:"status"`
	Interrupts map[string][]json.RawMessage `json:"interrupts"`
	Wake       time.Time                    `json:"wake"`
	Queued     time.Time                    `json:"queued"`
	Running    uuid.UUID                    `json:"running"`
	Pending    int                          `json:"pending"`
	row        *ledger.Row
}

// facts are the rows of the ledger.
type facts struct {
	runs    []*runRow
	threads map[uuid.UUID]*threadRow
	wakes   map[uuid.UUID]*ledger.Row
	hooks   []*ledger.Row
	crons   []*ledger.Row
	workers []*ledger.Row
}

func (c *cluster) facts(ctx context.Context) (*facts, error) {
	f := &facts{threads: map[uuid.UUID]*threadRow{}, wakes: map[uuid.UUID]*ledger.Row{}}
	rows := map[ledger.Kind][]*ledger.Row{}
	for _, kind := range []ledger.Kind{ledger.Runs, ledger.Threads, ledger.Wakes, ledger.Hooks, ledger.Crons, ledger.Workers} {
		var err error
		if rows[kind], err = c.rowsOf(ctx, kind); err != nil {
			return nil, err
		}
	}
	for _, r := range rows[ledger.Runs] {
		run := &runRow{row: r}
		if err := json.Unmarshal(r.Doc, run); err != nil {
			return nil, err
		}
		f.runs = append(f.runs, run)
	}
	for _, r := range rows[ledger.Threads] {
		th := &threadRow{row: r}
		if err := json.Unmarshal(r.Doc, th); err != nil {
			return nil, err
		}
		f.threads[th.ID] = th
	}
	for _, r := range rows[ledger.Wakes] {
		f.wakes[r.ID] = r
	}
	f.hooks, f.crons, f.workers = rows[ledger.Hooks], rows[ledger.Crons], rows[ledger.Workers]
	return f, nil
}

// gaveUp reports whether a run of a thread was ended because too many of its processes
// died.
func (c *cluster) gaveUp(thread string) bool {
	rows, err := c.rowsOf(c.t.Context(), ledger.Runs)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(rows, func(r *ledger.Row) bool {
		return r.Parent.String() == thread && strings.Contains(string(r.Doc), `"WorkerLost"`)
	})
}

// describe returns the rows of a thread and of its first runs.
func (f *facts) describe(thread uuid.UUID) string {
	var b strings.Builder
	if th := f.threads[thread]; th != nil {
		fmt.Fprintf(&b, "\n\tthread %s", th.row.Doc)
	}
	n := 0
	for _, r := range f.runs {
		if r.Thread != thread {
			continue
		}
		if n++; n <= maxShown {
			fmt.Fprintf(&b, "\n\trun %s", r.row.Doc)
		}
	}
	if n > maxShown {
		fmt.Fprintf(&b, "\n\tand %d more runs", n-maxShown)
	}
	return b.String()
}

// maxShown bounds how many of the same kind a failure shows.
const maxShown = 5

// orphans returns the runs that are running and that no process executes. A run may be in
// between for a moment: see orphanTime.
func (f *facts) orphans(by map[uuid.UUID][]report) (orphans []*runRow) {
	for _, r := range f.runs {
		if r.Status == "running" && len(by[r.ID]) == 0 {
			orphans = append(orphans, r)
		}
	}
	return orphans
}

// orphanTime is the maximum time for which a run may be running without a process that
// executes it, while all processes and their connections work: slightly more than a lease.
const orphanTime = 15 * time.Second

// watch checks for orphans while nothing is broken, until ctx ends.
func (c *cluster) watch(ctx context.Context, t *testing.T) {
	since := map[string]time.Time{}
	told := map[string]bool{}
	for delay.For(ctx, time.Second) == nil {
		by, silent := c.executing(ctx)
		if len(silent) > 0 || c.calm() < orphanTime {
			clear(since)
			continue
		}
		f, err := c.facts(ctx)
		if err != nil {
			continue // the database may be down, or ctx has ended
		}
		found := map[string]time.Time{}
		for _, r := range f.orphans(by) {
			key := fmt.Sprint(r.ID, r.Worker, r.Attempt)
			at, ok := since[key]
			if !ok {
				at = time.Now()
			}
			found[key] = at
			if time.Since(at) > orphanTime && !told[key] {
				told[key] = true
				c.note("orphan: run %s", r.ID)
				t.Errorf("run %s is running and no process has executed it for %v:%s", r.ID, orphanTime, f.describe(r.Thread))
			}
		}
		since = found
	}
}

// settle waits until no run is open and, with hooks, no webhook waits.
func (c *cluster) settle(t *testing.T, patience time.Duration, hooks bool) *facts {
	t.Helper()
	var f *facts
	var err error
	began := time.Now()
	orphaned := map[uuid.UUID]time.Time{}
	for {
		f, err = c.facts(t.Context())
		if err != nil && time.Since(began) > patience {
			t.Fatalf("read the ledger: %v", err)
		}
		if err == nil {
			open := slices.DeleteFunc(slices.Clone(f.runs), func(r *runRow) bool { return !r.open() })
			if len(open) == 0 && (!hooks || len(f.hooks) == 0) && !f.sleeps() {
				return f
			}
			by, silent := c.executing(t.Context())
			now := map[uuid.UUID]time.Time{}
			stuck := false
			for _, r := range f.orphans(by) {
				now[r.ID] = time.Now()
				if at, ok := orphaned[r.ID]; ok {
					now[r.ID] = at
				}
				stuck = stuck || time.Since(now[r.ID]) > orphanTime
			}
			orphaned = now
			if stuck || time.Since(began) > patience {
				c.unsettled(t, f, by, silent)
				return f
			}
		}
		if delay.For(t.Context(), 50*time.Millisecond) != nil {
			t.Fatal(t.Context().Err())
		}
	}
}

// sleeps reports whether a thread will wake up.
func (f *facts) sleeps() bool {
	for _, th := range f.threads {
		if !th.Wake.IsZero() {
			return true
		}
	}
	return false
}

// unsettled reports what does not end.
func (c *cluster) unsettled(t *testing.T, f *facts, by map[uuid.UUID][]report, silent []int) {
	t.Helper()
	if len(silent) > 0 {
		t.Errorf("servers %v do not report", silent)
	}
	n := 0
	for _, r := range f.runs {
		if r.open() {
			n++
		}
		switch {
		case !r.open() || n > maxShown:
		case r.Status == "running" && len(by[r.ID]) == 0:
			t.Errorf("run %s is running and no process executes it:%s", r.ID, f.describe(r.Thread))
		case r.Status == "running":
			t.Errorf("run %s does not end in process %d:%s", r.ID, by[r.ID][0].PID, f.describe(r.Thread))
		default:
			t.Errorf("run %s does not start:%s", r.ID, f.describe(r.Thread))
		}
	}
	if n > maxShown {
		t.Errorf("and %d more runs do not end", n-maxShown)
	}
	for _, h := range f.hooks[:min(len(f.hooks), maxShown)] {
		t.Errorf("webhook of run %s is not sent: due %v, %s", h.ID, h.Due, h.Doc)
	}
	for _, th := range f.threads {
		if !th.Wake.IsZero() {
			t.Errorf("thread %s does not wake up:%s", th.ID, f.describe(th.ID))
		}
	}
}

// consistent checks that the rows agree with each other and with what processes report.
func (c *cluster) consistent(t *testing.T, f *facts) {
	t.Helper()
	running, pending := map[uuid.UUID][]uuid.UUID{}, map[uuid.UUID]int{}
	for _, r := range f.runs {
		switch r.Status {
		case "running":
			running[r.Thread] = append(running[r.Thread], r.ID)
		case "pending":
			pending[r.Thread]++
		}
		if r.open() != r.row.Open || (r.Status == "running") != (r.row.Worker != uuid.Nil) {
			t.Errorf("run %s has the columns open=%t worker=%s and the document %s", r.ID, r.row.Open, r.row.Worker, r.row.Doc)
		}
	}
	for id, th := range f.threads {
		open := th.Running != uuid.Nil || th.Pending > 0
		if (th.Status == "busy") != open || th.row.Open != open {
			t.Errorf("thread %s is %s (open=%t), with running=%s pending=%d", id, th.Status, th.row.Open, th.Running, th.Pending)
		}
		if len(running[id]) > 1 || (th.Running != uuid.Nil) != (len(running[id]) == 1) || len(running[id]) == 1 && running[id][0] != th.Running || th.Pending != pending[id] {
			t.Errorf("thread %s does not agree with its runs, running %v and %d pending:%s", id, running[id], pending[id], f.describe(id))
		}
		if wake := f.wakes[id]; (wake != nil) != !th.Queued.IsZero() || wake != nil && !wake.Due.Equal(th.Queued) {
			t.Errorf("thread %s does not agree with its wake-up %v:%s", id, wake, f.describe(id))
		}
	}
	for id := range f.wakes {
		if f.threads[id] == nil {
			t.Errorf("a wake-up has no thread: %s", id)
		}
	}
	c.idle(t)
}

// idle waits until no process executes a run that has ended.
func (c *cluster) idle(t *testing.T) {
	t.Helper()
	for began := time.Now(); ; {
		by, _ := c.executing(t.Context())
		f, err := c.facts(t.Context())
		if err != nil {
			t.Fatalf("read the ledger: %v", err)
		}
		for _, r := range f.runs {
			if r.Status == "running" {
				delete(by, r.ID)
			}
		}
		if len(by) == 0 {
			return
		}
		if time.Since(began) > orphanTime {
			for run, reports := range by {
				t.Errorf("process %d executes run %s, which has ended", reports[0].PID, run)
			}
			return
		}
		_ = delay.For(t.Context(), 50*time.Millisecond) // facts fails if the context has ended
	}
}

// check checks everything at the end. mayGiveUp allows runs to end after too many
// attempts, which is right if processes died.
func (y *load) check(t *testing.T, patience time.Duration, mayGiveUp bool) {
	t.Helper()
	f := y.c.settle(t, patience, true)
	if t.Failed() {
		return // the rest would follow from it
	}
	y.checkAll(t, f, mayGiveUp)
	y.checkEnds(t, f)
}

// checkAll checks everything but webhooks.
func (y *load) checkAll(t *testing.T, f *facts, mayGiveUp bool) {
	t.Helper()
	c := y.c
	c.consistent(t, f)
	y.mu.Lock()
	defer y.mu.Unlock()
	lost := map[string]bool{}
	for _, r := range f.runs {
		if r.Failure != nil && r.Failure.Class == "WorkerLost" {
			lost[r.Thread.String()] = true
			if !mayGiveUp {
				t.Errorf("run %s was abandoned: %s", r.ID, r.row.Doc)
			}
		}
	}
	k := newClient(c, c.random("check"), nil)
	defer k.close()
	for _, x := range y.all {
		if x.stopped || lost[x.thread] {
			continue
		}
		y.checkRuns(t, f, x)
		if x.thread != "" {
			y.checkThread(t, f, k, x)
		}
	}
	c.sink.check(t, y)
	if len(lost) > 0 {
		t.Logf("%d threads were abandoned after too many attempts", len(lost))
	}
}

// checkRuns checks that the runs of a unit have ended as they should.
func (y *load) checkRuns(t *testing.T, f *facts, x *expected) {
	t.Helper()
	rows := map[string]*runRow{}
	for _, r := range f.runs {
		rows[r.ID.String()] = r
	}
	cut := map[string]bool{}
	for _, o := range x.over {
		cut[o.run] = true
	}
	for _, run := range x.runs {
		r := rows[run.Run]
		want := "success"
		if cut[run.Run] {
			want = "interrupted"
		}
		switch {
		case x.thread == "" || cut[run.Run] && x.unit == "rollback":
			if r != nil {
				t.Errorf("run %s of %s is still there: %s", run.Run, x.unit, r.row.Doc)
			}
		case r == nil:
			t.Errorf("run %s of %s is gone", run.Run, x.unit)
		case r.Status != want:
			t.Errorf("run %s of %s has the status %s, want %s:%s", run.Run, x.unit, r.Status, want, f.describe(r.Thread))
		}
	}
}

// checkEnds checks that every run has ended once, according to its webhooks.
func (y *load) checkEnds(t *testing.T, f *facts) {
	t.Helper()
	rows := map[string]*runRow{}
	for _, r := range f.runs {
		rows[r.ID.String()] = r
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, x := range y.all {
		if x.stopped || f.lost(x.thread) {
			continue
		}
		runs := map[string]bool{}
		for _, run := range x.runs {
			runs[run.Run] = true
		}
		for _, r := range f.runs { // those that the server has made
			if r.Thread.String() == x.thread && r.Webhook != "" {
				runs[r.ID.String()] = true
			}
		}
		if states := y.c.sink.pushesOf(x.task); x.task != "" && !slices.Equal(states, []string{taskDone, taskAsks}) {
			t.Errorf("the notifications about task %s have the states %q", x.task, states)
		}
		for run := range runs {
			ends, r := y.c.sink.endsOf(run), rows[run]
			if len(ends) == 0 {
				t.Errorf("run %s of %s ended without a webhook", run, x.unit)
			}
			for _, e := range ends {
				if e.Status != ends[0].Status || !e.Ended.Equal(ends[0].Ended) {
					t.Errorf("run %s of %s ended more than once: %+v", run, x.unit, ends)
				}
				if r != nil && e.Status != r.Status {
					t.Errorf("run %s of %s ended as %s and is stored as %s", run, x.unit, e.Status, r.Status)
				}
			}
		}
	}
}

// lost reports whether a run of the thread was ended because too many of its processes
// died.
func (f *facts) lost(thread string) bool {
	return slices.ContainsFunc(f.runs, func(r *runRow) bool {
		return r.Thread.String() == thread && r.Failure != nil && r.Failure.Class == "WorkerLost"
	})
}

// checkThread checks the state of a thread, and that its row agrees with it.
func (y *load) checkThread(t *testing.T, f *facts, k *client, x *expected) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id := uuid.MustParse(x.thread)
	row := f.threads[id]
	if row == nil {
		t.Errorf("thread %s of %s is gone", x.thread, x.unit)
		return
	}
	var now struct {
		Values state
		Next   []string
		Tasks  []struct {
			ID         string
			Interrupts []struct{ ID string }
		}
	}
	if err := k.try(ctx, http.MethodGet, "/threads/"+x.thread+"/state", nil, nil, &now); err != nil {
		t.Error(err)
		return
	}
	want := x.status
	if want == "" {
		want = "idle"
	}
	if row.Status != want {
		t.Errorf("thread %s of %s is %s, want %s:%s", x.thread, x.unit, row.Status, want, f.describe(id))
	}
	if now.Values.Reply != x.reply {
		t.Errorf("thread %s of %s has the reply %q, want %q", x.thread, x.unit, now.Values.Reply, x.reply)
	}
	if err := x.logFits(now.Values.Log); err != nil {
		t.Errorf("thread %s of %s: %v:%s", x.thread, x.unit, err, f.describe(id))
	}
	saved, shown := map[string]bool{}, map[string]bool{}
	for _, task := range now.Tasks {
		for _, i := range task.Interrupts {
			saved[i.ID] = true
		}
	}
	for _, list := range row.Interrupts {
		for _, raw := range list {
			var i struct{ ID string }
			if err := json.Unmarshal(raw, &i); err != nil {
				t.Error(err)
			}
			shown[i.ID] = true
		}
	}
	if !maps.Equal(saved, shown) {
		t.Errorf("thread %s of %s shows the interrupts %v, and its latest checkpoint has %v:%s", x.thread, x.unit, shown, saved, f.describe(id))
	}
}

// logFits returns an error unless the log is the one that the unit leaves.
func (x *expected) logFits(log []string) error {
	if x.log != nil {
		if !slices.Equal(log, x.log) {
			return fmt.Errorf("the log is %v, want %v", log, x.log)
		}
		return nil
	}
	switch x.unit {
	case "cancel": // the first turn to some step, and the second one
		second := slices.IndexFunc(log, func(s string) bool { return strings.HasPrefix(s, "2.") })
		for i, entry := range log {
			want := logged(1, i, "")
			if second >= 0 && i >= second {
				want = logged(2, i-second, "")
			}
			if entry != want {
				return fmt.Errorf("the log has %s at %d, want %s: %v", entry, i, want, log)
			}
		}
		if second < 0 {
			return fmt.Errorf("the log has no second turn: %v", log)
		}
	case "cron": // one entry for each run
		seen := map[string]bool{}
		for _, entry := range log {
			if seen[entry] {
				return fmt.Errorf("the log has %s twice: %v", entry, log)
			}
			seen[entry] = true
		}
		if len(log) == 0 {
			return fmt.Errorf("the log is empty")
		}
	}
	return nil
}

// late reports whether an effect may start late because its process was stopped: the
// process may have been in that step, or between the previous step and that one.
func (s *sink) late(at int) bool {
	e := &s.effects[at]
	for _, st := range s.stops {
		if st.pid != e.PID || st.from > at {
			continue
		}
		for i := st.from - 1; i >= 0; i-- {
			before := &s.effects[i]
			if before.PID == e.PID && before.Thread == e.Thread && before.Turn == e.Turn {
				return e.Step <= before.Step+1
			}
		}
		return true // the process had just started the run
	}
	return false
}

// check checks that no effect started after it was recorded, that each effect has one
// idempotency key, and that runs that ended early have no later effects. A process that
// was stopped in the middle of an effect finishes it when it wakes up. No library can
// prevent that, which is the purpose of the keys.
func (s *sink) check(t *testing.T, y *load) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	recorded, keys := map[string]int{}, map[string]string{}
	over := map[string]int{}
	for _, x := range y.all {
		for _, o := range x.over {
			over[o.run] = o.at
		}
	}
	for i := range s.effects {
		e := &s.effects[i]
		if e.What == "recorded" {
			if _, ok := recorded[e.id()]; !ok {
				recorded[e.id()] = i
			}
			continue
		}
		if keys[e.id()] == "" {
			keys[e.id()] = e.Key
		}
		if keys[e.id()] != e.Key {
			t.Errorf("effect %s has the keys %s and %s", e.id(), keys[e.id()], e.Key)
		}
		if e.What != "begin" {
			continue
		}
		if at, ok := recorded[e.id()]; ok && !s.late(i) {
			t.Errorf("effect %s started in process %d after it was recorded by process %d", e.id(), e.PID, s.effects[at].PID)
		}
		if at, ok := over[e.Run]; ok && i >= at && !s.late(i) {
			t.Errorf("effect %s of run %s started in process %d after the run had ended", e.id(), e.Run, e.PID)
		}
	}
}
