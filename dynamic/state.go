package dynamic

import (
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/inside"
)

// StateJSON returns a snapshot in the format of LangGraph Platform's thread states.
// If nested is true, it includes the states of subgraphs; otherwise tasks refer to the
// subgraphs' checkpoints.
func StateJSON(s *treadle.Snapshot, nested bool) (json.RawMessage, error) {
	return json.Marshal(state(s, nested, inside.Around(s)))
}

// state returns a snapshot in wire format. around contains the checkpoints of the
// parent graphs, by namespace.
func state(s *treadle.Snapshot, nested bool, around map[string]checkpoint.ID) map[string]any {
	out := map[string]any{
		"values":               s.State,
		"next":                 orEmpty(s.Next),
		"tasks":                []any{},
		"metadata":             nil,
		"created_at":           nil,
		"checkpoint":           nil,
		"parent_checkpoint":    nil,
		"interrupts":           statePauses(s.Pauses),
		"checkpoint_id":        nil,
		"parent_checkpoint_id": nil,
	}
	if inside.Record(s.State) == nil {
		out["values"] = struct{}{}
	}
	if s.ID.IsZero() {
		return out
	}
	ns := strings.Join(s.Namespace, "|")
	ref := func(id checkpoint.ID) map[string]any { return checkpointRef(s.Thread, ns, id, around) }
	out["created_at"], out["checkpoint"], out["checkpoint_id"] = s.CreatedAt.UTC().Format(time.RFC3339Nano), ref(s.ID), s.ID
	if !s.Parent.IsZero() {
		out["parent_checkpoint"], out["parent_checkpoint_id"] = ref(s.Parent), s.Parent
	}
	parents := map[string]checkpoint.ID{}
	maps.Copy(parents, around)
	meta := map[string]any{"source": s.Source, "step": s.Step, "parents": parents, "thread_id": s.Thread}
	if s.RunID != "" {
		meta["run_id"] = s.RunID
	}
	maps.Copy(meta, s.Metadata)
	out["metadata"] = meta
	within := maps.Clone(around)
	if within == nil {
		within = map[string]checkpoint.ID{}
	}
	within[ns] = s.ID
	tasks := make([]any, len(s.Tasks))
	for i := range s.Tasks {
		tasks[i] = taskState(&s.Tasks[i], s.Thread, nested, within)
	}
	out["tasks"] = tasks
	return out
}

// taskState returns a task in wire format.
func taskState(t *treadle.TaskState, thread string, nested bool, around map[string]checkpoint.ID) map[string]any {
	out := map[string]any{"id": t.ID, "name": t.Name, "path": []any{"__pregel_pull", t.Name}, "error": nil,
		"interrupts": statePauses(t.Pauses), "checkpoint": nil, "state": nil, "result": nil}
	of := inside.TaskOf(t)
	if of.Sent >= 0 {
		out["path"] = []any{"__pregel_push", of.Sent}
	}
	if t.Error != "" {
		out["error"] = t.Error
	}
	if inside.Record(t.Result) != nil {
		out["result"] = t.Result
	}
	addTried(out, of.Tried)
	switch {
	case of.Nested == "":
	case nested && t.Graph != nil:
		out["state"] = state(t.Graph, nested, around)
	default:
		out["checkpoint"] = map[string]any{"thread_id": thread, "checkpoint_ns": of.Nested}
	}
	return out
}

// checkpointRef returns a reference to a checkpoint. For a subgraph, it includes the
// checkpoints of the parent graphs.
func checkpointRef(thread, ns string, id checkpoint.ID, around map[string]checkpoint.ID) map[string]any {
	ref := map[string]any{"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}
	if len(around) > 0 {
		all := maps.Clone(around)
		all[ns] = id
		ref["checkpoint_map"] = all
	}
	return ref
}

// statePauses returns pauses as a state shows them. As in LangGraph, an interrupt
// without a schema has no such key here, while a stream shows null.
func statePauses(ps []treadle.Pause) []any {
	out := make([]any, len(ps))
	for i, p := range ps {
		shown := wirePause(p)
		if len(p.Schema) == 0 {
			delete(shown, "response_schema")
		}
		out[i] = shown
	}
	return out
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
