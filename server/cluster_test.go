package server_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/internal/test/platform"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server"
)

// withoutLog is a bus that leaves events to the ledger, as the Postgres bus does.
type withoutLog struct{ bus.Bus }

// Log implements [bus.Bus].
func (withoutLog) Log() bus.Log { return nil }

// process is a server among others.
type process struct {
	*client
	srv  *server.Server
	db   *memory
	bus  bus.Bus
	gone bool
}

// leave drains the process.
func (p *process) leave() {
	if p.gone {
		return
	}
	p.gone = true
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.srv.Drain(ctx); err != nil {
		p.t.Errorf("drain: %v", err)
	}
}

// processes starts servers that share a database and a bus.
func processes(t *testing.T, b bus.Bus, options ...server.Options) []*process {
	t.Helper()
	db := newMemory()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	var out []*process
	for _, o := range options {
		out = append(out, serveShared(t, db, b, treadle.Must(platform.All()), o))
	}
	return out
}

// serveShared starts a server of graphs on a database and a bus.
func serveShared(t *testing.T, db *memory, b bus.Bus, graphs []treadle.AnyGraph, o server.Options) *process {
	t.Helper()
	o.Bus = b
	srv, err := server.New(db, graphs, &o)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(srv)
	p := &process{client: &client{t: t, base: hs.URL, head: map[string][]string{}}, srv: srv, db: db, bus: b}
	t.Cleanup(func() {
		p.leave()
		hs.Close()
	})
	return p
}

// beside starts another server on the same database and bus.
func (p *process) beside(graphs []treadle.AnyGraph, o server.Options) *process {
	p.t.Helper()
	return serveShared(p.t, p.db, p.bus, graphs, o)
}

// onBuses runs a test with a bus that has a log and with a bus that has none.
func onBuses(t *testing.T, test func(t *testing.T, b bus.Bus)) {
	t.Helper()
	t.Run("log of the bus", func(t *testing.T) { test(t, bus.NewMemory()) })
	t.Run("log of the ledger", func(t *testing.T) { test(t, withoutLog{bus.NewMemory()}) })
}

// soon expects that something takes no longer than a time, at least once: the machine may
// have much other work.
func soon(t *testing.T, within time.Duration, do func()) {
	t.Helper()
	const tries = 10
	var took time.Duration
	for range tries {
		began := time.Now()
		do()
		if took = time.Since(began); took <= within || t.Failed() {
			return
		}
	}
	t.Errorf("in each of %d tries it took longer than %v: the last one %v", tries, within, took)
}

func TestRunExecutesInAnotherProcess(t *testing.T) {
	onBuses(t, func(t *testing.T, b bus.Bus) {
		ps := processes(t, b, server.Options{Workers: -1}, server.Options{})
		api := ps[0]
		var thread string
		soon(t, 2*time.Second, func() {
			thread = api.thread()
			var got map[string]any
			api.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"router","input":{"target":"right"}}`, &got)
			if path := got["path"].([]any); len(path) != 2 || path[1] != "right" {
				t.Errorf("values %v", got)
			}
		})
		_, _, raw := api.do("POST", "/threads/"+thread+"/runs/stream", `{"assistant_id":"router","input":{"target":"left"},"stream_mode":["updates","values"]}`)
		equal(t, eventsOf(raw), []string{"metadata", "values", "updates", "values", "updates", "values"})
		var got map[string]any
		api.ok("POST", "/runs/wait", `{"assistant_id":"router","input":{"target":"left"}}`, &got)
		if path := got["path"].([]any); len(path) != 2 || path[1] != "left" {
			t.Errorf("values of a run without a thread: %v", got)
		}
	})
}

func TestStreamResumesFromAnotherProcess(t *testing.T) {
	onBuses(t, func(t *testing.T, b bus.Bus) {
		ps := processes(t, b, server.Options{}, server.Options{Workers: -1})
		worker, other := ps[0], ps[1]
		thread := worker.thread()
		var run struct {
			ID string `json:"run_id"`
		}
		worker.ok("POST", "/threads/"+thread+"/runs", `{"assistant_id":"slow","input":{"count":8,"delay_ms":50},"stream_mode":["updates"],"stream_resumable":true}`, &run)
		path := "/threads/" + thread + "/runs/" + run.ID + "/stream"
		_, _, raw := other.do("GET", path, "")
		all := frames(raw)
		if n := len(all); n < 10 {
			t.Fatalf("%d frames: %v", n, all)
		}
		for i, f := range all {
			reader := *other.client
			reader.head = map[string][]string{"Last-Event-Id": {f.id}}
			_, _, raw := reader.do("GET", path, "")
			if got := frames(raw); !slices.Equal(got, all[i+1:]) {
				t.Errorf("after event %s: got %v, want %v", f.id, got, all[i+1:])
			}
		}
	})
}

// countedBus counts the packs of events stored in its log.
type countedBus struct {
	bus.Bus
	packs atomic.Int64
}

// Log implements [bus.Bus].
func (b *countedBus) Log() bus.Log { return countedLog{b.Bus.Log(), b} }

type countedLog struct {
	bus.Log
	b *countedBus
}

func (l countedLog) Append(ctx context.Context, e *ledger.Events) error {
	l.b.packs.Add(1)
	return l.Log.Append(ctx, e)
}

// A client that waits for a run reads no stream, so the events are not stored step by step.
// Whoever reads them all the same in another process gets them.
func TestWaitStoresEventsAtEndOfRun(t *testing.T) {
	b := &countedBus{Bus: bus.NewMemory()}
	ps := processes(t, b, server.Options{}, server.Options{Workers: -1})
	worker, other := ps[0], ps[1]
	packs := func(how, more string) int64 {
		before := b.packs.Load()
		thread := worker.thread()
		worker.do("POST", "/threads/"+thread+"/runs/"+how, `{"assistant_id":"router","input":{"target":"right"},"stream_mode":["values"]`+more+`}`)
		return b.packs.Load() - before
	}
	if n := packs("wait", ""); n != 1 {
		t.Errorf("the events of an awaited run are stored in %d packs, want one", n)
	}
	for how, more := range map[string]string{"stream": "", "wait": `,"stream_resumable":true`} {
		if n := packs(how, more); n < 3 {
			t.Errorf("the events of %s%s are stored in %d packs, want them before each step", how, more, n)
		}
	}
	const body = `{"assistant_id":"slow","input":{"count":12,"delay_ms":100},"stream_mode":["updates"]}`
	thread := worker.thread()
	done := make(chan struct{})
	go func() {
		defer close(done)
		worker.do("POST", "/threads/"+thread+"/runs/wait", body)
	}()
	_, _, there := other.do("GET", "/threads/"+thread+"/runs/"+other.onlyRun(thread)+"/stream", "")
	<-done
	_, _, here := worker.do("POST", "/threads/"+worker.thread()+"/runs/stream", body)
	equal(t, eventsOf(there), eventsOf(here))
}

func eventsOf(stream []byte) (names []string) {
	for _, f := range frames(stream) {
		names = append(names, f.event)
	}
	return names
}

// onlyRun waits until a thread has a run.
func (p *process) onlyRun(thread string) string {
	p.t.Helper()
	var runs []struct {
		ID string `json:"run_id"`
	}
	for len(runs) == 0 {
		p.ok("GET", "/threads/"+thread+"/runs", "", &runs)
	}
	return runs[0].ID
}

func TestCancelFromAnotherProcess(t *testing.T) {
	onBuses(t, func(t *testing.T, b bus.Bus) {
		ps := processes(t, b, server.Options{}, server.Options{Workers: -1})
		worker, other := ps[0], ps[1]
		soon(t, 900*time.Millisecond, func() { // the next beat would do it too
			thread := worker.thread()
			var run struct {
				ID string `json:"run_id"`
			}
			worker.ok("POST", "/threads/"+thread+"/runs", `{"assistant_id":"slow","input":{"count":3,"delay_ms":60000}}`, &run)
			other.ok("POST", "/threads/"+thread+"/runs/"+run.ID+"/cancel?wait=true", "", nil)
			var got struct{ Status string }
			other.ok("GET", "/threads/"+thread+"/runs/"+run.ID, "", &got)
			if got.Status != "interrupted" {
				t.Errorf("the run is %s", got.Status)
			}
		})
	})
}

func TestDrainedRunResumesInAnotherProcess(t *testing.T) {
	for _, how := range []string{"", "/wait"} {
		t.Run("runs"+how, func(t *testing.T) { leaveDuringARun(t, how) })
	}
}

func leaveDuringARun(t *testing.T, how string) {
	onBuses(t, func(t *testing.T, b bus.Bus) {
		ps := processes(t, b, server.Options{}, server.Options{}, server.Options{Workers: -1})
		first, reader := ps[0], ps[2]
		thread := first.thread()
		first.open("POST", "/threads/"+thread+"/runs"+how, fmt.Sprintf(`{"assistant_id":"slow","input":{"count":20,"delay_ms":50},"stream_mode":["updates"],"stream_resumable":%v}`, how == ""))
		l := reader.open("GET", "/threads/"+thread+"/runs/"+reader.onlyRun(thread)+"/stream", "")
		l.until("some ticks", func(fs []frame) bool { return len(fs) > 4 })
		first.leave()
		<-l.done
		l.mu.Lock()
		defer l.mu.Unlock()
		ticks, last := 0, 0
		for _, f := range l.frames {
			var n int
			if _, err := fmt.Sscan(f.id, &n); err != nil || n <= last {
				t.Errorf("event %q after %d", f.id, last)
			}
			last = n
			if strings.Contains(f.data, `"tick"`) {
				ticks++
			}
		}
		if ticks != 20 {
			t.Errorf("%d of 20 ticks were seen", ticks)
		}
	})
}

func TestLateReaderOfDrainedRunSeesItsStart(t *testing.T) {
	onBuses(t, func(t *testing.T, b bus.Bus) {
		first := processes(t, b, server.Options{})[0]
		thread := first.thread()
		const ticks = 20
		l := first.open("POST", "/threads/"+thread+"/runs/stream", fmt.Sprintf(`{"assistant_id":"slow","input":{"count":%d,"delay_ms":50},"stream_mode":["updates"],"stream_resumable":true}`, ticks))
		l.until("some ticks", func(fs []frame) bool { return len(fs) > 4 })
		path := "/threads/" + thread + "/runs/" + first.onlyRun(thread) + "/stream"
		second := first.beside(treadle.Must(platform.All()), server.Options{})
		first.leave()
		_, _, raw := second.do("GET", path, "")
		seen := 0
		for _, f := range frames(raw) {
			seen += strings.Count(f.data, `"tick"`)
		}
		if seen != ticks {
			t.Errorf("%d of %d ticks were seen", seen, ticks)
		}
	})
}

func TestWatchThreadFromAnotherProcess(t *testing.T) {
	onBuses(t, func(t *testing.T, b bus.Bus) {
		ps := processes(t, b, server.Options{}, server.Options{Workers: -1})
		worker, other := ps[0], ps[1]
		thread := worker.thread()
		l := other.subscribe(thread, everything)
		worker.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"router","input":{"target":"left"}}`, nil)
		got := names(l.events("lifecycle:completed", 1))
		if got[0] != "lifecycle:running" || !slices.Contains(got, "values") {
			t.Errorf("events %v", got)
		}
		// A client of the process that executes sees the same.
		equal(t, names(worker.subscribe(thread, everything).events("lifecycle:completed", 1)), got)
	})
}

// broken is a bus whose log can fail.
type broken struct {
	bus.Bus
	down atomic.Bool
}

type brokenLog struct {
	bus.Log
	b *broken
}

// Log implements [bus.Bus].
func (b *broken) Log() bus.Log { return brokenLog{b.Bus.Log(), b} }

// Append implements [bus.Log].
func (l brokenLog) Append(ctx context.Context, e *ledger.Events) error {
	if l.b.down.Load() {
		return errors.New("the log is down")
	}
	return l.Log.Append(ctx, e)
}

// Read implements [bus.Log].
func (l brokenLog) Read(ctx context.Context, thread uuid.UUID, after uint64, live bool) iter.Seq2[*ledger.Events, error] {
	if l.b.down.Load() && !live {
		return func(yield func(*ledger.Events, error) bool) { yield(nil, errors.New("the log is down")) }
	}
	return l.Log.Read(ctx, thread, after, live)
}

// Signal implements [bus.Bus].
func (b *broken) Signal(ctx context.Context, topic string, payload []byte) error {
	if b.down.Load() {
		return errors.New("the bus is down")
	}
	return b.Bus.Signal(ctx, topic, payload)
}

func TestBusOutageLosesNoEvents(t *testing.T) {
	b := &broken{Bus: bus.NewMemory()}
	ps := processes(t, b, server.Options{}, server.Options{Workers: -1})
	worker, other := ps[0], ps[1]
	thread := worker.thread()
	b.down.Store(true)
	var run struct {
		ID string `json:"run_id"`
	}
	worker.ok("POST", "/threads/"+thread+"/runs", `{"assistant_id":"slow","input":{"count":4,"delay_ms":20},"stream_mode":["updates"],"stream_resumable":true}`, &run)
	var got map[string]any
	other.ok("GET", "/threads/"+thread+"/runs/"+run.ID+"/join", "", &got)
	if ticks := got["ticks"].([]any); len(ticks) != 4 {
		t.Errorf("values %v", got)
	}
	// A run that this process leaves to others is found without a signal.
	other.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"router","input":{"target":"left"}}`, nil)
	path := "/threads/" + thread + "/runs/" + run.ID + "/stream"
	_, _, raw := other.do("GET", path, "")
	if fs := frames(raw); len(fs) != 6 || !strings.Contains(fs[len(fs)-1].data, "tick") {
		t.Errorf("the events in the ledger are not shown: %s", raw)
	}
	b.down.Store(false)
	for end := time.Now().Add(tooLong); ; <-time.After(50 * time.Millisecond) {
		_, _, raw := other.do("GET", path, "")
		if fs := frames(raw); len(fs) > 5 && strings.Contains(fs[len(fs)-1].data, "tick") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("events of the time without the bus are lost: %s", raw)
		}
	}
}

func TestExecuteSelectsGraphs(t *testing.T) {
	ps := processes(t, bus.NewMemory(), server.Options{Execute: []string{"router"}}, server.Options{Execute: []string{"fanout"}})
	for _, p := range ps {
		p.ok("POST", "/runs/wait", `{"assistant_id":"router","input":{"target":"left"}}`, nil)
		p.ok("POST", "/runs/wait", `{"assistant_id":"fanout","input":{}}`, nil)
	}
	for i, want := range []float64{2, 2} {
		ps[i].counts("treadle_runs_total", map[string]string{"status": "success"}, want)
	}
	if _, err := server.New(newMemory(), treadle.Must(platform.All()), &server.Options{Execute: []string{"rooter"}}); err == nil || !strings.Contains(err.Error(), `"rooter"`) {
		t.Errorf("an unserved graph: %v", err)
	}
}

// oldAndNew returns two concurrent deployments of one program: the new one has an
// additional graph.
func oldAndNew(t *testing.T, old, later server.Options) (before, after *process) {
	t.Helper()
	db, b := newMemory(), bus.NewMemory()
	t.Cleanup(func() { _ = b.Close() })
	all := treadle.Must(platform.All())
	known := slices.DeleteFunc(slices.Clone(all), func(g treadle.AnyGraph) bool { return g.Name() == "fanout" })
	return serveShared(t, db, b, known, old), serveShared(t, db, b, all, later)
}

func TestRunWaitsForDeployWithItsGraph(t *testing.T) {
	old, later := oldAndNew(t, server.Options{}, server.Options{Workers: -1})
	var run struct {
		ID string `json:"run_id"`
	}
	thread := later.thread()
	later.ok("POST", "/threads/"+thread+"/runs", `{"assistant_id":"fanout","input":{}}`, &run)
	later.ok("POST", "/runs/wait", `{"assistant_id":"router","input":{"target":"left"}}`, nil) // executed by the old one
	var got struct{ Status string }
	old.ok("GET", "/threads/"+thread+"/runs/"+run.ID, "", &got)
	if got.Status != "pending" {
		t.Errorf("the run is %s, want pending: no process has its graph", got.Status)
	}
	worker := old.beside(treadle.Must(platform.All()), server.Options{})
	worker.ok("GET", "/threads/"+thread+"/runs/"+run.ID+"/join", "", nil)
	worker.counts("treadle_runs_total", map[string]string{"status": "success"}, 1)
}

func TestRevisionKeepsThreadFromOlderDeploy(t *testing.T) {
	old, later := oldAndNew(t, server.Options{Revision: 1}, server.Options{Revision: 2})
	thread := old.thread()
	path := "/threads/" + thread + "/runs/wait"
	const body = `{"assistant_id":"router","input":{"target":"left"}}`
	executed := func(first, second float64) {
		t.Helper()
		for i, p := range []*process{old, later} {
			p.counts("treadle_runs_total", map[string]string{"status": "success"}, []float64{first, second}[i])
		}
	}
	old.ok("POST", path, body, nil)
	executed(1, 0)
	later.ok("POST", path, body, nil)
	executed(1, 1)
	old.ok("POST", path, body, nil) // it accepts the run and leaves it
	executed(1, 2)
	old.ok("POST", "/threads/"+old.thread()+"/runs/wait", body, nil)
	executed(2, 2)

	// A run of a process that leaves goes on in a later deploy, not in an earlier one.
	var run struct {
		ID string `json:"run_id"`
	}
	later.ok("POST", "/threads/"+thread+"/runs", `{"assistant_id":"slow","input":{"count":1000,"delay_ms":5}}`, &run)
	later.leave()
	var got struct{ Status string }
	old.ok("GET", "/threads/"+thread+"/runs/"+run.ID, "", &got)
	if got.Status != "pending" {
		t.Errorf("the run is %s, want pending: the process that is left is of an earlier deploy", got.Status)
	}
	third := old.beside(treadle.Must(platform.All()), server.Options{Revision: 3})
	third.ok("POST", "/threads/"+thread+"/runs/"+run.ID+"/cancel?wait=true", "", nil)
	third.counts("treadle_runs_total", map[string]string{"status": "interrupted"}, 1)
}

// A process has the events of its own runs in memory. Events that other processes recorded
// between them are not skipped.
func TestReadThreadAcrossProcesses(t *testing.T) {
	onBuses(t, func(t *testing.T, b bus.Bus) {
		ps := processes(t, b, server.Options{}, server.Options{})
		thread := ps[0].thread()
		ps[0].ok("PATCH", "/threads/"+thread, `{}`, nil)
		l := ps[1].subscribe(thread, everything) // from now on all events are recorded
		for _, p := range []*process{ps[0], ps[1], ps[0]} {
			p.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"router","input":{"target":"left"}}`, nil)
		}
		want := names(l.events("lifecycle:completed", 3))
		equal(t, names(ps[0].subscribe(thread, everything).events("lifecycle:completed", 3)), want)
	})
}

// A process remembers the assistants that it has made runs of.
func TestRunUsesAssistantOfOtherProcess(t *testing.T) {
	onBuses(t, func(t *testing.T, b bus.Bus) {
		ps := processes(t, b, server.Options{}, server.Options{})
		var a struct {
			ID string `json:"assistant_id"`
		}
		ps[0].ok("POST", "/assistants", `{"graph_id":"router","context":{"tone":"dry"}}`, &a)
		tone := func(want string) {
			t.Helper()
			var run struct {
				Kwargs struct {
					Context map[string]any `json:"context"`
				} `json:"kwargs"`
			}
			thread := ps[0].thread()
			ps[0].ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"`+a.ID+`","input":{"target":"left"}}`, nil)
			ps[0].ok("GET", "/threads/"+thread+"/runs/"+ps[0].onlyRun(thread), "", &run)
			if got := run.Kwargs.Context["tone"]; got != want {
				t.Errorf("the run's tone is %v, want %s", got, want)
			}
		}
		tone("dry")
		ps[1].ok("PATCH", "/assistants/"+a.ID, `{"context":{"tone":"warm"}}`, nil)
		tone("warm")
		tone("warm")
		ps[1].ok("DELETE", "/assistants/"+a.ID, "", nil)
		if status, _, body := ps[0].do("POST", "/runs/wait", `{"assistant_id":"`+a.ID+`","input":{"target":"left"}}`); status != http.StatusNotFound {
			t.Errorf("a run of a deleted assistant: %d %s", status, body)
		}
	})
}
