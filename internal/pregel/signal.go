package pregel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/bounded"
)

// The mailbox of a thread consists of two namespaces. No graph can use them,
// because node names are not empty. Each contains append-only lists, in checkpoints
// that name their predecessor as the head, so two writers never append at the same
// position.
//
// signalsNS contains the signal values, in one list per name. Senders append to it.
// claimsNS records which pause took which signal, or waited for one until its
// deadline. Runs append to it. A claim contains the ID of the pause, which is the
// same when the task runs again, so the task finds its signal again. The claims
// have a separate namespace, because rolling back a run removes its checkpoints,
// but must not remove signals.
const (
	signalsNS = "|signals"
	claimsNS  = "|claims"
)

// claimsChannel is the list of claims.
const claimsChannel = "claims"

// signalClaim records that a pause took a signal.
type signalClaim struct {
	Key      string    `json:"key,omitempty"`     // ID of the pause; empty if the signal value was invalid
	Name     string    `json:"name"`              // name of the signal
	Nth      int       `json:"nth"`               // index among the signals with this name
	Deadline time.Time `json:"deadline,omitzero"` // the deadline that passed without a signal
}

// mailbox is a snapshot of a thread's mailbox.
type mailbox struct {
	values  map[string]checkpoint.Value // signal values by name
	claims  []signalClaim
	claimed checkpoint.ID // head of the claims
}

func openMailbox(ctx context.Context, s checkpoint.Saver, thread string) (*mailbox, error) {
	b := &mailbox{}
	read := func(ns string) (*checkpoint.Checkpoint, error) {
		cp, err := getFrom(ctx, s, checkpoint.Key{Thread: thread, Namespace: ns})
		if errors.Is(err, checkpoint.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("load signals of thread %q: %w", thread, err)
		}
		return cp, nil
	}
	// Read the claims first: each claim refers to a signal that precedes it.
	cp, err := read(claimsNS)
	if err != nil {
		return nil, err
	}
	if cp != nil {
		b.claimed = cp.ID
		for _, raw := range cp.Values[claimsChannel].Items {
			var c signalClaim
			if err := json.Unmarshal(raw, &c); err != nil {
				return nil, fmt.Errorf("signals of thread %q: %w", thread, err)
			}
			b.claims = append(b.claims, c)
		}
	}
	if cp, err = read(signalsNS); cp != nil {
		b.values = cp.Values
	}
	return b, err
}

// of returns the claim of a pause, or nil.
func (b *mailbox) of(key string) *signalClaim {
	i := slices.IndexFunc(b.claims, func(c signalClaim) bool { return c.Key == key })
	if i < 0 {
		return nil
	}
	return &b.claims[i]
}

// taken returns the number of claimed signals with the given name.
func (b *mailbox) taken(name string) int {
	n := 0
	for _, c := range b.claims {
		if c.Name == name && c.Deadline.IsZero() {
			n++
		}
	}
	return n
}

// next returns a claim of the first unclaimed signal with the given name, or nil.
func (b *mailbox) next(name string) *signalClaim {
	taken := b.taken(name)
	if taken >= len(b.values[name].Items) {
		return nil
	}
	return &signalClaim{Name: name, Nth: taken}
}

// value returns the claimed signal value.
func (b *mailbox) value(c *signalClaim) (json.RawMessage, error) {
	items := b.values[c.Name].Items
	if c.Nth >= len(items) {
		return nil, fmt.Errorf("signal %q: signal taken by the node no longer exists", c.Name)
	}
	return items[c.Nth], nil
}

// appendTo returns a checkpoint that appends an item to a list of the mailbox.
func appendTo(thread, ns string, head checkpoint.ID, list string, item []byte) *checkpoint.Put {
	id := checkpoint.NewID(0, head)
	return &checkpoint.Put{Key: checkpoint.Key{Thread: thread, Namespace: ns, ID: id}, Parent: head, Head: head, Source: checkpoint.Update,
		Changes: []checkpoint.Change{{Channel: list, Version: 1, List: true, Items: [][]byte{item}}}, Control: []byte("{}")}
}

// WaitFor takes and returns the first unclaimed signal with the given name. If
// there is none, WaitFor records that the task waits for it and returns an error
// that the node must return.
func WaitFor(ctx context.Context, q Asked) (json.RawMessage, error) {
	sc, err := waiter(ctx, "wait for signal")
	if err != nil {
		return nil, err
	}
	if q.Key == "" {
		return nil, errors.New("wait for signal: missing name")
	}
	if pause := sc.stop(); pause != nil {
		return nil, pause
	}
	t := sc.task
	n := sc.calls.Add(1) - 1
	p := t.newPause("signal " + strconv.Itoa(int(n)))
	p.Kind, p.Key, p.Schema = SignalPause, q.Key, q.Schema
	if p.Value, err = toJSON(map[string]any{"signal": q.Key}); err != nil {
		return nil, err
	}
	return t.takeSignal(ctx, sc, p, q.Deadline)
}

// takeSignal takes a signal for the pause.
func (t *Task) takeSignal(ctx context.Context, sc *scope, p Pause, d *Deadline) (json.RawMessage, error) {
	r := t.run
	if err := t.expires(ctx, &p, d); err != nil {
		return nil, err
	}
	for {
		box, err := openMailbox(ctx, undeferred(r.set.Saver), r.set.Thread)
		if err != nil {
			return nil, t.noteFault(r.readFault(err))
		}
		mine := box.of(p.ID)
		known := mine != nil
		switch {
		case known && mine.Name != p.Key:
			return nil, t.noteFault(fmt.Errorf("waits for signal %q, but took %q when it ran before: wait for signals in the same order each time", p.Key, mine.Name))
		case known:
		case box.next(p.Key) != nil:
			mine = box.next(p.Key)
			mine.Key = p.ID
		case !p.Due.IsZero() && !time.Now().Before(p.Due):
			mine = &signalClaim{Key: p.ID, Name: p.Key, Deadline: p.Due}
		default:
			return nil, t.waitsFor(sc, p)
		}
		var value json.RawMessage
		var misfit error
		if mine.Deadline.IsZero() {
			if value, err = box.value(mine); err != nil {
				return nil, t.noteFault(err)
			}
			misfit = r.plan.fits(p, value)
			switch {
			case misfit != nil && known:
				t.waitAgain(&p, "signal no longer valid; waiting for the next one", misfit)
				return t.takeSignal(ctx, sc, p, d)
			case misfit != nil:
				mine.Key = "" // the next attempt waits for the next signal
			}
		}
		if !known {
			switch err := t.claim(ctx, box, mine); {
			case errors.Is(err, errUnstoredHead):
				return nil, t.waitsFor(sc, p)
			case errors.Is(err, checkpoint.ErrConflict):
				continue
			case err != nil:
				return nil, err
			}
		}
		switch {
		case misfit != nil:
			return nil, &AnswerError{Pause: p, Answer: value, Err: misfit}
		case mine.Deadline.IsZero():
			return value, nil
		case p.Default == nil:
			p.Due = mine.Deadline
			return nil, &DeadlineError{Pause: p}
		}
		return p.Default, nil
	}
}

// errUnstoredHead reports that pause IDs derive from a checkpoint that is saved
// only when the run ends. A crash would lose the checkpoint and, with it, a signal
// that was taken.
var errUnstoredHead = errors.New("task's checkpoint not saved")

// claim saves a claim. It returns ErrConflict if another task saved a claim first.
func (t *Task) claim(ctx context.Context, box *mailbox, c *signalClaim) error {
	r := t.run
	if e, ok := r.set.Saver.(*exitSaver); ok && !e.empty() {
		return errUnstoredHead
	}
	if err := r.awaitHead(ctx); err != nil {
		if IsFault(err) {
			err = t.noteFault(err)
		}
		return err
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	put := appendTo(r.set.Thread, claimsNS, box.claimed, claimsChannel, raw)
	put.Fence, put.RunID = r.set.Fence, r.set.RunID
	err = r.savePut(undeferred(r.set.Saver), put)
	if err != nil && !errors.Is(err, checkpoint.ErrConflict) {
		return t.noteFault(fmt.Errorf("take signal %q: %w", c.Name, err))
	}
	return err
}

// empty reports whether all checkpoints of the run are saved.
func (e *exitSaver) empty() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.buffered) == 0
}

// A Signal is a signal that no pause has taken.
type Signal struct {
	Name  string
	Value json.RawMessage
}

// Signals returns the signals of the thread that no pause has taken, sorted by name, and
// those with the same name in the order in which they were sent.
func (p *Plan) Signals(ctx context.Context, set Settings) ([]Signal, error) {
	fail := func(err error) error {
		return fmt.Errorf("graph %q: thread %q: signals: %w", p.name, set.Thread, err)
	}
	cp, err := getFrom(ctx, set.Saver, checkpoint.Key{Thread: set.Thread})
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fail(err)
	}
	var c controlJSON
	if err := json.Unmarshal(cp.Control, &c); err != nil {
		return nil, fail(err)
	}
	if err := p.otherGraph(&set, "", c.Graph); err != nil {
		return nil, err
	}
	box, err := openMailbox(ctx, set.Saver, set.Thread)
	if err != nil {
		return nil, fail(err)
	}
	var out []Signal
	for _, name := range slices.Sorted(maps.Keys(box.values)) {
		items := box.values[name].Items
		for _, value := range items[min(box.taken(name), len(items)):] {
			out = append(out, Signal{name, value})
		}
	}
	return out, nil
}

// Signal saves a signal for the thread.
func (p *Plan) Signal(ctx context.Context, set Settings, name string, value json.RawMessage) error {
	fail := func(err error) error {
		return fmt.Errorf("graph %q: thread %q: signal %q: %w", p.name, set.Thread, name, err)
	}
	if name == "" {
		return fail(errors.New("missing name"))
	}
	if err := bounded.JSON(value); err != nil {
		return fail(err)
	}
	cp, err := getFrom(ctx, set.Saver, checkpoint.Key{Thread: set.Thread})
	if errors.Is(err, checkpoint.ErrNotFound) {
		return fail(fmt.Errorf("thread does not exist: run it first: %w", err))
	}
	if err != nil {
		return fail(err)
	}
	var c controlJSON
	if err := json.Unmarshal(cp.Control, &c); err != nil {
		return fail(err)
	}
	if err := p.otherGraph(&set, "", c.Graph); err != nil {
		return err
	}
	cp.Pending = slices.DeleteFunc(cp.Pending, isVoided)
	open := openPauses(cp).open
	for _, q := range open {
		if q.Kind != SignalPause || q.Key != name {
			continue
		}
		if err := p.fits(q, value); err != nil {
			return &AnswerError{Pause: q, Answer: value, Err: err}
		}
	}
	for {
		var head checkpoint.ID
		last, err := getFrom(ctx, set.Saver, checkpoint.Key{Thread: set.Thread, Namespace: signalsNS})
		switch {
		case err == nil:
			head = last.ID
		case !errors.Is(err, checkpoint.ErrNotFound):
			return fail(err)
		}
		put := appendTo(set.Thread, signalsNS, head, name, value)
		put.Fence = set.Fence
		err = callSaver(ctx, func(ctx context.Context) error { return set.Saver.Put(ctx, put) })
		switch {
		case errors.Is(err, checkpoint.ErrConflict) && ctx.Err() == nil:
			continue
		case err != nil:
			return fail(err)
		}
		watchers.tell(set.Saver, set.Thread)
		return nil
	}
}
