package pregel

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Abandoned is the event of a new input that drops the pending tasks of the thread.
type Abandoned struct{ Tasks []TaskInfo }

// abandonedKey is the key of the abandoned tasks in the metadata of the input's
// checkpoint.
const abandonedKey = "__abandoned__"

type abandonedJSON struct {
	ID         string   `json:"id,omitempty"` // empty if it was not due yet, or if the graph no longer has the node
	Name       string   `json:"name"`
	Interrupts []string `json:"interrupts,omitempty"` // IDs of its pending interrupts
}

// abandon drops the pending tasks for a new input and records them.
func (r *Run) abandon() {
	r.abandoned = r.leftovers()
	r.ctl.abandon()
}

// leftovers returns the pending tasks of the run's checkpoint. A fork from an older
// checkpoint has none: its tasks have run.
func (r *Run) leftovers() (out []TaskInfo) {
	if r.forked {
		return nil
	}
	due := func(n *node, p *packet, index int32) {
		t := &Task{run: r, node: n, step: r.step, packet: p, index: index}
		info := TaskInfo{ID: t.ID(), Name: t.node.savedName()}
		for _, p := range r.open {
			if r.owner[p.ID] == info.ID {
				info.Pauses = append(info.Pauses, p)
			}
		}
		out = append(out, info)
	}
	if r.ctl.start != nil {
		due(startNode, nil, -1)
	}
	for i := range r.ctl.sends {
		due(r.plan.nodes[r.ctl.sends[i].node], &r.ctl.sends[i], int32(i))
	}
	for _, id := range r.ctl.armed {
		due(r.plan.nodes[id], nil, -1)
	}
	for _, id := range r.ctl.waiting {
		out = append(out, TaskInfo{Name: r.plan.nodes[id].Name})
	}
	for _, name := range r.ctl.gone {
		out = append(out, TaskInfo{Name: name})
	}
	return out
}

// metadataOfInput returns the metadata of an input's checkpoint.
func (r *Run) metadataOfInput() map[string]any {
	if len(r.abandoned) == 0 {
		return r.set.Metadata
	}
	var list []abandonedJSON
	for _, t := range r.abandoned {
		a := abandonedJSON{ID: t.ID, Name: t.Name}
		for _, p := range t.Pauses {
			a.Interrupts = append(a.Interrupts, p.ID)
		}
		list = append(list, a)
	}
	return merged(r.set.Metadata, map[string]any{abandonedKey: list})
}

// emitAbandoned reports the tasks that a saved input has canceled.
func (r *Run) emitAbandoned() {
	if len(r.abandoned) == 0 {
		return
	}
	ev := r.event(&Abandoned{Tasks: slices.Clone(r.abandoned)})
	ev.At.Step = r.step - 1 // the step of the input's checkpoint
	r.emit(ModeUpdates, ev)
}

// carryAbandoned returns the metadata of a checkpoint that also replaces an earlier
// one.
func carryAbandoned(earlier, later json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(earlier, []byte(abandonedKey)) {
		return later, nil
	}
	var from, to map[string]json.RawMessage
	if err := json.Unmarshal(earlier, &from); err != nil {
		return nil, err
	}
	if len(later) > 0 {
		if err := json.Unmarshal(later, &to); err != nil {
			return nil, err
		}
	}
	if from[abandonedKey] == nil {
		return later, nil
	}
	if to == nil {
		to = map[string]json.RawMessage{}
	}
	to[abandonedKey] = from[abandonedKey]
	return json.Marshal(to)
}
