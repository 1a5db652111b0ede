package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/reduce"
)

// outage is a fault of the database that the ledger and the saver share. The call with the
// number at fails, before or after the database has done it, and all calls fail for a while.
type outage struct {
	at    int
	after bool // the call is done, and its response is lost
	lasts time.Duration

	mu    sync.Mutex
	calls int
	until time.Time
}

// do performs a call.
func (o *outage) do(call func() error) error {
	o.mu.Lock()
	o.calls++
	now := time.Now()
	hit := o.calls == o.at
	if hit {
		o.until = now.Add(o.lasts)
	}
	down := hit || now.Before(o.until)
	o.mu.Unlock()
	if down && (!hit || !o.after) {
		return fmt.Errorf("not done: %w", checkpoint.ErrUnavailable)
	}
	if err := call(); err != nil || !hit {
		return err
	}
	return fmt.Errorf("response lost: %w", checkpoint.ErrUnavailable)
}

func through[T any](o *outage, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := o.do(func() error { return nil }); err != nil {
			yield(*new(T), err)
			return
		}
		seq(yield)
	}
}

type faultyLedger struct {
	ledger.Backend
	o *outage
}

func (b faultyLedger) Update(ctx context.Context, lock uuid.UUID, fn func(ledger.Tx) error) error {
	return b.o.do(func() error { return b.Backend.Update(ctx, lock, fn) })
}

func (b faultyLedger) Get(ctx context.Context, kind ledger.Kind, id uuid.UUID) (r *ledger.Row, err error) {
	err = b.o.do(func() error { r, err = b.Backend.Get(ctx, kind, id); return err })
	return r, err
}

func (b faultyLedger) Find(ctx context.Context, q *ledger.Query) iter.Seq2[*ledger.Row, error] {
	return through(b.o, b.Backend.Find(ctx, q))
}

func (b faultyLedger) Append(ctx context.Context, e *ledger.Events) error {
	return b.o.do(func() error { return b.Backend.Append(ctx, e) })
}

type faultySaver struct {
	*checkpoint.Memory
	o *outage
}

func (s faultySaver) Put(ctx context.Context, p *checkpoint.Put) error {
	return s.o.do(func() error { return s.Memory.Put(ctx, p) })
}

func (s faultySaver) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	return s.o.do(func() error { return s.Memory.PutWrites(ctx, at, fence, ws) })
}

func (s faultySaver) Fence(ctx context.Context, thread string, epoch uint64) error {
	return s.o.do(func() error { return s.Memory.Fence(ctx, thread, epoch) })
}

func (s faultySaver) DeleteRuns(ctx context.Context, thread string, runs []string) (n int, err error) {
	err = s.o.do(func() error { n, err = s.Memory.DeleteRuns(ctx, thread, runs); return err })
	return n, err
}

func (s faultySaver) Get(ctx context.Context, key checkpoint.Key) (c *checkpoint.Checkpoint, err error) {
	err = s.o.do(func() error { c, err = s.Memory.Get(ctx, key); return err })
	return c, err
}

func (s faultySaver) List(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Checkpoint, error] {
	return through(s.o, s.Memory.List(ctx, q))
}

type trip struct {
	Kind string              `json:"kind"`
	Log  reduce.List[string] `json:"log"`
}

type tripLog struct{ Log reduce.List[string] }

// trips returns a graph that takes a step and then sleeps, interrupts, takes its time, or
// continues.
func trips(t *testing.T) treadle.AnyGraph {
	t.Helper()
	b := treadle.New[trip]("trip")
	treadle.AddNode(b, "pack", func(context.Context, trip) (tripLog, error) { return tripLog{reduce.List[string]{"pack"}}, nil })
	treadle.AddNode(b, "travel", func(ctx context.Context, s trip) (tripLog, error) {
		var err error
		switch s.Kind {
		case "sleep":
			err = treadle.Sleep(ctx, 10*time.Second)
		case "ask":
			_, err = treadle.Interrupt[string](ctx, "where to?")
		case "slow":
			<-ctx.Done()
			err = ctx.Err()
		}
		return tripLog{reduce.List[string]{"travel"}}, err
	})
	b.Edge(treadle.Start, "pack")
	b.Edge("pack", "travel")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// travelers is a runner whose database has an outage, and what clients ask of it.
type travelers struct {
	*testing.T
	o       *outage
	r       *Runner
	backend ledger.Backend
	saver   *checkpoint.Memory
}

func newTravelers(t *testing.T, o *outage) *travelers {
	t.Helper()
	w := &travelers{T: t, o: o, backend: ledger.NewMemory(), saver: checkpoint.NewMemory()}
	at := o.at
	o.at = 0 // a runner that cannot start has accepted nothing
	r, err := New(Options{
		Ledger: ledger.New(faultyLedger{w.backend, o}, nil), Saver: faultySaver{w.saver, o},
		Graphs: []treadle.AnyGraph{trips(t)}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.r = r
	o.mu.Lock()
	o.at = at + o.calls
	if at == 0 {
		o.at = 0
	}
	o.mu.Unlock()
	return w
}

// accepted calls fn as a client does: until it is accepted.
func (w *travelers) accepted(fn func() error) {
	w.Helper()
	for tries := 1; ; tries++ {
		err := fn()
		if err == nil {
			return
		}
		if !errors.Is(err, checkpoint.ErrUnavailable) || tries > 1000 {
			w.Fatal(err)
		}
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
	}
}

// run creates a run under an idempotency key.
func (w *travelers) run(thread uuid.UUID, key, input, command string) (run *ledger.Run) {
	w.Helper()
	k := Kwargs{StreamMode: []string{"values"}, Input: json.RawMessage(input), Command: json.RawMessage(command)}
	w.accepted(func() error {
		c, err := w.r.Create(w.Context(), &ledger.NewRun{
			Run:    &ledger.Run{Thread: thread, Graph: "trip", Key: key, Kwargs: jsonOf(k)},
			Create: &ledger.Thread{Metadata: ledger.Object{"graph_id": "trip"}},
		}, false)
		if err == nil {
			run = c.Run
		}
		return err
	})
	return run
}

// visit does what clients do: a run that sleeps and is woken, two runs in a row, a run
// that is interrupted and resumed, and a run that is canceled.
func (w *travelers) visit() (threads []uuid.UUID) {
	asleep := uuid.New()
	twice := uuid.New()
	asking := uuid.New()
	slow := uuid.New()
	w.run(asleep, "1", `{"kind":"sleep"}`, "null")
	w.run(twice, "2", `{"kind":""}`, "null")
	w.run(twice, "3", `{"kind":""}`, "null")
	w.run(asking, "4", `{"kind":"ask"}`, "null")
	canceled := w.run(slow, "5", `{"kind":"slow"}`, "null")
	time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time
	w.accepted(func() error {
		_, err := w.r.Cancel(w.Context(), slow, []uuid.UUID{canceled.ID}, ledger.CancelRun, nil)
		return err
	})
	w.awaitQuiet()
	w.run(asking, "6", "null", `{"resume":"north"}`)
	return []uuid.UUID{asleep, twice, asking, slow}
}

// awaitQuiet waits until no run is open or executed, and no thread waits to be woken.
func (w *travelers) awaitQuiet() {
	for range 600 {
		synctest.Wait()
		left := w.r.Active()
		for _, q := range []*ledger.Query{{Kind: ledger.Runs, Open: true}, {Kind: ledger.Wakes}} {
			for range w.backend.Find(w.Context(), q) {
				left++
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
	}
	for run, err := range ledger.New(w.backend, nil).OpenRuns(w.Context(), nil) {
		w.Errorf("run %s is still %s; executed here: %v; error: %v", run.Key, run.Status, w.r.executes(run.ID), err)
	}
	w.Fatalf("%d runs are executed", w.r.Active())
}

// check compares the ledger, the checkpoints, and the runner at the end.
func (w *travelers) check(threads []uuid.UUID) {
	w.awaitQuiet()
	w.r.mu.Lock()
	if w.r.free != w.r.slots || len(w.r.taken) != 0 {
		w.Errorf("%d of %d slots are free, %d are taken for calls", w.r.free, w.r.slots, len(w.r.taken))
	}
	w.r.mu.Unlock()
	want := map[int]string{0: `["pack","travel"]`, 1: `["pack","travel","pack","travel"]`, 2: `["pack","travel"]`, 3: `["pack"]`}
	l := ledger.New(w.backend, nil)
	for i, id := range threads {
		t, err := l.Thread(w.Context(), id, nil)
		if err != nil {
			w.Fatal(err)
		}
		th := dynamic.Open(w.r.graphs["trip"], id.String(), dynamic.Host{Saver: w.saver}.Option())
		snap, err := th.State(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		log, _ := snap.State.Get("log")
		got := string(jsonOf(log))
		early := i == 3 && (got == "null" || got == "[]") // canceled before its first step
		if got != want[i] && !early {
			w.Errorf("thread %d has the log %s, want %s", i, got, want[i])
		}
		if interrupts := string(Interrupts(snap)); interrupts != string(t.Interrupts) {
			w.Errorf("thread %d shows the interrupts %s, and its state has %s", i, t.Interrupts, interrupts)
		}
		status := ledger.Idle
		if i == 3 {
			status = ledger.Interrupted
		}
		if t.Status != status {
			w.Errorf("thread %d is %s, want %s", i, t.Status, status)
		}
	}
	if err := w.r.Drain(w.Context()); err != nil && !errors.Is(err, checkpoint.ErrUnavailable) {
		w.Error(err)
	}
}

// An outage of any length, at any call, before or after the call is done, loses nothing that
// was accepted: every run ends with the state that it should have, and no slot is lost.
func TestOutageAtEveryCallLosesNothing(t *testing.T) {
	t.Parallel()
	var calls int
	synctest.Test(t, func(t *testing.T) {
		o := &outage{}
		w := newTravelers(t, o)
		w.check(w.visit())
		o.mu.Lock()
		defer o.mu.Unlock()
		calls = o.calls
	})
	n := 0
	for _, lasts := range []time.Duration{0, 5 * time.Second, 70 * time.Second, 200 * time.Second} {
		for _, after := range []bool{false, true} {
			n++
			first := 1 + n%3 // each case starts with another call and uses every third
			t.Run(fmt.Sprintf("%s/after=%v", lasts, after), func(t *testing.T) {
				t.Parallel()
				for at := first; at <= min(calls, 250); at += 3 {
					synctest.Test(t, func(t *testing.T) {
						w := newTravelers(t, &outage{at: at, after: after, lasts: lasts})
						w.check(w.visit())
					})
					if t.Failed() {
						t.Fatalf("the outage was at call %d", at)
					}
				}
			})
		}
	}
}

// A run canceled while its process was stopped needs the fence like any other: the process
// would resume the run when it wakes up.
func TestTakingOverCanceledRunFencesThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend, saver := ledger.NewMemory(), checkpoint.NewMemory()
		l := ledger.New(backend, nil)
		stopped := uuid.New() // the process
		if _, err := l.Beat(t.Context(), stopped, "stopped"); err != nil {
			t.Fatal(err)
		}
		thread := uuid.New()
		c, err := l.CreateRun(t.Context(), &ledger.NewRun{
			Run:    &ledger.Run{Thread: thread, Graph: "trip", Kwargs: jsonOf(Kwargs{Input: json.RawMessage(`{"kind":"slow"}`)})},
			Create: &ledger.Thread{Metadata: ledger.Object{"graph_id": "trip"}}, Worker: stopped,
		})
		if err != nil || !c.Claimed {
			t.Fatal(c, err)
		}
		if _, _, err := l.Cancel(t.Context(), thread, []uuid.UUID{c.Run.ID}, ledger.CancelRun, nil); err != nil {
			t.Fatal(err)
		}
		o := &outage{at: 1 << 30}
		r, err := New(Options{Ledger: l, Saver: faultySaver{saver, o}, Graphs: []treadle.AnyGraph{trips(t)}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second) //nolint:forbidigo // the lease of the stopped process ends, in virtual time
		run, err := l.Run(t.Context(), thread, c.Run.ID, nil)
		if err != nil || run.Status != ledger.RunCanceled {
			t.Fatalf("the run is %+v, %v; want canceled", run, err)
		}
		put := &checkpoint.Put{Key: checkpoint.Key{Thread: thread.String(), ID: checkpoint.NewID(0, checkpoint.ID{})}, Fence: c.Run.Epoch}
		if err := saver.Put(t.Context(), put); !errors.Is(err, checkpoint.ErrFenced) {
			t.Errorf("a write by the stopped process: %v, want ErrFenced", err)
		}
		if err := r.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A stopped process learns from its next heartbeat that another one has taken over its
// run.
func TestBeatEndsRunsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTravelers(t, &outage{})
		thread := uuid.New()
		run := w.run(thread, "1", `{"kind":"slow"}`, "null")
		synctest.Wait()
		// Another process takes the run over, which this one would have noticed only at its
		// next write.
		l, other := ledger.New(w.backend, nil), uuid.New()
		if err := l.Leave(t.Context(), w.r.worker); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Beat(t.Context(), other, "other"); err != nil {
			t.Fatal(err)
		}
		taken, _, err := l.TakeOver(t.Context(), other, nil, 1)
		if err != nil || len(taken) != 1 || taken[0].ID != run.ID {
			t.Fatal(taken, err)
		}
		time.Sleep(2 * beatEvery) //nolint:forbidigo // virtual time
		synctest.Wait()
		if w.r.executes(run.ID) {
			t.Error("the run is still executed")
		}
		held, err := l.Beat(t.Context(), other, "other")
		if err != nil || len(held) != 1 || held[0].Status != ledger.Running {
			t.Errorf("the other process has %v, %v; want the run", held, err)
		}
		if err := w.r.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// While an end cannot be saved, the health check reports why.
func TestTroubleReportsFailedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outage{}
		w := newTravelers(t, o)
		if err := w.r.Trouble(); err != nil {
			t.Fatal(err)
		}
		w.run(uuid.New(), "1", `{"kind":""}`, "null")
		o.mu.Lock()
		o.until = time.Now().Add(time.Minute)
		o.mu.Unlock()
		time.Sleep(30 * time.Second) //nolint:forbidigo // virtual time
		if err := w.r.Trouble(); !errors.Is(err, checkpoint.ErrUnavailable) {
			t.Errorf("during the outage: %v, want ErrUnavailable", err)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		w.run(uuid.New(), "2", `{"kind":""}`, "null")
		w.awaitQuiet()
		if err := w.r.Trouble(); err != nil {
			t.Errorf("after the outage: %v", err)
		}
		if err := w.r.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

type report struct {
	Ends string `json:"ends"` // how the node ends
	Done bool   `json:"done"`
}

// newReports returns a graph whose node sends 100 events of 4 kB, one each 100 ms.
func newReports(t *testing.T) treadle.AnyGraph {
	t.Helper()
	b := treadle.New[report]("reports")
	treadle.AddNode(b, "send", func(ctx context.Context, s report) (treadle.Update, error) {
		for i := range 100 {
			treadle.Emit(ctx, fmt.Sprintf("%d %s", i, strings.Repeat("x", 4<<10)))
			if err := delay.For(ctx, 100*time.Millisecond); err != nil {
				return nil, err
			}
		}
		switch s.Ends {
		case "failure":
			return nil, errors.New("no more paper")
		case "question":
			if _, err := treadle.Interrupt[string](ctx, "more?"); err != nil {
				return nil, err
			}
		}
		return treadle.Update{"done": true}, nil
	})
	b.Edge(treadle.Start, "send")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Events wait for the database until they exceed half the memory limit. They are then
// dropped, and their step runs again: a reader after the outage gets all of them, and the
// attempt shows that the run was resumed.
func TestEventsGivenUpInOutageAreSentAgain(t *testing.T) {
	for _, ends := range []string{"success", "failure", "question"} {
		for _, lasts := range []time.Duration{5 * time.Second, 20 * time.Second, 200 * time.Second} {
			t.Run(fmt.Sprint(ends, lasts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sendReports(t, ends, &outage{}, func(o *outage) { o.until = time.Now().Add(lasts) })
				})
			})
		}
	}
}

// The last events of a run follow its last saved step, so no step can send them again.
func TestLastEventsOutlastOutage(t *testing.T) {
	for _, ends := range []string{"success", "failure", "question"} {
		for after := range 8 {
			t.Run(fmt.Sprint(ends, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					// The outage begins with one of the last calls of the run: its events, its step, and its end.
					calls := sendReports(t, ends, &outage{}, func(*outage) {})
					sendReports(t, ends, &outage{lasts: 200 * time.Second}, func(o *outage) { o.at = calls - after })
				})
			})
		}
	}
}

// sendReports runs a graph of newReports. A second after the run is created, it calls
// begin, which starts or schedules an outage. It then compares the stored events with the
// events that the node sent, and returns the number of calls that the run made.
func sendReports(t *testing.T, ends string, o *outage, begin func(*outage)) (calls int) {
	t.Helper()
	backend := ledger.NewMemory()
	r, err := New(Options{
		Ledger: ledger.New(faultyLedger{backend, o}, nil), Saver: faultySaver{checkpoint.NewMemory(), o}, Memory: budget.New(256 << 10),
		Graphs: []treadle.AnyGraph{newReports(t)}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	k := Kwargs{StreamMode: []string{"custom", "values"}, Input: jsonOf(report{Ends: ends})}
	made, err := r.Create(t.Context(), &ledger.NewRun{
		Run:    &ledger.Run{Thread: uuid.New(), Graph: "reports", Resumable: true, Kwargs: jsonOf(k)},
		Create: &ledger.Thread{Metadata: ledger.Object{"graph_id": "reports"}},
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) //nolint:forbidigo // virtual time
	o.mu.Lock()
	begin(o)
	o.mu.Unlock()
	for range 600 {
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		synctest.Wait()
		if r.Active() == 0 {
			break
		}
	}
	o.mu.Lock()
	calls = o.calls
	back := o.until
	o.mu.Unlock()
	time.Sleep(time.Until(back)) //nolint:forbidigo // virtual time
	var end *End
	sent, attempts, last := 0, 0, ""
	for e, err := range r.unpacked(t.Context(), made.Run.Thread, made.Run.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.End != nil:
			end = e.End
		case e.Name == "metadata":
			sent, attempts = 0, attempts+1
		case e.Name == "values":
			last = string(e.Data())
		case e.Name == "custom":
			if want := fmt.Sprintf("\"%d ", sent); !strings.HasPrefix(string(e.Data()), want) {
				t.Fatalf("attempt %d: event %.10s, want %s", attempts, e.Data(), want)
			}
			sent++
		}
	}
	status := map[string]ledger.RunStatus{"success": ledger.Success, "failure": ledger.Error, "question": ledger.Success}[ends]
	if end == nil || end.Status != string(status) || end.Paused != (ends == "question") {
		t.Errorf("the stored end is %+v, want %s", end, status)
	}
	if sent != 100 {
		t.Errorf("attempt %d: %d of 100 events are stored", attempts, sent)
	}
	if ends == "success" && !strings.Contains(last, `"done":true`) {
		t.Errorf("attempt %d: the last stored state is %s", attempts, last)
	}
	run, err := ledger.New(backend, nil).Run(t.Context(), made.Run.Thread, made.Run.ID, nil)
	if err != nil || run.Status != status {
		t.Errorf("run is %v, want %s; error %v", run.Status, status, err)
	}
	if err := r.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if n := r.unkept.Bytes(); n != 0 {
		t.Errorf("%d bytes of events still wait", n)
	}
	return calls
}

func TestWebhookIsRetriedFourTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		r, err := New(Options{
			Ledger: ledger.New(ledger.NewMemory(), nil), Saver: checkpoint.NewMemory(), Memory: budget.New(1 << 20), Logger: slog.New(slog.DiscardHandler),
			Graphs: []treadle.AnyGraph{newReports(t)},
			Send: func(context.Context, *ledger.Hook) error {
				at = append(at, time.Since(began).Round(time.Second))
				return errors.New("unreachable")
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		k := Kwargs{Input: jsonOf(report{Ends: "failure"}), Webhook: new("http://example.com")}
		_, err = r.Create(t.Context(), &ledger.NewRun{
			Run:    &ledger.Run{Thread: uuid.New(), Graph: "reports", Kwargs: jsonOf(k), Webhook: *k.Webhook},
			Create: &ledger.Thread{Metadata: ledger.Object{"graph_id": "reports"}},
		}, false)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		synctest.Wait()
		var pauses []time.Duration
		for i := 1; i < len(at); i++ {
			pauses = append(pauses, at[i]-at[i-1])
		}
		if !slices.Equal(pauses, retries) {
			t.Errorf("pauses between attempts: %v, want %v", pauses, retries)
		}
		if err := r.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
