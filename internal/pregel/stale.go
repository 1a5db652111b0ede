package pregel

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
)

// stale reports whether no task waits for the answer to an interrupt recorded by
// the head of namespace ns.
//
// An interrupt of a subgraph is recorded at every level that contains it. An edit
// of one of these graphs ends the interrupted task, but the records of the levels
// above remain. They are not updated, so that an edit remains a single put.
// Instead, stale interrupts are filtered out when interrupts are listed.
func (p *Plan) stale(ctx context.Context, set *Settings, ns string, q Pause) (bool, error) {
	inner := strings.Join(q.Namespace, "|")
	if inner == ns {
		return false, nil
	}
	if _, err := p.Nested(q.Namespace); err != nil {
		return false, nil //nolint:nilerr // an unknown graph cannot have been edited
	}
	head, err := p.stored(ctx, set, inner, checkpoint.ID{})
	if errors.Is(err, checkpoint.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !asks(head, q.ID) {
		return true, nil
	}
	there, err := p.present(ctx, set, ns, head)
	return !there, err
}

// asks reports whether a task of the checkpoint has raised the interrupt.
func asks(cp *checkpoint.Checkpoint, id string) bool {
	return slices.ContainsFunc(cp.Pending, func(w checkpoint.Write) bool {
		var ps []Pause
		return w.Kind == checkpoint.Paused && json.Unmarshal(w.Data, &ps) == nil &&
			slices.ContainsFunc(ps, func(p Pause) bool { return p.ID == id })
	})
}

// withoutStale returns the interrupts recorded by the head of ns, without the stale
// ones.
func (p *Plan) withoutStale(ctx context.Context, set *Settings, ns string, qs []Pause) ([]Pause, error) {
	var out []Pause
	for _, q := range qs {
		stale, err := p.stale(ctx, set, ns, q)
		if err != nil {
			return nil, err
		}
		if !stale {
			out = append(out, q)
		}
	}
	return out, nil
}

// dropStale removes stale interrupts from a snapshot of a head. An older checkpoint
// shows the interrupts that were pending at the time.
func (p *Plan) dropStale(ctx context.Context, set *Settings, snap *Checkpoint) error {
	asking := func(t TaskInfo) bool {
		inner := func(q Pause) bool { return strings.Join(q.Namespace, "|") != snap.Namespace }
		return t.Graph != nil || slices.ContainsFunc(t.Pauses, inner)
	}
	if !slices.ContainsFunc(snap.Tasks, asking) {
		return nil
	}
	head, err := p.stored(ctx, set, snap.Namespace, checkpoint.ID{})
	if err != nil || head.ID != snap.ID {
		return err
	}
	for i := range snap.Tasks {
		info := &snap.Tasks[i]
		if info.Pauses, err = p.withoutStale(ctx, set, snap.Namespace, info.Pauses); err != nil {
			return err
		}
		info.Graph.waitsFor(info.Pauses)
	}
	return nil
}

// waitsFor removes from a subgraph's state the interrupts that the parent graph
// does not wait for. The parent graph has the answers.
func (c *Checkpoint) waitsFor(open []Pause) {
	if c == nil {
		return
	}
	for i := range c.Tasks {
		info := &c.Tasks[i]
		info.Pauses = slices.DeleteFunc(info.Pauses, func(q Pause) bool {
			return !slices.ContainsFunc(open, func(o Pause) bool { return o.ID == q.ID })
		})
		info.Graph.waitsFor(info.Pauses)
	}
}
