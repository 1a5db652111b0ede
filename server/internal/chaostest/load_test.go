package chaostest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/delay"
)

// pace is the duration of the runs of a load.
type pace struct {
	steps, delay, sleep int // delay and sleep in milliseconds
}

var (
	quick = pace{steps: 2, delay: 5, sleep: 300}
	usual = pace{steps: steps, delay: 30, sleep: 500}
	slow  = pace{steps: steps, delay: 300, sleep: 2000}
)

// load contains the requests of clients and the expected results.
type load struct {
	c *cluster

	mu     sync.Mutex
	all    []*expected
	events int
	counts map[string]int // units that have ended, by name
}

// expected is the expected final state of a thread.
type expected struct {
	unit    string
	thread  string
	runs    []*accepted
	log     []string // nil: see the unit
	reply   string
	status  string // "" means idle
	over    []over
	cron    string // its ID
	task    string // the ID of its A2A task
	stopped bool   // the unit was cut short by the end of the test
}

// over is a run that ended before it was done, as a client has seen it.
type over struct {
	run string
	at  int // place in the list of effects
}

func newLoad(c *cluster) *load { return &load{c: c, counts: map[string]int{}} }

// A unit is something that a client does, and follows to its end.
type unit struct {
	name string
	do   func(*load, context.Context, *client, *expected, pace) error
}

var units = []unit{
	{"plain", (*load).turn},
	{"sends", (*load).turn},
	{"asks", (*load).asks},
	{"left", (*load).left},
	{"sleeps", (*load).sleeps},
	{"signals", (*load).signals},
	{"queue", (*load).queue},
	{"cancel", (*load).cancel},
	{"rollback", (*load).rollback},
	{"stateless", (*load).stateless},
	{"task", (*load).task},
	{"tool", (*load).tool},
	{"cron", (*load).cron},
}

// do does a unit, and returns an error unless it ends as it should.
func (y *load) do(ctx context.Context, k *client, u unit, p pace) error {
	x := &expected{unit: u.name}
	if u.name != "stateless" && u.name != "tool" {
		var err error
		if x.thread, err = k.thread(ctx); err != nil {
			return fmt.Errorf("%s: %w", u.name, err)
		}
	}
	y.mu.Lock()
	y.all = append(y.all, x)
	y.mu.Unlock()
	err := u.do(y, ctx, k, x, p)
	if err != nil && y.c.gaveUp(x.thread) {
		err = nil // the checker counts it
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if err != nil {
		x.stopped = true
		return fmt.Errorf("%s on thread %s: %w", u.name, x.thread, err)
	}
	y.counts[u.name]++
	return nil
}

// total returns the number of units that have ended.
func (y *load) total() (n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, k := range y.counts {
		n += k
	}
	return n
}

// ended waits until more units have ended.
func (y *load) ended(t *testing.T, more int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for from := y.total(); y.total() < from+more; {
		if err := delay.For(ctx, 10*time.Millisecond); err != nil {
			t.Fatalf("%d of %d units have ended: %v", y.total()-from, more, err)
		}
	}
}

// everything does all units at the same time, once.
func (y *load) everything(ctx context.Context, k *client, p pace) error {
	var all sync.WaitGroup
	errs := make([]error, len(units))
	for i, u := range units {
		all.Go(func() { errs[i] = y.do(ctx, k, u, p) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// use does random units until enough ends, and follows each to its end.
func (y *load) use(enough context.Context, t *testing.T, r *rand.Rand, p pace, patience time.Duration) {
	k := newClient(y.c, r, nil)
	defer k.close()
	for enough.Err() == nil {
		// Started units are followed to their end, after all faults are repaired.
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := y.do(ctx, k, units[k.intN(len(units))], p)
		cancel()
		if err != nil {
			t.Error(err)
			y.c.note("a client gives up: %v", err)
			return
		}
	}
}

// clients starts clients that use the servers until enough ends.
func (y *load) clients(enough context.Context, t *testing.T, n int, p pace, patience time.Duration) *sync.WaitGroup {
	var all sync.WaitGroup
	for i := range n {
		r := y.c.random(fmt.Sprint("client ", i))
		all.Go(func() { y.use(enough, t, r, p, patience) })
	}
	return &all
}

// input returns the input of a turn.
func input(kind string, turn int, p pace) map[string]any {
	return map[string]any{"input": map[string]any{"kind": kind, "turn": turn, "step": 0, "steps": p.steps, "delay": p.delay, "sleep": p.sleep}}
}

// turnLog returns the log entries of a turn.
func turnLog(kind string, turn int, p pace) (log []string) {
	names := []string{""}
	if kind == "sends" {
		names = []string{"a", "b", "c"}
	}
	for step := range p.steps {
		for _, name := range names {
			log = append(log, logged(turn, step, name))
		}
	}
	return log
}

// start starts a run that the checker will ask for.
func (y *load) start(ctx context.Context, k *client, x *expected, body map[string]any) (*accepted, error) {
	run, err := k.run(ctx, x.thread, body)
	if err != nil {
		return nil, err
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	x.runs = append(x.runs, run)
	return run, nil
}

// expect sets the expected state of a thread.
func (y *load) expect(set func()) {
	y.mu.Lock()
	defer y.mu.Unlock()
	set()
}

// read reads the stream of a run to its end.
func (y *load) read(ctx context.Context, k *client, run *accepted) ([]event, error) {
	events, err := k.stream(ctx, run)
	y.mu.Lock()
	defer y.mu.Unlock()
	y.events += len(events)
	return events, err
}

// startAndRead starts a run and reads its stream.
func (y *load) startAndRead(ctx context.Context, k *client, x *expected, body map[string]any) ([]event, error) {
	run, err := y.start(ctx, k, x, body)
	if err != nil {
		return nil, err
	}
	return y.read(ctx, k, run)
}

// turn runs a turn without an interrupt.
func (y *load) turn(ctx context.Context, k *client, x *expected, p pace) error {
	events, err := y.startAndRead(ctx, k, x, input(x.unit, 1, p))
	if err != nil {
		return err
	}
	y.expect(func() { x.log = turnLog(x.unit, 1, p) })
	return follows(x.thread, events, p.steps)
}

// pauses runs a turn to its interrupt, which the thread must show.
func (y *load) pauses(ctx context.Context, k *client, x *expected, kind string, p pace) ([]event, error) {
	events, err := y.startAndRead(ctx, k, x, input(kind, 1, p))
	if err != nil {
		return nil, err
	}
	_, err = k.until(ctx, x.thread, "an interrupted thread with its interrupt", func(th *threadState) bool {
		return th.Status == "interrupted" && len(th.Interrupts) > 0
	})
	return events, err
}

// asks answers an interrupt.
func (y *load) asks(ctx context.Context, k *client, x *expected, p pace) error {
	events, err := y.pauses(ctx, k, x, "asks", p)
	if err != nil {
		return err
	}
	more, err := y.startAndRead(ctx, k, x, map[string]any{"command": map[string]any{"resume": "yes"}})
	if err != nil {
		return err
	}
	y.expect(func() { x.log, x.reply = turnLog("asks", 1, p), "yes" })
	return follows(x.thread, append(events, more...), p.steps)
}

// left leaves an interrupt.
func (y *load) left(ctx context.Context, k *client, x *expected, p pace) error {
	events, err := y.pauses(ctx, k, x, "asks", p)
	if err != nil {
		return err
	}
	y.expect(func() { x.log, x.status = turnLog("asks", 1, p)[:p.steps/2], "interrupted" })
	return follows(x.thread, events, p.steps/2)
}

func isIdle(th *threadState) bool { return th.Status == "idle" }

// sleeps lets a server wake a thread up.
func (y *load) sleeps(ctx context.Context, k *client, x *expected, p pace) error {
	events, err := y.startAndRead(ctx, k, x, input("sleeps", 1, p))
	if err != nil {
		return err
	}
	if _, err := k.until(ctx, x.thread, "that it has woken up", isIdle); err != nil {
		return err
	}
	var runs []accepted
	if err := k.try(ctx, http.MethodGet, "/threads/"+x.thread+"/runs", nil, nil, &runs); err != nil {
		return err
	}
	// The second run is the run that woke the thread. It is missing if a process died and
	// another continued the run when the time had come.
	told := p.steps
	switch len(runs) {
	case 1:
	case 2:
		told = p.steps / 2
	default:
		return fmt.Errorf("a thread that slept once has %d runs: %v", len(runs), runs)
	}
	y.expect(func() { x.log = turnLog("sleeps", 1, p) })
	return follows(x.thread, events, told)
}

// signals wakes a thread up by a signal.
func (y *load) signals(ctx context.Context, k *client, x *expected, p pace) error {
	events, err := y.pauses(ctx, k, x, "signals", p)
	if err != nil {
		return err
	}
	if err := k.try(ctx, http.MethodPost, "/threads/"+x.thread+"/signals/go", nil, map[string]any{"value": "now"}, nil); err != nil {
		return err
	}
	if _, err := k.until(ctx, x.thread, "that the signal has woken it up", isIdle); err != nil {
		return err
	}
	y.expect(func() { x.log, x.reply = turnLog("signals", 1, p), "now" })
	return follows(x.thread, events, p.steps/2)
}

// queue starts several runs of a thread together.
func (y *load) queue(ctx context.Context, k *client, x *expected, p pace) error {
	var runs []*accepted
	var log []string
	for turn := range 3 {
		run, err := y.start(ctx, k, x, input("plain", turn+1, p))
		if err != nil {
			return err
		}
		runs, log = append(runs, run), append(log, turnLog("plain", turn+1, p)...)
	}
	for _, run := range runs {
		events, err := y.read(ctx, k, run)
		if err != nil {
			return err
		}
		if err := follows(x.thread, events, p.steps); err != nil {
			return err
		}
	}
	y.expect(func() { x.log = log })
	return nil
}

// endless is more steps than a run takes before it is canceled.
const endless = 900

// begun starts a long run, and returns after its first effect.
func (y *load) begun(ctx context.Context, k *client, x *expected, p pace) (*accepted, error) {
	p.steps = endless
	run, err := y.start(ctx, k, x, input("plain", 1, p))
	if err != nil {
		return nil, err
	}
	for len(y.c.sink.of(x.thread)) == 0 {
		if err := delay.For(ctx, 5*time.Millisecond); err != nil {
			return nil, fmt.Errorf("run %s has no effect: %w", run.Run, err)
		}
	}
	return run, nil
}

// stop cancels a run, and notes that it has ended.
func (y *load) stop(ctx context.Context, k *client, x *expected, run *accepted, action, want string) error {
	err := k.try(ctx, http.MethodPost, "/threads/"+x.thread+"/runs/"+run.Run+"/cancel?wait=1&action="+action, nil, nil, nil)
	if e, ok := errors.AsType[*refusedError](err); err != nil && (!ok || e.status != http.StatusNotFound || action != "rollback") {
		return err // a rolled-back run no longer exists when the request is resent
	}
	at := y.c.sink.now()
	status, err := k.status(ctx, run)
	if err != nil {
		return err
	}
	if status != want {
		return fmt.Errorf("run %s has the status %q after it was canceled (%s), want %q", run.Run, status, action, want)
	}
	y.expect(func() { x.over = append(x.over, over{run.Run, at}) })
	return nil
}

// again runs another turn after the first one has ended.
func (y *load) again(ctx context.Context, k *client, x *expected, p pace) error {
	events, err := y.startAndRead(ctx, k, x, input("plain", 2, p))
	if err != nil {
		return err
	}
	return follows(x.thread, events, p.steps)
}

// cancel cancels a run, and runs another turn.
func (y *load) cancel(ctx context.Context, k *client, x *expected, p pace) error {
	run, err := y.begun(ctx, k, x, p)
	if err != nil {
		return err
	}
	if err := y.stop(ctx, k, x, run, "interrupt", "interrupted"); err != nil {
		return err
	}
	return y.again(ctx, k, x, p)
}

// rollback undoes a run, and runs another turn.
func (y *load) rollback(ctx context.Context, k *client, x *expected, p pace) error {
	run, err := y.begun(ctx, k, x, p)
	if err != nil {
		return err
	}
	if err := y.stop(ctx, k, x, run, "rollback", ""); err != nil {
		return err
	}
	th, err := k.get(ctx, x.thread)
	if err != nil {
		return err
	}
	if len(th.Values.Log) != 0 || th.Status == "busy" {
		return fmt.Errorf("thread is %s with the log %v after its run was rolled back", th.Status, th.Values.Log)
	}
	if err := y.again(ctx, k, x, p); err != nil {
		return err
	}
	y.expect(func() { x.log = turnLog("plain", 2, p) })
	return nil
}

// stateless starts a run without a thread.
func (y *load) stateless(ctx context.Context, k *client, x *expected, _ pace) error {
	run, err := y.start(ctx, k, x, map[string]any{"assistant_id": "talk", "input": map[string]any{"steps": 3, "events": 2, "every": 5}})
	if err != nil {
		return err
	}
	for { // its row goes when it ends
		status, err := k.status(ctx, run)
		if err != nil || status == "" {
			return err
		}
		if err := delay.For(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("run %s is %s: %w", run.Run, status, err)
		}
	}
}

// task sends a message to the agent over A2A, and answers its question.
func (y *load) task(ctx context.Context, k *client, x *expected, p pace) error {
	in := input("asks", 1, p)["input"]
	push := map[string]any{"url": y.c.sink.push(), "token": "secret"}
	asked, err := k.message(ctx, map[string]any{"contextId": x.thread, "parts": []any{map[string]any{"data": in}}}, map[string]any{"taskPushNotificationConfig": push})
	if err != nil {
		return err
	}
	if asked.Status.State != taskAsks {
		return fmt.Errorf("task %s is %s, want %s", asked.ID, asked.Status.State, taskAsks)
	}
	done, err := k.message(ctx, map[string]any{"taskId": asked.ID, "parts": []any{map[string]any{"text": "yes"}}}, nil)
	if err != nil {
		return err
	}
	if done.ID != asked.ID || done.Status.State != taskDone {
		return fmt.Errorf("task %s is %s after the answer, want %s; it was %s", done.ID, done.Status.State, taskDone, asked.ID)
	}
	y.expect(func() { x.log, x.reply, x.task = turnLog("asks", 1, p), "yes", done.ID })
	return nil
}

// tool calls the assistant over MCP. A call that is sent again has another thread, and nothing is left of
// either.
func (y *load) tool(ctx context.Context, k *client, _ *expected, p pace) error {
	meta := map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{}}
	header := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"chaos"}, "Accept": {"application/json, text/event-stream"}}
	call := map[string]any{"name": "chaos", "arguments": input("sends", 1, p)["input"], "_meta": meta}
	for {
		var result struct {
			IsError bool
			Content []struct{ Text string }
			Values  state `json:"structuredContent"`
		}
		if err := k.rpc(ctx, "/mcp", header, "tools/call", call, &result); err != nil {
			return err
		}
		if result.IsError && len(result.Content) == 1 && strings.Contains(result.Content[0].Text, "shutting down") {
			if err := delay.For(ctx, 100*time.Millisecond); err != nil {
				return fmt.Errorf("tool: %s: %w", result.Content[0].Text, err)
			}
			continue
		}
		var log []string
		for _, entry := range result.Values.Log {
			log = append(log, entry)
		}
		if want := turnLog("sends", 1, p); result.IsError || !slices.Equal(log, want) {
			return fmt.Errorf("the call has the log %v, want %v: %+v", log, want, result)
		}
		return nil
	}
}

// cron lets a cron start a run, and removes the cron.
func (y *load) cron(ctx context.Context, k *client, x *expected, p pace) error {
	body := input("ticks", 1, pace{steps: 1, delay: p.delay})
	body["assistant_id"] = "chaos"
	body["schedule"] = "* * * * * *"
	body["webhook"] = y.c.sink.hook()
	body["multitask_strategy"] = "enqueue"
	mark := uuid.NewString()
	body["metadata"] = map[string]any{"mark": mark}
	// A cron has no idempotency key, so a client searches for it before it resends the
	// request.
	for {
		var found []struct {
			ID string `json:"cron_id"`
		}
		if err := k.try(ctx, http.MethodPost, "/runs/crons/search", nil, map[string]any{"metadata": map[string]any{"mark": mark}}, &found); err != nil {
			return err
		}
		if len(found) > 0 {
			y.expect(func() { x.cron = found[0].ID })
			break
		}
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		if err := k.send(ctx, http.MethodPost, "/threads/"+x.thread+"/runs/crons", nil, raw, nil); err != nil {
			if _, refused := errors.AsType[*refusedError](err); refused || ctx.Err() != nil {
				return err
			}
			_ = delay.For(ctx, 100*time.Millisecond) // the search fails if ctx has ended
		}
	}
	var missed error
	for len(y.c.sink.of(x.thread)) == 0 && missed == nil {
		if err := delay.For(ctx, 20*time.Millisecond); err != nil {
			missed = fmt.Errorf("cron %s has started no run: %w", x.cron, err)
		}
	}
	if missed != nil { // it would continue
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
	}
	err := k.try(ctx, http.MethodDelete, "/runs/crons/"+x.cron, nil, nil, nil)
	if e, ok := errors.AsType[*refusedError](err); ok && e.status == http.StatusNotFound {
		err = nil // the response to the first request got lost
	}
	return errors.Join(missed, err)
}
