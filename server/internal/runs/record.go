package runs

import (
	"encoding/json"
	"maps"
	"sync"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
)

// recorder converts the events of a graph's stream to entries. Data that depends on earlier
// events (legacy messages, the blocks of protocol v2) is assembled here once, so that a reader
// can start anywhere.
type recorder struct {
	run    *ledger.Run
	kwargs *Kwargs
	log    *log

	answer *treadle.Values                 // last state of the root graph
	values func() (json.RawMessage, error) // encodes answer; nil if the state has interrupts
	legacy map[string]*llm.Chunk
	v2     *v2recorder // nil unless everything is recorded
}

func newRecorder(run *ledger.Run, k *Kwargs, graph string, l *log) *recorder {
	r := &recorder{run: run, kwargs: k, log: l, legacy: map[string]*llm.Chunk{}}
	if k.V2 {
		r.v2 = newV2Recorder(run, k, graph, l)
	}
	r.frame("metadata", nil, jsonOf(map[string]any{"run_id": run.ID, "attempt": run.Attempt}))
	return r
}

// frame records a frame of the classic protocol.
func (r *recorder) frame(name string, ns []string, data json.RawMessage) {
	r.log.add(&Entry{Protocol: Classic, Run: r.run.ID, Name: name, NS: ns, data: data})
}

// event records the wire format of a graph event.
func (r *recorder) event(ev treadle.Event) {
	at := ev.Where()
	var values func() (json.RawMessage, error)
	if v, ok := ev.(treadle.Values); ok && len(v.Pauses) == 0 { // both protocols use the same JSON
		values = sync.OnceValues(func() (json.RawMessage, error) { return v.State.MarshalJSON() }) // json.Marshal would copy it
	}
	if v, ok := ev.(treadle.Values); ok && len(at.Namespace) == 0 {
		r.answer, r.values = &v, values
	}
	if r.v2 != nil {
		r.v2.event(ev, values)
	}
	life, isLife := ev.(treadle.Lifecycle)
	if isLife && r.kwargs.wants("events") {
		r.lifecycle(life)
	}
	if len(at.Namespace) > 0 && !r.kwargs.Subgraphs {
		return // needed only by protocol v2
	}
	switch ev := ev.(type) {
	case treadle.Token:
		r.message(ev.Chunk, ev.Metadata, ev)
	case treadle.Returned:
		r.message(ev.Message, ev.Metadata, ev)
	case treadle.Lifecycle:
		if r.kwargs.wants("tools") {
			if data := toolEvent(&ev); data != nil {
				r.frame("tools", at.Namespace, jsonOf(data))
			}
		}
	case treadle.Values:
		if r.kwargs.wants("values") {
			if values == nil {
				values = func() (json.RawMessage, error) {
					_, _, data, err := dynamic.Wire{}.Frame(ev)
					return data, err
				}
			}
			r.log.add(&Entry{Protocol: Classic, Run: r.run.ID, Name: "values", NS: at.Namespace, make: values})
		}
	default:
		if r.kwargs.wants(at.Mode.String()) {
			r.plain(ev)
		}
	}
}

// state returns the last state of the root graph, or null if there is none.
func (r *recorder) state() (json.RawMessage, error) {
	switch {
	case r.values != nil:
		return r.values()
	case r.answer != nil:
		return r.answer.State.MarshalJSON()
	}
	return json.RawMessage("null"), nil
}

// lifecycle records a frame of the mode "events". As in LangGraph's server, this mode includes
// the events of subgraphs even without stream_subgraphs, its frames have no namespace, and the
// chunks of the root graph's output are sent as frames of the other modes.
func (r *recorder) lifecycle(ev treadle.Lifecycle) {
	switch ev.Event {
	case "on_chain_stream":
		if len(ev.Parents) == 0 {
			return
		}
	case "on_chat_model_start", "on_chat_model_end", "on_chat_model_error":
		ev.Input = map[string]any{"messages": []any{ev.Input}}
	case "on_tool_end":
		// Without an ID, a node called the tool itself and receives the plain result.
		if call, _ := ev.Metadata["tool_call_id"].(string); call != "" {
			ev.Output = toolOutput(call, &ev)
		}
	}
	ev.Namespace = nil
	r.plain(ev)
}

// plain records an event in its wire format.
func (r *recorder) plain(ev treadle.Event) {
	mode, ns, data, err := dynamic.Wire{}.Frame(ev)
	if err != nil {
		data = jsonOf(map[string]string{"error": err.Error()})
	}
	if data != nil {
		r.frame(mode, ns, data)
	}
}

// message records a chunk of a message, or a whole message.
func (r *recorder) message(v any, metadata map[string]any, ev treadle.Event) {
	if r.kwargs.wants("messages-tuple") {
		r.plain(ev)
	}
	if !r.kwargs.wants("messages") {
		return
	}
	ns := ev.Where().Namespace
	id := messageID(v)
	sofar, known := r.legacy[id]
	if !known {
		r.frame("messages/metadata", ns, jsonOf(map[string]any{id: map[string]any{"metadata": maps.Clone(metadata)}}))
	}
	chunk, ok := v.(llm.Chunk)
	if !ok {
		r.frame("messages/complete", ns, jsonOf([]any{v}))
		return
	}
	if sofar == nil {
		sofar = &llm.Chunk{}
	}
	if joined, err := sofar.Add(chunk); err == nil {
		r.legacy[id] = &joined
		r.frame("messages/partial", ns, jsonOf([]any{joined.Message()}))
	}
}

func messageID(v any) string {
	if m, ok := v.(interface{ MessageID() string }); ok {
		return m.MessageID()
	}
	return ""
}

// toolEvent returns a frame of the mode "tools", or nil.
func toolEvent(ev *treadle.Lifecycle) map[string]any {
	id, _ := ev.Metadata["tool_call_id"].(string)
	out := map[string]any{"event": ev.Event, "toolCallId": id, "name": ev.Name}
	switch ev.Event {
	case "on_tool_start":
		input, ok := ev.Input.(string)
		if !ok {
			input = string(jsonOf(ev.Input))
		}
		out["input"] = input
	case "on_tool_end":
		out["output"] = toolOutput(id, ev)
	case "on_tool_error":
		_, message := failure(ev.Err)
		out["error"] = message
	default:
		return nil
	}
	return out
}

// jsonOf encodes v as JSON. All values passed to it can be encoded.
func jsonOf(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		raw, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	return raw
}
