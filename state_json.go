package treadle

import (
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
)

// StateJSON returns the snapshot in the format of LangGraph Platform's thread states.
// If nested is true, it includes the states of subgraphs; otherwise tasks refer to the
// subgraphs' checkpoints.
func (s *Snapshot) StateJSON(nested bool) (json.RawMessage, error) {
	return json.Marshal(s.state(nested, s.around))
}

// state returns the snapshot in wire format. around contains the checkpoints of the
// parent graphs, by namespace.
func (s *Snapshot) state(nested bool, around map[string]checkpoint.ID) map[string]any {
	out := map[string]any{"values": s.Values, "next": orEmpty(s.Next), "tasks": []any{}, "metadata": nil, "created_at": nil, "checkpoint": nil,
		"parent_checkpoint": nil, "interrupts": statePauses(s.Pauses), "checkpoint_id": nil, "parent_checkpoint_id": nil}
	if s.Values.r == nil {
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
	inside := maps.Clone(around)
	if inside == nil {
		inside = map[string]checkpoint.ID{}
	}
	inside[ns] = s.ID
	tasks := make([]any, len(s.Tasks))
	for i := range s.Tasks {
		tasks[i] = s.Tasks[i].state(s.Thread, nested, inside)
	}
	out["tasks"] = tasks
	return out
}

// state returns the task in wire format.
func (t *TaskState) state(thread string, nested bool, around map[string]checkpoint.ID) map[string]any {
	out := map[string]any{"id": t.ID, "name": t.Name, "path": []any{"__pregel_pull", t.Name}, "error": nil,
		"interrupts": statePauses(t.Pauses), "checkpoint": nil, "state": nil, "result": nil}
	if t.sent >= 0 {
		out["path"] = []any{"__pregel_push", t.sent}
	}
	if t.Error != "" {
		out["error"] = t.Error
	}
	if t.Result.r != nil {
		out["result"] = t.Result
	}
	addTried(out, t.tried)
	switch {
	case t.nested == "":
	case nested && t.Graph != nil:
		out["state"] = t.Graph.state(nested, around)
	default:
		out["checkpoint"] = map[string]any{"thread_id": thread, "checkpoint_ns": t.nested}
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

// statePauses returns pauses as a state shows them. As in LangGraph, a question without a schema
// has no such key here, while a stream shows null.
func statePauses(ps []Pause) []any {
	out := make([]any, len(ps))
	for i, p := range ps {
		shown := map[string]any{"id": p.ID, "value": p.Value}
		if p.Kind == QuestionPause && len(p.Schema) > 0 {
			shown["response_schema"] = p.Schema
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
