package runs

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
)

// v2recorder records the events of protocol v2. They have the format of LangGraph's Python
// server: messages and tools are in the namespace of their graph, and updates are by node.
type v2recorder struct {
	run   *ledger.Run
	graph string
	log   *log
	exit  bool // only the last checkpoint is saved

	// The engine emits the values of a step before their checkpoint, but clients expect the
	// checkpoint first, so values are held until the next event of their graph.
	held map[string]*heldValues
	seen map[string]bool // graphs, by namespace, that have emitted values

	open     [][]string      // subgraphs that have started
	asked    []treadle.Pause // interrupts that the run has stopped with
	paused   *treadle.Values // the root graph's values at that time
	messages messages
}

type heldValues struct {
	step  int
	ns    []string
	data  func() (json.RawMessage, error)
	first bool // the first values of their graph in this run
}

func newV2Recorder(run *ledger.Run, k *Kwargs, graph string, l *log) *v2recorder {
	r := &v2recorder{run: run, graph: graph, log: l, exit: k.Durability == "exit", held: map[string]*heldValues{}, seen: map[string]bool{}}
	r.messages.add = func(ns []string, node string, data any) { r.add("messages", ns, node, jsonOf(data)) }
	r.lifecycle(nil, map[string]any{"event": "running", "graph_name": graph})
	return r
}

// add records an event.
func (r *v2recorder) add(method string, ns []string, node string, data json.RawMessage) {
	r.log.add(&Entry{Protocol: V2, Run: r.run.ID, Name: method, NS: ns, Node: node, data: data})
}

func (r *v2recorder) lifecycle(ns []string, data map[string]any) {
	r.add("lifecycle", ns, "", jsonOf(data))
}

// event records an event of the graph. values encodes its state, if it is a [treadle.Values].
func (r *v2recorder) event(ev treadle.Event, values func() (json.RawMessage, error)) {
	at := ev.Where()
	if at.Mode == treadle.ModeDebug {
		return
	}
	if cp, ok := ev.(treadle.Checkpointed); ok {
		r.checkpoint(at.Namespace, &cp.Snapshot)
		return
	}
	if len(r.held) > 0 {
		r.release(strings.Join(at.Namespace, "|"), nil)
	}
	switch ev := ev.(type) {
	case treadle.Values:
		r.values(ev, values)
	case treadle.Interrupted:
		r.ask(ev.Pauses)
	case treadle.Token:
		r.messages.token(&at, ev.Chunk)
	case treadle.Returned:
		r.messages.returned(&at, ev.Message)
	case treadle.TaskFinished:
		r.messages.endTask(at.TaskID)
		r.plain(ev)
	case treadle.Lifecycle:
		r.span(&at, &ev)
	case treadle.Updated, treadle.Custom, treadle.TaskStarted:
		r.plain(ev)
	}
}

// plain records an event whose data is the same as in its stream mode.
func (r *v2recorder) plain(ev treadle.Event) {
	mode, ns, data, err := dynamic.Wire{}.Frame(ev)
	if err != nil {
		data = jsonOf(map[string]string{"error": err.Error()})
	}
	if data != nil {
		r.add(mode, ns, "", data)
	}
}

// values holds a state until its checkpoint arrives. The state of an interrupted graph was
// already recorded; the root graph's state is recorded again after the end.
func (r *v2recorder) values(ev treadle.Values, data func() (json.RawMessage, error)) {
	ns := ev.Namespace
	if len(ev.Pauses) > 0 {
		if len(ns) == 0 {
			r.paused = &ev
		}
		return
	}
	key := strings.Join(ns, "|")
	r.held[key] = &heldValues{step: ev.Step, ns: ns, data: data, first: !r.seen[key]}
	r.seen[key] = true
}

// checkpoint records a checkpoint and the values that wait for it. It omits a checkpoint whose
// values were already recorded, which can happen with [treadle.Async], because clients
// associate the values after a checkpoint with it.
func (r *v2recorder) checkpoint(ns []string, s *treadle.Snapshot) {
	key := strings.Join(ns, "|")
	h := r.held[key]
	if h == nil || s.Source == checkpoint.Input {
		return
	}
	// A resumed run first emits the state that it resumes from, whose step is complete.
	if s.Step == h.step || h.first && s.Step == h.step-1 {
		r.release(key, s)
	}
}

// release records the held values of a graph, after their checkpoint if s is not nil.
func (r *v2recorder) release(key string, s *treadle.Snapshot) {
	h := r.held[key]
	if h == nil {
		return
	}
	delete(r.held, key)
	if s != nil {
		data := map[string]any{"id": s.ID, "step": s.Step, "source": s.Source}
		if !s.Parent.IsZero() && !r.exit {
			data["parent_id"] = s.Parent
		}
		r.add("checkpoints", h.ns, "", jsonOf(data))
	}
	r.log.add(&Entry{Protocol: V2, Run: r.run.ID, Name: "values", NS: h.ns, make: h.data})
}

// ask collects interrupts for the end of the run, because they cannot be answered before.
// Parent graphs report the interrupts of their subgraphs too, so ask removes duplicates.
func (r *v2recorder) ask(pauses []treadle.Pause) {
	for _, p := range pauses {
		if !slices.ContainsFunc(r.asked, func(q treadle.Pause) bool { return q.ID == p.ID }) {
			r.asked = append(r.asked, p)
		}
	}
}

// span records the start or end of a subgraph, a model call, or a tool call.
func (r *v2recorder) span(at *treadle.Origin, ev *treadle.Lifecycle) {
	switch ev.Event {
	case "on_chain_start", "on_chain_end", "on_chain_error":
		if at.Node == "" && len(at.Namespace) > 0 {
			r.nested(at.Namespace, ev)
		}
	case "on_chat_model_stream":
		r.messages.call(ev.RunID, messageID(ev.Chunk))
	case "on_chat_model_end":
		r.messages.end(messageID(ev.Output), "")
	case "on_chat_model_error":
		_, text := failure(ev.Err)
		r.messages.endCall(ev.RunID, text)
	case "on_tool_start", "on_tool_end", "on_tool_error":
		r.add("tools", at.Namespace, at.Node, jsonOf(v2tool(ev)))
	}
}

// nested records the start or end of a subgraph.
func (r *v2recorder) nested(ns []string, ev *treadle.Lifecycle) {
	node, task, _ := strings.Cut(ns[len(ns)-1], ":")
	if ev.Event == "on_chain_start" {
		r.open = append(r.open, ns)
		r.lifecycle(ns, map[string]any{"event": "started", "namespace": ns, "graph_name": node, "trigger_call_id": task})
		return
	}
	i := slices.IndexFunc(r.open, func(o []string) bool { return slices.Equal(o, ns) })
	if i < 0 {
		return
	}
	r.open = slices.Delete(r.open, i, i+1)
	inside := func(p treadle.Pause) bool {
		return len(p.Namespace) >= len(ns) && slices.Equal(p.Namespace[:len(ns)], ns)
	}
	data := map[string]any{"event": "completed", "graph_name": node}
	switch {
	case ev.Err != nil:
		_, text := failure(ev.Err)
		data["event"], data["error"] = "failed", text
	case slices.ContainsFunc(r.asked, inside):
		data["event"] = "interrupted"
	}
	r.lifecycle(ns, data)
}

// v2tool returns an event of the channel "tools".
func v2tool(ev *treadle.Lifecycle) map[string]any {
	id, _ := ev.Metadata["tool_call_id"].(string)
	out := map[string]any{"tool_call_id": id}
	switch ev.Event {
	case "on_tool_start":
		out["event"], out["tool_name"], out["input"] = "tool-started", ev.Name, ev.Input
	case "on_tool_end":
		out["event"], out["output"] = "tool-finished", toolOutput(id, ev)
	default:
		_, text := failure(ev.Err)
		out["event"], out["message"] = "tool-error", text
	}
	return out
}

// toolOutput returns the output of a tool call in LangGraph's format: the message for the
// model, or the command that the tool returned.
func toolOutput(call string, ev *treadle.Lifecycle) any {
	if c, ok := treadle.CommandOf(ev.Output); ok {
		out := map[string]any{"graph": nil, "update": nil, "resume": nil, "goto": []any{}}
		if c.Parent {
			out["graph"] = "__parent__"
		}
		if c.Update != nil {
			if update, err := treadle.UpdateOf(*c.Update); err == nil {
				out["update"] = update
			}
		}
		if len(c.Goto) > 0 {
			out["goto"] = c.Goto
		}
		return out
	}
	m := llm.ToolResult(llm.ToolCall{ID: call, Name: ev.Name}, ev.Output)
	if m.Status == "" {
		m.Status = llm.StatusSuccess
	}
	return m
}

// settle records everything that waits for an event that did not arrive. The run has ended with
// err, or is about to end.
func (r *v2recorder) settle(err error) {
	for _, key := range sortedKeys(r.held) {
		r.release(key, nil)
	}
	text := ""
	if err != nil {
		_, text = failure(err)
	}
	r.messages.endAll(text)
	for _, ns := range slices.Backward(r.open) { // they were cut off
		node, _, _ := strings.Cut(ns[len(ns)-1], ":")
		r.lifecycle(ns, map[string]any{"event": "interrupted", "graph_name": node})
	}
	r.open = nil
}

// endings returns the number of entries that end records.
func (r *v2recorder) endings(e *End) uint64 {
	switch {
	case !e.Paused:
		return 1
	case r.paused == nil:
		return uint64(len(r.asked)) + 1
	default:
		return uint64(len(r.asked)) + 2
	}
}

// end records the end of the run, preceded by its interrupts. After an interrupt, it records
// the values once more, as clients expect.
func (r *v2recorder) end(e *End, interrupted bool) {
	data := map[string]any{"event": "completed", "graph_name": r.graph}
	switch {
	case e.Failed:
		data["event"], data["error"] = "failed", e.Message
	case interrupted:
		data["event"] = "interrupted"
	}
	if e.Paused {
		for _, p := range r.asked {
			// LangGraph's Python client reads the interrupt value from "value", all others from
			// "payload".
			r.add("input.requested", p.Namespace, "", jsonOf(map[string]any{"interrupt_id": p.ID, "payload": p.Value, "value": p.Value}))
		}
	}
	r.lifecycle(nil, data)
	if e.Paused && r.paused != nil {
		state := r.paused.State
		r.log.add(&Entry{Protocol: V2, Run: r.run.ID, Name: "values", make: func() (json.RawMessage, error) { return json.Marshal(state) }})
	}
}
