package pregel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
)

// idleRun returns a run that is only used to read a checkpoint.
func (p *Plan) idleRun(ctx context.Context, set *Settings, cp *checkpoint.Checkpoint) (*Run, error) {
	r := newRun(ctx, p, set, nil)
	r.nest.ns = set.NS
	r.state.allocate(p)
	r.reset()
	if cp == nil {
		return r, nil
	}
	r.nest.ns = cp.Namespace
	return r, r.restoreFrom(cp)
}

// Snapshot describes a saved checkpoint.
func (p *Plan) Snapshot(ctx context.Context, set Settings, cp *checkpoint.Checkpoint) (*Checkpoint, error) {
	r, err := p.idleRun(ctx, &set, cp)
	if err != nil {
		return nil, err
	}
	out := &Checkpoint{
		ID:        cp.ID,
		Parent:    cp.Parent,
		Thread:    cp.Thread,
		Namespace: cp.Namespace,
		Step:      cp.Step,
		Source:    cp.Source,
		RunID:     cp.RunID,
		Time:      cp.Time(),
		Values:    p.schema.record(r.slots, p.schema.channels),
	}
	if len(cp.Metadata) > 0 {
		if err := json.Unmarshal(cp.Metadata, &out.Metadata); err != nil {
			return nil, fmt.Errorf("graph %q: metadata of %s: %w", p.name, cp.ID, err)
		}
	}
	var tasks []*Task
	if r.ctl.start != nil {
		out.input = p.input(r.set, r.ctl.start)
		tasks = []*Task{{run: r, node: startNode, step: r.step, index: -1, out: &outcome{}}}
	} else {
		if tasks, err = r.prepare(); err != nil {
			return nil, err
		}
		tasks = slices.Clone(tasks) // the run reuses the slice
	}
	out.Tasks = r.infos(tasks)
	for i := range out.Tasks {
		info := &out.Tasks[i]
		for _, w := range cp.Pending {
			if w.Task != info.ID {
				continue
			}
			switch w.Kind {
			case checkpoint.Done:
				t := tasks[slices.IndexFunc(tasks, func(t *Task) bool { return t.ID() == info.ID })]
				if t.decodeResult(w.Data) == nil {
					info.Done = p.wrote(t.out.writes)
				}
			case checkpoint.Failed:
				var f failedJSON
				_ = json.Unmarshal(w.Data, &f) // an unreadable error is omitted
				info.Err, info.Tried = f.Message, f.Tried
			}
		}
		for _, p := range r.open {
			if r.owner[p.ID] == info.ID {
				info.Pauses = append(info.Pauses, p)
			}
		}
		out.Next = append(out.Next, info.Name)
	}
	out.Next = append(out.Next, r.ctl.gone...)
	return out, nil
}

// ahead adds to a snapshot the writes of the finished tasks of an unfinished step.
// Next then lists the other tasks.
func (p *Plan) ahead(ctx context.Context, set Settings, cp *checkpoint.Checkpoint, snap *Checkpoint) error {
	finished := func(w checkpoint.Write) bool { return w.Kind == checkpoint.Done }
	if !slices.ContainsFunc(cp.Pending, finished) {
		return nil // avoid decoding the state again, which may be long
	}
	r, err := p.idleRun(ctx, &set, cp)
	if err != nil || r.ctl.start != nil {
		return err
	}
	done, err := r.finished()
	if err != nil {
		return err
	}
	if r.commit(done) != nil { // the step will report the error when it ends
		r.rollback()
	}
	snap.Values = p.schema.record(r.slots, p.schema.channels)
	snap.Next = nil
	for _, info := range snap.Tasks {
		if info.Done == nil {
			snap.Next = append(snap.Next, info.Name)
		}
	}
	snap.Next = append(snap.Next, r.ctl.gone...)
	return nil
}

// State reads the head of the thread or of the subgraph named by set, or the
// checkpoint set.At. It returns nil if the namespace has no checkpoint.
func (p *Plan) State(ctx context.Context, set Settings) (*Checkpoint, error) {
	plan, err := p.Nested(split(set.NS))
	if err != nil {
		return nil, err
	}
	snap, err := plan.stateAt(ctx, set, set.At)
	if snap == nil || err != nil {
		return snap, err
	}
	return snap, p.dropStale(ctx, &set, snap)
}

func (p *Plan) stateAt(ctx context.Context, set Settings, id checkpoint.ID) (*Checkpoint, error) {
	cp, err := getFrom(ctx, set.Saver, checkpoint.Key{Thread: set.Thread, Namespace: set.NS, ID: id})
	if errors.Is(err, checkpoint.ErrNotFound) && id.IsZero() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	snap, err := p.Snapshot(ctx, set, cp)
	if err == nil {
		snap.showMade(p.made(&set, cp))
	}
	if err == nil && id.IsZero() {
		err = p.ahead(ctx, set, cp, snap)
	}
	if err == nil {
		err = p.nestedStates(ctx, set, snap)
	}
	return snap, err
}

// nestedStates adds the states of subgraphs that pending tasks have started.
func (p *Plan) nestedStates(ctx context.Context, set Settings, snap *Checkpoint) error {
	for i := range snap.Tasks {
		info := &snap.Tasks[i]
		if info.Nested == "" {
			continue
		}
		n := p.saved(info.Name)
		child, stable := n.graphs()[0], stablePath(info.Nested)
		places := []string{info.Nested, stable}
		for _, name := range n.Was { // see lastingNS
			places = append(places, strings.TrimSuffix(stable, info.Name)+name)
		}
		for _, ns := range places {
			inner := set
			inner.NS = ns
			state, err := child.stateAt(ctx, inner, checkpoint.ID{})
			if err != nil {
				return err
			}
			if state != nil {
				info.Graph = state
				break
			}
		}
	}
	return nil
}

// Nested returns the graph of a namespace, which is a list of "node:task" elements
// as in streams and snapshots. It returns p for an empty namespace.
func (p *Plan) Nested(namespace []string) (*Plan, error) {
	for _, part := range namespace {
		name, _, _ := strings.Cut(part, ":")
		if isNumber(name) {
			continue // the number of a call
		}
		n := p.saved(name)
		if n == nil || len(n.graphs()) == 0 {
			return nil, fmt.Errorf("graph %q: node %q has no known subgraph%s: declare the graphs that a function runs with treadle.Uses: %w",
				p.name, name, p.suggest(), checkpoint.ErrNotFound)
		}
		p = n.graphs()[0]
	}
	return p, nil
}

// Query selects checkpoints of a history.
type Query struct {
	checkpoint.Query
	Sources []checkpoint.Source // only these; empty means all
	Step    *int                // only this step; nil means all
}

func (q *Query) takes(cp *checkpoint.Checkpoint) bool {
	return (len(q.Sources) == 0 || slices.Contains(q.Sources, cp.Source)) && (q.Step == nil || *q.Step == cp.Step)
}

// check returns an error for an invalid query.
func (q *Query) check() error {
	for _, s := range q.Sources {
		switch s {
		case checkpoint.Input, checkpoint.Loop, checkpoint.Update, checkpoint.Fork:
		default:
			return fmt.Errorf("unknown source %q: want input, loop, update, or fork", s)
		}
	}
	if q.Limit < 0 {
		return fmt.Errorf("limit %d: want 0 (no limit) or more", q.Limit)
	}
	return nil
}

// History yields the checkpoints of a thread, newest first.
func (p *Plan) History(ctx context.Context, set Settings, q Query) iter.Seq2[*Checkpoint, error] {
	return func(yield func(*Checkpoint, error) bool) {
		root := p
		p, err := root.Nested(split(set.NS))
		if err != nil {
			yield(nil, err)
			return
		}
		q.Thread, q.Namespace = set.Thread, set.NS
		if err := q.check(); err != nil {
			yield(nil, fmt.Errorf("graph %q: history of thread %q: %w", p.name, set.Thread, err))
			return
		}
		limit := q.Limit
		if len(q.Sources) > 0 || q.Step != nil {
			q.Limit = 0 // the limit applies after filtering
		}
		after := steps{} // results of the steps after the checkpoints still to come
		if !q.Before.IsZero() {
			cp, err := getFrom(ctx, set.Saver, checkpoint.Key{Thread: set.Thread, Namespace: set.NS, ID: q.Before})
			if err == nil {
				after.note(cp, p.made(&set, cp))
			} else if !errors.Is(err, checkpoint.ErrNotFound) {
				yield(nil, err)
				return
			}
		}
		n := 0
		for cp, err := range listFrom(ctx, set.Saver, q.Query) {
			if err != nil {
				yield(nil, fmt.Errorf("graph %q: history of thread %q: %w", p.name, set.Thread, err))
				return
			}
			next, made := after.of(cp), p.made(&set, cp)
			after.note(cp, made)
			if !q.takes(cp) {
				continue
			}
			snap, err := p.Snapshot(ctx, set, cp)
			if err == nil {
				snap.showMade(made)
				snap.addResults(p, next)
				err = root.dropStale(ctx, &set, snap)
			}
			if !yield(snap, err) || err != nil {
				return
			}
			n++
			if n == limit {
				return
			}
		}
	}
}
