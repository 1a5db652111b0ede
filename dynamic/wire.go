package dynamic

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/inside"
	"github.com/treadle-go/treadle/internal/pregel"
)

// Wire encodes events in the format of LangGraph's streams, for servers and clients of
// its protocol.
//
// In version 1, an event is its payload. With Several, it is a list of the mode name
// and the payload; with Subgraphs, the namespace is the first element of the list. In
// version 2, every event is an object with type, ns, and data.
type Wire struct {
	Version   int // 1 or 2; 0 means 1
	Several   bool
	Subgraphs bool
}

// Frame returns the parts of an event in a LangGraph Platform stream: the mode
// name, the namespace, and the payload as JSON. The payload is nil if these
// streams do not contain the event. Frame ignores the fields of w.
func (Wire) Frame(ev treadle.Event) (mode string, namespace []string, payload json.RawMessage, err error) {
	data, err := payloadOf(ev)
	if data == nil || err != nil {
		return "", nil, nil, err
	}
	at := ev.Where()
	if cp, ok := ev.(treadle.Checkpointed); ok {
		withReferences(&cp.Snapshot, at.Mode, data.(map[string]any))
	}
	payload, err = json.Marshal(data)
	return at.Mode.String(), at.Namespace, payload, err
}

// Encode returns an event as JSON, or nil if LangGraph's streams do not contain the event,
// as for [treadle.Finished].
func (w Wire) Encode(ev treadle.Event) (json.RawMessage, error) {
	at := ev.Where()
	data, err := payloadOf(ev)
	if data == nil || err != nil {
		return nil, err
	}
	ns := at.Namespace
	if ns == nil {
		ns = []string{}
	}
	mode := at.Mode.String()
	switch {
	case w.Version == 2:
		part := map[string]any{"type": mode, "ns": ns, "data": data}
		if v, ok := ev.(treadle.Values); ok {
			part["data"], part["interrupts"] = v.State, wirePauses(v.Pauses)
		}
		return json.Marshal(part)
	case w.Version > 2 || w.Version < 0:
		return nil, fmt.Errorf("dynamic: unknown wire version %d", w.Version)
	case w.Subgraphs && w.Several:
		return json.Marshal([]any{ns, mode, data})
	case w.Subgraphs:
		return json.Marshal([]any{ns, data})
	case w.Several:
		return json.Marshal([]any{mode, data})
	}
	return json.Marshal(data)
}

// payloadOf returns the payload of an event, or nil if the event has none on the wire.
func payloadOf(event treadle.Event) (any, error) {
	at := event.Where()
	var kind string
	var data any
	switch ev := event.(type) {
	case treadle.Values:
		return withPauses(ev)
	case treadle.Interrupted:
		return map[string]any{"__interrupt__": wirePauses(ev.Pauses)}, nil
	case treadle.Updated:
		out := map[string]any{at.Node: ev.Update}
		if ev.Cached {
			out["__metadata__"] = map[string]any{"cached": true}
		}
		return out, nil
	case treadle.Custom:
		if ev.Value == nil {
			return json.RawMessage("null"), nil
		}
		return ev.Value, nil
	case treadle.Token:
		at := ev.Where()
		return wireMessage(ev.Chunk, at.Tags, at.Metadata), nil
	case treadle.Returned:
		return wireMessage(ev.Message, ev.Tags, ev.Metadata), nil
	case treadle.Lifecycle:
		return lifecycle(ev), nil
	case treadle.TaskStarted:
		kind, data = "task", taskStarted(ev)
	case treadle.TaskFinished:
		kind = "task_result"
		var err error
		if data, err = taskFinished(ev, inside.Tried(event)); err != nil {
			return nil, err
		}
	case treadle.Checkpointed:
		kind, data = "checkpoint", checkpointed(ev)
	default:
		return nil, nil
	}
	if at.Mode == treadle.ModeDebug {
		return map[string]any{"step": at.Step, "timestamp": at.Time.UTC().Format(time.RFC3339Nano), "type": kind, "payload": data}, nil
	}
	return data, nil
}

// wireMessage returns an item of the mode "messages", where LangGraph does not distinguish
// chunks from complete messages.
func wireMessage(v any, tags []string, metadata map[string]any) []any {
	meta := make(map[string]any, len(metadata)+1)
	maps.Copy(meta, metadata)
	if len(tags) > 0 {
		meta["tags"] = tags
	}
	return []any{v, meta}
}

func wirePauses(ps []treadle.Pause) []any {
	out := make([]any, len(ps))
	for i, p := range ps {
		out[i] = wirePause(p)
	}
	return out
}

func wirePause(p treadle.Pause) map[string]any {
	out := map[string]any{"value": p.Value, "id": p.ID}
	if p.Kind == treadle.QuestionPause {
		out["response_schema"] = p.Schema // null without one
	} else { // LangGraph has only interrupts
		out["kind"] = p.Kind
	}
	if !p.Due.IsZero() {
		out["due"] = p.Due
	}
	return out
}

// withPauses returns the state including the pending interrupts, as in version 1.
func withPauses(ev treadle.Values) (any, error) {
	if len(ev.Pauses) == 0 {
		return ev.State, nil
	}
	out := map[string]any{}
	for _, name := range ev.State.Names() {
		if v, ok := ev.State.Get(name); ok && name != pregel.Root {
			out[name] = v
		}
	}
	out["__interrupt__"] = wirePauses(ev.Pauses)
	return out, nil
}

func taskStarted(ev treadle.TaskStarted) map[string]any {
	out := map[string]any{"id": ev.TaskID, "name": ev.Node, "input": ev.Input, "triggers": ev.Triggers}
	meta := maps.Clone(ev.Metadata)
	if len(ev.Tags) > 0 {
		if meta == nil {
			meta = map[string]any{}
		}
		meta["tags"] = ev.Tags
	}
	if len(meta) > 0 {
		out["metadata"] = meta
	}
	return out
}

func taskFinished(ev treadle.TaskFinished, tried *pregel.Tried) (map[string]any, error) {
	result := json.RawMessage("{}")
	if r := inside.Record(ev.Result); r != nil {
		var err error
		if result, err = r.Folded(); err != nil {
			return nil, err
		}
	}
	out := map[string]any{"id": ev.TaskID, "name": ev.Node, "error": nil, "result": result, "interrupts": wirePauses(ev.Pauses)}
	if ev.Err != nil {
		out["error"] = wireError(ev.Err)
	}
	addTried(out, tried)
	return out, nil
}

// addTried adds the attempts of a retried task. LangGraph does
// not report them, so tasks with one attempt have no such keys.
func addTried(task map[string]any, tried *pregel.Tried) {
	if tried != nil {
		task["attempts"], task["retries"] = tried.Attempts, tried.Retries
	}
}

// wireError returns an error as data: its type and message, without the path
// of nodes that led to it.
func wireError(err error) map[string]any {
	for ne, ok := errors.AsType[*treadle.NodeError](err); ok; ne, ok = errors.AsType[*treadle.NodeError](err) {
		err = ne.Err
	}
	return map[string]any{"type": errorType(err), "message": err.Error()}
}

// errorType returns the name of an error's type, without its package, or "Error" for a type
// that does not describe the error.
func errorType(err error) string {
	t := reflect.TypeOf(err)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name := t.Name(); name != "" && name[0] >= 'A' && name[0] <= 'Z' {
		return name
	}
	return "Error"
}

func checkpointed(ev treadle.Checkpointed) map[string]any {
	s := &ev.Snapshot
	ns := strings.Join(ev.Namespace, "|")
	around := inside.Around(s)
	parents := make(map[string]string, len(around))
	for ns, id := range around {
		parents[ns] = id.String()
	}
	config := func(id fmt.Stringer) map[string]any {
		c := map[string]any{"thread_id": s.Thread, "checkpoint_ns": ns, "checkpoint_id": id.String()}
		if len(parents) > 0 {
			all := maps.Clone(parents)
			all[ns] = id.String()
			c["checkpoint_map"] = all
		}
		return map[string]any{"configurable": c}
	}
	meta := map[string]any{"source": s.Source, "step": s.Step, "parents": parents}
	maps.Copy(meta, s.Metadata)
	tasks := make([]any, len(s.Tasks))
	for i := range s.Tasks {
		t := &s.Tasks[i]
		task := map[string]any{"id": t.ID, "name": t.Name, "state": nil}
		if in := inside.TaskOf(t).Nested; in != "" {
			task["state"] = map[string]any{"configurable": map[string]any{"thread_id": s.Thread, "checkpoint_ns": in}}
		}
		if t.Error != "" {
			task["error"] = t.Error
		} else {
			task["interrupts"] = []any{}
		}
		tasks[i] = task
	}
	next := s.Next
	if next == nil {
		next = []string{}
	}
	out := map[string]any{"config": config(s.ID), "parent_config": nil, "values": s.State, "metadata": meta, "next": next, "tasks": tasks}
	if !s.Parent.IsZero() {
		out["parent_config"] = config(s.Parent)
	}
	return out
}

// withReferences adds checkpoint references to the payload of a checkpoint, as the
// Platform does.
func withReferences(s *treadle.Snapshot, mode treadle.Mode, data map[string]any) {
	if mode == treadle.ModeDebug {
		data = data["payload"].(map[string]any)
	}
	ns, around := strings.Join(s.Namespace, "|"), inside.Around(s)
	data["checkpoint"], data["parent_checkpoint"] = checkpointRef(s.Thread, ns, s.ID, around), nil
	if !s.Parent.IsZero() {
		data["parent_checkpoint"] = checkpointRef(s.Thread, ns, s.Parent, around)
	}
	for i, t := range data["tasks"].([]any) {
		if in := inside.TaskOf(&s.Tasks[i]).Nested; in != "" {
			t.(map[string]any)["checkpoint"] = map[string]any{"thread_id": s.Thread, "checkpoint_ns": in}
		}
	}
}

func lifecycle(ev treadle.Lifecycle) map[string]any {
	data := map[string]any{}
	for _, part := range []struct {
		key string
		val any
	}{{"input", ev.Input}, {"chunk", ev.Chunk}, {"output", ev.Output}} {
		if part.val != nil {
			data[part.key] = part.val
		}
	}
	if ev.Err != nil {
		data["error"] = wireError(ev.Err)
	}
	tags, meta, parents := ev.Tags, ev.Metadata, ev.Parents
	if tags == nil {
		tags = []string{}
	}
	if meta == nil {
		meta = map[string]any{}
	}
	if parents == nil {
		parents = []string{}
	}
	out := map[string]any{
		"event":      ev.Event,
		"name":       ev.Name,
		"run_id":     ev.RunID,
		"parent_ids": parents,
		"tags":       tags,
		"metadata":   meta,
		"data":       data,
	}
	if ev.Event == "on_custom_event" {
		out["data"] = ev.Output
	}
	return out
}
