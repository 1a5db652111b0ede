package pregel

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
)

// A question of a nested graph is noted at every level around it. An edit of
// one of these graphs ends the task that asked, and the levels above know
// nothing of that: what they have noted is stale. Nothing is written when that
// happens, so that an edit stays one put; whoever lists questions asks here.

// stale reports that nobody waits for the answer to a question that the head
// of the namespace ns has noted.
func (p *Plan) stale(ctx context.Context, set *Settings, ns string, q Pause) (bool, error) {
	inner := strings.Join(q.Namespace, "|")
	if inner == ns {
		return false, nil
	}
	if _, err := p.Nested(q.Namespace); err != nil {
		return false, nil //nolint:nilerr // a graph that is not known here is not edited either
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

// asks reports whether a task of the checkpoint has asked the question.
func asks(cp *checkpoint.Checkpoint, id string) bool {
	return slices.ContainsFunc(cp.Pending, func(w checkpoint.Write) bool {
		var ps []Pause
		return w.Kind == checkpoint.Paused && json.Unmarshal(w.Data, &ps) == nil &&
			slices.ContainsFunc(ps, func(p Pause) bool { return p.ID == id })
	})
}

// withoutStale is a list of questions that the head of ns has noted, without
// those that are stale.
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

// dropStale takes stale questions out of a snapshot, if it is of a head: an
// older checkpoint shows what it waited for then.
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

// waitsFor leaves in the state of a nested graph only questions that the graph
// around it waits for, which has the answers.
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
