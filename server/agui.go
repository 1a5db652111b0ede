package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/server/internal/agui"
	"github.com/treadle-go/treadle/server/internal/runs"
)

// aguiCall is a request to run an assistant over AG-UI. The client sends the conversation and
// the state as it has them, but the server's thread counts: only what is new in the request
// becomes input, and only interrupts of the thread can be answered.
type aguiCall struct {
	*call
	in     *agui.Input
	a      *ledger.Assistant
	fields map[string]bool // fields of the graph's input
	thread uuid.UUID
	filter *ledger.Filter
	stored *ledger.Thread // nil if the thread does not exist yet
	values map[string]any // state of the thread
	raw    json.RawMessage
}

// aguiError is an error that the client receives as the event RUN_ERROR.
type aguiError struct{ code, message string }

func (e *aguiError) Error() string { return e.message }

// aguiRunKey is the key of a run's metadata that holds [aguiCall.id].
const aguiRunKey = "agui_run_id"

// aguiThreads is the namespace of the IDs of threads whose clients chose IDs that are not UUIDs.
var aguiThreads = uuid.MustParse("5d0c3f0e-6f1b-4c57-9f39-0a4fd6a1b0c7")

func (s aguiAPI) serve(c *call) error {
	a, _, err := s.assistants().named(c)
	if err != nil {
		return err
	}
	x := &aguiCall{call: c, a: a, in: &agui.Input{}}
	if err := c.decode(x.in); err != nil {
		return err
	}
	if err := x.in.Check(); err != nil {
		return fail(http.StatusUnprocessableEntity, "%v", err)
	}
	leave := c.r.URL.Query().Get("on_disconnect")
	if leave != "" && leave != "cancel" && leave != "continue" {
		return invalid("on_disconnect", "want cancel or continue, not %q", leave)
	}
	if err := x.open(); err != nil {
		return err
	}
	run, fresh, err := x.begin()
	if e, ok := errors.AsType[*aguiError](err); ok {
		return x.reject(e)
	}
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Location", runPath(run))
	return x.stream(run, fresh, leave != "continue")
}

// open finds the thread and reads its state.
func (x *aguiCall) open() (err error) {
	g := x.s.runner.Graph(x.a.Graph)
	if g == nil {
		return fail(http.StatusNotFound, "graph %q is not served", x.a.Graph)
	}
	schemas, err := g.Schemas()
	if err != nil {
		return err
	}
	if schemas.Input != nil {
		x.fields = map[string]bool{}
		for name := range schemas.Input.Properties {
			x.fields[name] = true
		}
	}
	if err := x.chooseThread(); err != nil {
		return err
	}
	x.in.RunID = cmp.Or(x.in.RunID, uuid.NewString())
	if x.filter, err = x.may("threads", "read", map[string]any{"thread_id": x.thread.String()}); err != nil {
		return err
	}
	x.stored, err = x.s.ledger.Thread(x.r.Context(), x.thread, x.filter)
	if errors.Is(err, ledger.ErrNotFound) {
		x.stored = nil
		return nil
	}
	if err != nil {
		return err
	}
	return x.read()
}

// chooseThread sets the ID of the thread. A UUID names a thread of the server; any other ID
// names a thread of this user.
func (x *aguiCall) chooseThread() (err error) {
	if x.in.ThreadID == "" {
		x.thread, err = uuid.NewV7()
		x.in.ThreadID = x.thread.String()
		return err
	}
	if id, err := uuid.Parse(x.in.ThreadID); err == nil && len(x.in.ThreadID) == 36 {
		x.thread = id
		return nil
	}
	owner := ""
	if x.user != nil {
		owner = x.user.Identity
	}
	x.thread = uuid.NewSHA1(aguiThreads, []byte(owner+"\x00"+x.in.ThreadID))
	return nil
}

// read reads the state of the thread.
func (x *aguiCall) read() error {
	shown, err := x.s.threads().withValues(x.call, x.stored, nil)
	if err != nil {
		return err
	}
	x.raw, x.values = shown.Values, agui.Object(shown.Values)
	return nil
}

// begin creates the run, or finds the run that the client has created before with the same ID.
func (x *aguiCall) begin() (run *ledger.Run, fresh bool, err error) {
	if run, err = x.repeated(); run != nil || err != nil {
		return run, false, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, false, err
	}
	b := &runBody{
		Assistant:   x.a.ID.String(),
		IfNotExists: "create",
		Strategy:    "reject",
		StreamMode:  agui.Modes,
		Subgraphs:   true,
		Resumable:   true,
		Strict:      true,
		id:          id,
		key:         "agui " + x.id(),
		Metadata:    ledger.Object{aguiRunKey: x.id()},
		Config:      ledger.Object{"configurable": x.configurable()},
	}
	if err := x.fill(b); err != nil {
		return nil, false, err
	}
	run, err = x.s.runs().createFrom(x.call, b, &x.thread)
	if status, detail := statusOf(err); err != nil && status == http.StatusConflict {
		return nil, false, &aguiError{"conflict", detail}
	}
	if err != nil {
		return nil, false, err
	}
	return run, run.ID == id, nil
}

// id identifies a request: its run ID and, if it has answers, their digest, because CopilotKit
// resumes an interrupted run with the ID of that run.
func (x *aguiCall) id() string {
	if len(x.in.Resume) == 0 {
		return x.in.RunID
	}
	h := sha256.New()
	for _, a := range x.in.Resume {
		_, _ = fmt.Fprintf(h, "%q %q %q ", a.ID, a.Status, a.Payload)
	}
	return fmt.Sprintf("%s %x", x.in.RunID, h.Sum(nil))
}

// repeated returns the run that the client has created with an earlier request of the same ID,
// so that a request whose response was lost can be sent again.
func (x *aguiCall) repeated() (*ledger.Run, error) {
	if x.stored == nil {
		return nil, nil
	}
	recent, err := x.s.ledger.Runs(x.r.Context(), x.thread, x.filter, "", ledger.Page{Limit: 10})
	if err != nil {
		return nil, err
	}
	for _, run := range recent {
		if run.Assistant == x.a.ID && run.Metadata[aguiRunKey] == x.id() {
			return run, nil
		}
	}
	return nil, nil
}

// configurable returns what the client offers the graph for this run: agent.ClientTools reads it.
func (x *aguiCall) configurable() map[string]any {
	facts := slices.Clone(x.in.Context)
	for _, m := range x.in.Messages {
		if text := m.Text(); text != "" && (m.Role == "system" || m.Role == "developer") {
			facts = append(facts, agui.Fact{Description: "instructions of the application", Value: text})
		}
	}
	out := map[string]any{}
	if len(x.in.Tools) > 0 {
		out["client_tools"] = x.in.Tools
	}
	if len(facts) > 0 {
		out["client_context"] = facts
	}
	return out
}

// fill sets what the run does: it resumes the interrupted thread, or takes new input.
func (x *aguiCall) fill(b *runBody) (err error) {
	var asked []question
	if x.stored != nil {
		asked = questions(x.stored.Interrupts)
	}
	if len(asked) == 0 {
		if len(x.in.Resume) > 0 {
			return &aguiError{"unknown_interrupt", "resume: the thread has no pending interrupts"}
		}
		b.Input, err = x.input()
		return err
	}
	answers := map[string]any{}
	for _, a := range x.in.Resume {
		i := slices.IndexFunc(asked, func(q question) bool { return q.ID == a.ID })
		if i < 0 {
			return &aguiError{"unknown_interrupt", fmt.Sprintf("resume: the thread has no pending interrupt %q", a.ID)}
		}
		answers[a.ID] = answerOf(asked[i], a)
	}
	for _, q := range asked {
		if call := clientCall(q); call != nil && answers[q.ID] == nil {
			if m := x.result(call.ID); m != nil {
				answers[q.ID] = agent.ClientResult{Content: m.Text(), Error: m.Error}
			}
		}
	}
	for _, q := range asked {
		if _, ok := answers[q.ID]; !ok {
			return &aguiError{"pending_interrupts", fmt.Sprintf("interrupt %q of the thread is pending: answer all pending interrupts in resume, or with a tool message", q.ID)}
		}
	}
	b.Command, err = json.Marshal(map[string]any{"resume": answers})
	return err
}

// answerOf returns the answer to an interrupt. The client may decline to answer: calls that
// wait for approval are then rejected, and other questions are answered with null.
func answerOf(q question, a agui.Answer) any {
	if !a.Canceled() {
		if len(a.Payload) == 0 {
			return json.RawMessage("null")
		}
		return a.Payload
	}
	if clientCall(q) != nil {
		return agent.ClientResult{Error: "The user canceled the call."}
	}
	if r := review(q); r != nil {
		return agent.Decisions(slices.Repeat([]agent.Decision{{Type: agent.Reject}}, len(r.Calls)))
	}
	return json.RawMessage("null")
}

// clientCall returns the call of a tool that the client runs, or nil if the interrupt is
// something else.
func clientCall(q question) *agent.ClientCall {
	var c agent.ClientCall
	if json.Unmarshal(q.Value, &c) != nil || c.Type != agent.ClientCallType {
		return nil
	}
	return &c
}

// review returns the calls that wait for approval, or nil if the interrupt is something else.
func review(q question) *agent.Review {
	var r agent.Review
	if json.Unmarshal(q.Value, &r) != nil || len(r.Calls) == 0 {
		return nil
	}
	return &r
}

// result returns the client's message with the result of a call.
func (x *aguiCall) result(call string) *agui.Message {
	for i := range x.in.Messages {
		if m := &x.in.Messages[i]; m.Role == "tool" && m.ToolCallID == call {
			return m
		}
	}
	return nil
}

// input returns the graph's input: the fields of the client's state that differ from the
// thread's, and the user messages that the thread does not have.
func (x *aguiCall) input() (json.RawMessage, error) {
	input := map[string]any{}
	for name, v := range agui.Object(x.in.State) {
		if name == "messages" || x.fields != nil && !x.fields[name] {
			continue
		}
		if old, ok := x.values[name]; !ok || !reflect.DeepEqual(old, v) {
			input[name] = v
		}
	}
	messages, err := x.messages()
	if err != nil {
		return nil, err
	}
	if len(messages) > 0 {
		if x.fields != nil && !x.fields["messages"] {
			return nil, &aguiError{"no_messages", fmt.Sprintf("graph %q takes no messages: its input has no field messages", x.a.Graph)}
		}
		input["messages"] = messages
	}
	return json.Marshal(input)
}

// messages returns the changes of the conversation: the client's new user messages. If there
// are none, and the client's last message is an earlier user message of the thread, the client
// asks for another response to it, so the messages after it are removed.
func (x *aguiCall) messages() (out llm.Messages, err error) {
	var stored struct {
		Messages llm.Messages `json:"messages"`
	}
	if len(x.raw) > 0 && json.Unmarshal(x.raw, &stored) != nil {
		stored.Messages = nil // no conversation
	}
	at := map[string]int{}
	for i, m := range stored.Messages {
		at[m.ID] = i
	}
	last := -1
	for i := range x.in.Messages {
		m := &x.in.Messages[i]
		i, known := at[m.ID]
		if m.Role == "user" && known && m.ID != "" {
			last = i
		} else if known || m.Role == "assistant" || m.Role == "tool" {
			last = -1
		}
		if m.Role != "user" || known && m.ID != "" {
			continue
		}
		user, err := m.User()
		if err != nil {
			return nil, err
		}
		out = append(out, user)
	}
	if len(out) > 0 || last < 0 {
		return out, nil
	}
	for _, m := range stored.Messages[last+1:] {
		out = append(out, llm.Remove(m.ID))
	}
	return out, nil
}

// modern reports whether the client understands all fields of version 1.0.
func (x *aguiCall) modern() bool {
	major, _, _ := strings.Cut(x.in.Version, ".")
	return major != "" && major != "0"
}

// started returns the first event of every response.
func (x *aguiCall) started() agui.Event {
	ev := agui.Event{"type": "RUN_STARTED", "threadId": x.in.ThreadID, "runId": x.in.RunID}
	if x.modern() {
		ev["protocolVersion"] = agui.Version
	}
	return ev
}

// reject responds to a request that cannot be run on the thread as it is.
func (x *aguiCall) reject(err *aguiError) error {
	e := x.events()
	sendEvent(e, x.started())
	sendEvent(e, agui.Event{"type": "RUN_ERROR", "message": err.message, "code": err.code})
	return ignored(e.flush())
}

// sendEvent adds an event to a stream.
func sendEvent(e *events, ev agui.Event) {
	if data, err := json.Marshal(ev); err == nil {
		e.frame("message", nil, "", data)
	}
}

// stream sends the events of a run.
func (x *aguiCall) stream(run *ledger.Run, fresh, cancel bool) error {
	e := x.events()
	send := func(ev agui.Event) { sendEvent(e, ev) }
	send(x.started())
	nested := true
	if v, ok := x.in.Forwarded["streamSubgraphs"].(bool); ok {
		nested = v
	}
	enc := agui.NewEncoder(send, nested)
	if x.values != nil {
		enc.State(x.raw)
	}
	lost, over := false, false
	ended, err := e.follow(x.r.Context(), func(ctx context.Context) iter.Seq2[*runs.Entry, error] {
		return func(yield func(*runs.Entry, error) bool) {
			for entry, err := range x.s.runner.Read(ctx, run, 0, fresh) {
				if !yield(entry, err) {
					return
				}
			}
			over = ctx.Err() == nil
		}
	}, func(entry *runs.Entry) bool {
		switch {
		case entry.End == nil && entry.Protocol == runs.Classic:
			enc.Frame(entry.Name, entry.NS, entry.Data())
		case entry.End != nil && entry.End.Lost:
			lost = true
		case entry.End != nil:
			x.finish(enc, send, entry.End, entry.Data())
		}
		return entry.End == nil
	})
	if lost && err == nil {
		err = &cutError{runs.ErrStopped}
	}
	x.s.runs().cut(x.call, err)
	if err == nil && !ended && over {
		if err = x.finishStored(enc, send, run); err != nil {
			x.s.runs().cut(x.call, &cutError{err})
		}
		err = e.flush()
	} else if !ended {
		x.s.runs().left(run, cancel)
	}
	return ignored(err)
}

// finishStored sends the end of a run whose events are no longer kept.
func (x *aguiCall) finishStored(enc *agui.Encoder, send func(agui.Event), run *ledger.Run) error {
	run, err := x.s.ledger.Run(x.r.Context(), run.Thread, run.ID, nil)
	if err != nil {
		return err
	}
	if x.stored, err = x.s.ledger.Thread(x.r.Context(), x.thread, x.filter); err != nil {
		return err
	}
	if err := x.read(); err != nil {
		return err
	}
	end := &runs.End{Status: string(run.Status), Failed: run.Failure != nil}
	if run.Failure != nil {
		end.Class, end.Message = run.Failure.Class, run.Failure.Message
	}
	x.end(enc, send, end, x.raw, questions(x.stored.Interrupts))
	return nil
}

// finish sends the end of a run.
func (x *aguiCall) finish(enc *agui.Encoder, send func(agui.Event), end *runs.End, values json.RawMessage) {
	asked := questionsIn(values)
	x.end(enc, send, end, values, asked)
}

// end sends the last events: the state, the conversation, and how the run ended.
func (x *aguiCall) end(enc *agui.Encoder, send func(agui.Event), end *runs.End, values json.RawMessage, asked []question) {
	if end.Failed {
		enc.Close()
		send(agui.Event{"type": "RUN_ERROR", "message": end.Message, "code": end.Class})
		return
	}
	enc.State(values)
	enc.Close()
	var conversation struct {
		Messages llm.Messages `json:"messages"`
	}
	if json.Unmarshal(values, &conversation) == nil && conversation.Messages != nil {
		send(agui.Event{"type": "MESSAGES_SNAPSHOT", "messages": agui.Messages(conversation.Messages)})
	}
	send(agui.Event{"type": "RUN_FINISHED", "threadId": x.in.ThreadID, "runId": x.in.RunID, "outcome": x.outcome(end, conversation.Messages, asked)})
}

// outcome describes how a run ended that did not fail.
func (x *aguiCall) outcome(end *runs.End, ms llm.Messages, asked []question) map[string]any {
	if end.Status == string(ledger.RunCanceled) && x.modern() {
		return map[string]any{"type": "cancelled"}
	}
	var calls []string
	var interrupts []map[string]any
	for _, q := range asked {
		if c := clientCall(q); c != nil {
			calls = append(calls, c.ID)
		}
		interrupts = append(interrupts, shownInterrupt(q, ms))
	}
	switch {
	case len(asked) > len(calls):
		return map[string]any{"type": "interrupt", "interrupts": interrupts}
	case len(calls) > 0 && x.modern():
		return map[string]any{"type": "success", "pendingToolCallIds": calls}
	}
	return map[string]any{"type": "success"}
}

// shownInterrupt returns an interrupt as clients show it. Everything in it comes from the saved
// interrupt.
func shownInterrupt(q question, ms llm.Messages) map[string]any {
	out := map[string]any{"id": q.ID, "reason": "input_required", "metadata": map[string]any{"value": q.Value}}
	if schema := agui.Object(q.schema()); schema != nil {
		out["responseSchema"] = schema
	}
	var text string
	if json.Unmarshal(q.Value, &text) == nil {
		out["message"] = text
	}
	if c := clientCall(q); c != nil {
		out["reason"], out["toolCallId"] = "tool_call", c.ID
	}
	if r := review(q); r != nil {
		out["reason"] = "tool_call"
		var about []string
		for _, call := range r.Calls {
			about = append(about, call.Description)
		}
		out["message"] = strings.Join(about, "\n\n")
		if id := callID(ms, r.Calls[0]); id != "" && len(r.Calls) == 1 {
			out["toolCallId"] = id
		}
	}
	return out
}

// schema returns the JSON of the answer's schema.
func (q question) schema() json.RawMessage {
	raw, err := json.Marshal(q.Schema)
	if err != nil {
		return nil
	}
	return raw
}

// callID returns the ID of the last call that an action shows.
func callID(ms llm.Messages, a agent.Action) string {
	for _, m := range slices.Backward(ms) {
		for _, c := range m.ToolCalls {
			if c.Name == a.Name && sameJSON(c.Args, a.Args) {
				return c.ID
			}
		}
	}
	return ""
}

func sameJSON(a, b json.RawMessage) bool { return reflect.DeepEqual(agui.Object(a), agui.Object(b)) }

// capabilities describes what an assistant can do over AG-UI.
func (s aguiAPI) capabilities(c *call) error {
	a, _, err := s.assistants().named(c)
	if err != nil {
		return err
	}
	g := s.runner.Graph(a.Graph)
	if g == nil {
		return fail(http.StatusNotFound, "graph %q is not served", a.Graph)
	}
	return c.json(http.StatusOK, map[string]any{
		"identity":       map[string]any{"name": a.Name, "type": "treadle"},
		"transport":      map[string]any{"streaming": true, "resumable": true},
		"tools":          map[string]any{"supported": true, "parallelCalls": true, "clientProvided": true},
		"state":          map[string]any{"snapshots": true, "deltas": true, "persistentState": true},
		"reasoning":      map[string]any{"supported": true, "streaming": true},
		"humanInTheLoop": map[string]any{"supported": true, "approvals": true, "interrupts": true, "approveWithEdits": true},
	})
}
