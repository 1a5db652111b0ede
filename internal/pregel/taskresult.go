package pregel

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/treadletype"
)

// resultJSON is the saved result of a task.
type resultJSON struct {
	Writes  []writeJSON  `json:"writes,omitempty"`
	Goto    []targetJSON `json:"goto,omitempty"`
	Handled bool         `json:"handled,omitempty"`

	Children map[string]checkpoint.ID `json:"children,omitempty"` // heads of its per-thread subgraph runs
}

type writeJSON struct {
	Field string          `json:"field"`
	Value json.RawMessage `json:"value"`
	Coded []byte          `json:"coded,omitempty"` // the value, if it is not JSON
	Over  bool            `json:"over,omitempty"`
}

func (r *Run) encodeWrite(w write) (writeJSON, error) {
	out := writeJSON{Field: w.ch.wire, Over: w.over}
	data, err := r.set.Codecs.encode(w.ch.wire, w.val)
	out.Value, out.Coded = enclose(data)
	return out, err
}

func (r *Run) decodeWrite(c *channel, w writeJSON) (write, error) {
	typ := c.upd
	if w.Over {
		typ = c.typ
	}
	data := enclosed(w.Value, w.Coded)
	val, err := r.set.Codecs.decodeAs(typ, data)
	if err != nil {
		return write{}, r.misfit(r.head, c.wire, typ, data, err)
	}
	return write{ch: c, val: val, over: w.Over}, nil
}

type targetJSON struct {
	Node    string          `json:"node"`
	Send    bool            `json:"send,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	Coded   []byte          `json:"coded,omitempty"` // the input, if it is not JSON
	Timeout *Timeout        `json:"timeout,omitempty"`
}

// encodeResult returns the saved form of the task's result. If forget is set, it
// omits untracked fields, for a checkpoint; a cache includes them.
func (t *Task) encodeResult(forget bool) ([]byte, error) {
	out := resultJSON{Handled: t.out.handled}
	if forget {
		out.Children = t.childHeads()
	}
	for _, w := range t.out.writes {
		if forget && w.ch.policy == untracked {
			continue
		}
		stored, err := t.run.encodeWrite(w)
		if err != nil {
			return nil, err
		}
		out.Writes = append(out.Writes, stored)
	}
	for _, to := range t.out.targets {
		g := targetJSON{Node: to.Node, Send: to.IsSend}
		if to.IsSend {
			data, err := t.encodeTarget(to, forget)
			if err != nil {
				return nil, err
			}
			g.Input, g.Coded = enclose(data)
		}
		if to.Timeout != 0 {
			g.Timeout = &Timeout{Run: to.Timeout}
		}
		out.Goto = append(out.Goto, g)
	}
	return json.Marshal(out)
}

func (t *Task) encodeTarget(to Target, forget bool) ([]byte, error) {
	n := t.run.plan.named(to.Node)
	if n == nil || !forget && n.hides {
		return Codecs(nil).encode("", to.Input)
	}
	return t.run.encodeInput(n, to.Input)
}

// decodeResult decodes a saved result, without fields that the graph no longer has.
func (t *Task) decodeResult(raw []byte) error {
	_, err := t.readResult(raw)
	return err
}

// readResult is like decodeResult, but also reports whether the result was whole,
// without omitted fields.
func (t *Task) readResult(raw []byte) (whole bool, err error) {
	p := t.run.plan
	var in resultJSON
	if err := json.Unmarshal(raw, &in); err != nil {
		return false, err
	}
	t.out.clear()
	whole = true
	for _, w := range in.Writes {
		c := p.schema.saved(w.Field)
		if c == nil {
			whole = false
			continue
		}
		got, err := t.run.decodeWrite(c, w)
		if err != nil {
			return false, err
		}
		t.out.add(got)
	}
	for _, g := range in.Goto {
		to := Target{Node: g.Node, IsSend: g.Send}
		if n := p.named(g.Node); g.Send && n != nil {
			data := enclosed(g.Input, g.Coded)
			val, err := t.run.decodeInput(n, data)
			if err != nil {
				return false, t.run.misfit(t.run.head, "input of "+n.Name, n.In, data, err)
			}
			to.Input = val
		}
		if g.Timeout != nil {
			to.Timeout = g.Timeout.Run
		}
		t.out.targets = append(t.out.targets, to)
	}
	t.out.handled = in.Handled
	t.addChildHeads(in.Children)
	return whole, nil
}

// putResults saves the results of the finished tasks of a failed or interrupted
// step, so that a continuation runs only the others. The caller joins a saver error
// to the step's failure.
func (r *Run) putResults(tasks []*Task) error {
	if !r.saving() {
		return nil
	}
	var ws []checkpoint.Write
	var errs []error
	for _, t := range tasks {
		_, asked := errors.AsType[*InterruptError](t.err)
		switch {
		case t.restored || t.stored || t.aborted:
		case asked:
			raw, err := encodePauses(t.paused())
			if err != nil {
				errs = append(errs, fmt.Errorf("graph %q: save interrupts of %q: %w", r.plan.name, t.Name(), err))
				continue
			}
			ws = append(ws, checkpoint.Write{Task: t.ID(), Kind: checkpoint.Paused, Data: raw})
			ws = append(ws, r.unfailed(t)...)
		case t.err == nil:
			raw, err := t.encodeResult(true)
			if err != nil {
				errs = append(errs, fmt.Errorf("graph %q: save result of %q: %w", r.plan.name, t.Name(), err))
				continue
			}
			ws = append(ws, checkpoint.Write{Task: t.ID(), Kind: checkpoint.Done, Data: raw})
		case !treadletype.IsPause(t.err):
			var handling error
			if h, ok := errors.AsType[*handlerError](t.err); ok {
				handling = h.failure
			}
			ws = append(ws, t.failed(t.err, handling))
		}
	}
	if err := r.saverFault(r.putWrites(ws)); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// failedJSON is the saved failure of a task.
type failedJSON struct {
	Node    string `json:"node"`
	Type    string `json:"type"` // of the node's own error
	Message string `json:"message"`
	Handle  string `json:"handle,omitempty"` // the failure that its error handler has not finished handling
	Tried   *Tried `json:"tried,omitempty"`
}

func (t *Task) failed(err, handling error) checkpoint.Write {
	cause := err
	for ne, ok := errors.AsType[*NodeError](cause); ok; ne, ok = errors.AsType[*NodeError](cause) {
		cause = ne.Err
	}
	out := failedJSON{Node: t.Name(), Type: reflect.TypeOf(cause).String(), Message: textOf(err), Tried: t.tried()}
	if handling != nil {
		out.Handle = textOf(handling)
	}
	raw, _ := json.Marshal(out) //nolint:errchkjson // strings and times of this process always have JSON
	return checkpoint.Write{Task: t.ID(), Kind: checkpoint.Failed, Data: raw}
}

// putFailure saves the final failure of the node before its error handler starts.
// The node then does not run again, even if the handler does not finish.
func (t *Task) putFailure(err error) error {
	r := t.run
	if !r.saving() {
		return nil
	}
	if err := r.putWrites([]checkpoint.Write{t.failed(err, err)}); err != nil {
		return t.noteFault(err)
	}
	return nil
}

// restore fills in the tasks whose results are saved. An unreadable result is an
// error, because its task must not run a second time.
func (r *Run) restore(tasks []*Task) error {
	if len(r.saved) == 0 {
		return nil
	}
	for _, t := range tasks {
		if raw, ok := r.saved[t.ID()]; ok {
			if err := t.decodeResult(raw); err != nil {
				return r.saverFault(fmt.Errorf("graph %q: saved result of %q: %w", r.plan.name, t.Name(), err))
			}
			t.cached, t.restored = true, true
		}
	}
	r.saved = nil
	return nil
}
