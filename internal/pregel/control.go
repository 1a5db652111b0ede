package pregel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle/internal/caught"
)

// schedule tracks the nodes that a run executes next.
type schedule struct {
	ctl        *control
	nextCtl    *control   // memory for the next control
	step       int        // number of the current step
	stop       int        // last step allowed by the limit
	marks      []uint64   // per node, the version in which it was armed; see arm
	one        [1]*Task   // the task list of a step with one task
	oneOut     [1]outcome // its outcome, if nothing refers to it after the step
	spareTasks []Task     // memory for the single tasks of later steps

	space      [2]control
	armedSpace [2][4]int32 // memory for the armed nodes of a small graph
}

func (s *schedule) reset(p *Plan) {
	*s.ctl = control{armed: s.armedSpace[0][:0], spare: s.armedSpace[1][:0]}
	if len(p.joins) > 0 {
		s.ctl.joins = make([]bits, len(p.joins))
		for i, j := range p.joins {
			s.ctl.joins[i] = newBits(len(j.sources))
		}
	}
	s.step = -1
}

// control describes what runs next. It is a plain struct, not channels: armed
// nodes, sends, and partly complete joins.
type control struct {
	start   []byte   // an input that was saved but not yet applied
	seed    string   // of task IDs, if different from the checkpoint ID
	armed   []int32  // nodes to run, by ID
	waiting []int32  // deferred nodes, released when nothing else is scheduled
	sends   []packet // inputs sent to nodes
	joins   []bits   // per join, the sources that have run
	gone    []string // armed nodes missing from this version of the graph
	spare   []int32  // memory of the previous armed list
}

// follow makes c the control of the step after prev. At first it schedules only the
// deferred nodes of prev. Most fields are empty and are not written, because each
// pointer write costs time while the garbage collector runs.
func (c *control) follow(prev *control) {
	if c.start != nil || c.seed != "" || c.waiting != nil || c.sends != nil || c.joins != nil || c.gone != nil {
		*c = control{}
	}
	c.armed, c.spare = prev.spare[:0], prev.armed
	if prev.waiting != nil || prev.joins != nil {
		c.waiting, c.joins = prev.waiting, prev.joins
	}
}

// idle reports whether nothing is scheduled.
func (c *control) idle() bool { return len(c.armed) == 0 && len(c.sends) == 0 }

// abandon drops scheduled work for a new input. Joins keep the sources that have
// run.
func (c *control) abandon() {
	c.armed = nil
	c.waiting = nil
	c.sends = nil
	c.gone = nil
}

// release arms the targets of complete joins, and the deferred nodes if nothing
// else is scheduled. It runs after all tasks of the step, so a source that ran
// twice counts once. The join of a deferred node stays complete until the node is
// released; sources that run before then do not count toward the next round.
func (r *Run) release(c *control) {
	full := func(i int) bool { return c.joins[i].full(len(r.plan.joins[i].sources)) }
	for i, j := range r.plan.joins {
		if full(i) {
			r.arm(c, j.target)
		}
	}
	if len(c.armed) > 1 {
		slices.Sort(c.armed)
	}
	if c.idle() && len(c.waiting) > 0 {
		c.armed, c.waiting = slices.Sorted(slices.Values(c.waiting)), nil
	}
	for i, j := range r.plan.joins {
		if full(i) && slices.Contains(c.armed, j.target) {
			c.joins = slices.Clone(c.joins)
			c.joins[i] = newBits(len(j.sources))
		}
	}
}

// bits is a set of join sources.
type bits []uint64

func newBits(n int) bits { return make(bits, (n+63)/64) }

func (b bits) set(i int) { b[i/64] |= 1 << (i % 64) }

func (b bits) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b bits) full(n int) bool {
	for i := range n {
		if !b.has(i) {
			return false
		}
	}
	return true
}

// arm schedules a node for the next step. Arming it again has no effect.
func (r *Run) arm(c *control, id int32) {
	n := r.plan.nodes[id]
	if n.Defer {
		if !slices.Contains(c.waiting, id) {
			c.waiting = append(slices.Clip(c.waiting), id)
		}
		return
	}
	switch {
	case len(c.armed) < fewArmed:
		if slices.Contains(c.armed, id) {
			return
		}
	default: // searching a long list costs more than a lookup in a table of all nodes
		if r.marks == nil {
			r.marks = make([]uint64, len(r.plan.nodes))
		}
		if len(c.armed) == fewArmed {
			for _, a := range c.armed {
				r.marks[a] = r.ver
			}
		}
		if r.marks[id] == r.ver {
			return
		}
		r.marks[id] = r.ver
	}
	c.armed = append(c.armed, id)
}

// fewArmed is the maximum number of armed nodes for which arm searches a list
// instead of a table.
const fewArmed = 8

// advance schedules the successors of a finished task, in this order: its gotos and
// sends, its edges, its joins.
func (r *Run) advance(c *control, t *Task, w *wiring) error {
	for i := range t.out.targets {
		if err := r.follow(c, t, &t.out.targets[i]); err != nil {
			return err
		}
	}
	if t.out.handled {
		return nil
	}
	for _, id := range w.edges {
		r.arm(c, id)
	}
	for _, e := range w.joins {
		if seen := c.joins[e.join]; !seen.has(e.bit) {
			// A checkpoint may still refer to the old sets.
			seen = slices.Clone(seen)
			seen.set(e.bit)
			c.joins = slices.Clone(c.joins)
			c.joins[e.join] = seen
		}
	}
	return nil
}

// follow schedules one target of a goto.
func (r *Run) follow(c *control, t *Task, to *Target) error {
	fail := func(msg string) error {
		return t.nodeError(&t.scope, &GotoError{Graph: r.plan.name, To: to.Node, Msg: msg})
	}
	if to.Timeout != 0 && !to.IsSend {
		return fail("timeout without a Send: set treadle.Timeout on the node, or send to it")
	}
	if to.Node == End {
		if to.IsSend {
			return fail("cannot send to the end")
		}
		return nil
	}
	n := r.plan.named(to.Node)
	switch {
	case to.Node == "":
		return fail("target has no name")
	case to.Node == Start:
		return fail("start cannot be a target")
	case n == nil:
		return fail("unknown node" + r.plan.suggest())
	case to.IsSend && to.Timeout < 0:
		return fail("timeout of a Send must be positive")
	case to.IsSend:
		in, err := r.checkSend(n, to.Input)
		if err != nil {
			return t.nodeError(&t.scope, err)
		}
		c.sends = append(c.sends, packet{node: n.id, input: in, timeout: to.Timeout})
	default:
		r.arm(c, n.id)
	}
	return nil
}

// route runs the branches after a task in a step with several tasks. They see the
// state as if only this task had written to it.
func (t *Task) route(ctx context.Context) {
	w := t.after()
	if len(w.branches) == 0 || t.out.handled {
		return
	}
	slots := slices.Clone(t.run.slots)
	for _, wr := range t.out.writes {
		if err := t.foldCopy(slots, wr); err != nil {
			return // the commit will fail with the same error
		}
	}
	t.err = t.branch(ctx, w, slots)
}

func (t *Task) foldCopy(slots []slot, w write) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught.New("reduce: ", p)
		}
	}()
	return slots[w.ch.id].fold(w, t.run.ver+1, t.node.id, false)
}

// ErrNoDestination is returned when a branch returns a nil Goto. An empty non-nil
// Goto is allowed: it is a fan-out to no node.
var ErrNoDestination = errors.New("no destination")

// branch calls the branch functions and collects their targets. If slots is nil,
// they read the run's state, to which the task's writes are already committed.
func (t *Task) branch(ctx context.Context, w *wiring, slots []slot) (err error) {
	r := t.run
	sc := &t.scope
	if sc.beat != nil { // the attempt had a timeout, and its context has ended
		sc = &scope{Context: ctx, task: t, attempt: sc.attempt}
		sc.asks.Store(t.scope.asks.Load())
		sc.calls.Store(t.scope.calls.Load())
	}
	defer func() {
		t.awaitCalls(err)
		if ps := t.paused(); err == nil && len(ps) > 0 {
			err = t.nodeError(sc, fmt.Errorf("branch: %w", &SwallowedInterruptError{Pauses: ps}))
		}
	}()
	for _, b := range w.branches {
		var in any
		if slots == nil {
			in = r.sync(b.view)
		} else {
			in = r.plan.views[b.view].fresh(slots, r.plan.schema.words, r.plan.public)
		}
		targets, err := t.ask(sc, b, in, t.out.to())
		if errors.Is(err, ErrNoDestination) {
			err = &GotoError{Graph: r.plan.name, Msg: "branch returned no destination: return treadle.To(treadle.End) to stop"}
		}
		if err != nil {
			return t.nodeError(&t.scope, fmt.Errorf("branch: %w", err))
		}
		t.out.targets = targets
	}
	return nil
}

func (t *Task) ask(sc *scope, b *branch, in any, to []Target) (targets []Target, err error) {
	returned := false
	defer func() {
		if !returned {
			p := recover()
			e := caught.New("", p)
			targets, err = nil, e
			if p == nil {
				t.err = t.nodeError(sc, fmt.Errorf("branch: %w", e))
			}
		}
		err = t.orFault(err)
	}()
	targets, err = b.Call(sc, in, to)
	returned = true
	return targets, err
}
