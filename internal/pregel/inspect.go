package pregel

import (
	"time"

	"github.com/treadle-go/treadle/checkpoint"
)

// Checkpoint is a checkpoint as shown in streams and snapshots.
type Checkpoint struct {
	ID, Parent checkpoint.ID
	Thread     string
	Namespace  string // of a subgraph
	Step       int
	Source     checkpoint.Source
	RunID      string
	Metadata   map[string]any
	Values     *Record
	Next       []string
	Tasks      []TaskInfo
	Made       []TaskInfo // the tasks whose step created it, with their writes
	Time       time.Time
	input      *Record                  // the input that it contains
	Around     map[string]checkpoint.ID // in events: checkpoints of the containing graphs, by namespace
}

// TaskInfo is a pending task of a checkpoint.
type TaskInfo struct {
	ID, Name string
	Nested   string      // namespace of the subgraph that it runs, if any
	Graph    *Checkpoint // state of that subgraph, if it has started
	Err      string      // of its last attempt
	Done     *Record
	Pauses   []Pause // its pending interrupts
	Sent     int     // index among the step's sends, or -1
	Tried    *Tried  // nil: one attempt, or unknown
}

// emitCheckpoint reports the checkpoint that the next step runs from.
func (r *Run) emitCheckpoint(next []string) {
	if r.modes&ModeCheckpoints == 0 || !r.saving() {
		return
	}
	cp := &Checkpoint{
		ID:        r.head,
		Thread:    r.set.Thread,
		Step:      r.step - 1,
		Source:    checkpoint.Loop,
		RunID:     r.set.RunID,
		Namespace: r.ns(),
		Metadata:  r.set.Metadata,
		Values:    r.plan.schema.record(r.slots, r.plan.schema.channels),
		Next:      next,
		Time:      r.head.Time(),
	}
	cp.Parent = r.before
	for up := r.parent(); up != nil; up = up.run.parent() {
		if cp.Around == nil {
			cp.Around = map[string]checkpoint.ID{}
		}
		cp.Around[up.run.ns()] = up.run.head
	}
	if len(next) == 1 && next[0] == Start {
		cp.Source, cp.Metadata = checkpoint.Input, r.metadataOfInput()
		cp.Tasks = []TaskInfo{{ID: (&Task{run: r, node: startNode, step: r.step, index: -1}).ID(), Name: Start, Sent: -1}}
	} else if tasks, err := r.prepare(); err == nil {
		cp.Tasks = r.infos(tasks)
	}
	ev := r.event(cp)
	ev.At.Step = cp.Step
	if later, ok := r.set.Saver.(deferred); ok {
		later.once(r.key(), func() { r.emit(ModeCheckpoints, ev) })
		return
	}
	r.emit(ModeCheckpoints, ev)
}

// infos describes tasks, sends first.
func (r *Run) infos(tasks []*Task) []TaskInfo {
	var out []TaskInfo
	for _, push := range []bool{true, false} {
		for _, t := range tasks {
			if (t.packet != nil) == push {
				info := TaskInfo{ID: t.ID(), Name: t.node.savedName(), Sent: int(t.index)}
				if len(t.node.graphs()) > 0 {
					info.Nested = t.namespace()
				}
				out = append(out, info)
			}
		}
	}
	return out
}
