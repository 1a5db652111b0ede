package pregel

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/treadle-go/treadle/checkpoint"
)

// The memory used by values is estimated from the length of their saved form, which
// is known whenever a step is saved. Walking the values would cost more than the
// step.

// Memory connects a run to the memory limit of its server.
type Memory struct {
	// Heads replaces the graph's cache of heads, if not nil.
	Heads *Heads
	// State estimates the bytes of the state after the last put of the run.
	State atomic.Int64
	// Put estimates the bytes of all values that the run and its subgraphs have
	// put. The states of two steps share the values that were not put in between.
	Put atomic.Int64
}

type inMemory struct{}

// WithMemory returns a context whose runs use m.
func WithMemory(ctx context.Context, m *Memory) context.Context {
	return context.WithValue(ctx, inMemory{}, m)
}

// joinMemory makes a top-level run use the memory of its context.
func (r *Run) joinMemory() {
	if r.parent() == nil && r.saving() {
		r.set.Memory, _ = r.ctx.Value(inMemory{}).(*Memory)
	}
}

// Estimated bytes of values in addition to their saved form.
const (
	valueWeight = 64
	itemWeight  = 256 // per list element: a message is a struct of about this size
	slotWeight  = 64
	headWeight  = 512
)

// weights holds the estimated bytes of a run's values.
type weights struct {
	of  []int64 // by channel
	sum int64
}

func (w *weights) total() int64 {
	if w == nil {
		return 0
	}
	return w.sum
}

func (w *weights) clone() *weights {
	if w == nil {
		return nil
	}
	return &weights{slices.Clone(w.of), w.sum}
}

// weighed estimates the bytes of a value with this saved form.
func weighed(data []byte, items [][]byte) int64 {
	return stored(data, items) + valueWeight + itemWeight*int64(len(items))
}

// weighs reports whether the run needs the weights of its values. A subgraph does
// not, because its state is not cached.
func (r *Run) weighs() bool {
	return r.parent() == nil && (r.set.Memory != nil || r.set.HeadsOf != nil)
}

// weighLoaded sets the weight of a value loaded from a checkpoint.
func (r *Run) weighLoaded(c *channel, v checkpoint.Value) {
	if r.weighs() {
		r.setWeight(c, weighed(v.Data, v.Items))
	}
}

// weighPut updates the weights after a put.
func (r *Run) weighPut(changes []checkpoint.Change) {
	if r.weighs() {
		r.weighChanges(changes)
	}
	m := r.set.Memory
	if m == nil {
		return
	}
	var put int64
	for i := range changes {
		put += weighed(changes[i].Data, changes[i].Items)
	}
	m.Put.Add(put)
	if r.parent() == nil {
		m.State.Store(r.weights.total())
	}
}

// weighChanges updates the weights of the changed values. The changes are in the
// order of r.undo, without untracked channels; the journal's change comes last.
func (r *Run) weighChanges(changes []checkpoint.Change) {
	for i := range r.undo {
		u := &r.undo[i]
		if u.ch.policy == untracked {
			continue
		}
		c := &changes[0]
		changes = changes[1:]
		if c.Clear {
			r.setWeight(u.ch, 0)
			continue
		}
		w := weighed(c.Data, c.Items)
		if c.List && u.was.has && !u.was.moved && u.was.ver != 0 {
			w += r.remaining(u, c.Drop) - valueWeight
		}
		r.setWeight(u.ch, w)
	}
}

// remaining estimates the weight of a list without its last elements.
func (r *Run) remaining(u *undoEntry, drop int) int64 {
	was := int64(valueWeight)
	if r.weights != nil {
		was = max(was, r.weights.of[u.ch.id])
	}
	if n := u.ch.appender.Len(u.was.val); drop > 0 && n > 0 {
		was -= (was - valueWeight) * int64(min(drop, n)) / int64(n)
	}
	return was
}

func (r *Run) setWeight(c *channel, w int64) {
	if r.weights == nil {
		r.weights = &weights{of: make([]int64, len(r.slots))}
	}
	r.weights.sum += w - r.weights.of[c.id]
	r.weights.of[c.id] = w
}
