package pregel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
)

// Deadline limits the wait for an answer or a signal.
type Deadline struct {
	At      time.Time
	Default json.RawMessage // nil: the node receives a DeadlineError
}

// storedTime returns t in its saved form. JSON cannot represent years after 9999.
func storedTime(what string, t time.Time) (time.Time, error) {
	t = t.UTC().Round(0)
	switch {
	case t.IsZero():
		return t, fmt.Errorf("%s: zero time", what)
	case t.Year() > 9999:
		return t, fmt.Errorf("%s: year %d is after 9999, the last that can be saved", what, t.Year())
	}
	return t, nil
}

// Sleep returns nil if the time returned by until has come. Otherwise, it records
// that the task waits for that time and returns an error that the node must return.
// until is called once: the time is recorded like the result of a call, so it stays
// the same when the node runs again.
func Sleep(ctx context.Context, until func() time.Time) error {
	sc, err := waiter(ctx, "sleep")
	if err != nil {
		return err
	}
	if pause := sc.stop(); pause != nil {
		return pause
	}
	t := sc.task
	n := sc.calls.Add(1) - 1
	due, err := t.recordTime(ctx, t.callTask("sleep", n), until)
	if err != nil {
		return err
	}
	if !time.Now().Before(due) {
		return nil
	}
	p := t.newPause("sleep " + strconv.Itoa(int(n)))
	p.Kind, p.Due = SleepPause, due
	if p.Value, err = toJSON(map[string]any{"sleep_until": due}); err != nil {
		return err
	}
	return t.waitsFor(sc, p)
}

// callTask returns a task whose recorded result is the result of the n-th call of
// t.
func (t *Task) callTask(name string, n int32) *startedCall {
	c := &startedCall{}
	c.prepare(t, n, &CallSpec{Name: name})
	return c
}

// recordTime returns the time recorded for the call, or records the time returned
// by until.
func (t *Task) recordTime(ctx context.Context, c *startedCall, until func() time.Time) (due time.Time, err error) {
	name := c.task.Name()
	made, known, err := c.recorded(&CallSpec{Name: name})
	if err != nil {
		return due, t.noteFault(err)
	}
	if known {
		if err := json.Unmarshal(made.Raw, &due); err != nil {
			return due, t.noteFault(fmt.Errorf("%s: recorded time: %w", name, err))
		}
		return due, nil
	}
	if due, err = storedTime(name, until()); err != nil {
		return due, err
	}
	raw, err := toJSON(due)
	if err != nil {
		return due, err
	}
	if err := t.run.awaitHead(ctx); err != nil {
		if IsFault(err) {
			err = t.noteFault(err)
		}
		return due, err
	}
	if err := t.run.record(c.task.ID(), callJSON{Call: name, Value: raw}, nil); err != nil {
		return due, t.noteFault(err)
	}
	return due, nil
}

// expires sets the deadline of a pause. The first deadline set by the task wins,
// because most deadlines are computed from the current time. A deadline that passes
// before the task waits is not recorded.
func (t *Task) expires(ctx context.Context, p *Pause, d *Deadline) error {
	if d == nil {
		return nil
	}
	at, err := storedTime("deadline", d.At)
	if err != nil {
		return err
	}
	c := &startedCall{}
	c.prepare(t, -1, &CallSpec{Name: "deadline"})
	c.task.setID([]byte(p.ID + "|deadline"))
	p.Default = d.Default
	if _, known, err := c.recorded(&CallSpec{Name: "deadline"}); err == nil && !known && !time.Now().Before(at) {
		p.Due = at
		return nil
	}
	p.Due, err = t.recordTime(ctx, c, func() time.Time { return at })
	return err
}

// expire answers the interrupts whose deadlines have passed and returns the answers
// in saved form. It does not replace an answer given by a caller.
func (r *Run) expire(now time.Time) ([]checkpoint.Write, error) {
	perTask := taskAnswers{}
	for _, p := range r.open {
		if p.Kind != QuestionPause || p.Due.IsZero() || now.Before(p.Due) {
			continue
		}
		if _, given := r.answers[p.ID]; given {
			continue
		}
		perTask.add(r, p.ID, answer{Question: p.Value, Answer: p.Default, Deadline: p.Due})
	}
	return r.storeAnswers(perTask)
}

// askedOnly returns the pauses that an answer ends.
func askedOnly(ps []Pause) []Pause {
	return slices.DeleteFunc(slices.Clone(ps), func(p Pause) bool { return p.Kind != QuestionPause })
}

// Waiting describes what a thread does next, according to its head.
type Waiting struct {
	Graph  string    // name of the thread's graph, or ""
	Left   bool      // nodes are scheduled
	Paused bool      // it waits for answers, times, or signals
	Failed bool      // its last run failed in one of these nodes
	Due    time.Time // when it continues by itself; zero means never

	Signals []string // names of the signals that it waits for

	after []string // see controlJSON.After
}

// LeftOf reports whether nodes of p are scheduled on the thread.
func (w *Waiting) LeftOf(p *Plan) bool {
	return w.Left || len(p.successors(w.after, false)) > 0 || len(p.successors(w.after, true)) > 0
}

// WaitingOf reads what a thread waits for, without its state. It returns nil for a
// thread without a checkpoint.
func WaitingOf(ctx context.Context, s checkpoint.Saver, thread string) (*Waiting, error) {
	cp, err := getFrom(ctx, s, checkpoint.Key{Thread: thread})
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load thread %q: %w", thread, err)
	}
	var c controlJSON
	if err := json.Unmarshal(cp.Control, &c); err != nil {
		return nil, fmt.Errorf("thread %q: checkpoint %s: %w", thread, cp.ID, err)
	}
	cp.Pending = slices.DeleteFunc(cp.Pending, isVoided)
	open := openPauses(cp).open
	w := &Waiting{Graph: c.Graph, Paused: len(open) > 0, Failed: anyFailed(cp.Pending),
		Left: startOf(c.Start, c.Input) != nil || len(c.Next) > 0 || len(c.Sends) > 0, after: c.After}
	if w.Failed {
		return w, nil // a person must look at it first
	}
	sooner := func(t time.Time) {
		if w.Due.IsZero() || t.Before(w.Due) {
			w.Due = t
		}
	}
	var box *mailbox
	for _, p := range open {
		if !p.Due.IsZero() {
			sooner(p.Due)
		}
		if p.Kind != SignalPause {
			continue
		}
		if !slices.Contains(w.Signals, p.Key) {
			w.Signals = append(w.Signals, p.Key)
		}
		if box == nil {
			if box, err = openMailbox(ctx, s, thread); err != nil {
				return nil, err
			}
		}
		// If a process dies after claiming the signal for the pause, the pause
		// stays open.
		if box.next(p.Key) != nil || box.of(p.ID) != nil {
			// Use a time in the distant past that changes with each claimed signal.
			// This distinguishes a thread that fails to take its signal from a
			// thread that waits for the next one.
			sooner(time.Unix(1, 0).Add(time.Duration(len(box.claims)) * time.Microsecond))
		}
	}
	return w, nil
}

// anyFailed reports whether a task failed and has not run since.
func anyFailed(pending []checkpoint.Write) bool {
	return slices.ContainsFunc(pending, func(w checkpoint.Write) bool {
		done := func(o checkpoint.Write) bool { return o.Task == w.Task && o.Kind == checkpoint.Done }
		return w.Kind == checkpoint.Failed && !slices.ContainsFunc(pending, done) && hasFailed(w.Data)
	})
}

// hasFailed distinguishes the failure of a task from a failure that its error
// handler is handling.
func hasFailed(raw []byte) bool {
	var f failedJSON
	return json.Unmarshal(raw, &f) != nil || f.Handle == "" || f.Handle != f.Message
}

// unfailed returns the write that retracts the failure an earlier run saved for a
// task that now waits. The failure is kept for a handler that has not finished.
func (r *Run) unfailed(t *Task) []checkpoint.Write {
	for _, w := range r.pending {
		if w.Kind != checkpoint.Failed || w.Task != t.ID() || !hasFailed(w.Data) {
			continue
		}
		var f failedJSON
		data := voided
		if json.Unmarshal(w.Data, &f) == nil && f.Handle != "" {
			f.Message = f.Handle
			data, _ = json.Marshal(f) //nolint:errchkjson // it was read from JSON
		}
		return []checkpoint.Write{{Task: w.Task, Kind: checkpoint.Failed, Data: data}}
	}
	return nil
}
