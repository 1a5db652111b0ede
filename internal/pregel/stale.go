package pregel

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
)

// stale reports whether no task waits for the answer to a question that the
// head of namespace ns has noted.
//
// A question of a nested graph is noted at every level around it. An edit of
// one of these graphs ends the task that asked, but the notes of the levels
// above remain. They are not updated, so that an edit stays one put. Instead,
// stale questions are filtered out when questions are listed.
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

// asks reports whether a task of the checkpoint has asked the question.
func asks(cp *checkpoint.Checkpoint, id string) bool {
	return slices.ContainsFunc(cp.Pending, func(w checkpoint.Write) bool {
		var ps []Pause
		return w.Kind == checkpoint.Paused && json.Unmarshal(w.Data, &ps) == nil &&
			slices.ContainsFunc(ps, func(p Pause) bool { return p.ID == id })
	})
}

// withoutStale returns questions that the head of ns has noted, without the
// stale ones.
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

// dropStale removes stale questions from a snapshot of a head. An older
// checkpoint shows the questions that were open then.
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

// waitsFor removes the questions from a nested graph's state that the enclosing
// graph does not wait for. The enclosing graph has the answers.
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
