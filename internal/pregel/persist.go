package pregel

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/caught"
	"github.com/treadle-go/treadle/reduce"
)

// persistence tracks how a run is saved on its thread. Without a saver, most of it
// is zero.
type persistence struct {
	head   checkpoint.ID
	before checkpoint.ID     // the head's parent
	tip    checkpoint.ID     // the head of the namespace, which differs from head on a fork
	source checkpoint.Source // of the checkpoints it creates
	meta   json.RawMessage   // of the checkpoints it creates
	last   []string          // the nodes of the last step

	resumed        bool // it continues from a checkpoint
	forked         bool // from a checkpoint that is not the head
	fromCachedHead bool // from a head cached in the process

	pending  []checkpoint.Write // of the loaded checkpoint
	saved    map[string][]byte  // results of tasks that finished before a failure, by task ID
	failures map[string]error   // of tasks whose error handler has not finished, by task ID
	madeBy   string             // name of the graph that created the loaded checkpoint
	ownerWas string             // for an edited per-thread subgraph run: the task that it ran for
	ofWas    checkpoint.ID      // for an edited subgraph run: the parent graph's checkpoint

	held *checkpoint.Put // an input to save together with the step that applies it; see holdsInput

	abandoned []TaskInfo      // tasks canceled by an input, until the event is emitted
	results   json.RawMessage // the writes of each task in the step to be saved next; see attribute

	weights *weights // of the values; nil means unknown

	childMu  sync.Mutex
	children map[string]checkpoint.ID // heads of per-thread subgraph runs

	memory memory // how the store follows the thread

	saverCtx *saverContext // nil until needed
}

func (r *Run) saving() bool { return r.set.Saver != nil && r.set.Thread != "" }

func (r *Run) key() checkpoint.Key {
	return checkpoint.Key{Thread: r.set.Thread, Namespace: r.ns(), ID: r.head}
}

// restoreFrom sets the state of the run to cp.
func (r *Run) restoreFrom(cp *checkpoint.Checkpoint) error {
	r.head, r.before, r.tip = cp.ID, cp.Parent, cp.ID
	if r.follows() {
		r.memory.at = memoryOf(cp.Metadata)
	}
	r.loadedSize(cp)
	for _, c := range r.plan.schema.channels {
		v, ok := cp.Values[c.wire]
		moved := !v.List
		for i := 0; i < len(c.was) && !ok; i++ {
			v, ok = cp.Values[c.was[i]]
			moved = true
		}
		if !ok {
			continue
		}
		val, err := r.set.Codecs.decodeValue(c, v)
		if err != nil {
			data := v.Data
			if v.List {
				data = []byte("[")
			}
			return r.misfit(cp.ID, c.wire, c.typ, data, err)
		}
		r.slots[c.id] = slot{val: val, ver: v.Version, has: true, moved: moved}
		r.weighLoaded(c, v)
		r.ver = max(r.ver, v.Version)
	}
	r.ver = max(r.ver, 1)
	r.step = cp.Step + 1
	cp.Pending = slices.DeleteFunc(cp.Pending, isVoided)
	r.questions = openPauses(cp)
	r.pending = cp.Pending
	for _, w := range cp.Pending {
		switch w.Kind {
		case checkpoint.Done:
			if r.saved == nil {
				r.saved = map[string][]byte{}
			}
			r.saved[w.Task] = w.Data
		case checkpoint.Answers:
			var given map[string]answer
			if err := unmarshal(w.Data, &given); err != nil {
				return fmt.Errorf("graph %q: thread %q: saved answers: %w", r.plan.name, r.set.Thread, err)
			}
			if r.answersOf == nil {
				r.answersOf = map[string]map[string]answer{}
			}
			r.answersOf[w.Task] = given
		case checkpoint.Failed:
			var f failedJSON
			if json.Unmarshal(w.Data, &f) == nil && f.Handle != "" {
				if r.failures == nil {
					r.failures = map[string]error{}
				}
				r.failures[w.Task] = errors.New(f.Handle)
			}
		}
	}
	r.restoreCalls()
	if err := r.decodeLog(cp.Values[logChannel]); err != nil {
		return err
	}
	return r.decodeControl(cp.Control)
}

// change returns the step's change of a channel, in saved form.
func (r *Run) change(u *undoEntry) (checkpoint.Change, error) {
	c, now := u.ch, &r.slots[u.ch.id]
	out := checkpoint.Change{Channel: c.wire, Version: now.ver}
	if !now.has {
		out.Clear = true
		return out, nil
	}
	if c.appender == nil {
		raw, err := r.set.Codecs.encode(c.wire, now.val)
		out.Data = raw
		return out, err
	}
	// Before the first write, no part of the list is saved.
	out.List = true
	from, n := 0, c.appender.Len(now.val)
	switch {
	case u.was.ver == 0 || !u.was.has || u.was.moved:
	case now.over || u.whole:
		out.Drop = c.appender.Len(u.was.val)
	default:
		from = c.appender.Len(u.was.val)
		if r, ok := c.appender.(reduce.Rewriter); ok {
			kept := r.Kept(u.was.val, now.val)
			if kept < 0 || kept > from {
				return out, fmt.Errorf("field %s: reducer's Kept returned %d for a list of %d", c.wire, kept, from)
			}
			from, out.Drop = kept, from-kept
		}
	}
	out.Items = make([][]byte, 0, n-from)
	for i := from; i < n; i++ {
		raw, err := r.set.Codecs.encode(c.wire, c.appender.At(now.val, i))
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, raw)
	}
	return out, nil
}

// put saves the changes of the step and the new control.
func (r *Run) put(source checkpoint.Source) error {
	if !r.saving() {
		return nil
	}
	if r.meta == nil && len(r.set.Metadata) > 0 {
		raw, err := encodeMetadata(r.plan, r.set)
		if err != nil {
			return err
		}
		r.meta = raw
	}
	meta := r.meta
	if r.follows() {
		given := r.set.Metadata
		if source == checkpoint.Input {
			given = r.metadataOfInput()
		}
		raw, err := r.withMemory(given, nil)
		if err != nil {
			return err
		}
		meta = raw
	} else if source == checkpoint.Input && len(r.abandoned) > 0 {
		raw, err := toJSON(r.metadataOfInput())
		if err != nil {
			return fmt.Errorf("graph %q: metadata: %w", r.plan.name, err)
		}
		meta = raw
	}
	p := &checkpoint.Put{Parent: r.head, Head: r.tip, Fence: r.set.Fence, Step: r.step, Source: source, RunID: r.set.RunID, Metadata: meta}
	p.Changes = make([]checkpoint.Change, 0, len(r.undo))
	for i := range r.undo {
		u := &r.undo[i]
		if u.ch.policy == untracked {
			continue
		}
		change, err := r.change(u)
		if err != nil {
			return r.unstorable(r.slots[u.ch.id].by, fmt.Errorf("graph %q: save: %w", r.plan.name, err))
		}
		p.Changes = append(p.Changes, change)
	}
	if len(r.journal.writes) > r.journal.stored || r.journal.drop > 0 {
		change, err := r.logChange()
		if err != nil {
			return fmt.Errorf("graph %q: save: %w", r.plan.name, err)
		}
		p.Changes = append(p.Changes, change)
	}
	ctl, err := r.encodeControl()
	if err != nil {
		return err
	}
	p.Control = ctl
	if source == checkpoint.Update && r.ctl.seed != "" {
		p.Pending = r.pending // the tasks stay the same, so their results and answers remain
	}
	p.Key = checkpoint.Key{Thread: r.set.Thread, Namespace: r.ns(), ID: checkpoint.NewID(r.step, r.tip)}
	if source == checkpoint.Input && r.holdsInput() {
		r.held = p
	} else if err := r.store(p); err != nil {
		return err
	}
	r.before = r.head
	r.head = p.ID
	r.tip = p.ID
	r.journal.stored = len(r.journal.writes)
	r.journal.drop = 0
	r.results = nil
	r.grewBy(p)
	r.weighPut(p.Changes)
	return nil
}

// holdsInput reports whether an input is saved together with the step that applies
// it. Between the two, only reducers and validators run, so a crash there is
// equivalent to a crash before the input was saved. The exceptions: a branch may
// take long, a reader of checkpoint events must find the input's checkpoint saved,
// and an edit does not apply its input.
func (r *Run) holdsInput() bool {
	if _, ok := r.set.Saver.(checkpoint.Batcher); !ok {
		return false
	}
	if r.source != checkpoint.Loop || len(r.abandoned) > 0 {
		return false
	}
	if r.parent() != nil {
		return false
	}
	if r.modes&ModeCheckpoints != 0 {
		return false
	}
	return len(r.plan.start.branches) == 0
}

// store saves a checkpoint, preceded by the held input, if any. If the thread's
// head has moved, the held input is dropped too.
func (r *Run) store(p *checkpoint.Put) (err error) {
	if held := r.held; held != nil {
		r.held = nil
		err = r.saveBoth(held, p)
		if err != nil && !refused(err) {
			r.held = held
		}
	} else {
		err = r.savePut(r.set.Saver, p)
	}
	if err != nil {
		return r.saverFault(fmt.Errorf("graph %q: save thread %q: %w", r.plan.name, r.set.Thread, err))
	}
	r.fromCachedHead = false // it was not stale
	return nil
}

// storeHeld saves an input whose step failed with err, so that the thread can be
// continued.
func (r *Run) storeHeld(err error) error {
	p := r.held
	if p == nil {
		return err
	}
	r.held = nil
	stored := r.store(p)
	if refused(stored) {
		return stored
	}
	return joinErrors(err, stored)
}

// refused reports whether a saver rejected a put because of another writer.
func refused(err error) bool {
	return errors.Is(err, checkpoint.ErrConflict) || errors.Is(err, checkpoint.ErrFenced)
}

// unstorable returns the error for a value that could not be saved. If one of its
// methods panicked, unstorable adds the node and the stack.
func (r *Run) unstorable(by int32, err error) error {
	e, ok := errors.AsType[*caught.Error](err)
	if !ok {
		return err
	}
	name := Start
	if by >= 0 {
		name = r.plan.nodes[by].Name
	}
	return &NodeError{Graph: r.plan.name, Node: name, Path: r.ns(), Step: r.step, Attempt: 1, Err: err, Stack: e.Stack}
}

func encodeMetadata(p *Plan, set *Settings) (json.RawMessage, error) {
	if len(set.Metadata) == 0 {
		return nil, nil
	}
	raw, err := toJSON(set.Metadata)
	if err != nil {
		return nil, fmt.Errorf("graph %q: metadata: %w", p.name, err)
	}
	return raw, nil
}

// putInput saves an input before it is applied.
func (r *Run) putInput(o *outcome) error {
	if !r.saving() {
		r.step++
		return nil
	}
	rec := &Record{schema: r.plan.schema, root: r.plan.schema.root}
	for _, w := range o.writes {
		if w.ch.policy != untracked {
			rec.items = append(rec.items, w)
		}
	}
	raw, err := r.encodeStart(rec)
	if err != nil {
		return r.unstorable(startNode.id, fmt.Errorf("graph %q: save input: %w", r.plan.name, err))
	}
	r.ctl.start = raw
	r.undo = r.undo[:0]
	if err := r.put(checkpoint.Input); err != nil {
		return err
	}
	r.saved = nil
	r.step++
	return nil
}
