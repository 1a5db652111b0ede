package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/llm"
)

// Calls makes calls of the agent's tools on behalf of one of them, such as a tool that
// runs a script. Each of these nested calls is a recorded task: when the tool runs again
// after an interrupt or a crash, the recorded result is replayed, and the calls end in
// the same order as before. A tool must therefore make the same calls each time it runs.
//
// Nested calls run concurrently and pass through [Middleware].WrapTool, like the calls of
// the model. The hooks of middleware do not see them; see [Middleware].BeforeNestedCall.
// Updates of the state by nested calls become part of the tool's result.
//
// A call that has not started when the tool returns is not made; Next starts calls. The
// methods must be called by one goroutine at a time.
type Calls struct {
	ctx      context.Context
	nest     *nest
	outer    llm.ToolCall
	made     int           // calls that have been started
	running  []*nestedCall // those that have not been delivered; Nesting values share the array
	replayed []*nestedCall // recorded and not delivered
	live     int           // not recorded and not delivered
	paused   []*nestedCall
	opened   bool
	open     chan struct{} // closed when no recorded call is left: unrecorded calls start
	slots    chan struct{}
	wake     chan struct{}

	mu    sync.Mutex
	seq   int64
	ended []*nestedCall
}

// CallEnd is the end of a nested call.
type CallEnd struct {
	Number  int         // as returned by [Calls.Start]
	Message llm.Message // the result
	// IsJSON reports that the tool returned a value whose JSON is the content of Message,
	// and not a text.
	IsJSON bool
	Time   time.Time // when the call ended; the same when the result is replayed
}

// Nesting describes a call made with [Calls]; see [NestingFrom].
type Nesting struct {
	Parent  llm.ToolCall   // on whose behalf the call is made
	Earlier []llm.ToolCall // calls that Parent started before this call
	// Updates are the updates, as JSON by field, of the ended calls, in order. The state
	// does not contain them yet.
	Updates []map[string]json.RawMessage

	running []*nestedCall
}

// Running returns the calls in Earlier whose end Parent had not seen when it started this
// call.
func (n Nesting) Running() []llm.ToolCall {
	out := make([]llm.ToolCall, len(n.running))
	for i, r := range n.running {
		out[i] = r.call
	}
	return out
}

type nestKey struct{}
type nestingKey struct{}

// nest collects what the nested calls of a tool call add to its result.
type nest struct {
	box *toolbox

	mu        sync.Mutex
	updates   []map[string]json.RawMessage
	delegated llm.Messages
	started   []llm.ToolCall
	failure   error
	ended     bool          // the call that makes the nested calls has ended
	closed    chan struct{} // closed when it ends
}

// nestedCall is a call made with Calls.
type nestedCall struct {
	number int
	call   llm.ToolCall
	future *pregel.Future
	result nestedResult // of a recorded call
	pause  bool
	began  bool // run was called, so the result is not a recorded one; guarded by Calls.mu
}

// nestedResult is the result of a nested call as recorded.
type nestedResult struct {
	result
	IsJSON bool  `json:"is_json,omitempty"`
	Seq    int64 `json:"seq"`
	Time   int64 `json:"time"` // milliseconds
}

// NewCalls returns Calls for the tool call that ctx belongs to. It returns an error
// outside of the function of an agent's tool, and in a nested call.
func NewCalls(ctx context.Context) (*Calls, error) {
	n, _ := ctx.Value(nestKey{}).(*nest)
	outer, ok := llm.CallFrom(ctx)
	if n == nil || !ok {
		return nil, errors.New("agent: nested calls: context of no tool call: pass the tool's context")
	}
	if _, nested := NestingFrom(ctx); nested {
		return nil, fmt.Errorf("agent: nested calls: tool %s was itself called by a tool: call it directly", outer.Name)
	}
	c := &Calls{ctx: ctx, nest: n, outer: outer, open: make(chan struct{}), wake: make(chan struct{}, 1)}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed == nil {
		n.closed = make(chan struct{})
	}
	if n.box.ToolConcurrency > 0 {
		c.slots = make(chan struct{}, n.box.ToolConcurrency)
	}
	return c, nil
}

// NestingFrom describes the nested call that ctx belongs to. The second result is false
// for a call that the model made.
func NestingFrom(ctx context.Context) (Nesting, bool) {
	n, _ := ctx.Value(nestingKey{}).(*Nesting)
	if n == nil {
		return Nesting{}, false
	}
	return *n, true
}

// Tools returns the tools that can be called, by name: those that the agent runs.
func (c *Calls) Tools() []*llm.Tool {
	var out []*llm.Tool
	for _, name := range slices.Sorted(maps.Keys(c.nest.box.tools)) {
		if t := c.nest.box.tools[name]; t.Run != nil {
			out = append(out, t)
		}
	}
	return out
}

// Start starts a call and returns its number: 1 for the first, then 2, and so on. It
// returns an error for an unknown tool, and an error that the tool must return if the run
// has failed, was canceled, or replays a different call.
func (c *Calls) Start(name string, args json.RawMessage) (int, error) {
	if t := c.nest.box.tools[name]; t == nil || t.Run == nil {
		return 0, fmt.Errorf("agent: nested call: %s", c.nest.box.unknown(name).Content)
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	n := &nestedCall{number: c.made + 1}
	n.call = llm.ToolCall{ID: c.outer.ID + "/" + strconv.Itoa(n.number), Name: name, Args: args}
	about := &Nesting{Parent: c.outer, running: slices.Clip(c.running)}
	c.nest.mu.Lock()
	if c.nest.ended {
		c.nest.mu.Unlock()
		return 0, errEnded
	}
	about.Earlier, about.Updates = slices.Clip(c.nest.started), slices.Clip(c.nest.updates)
	c.nest.started = append(c.nest.started, n.call)
	c.nest.mu.Unlock()
	n.future = pregel.StartCall(context.WithValue(c.ctx, nestingKey{}, about), &pregel.CallSpec{Name: name, In: n.call, Options: hidden, Kept: true,
		Fn: func(ctx context.Context, _ any) (any, error) { return c.run(ctx, n) }})
	c.made, c.running = n.number, append(c.running, n)
	select {
	case <-n.future.Done():
		c.mu.Lock()
		began := n.began
		c.mu.Unlock()
		if began { // it has ended already, and run has noted that
			c.live++
			break
		}
		made, err := n.future.Wait(c.ctx)
		if err == nil {
			n.result, err = nestedResultOf(made)
		}
		if err != nil {
			return 0, err
		}
		c.replayed = append(c.replayed, n)
		c.mu.Lock()
		c.seq = max(c.seq, n.result.Seq)
		c.mu.Unlock()
	default:
		c.live++
	}
	return n.number, nil
}

// nestedResultOf returns the result of a new or recorded call.
func nestedResultOf(made pregel.CallResult) (r nestedResult, err error) {
	if r, ok := made.Made.(*nestedResult); ok {
		return *r, nil
	}
	if err := json.Unmarshal(made.Raw, &r); err != nil {
		return r, fmt.Errorf("agent: decode recorded tool result %s: %w", made.Raw, err)
	}
	return r, nil
}

// run makes a call that is not recorded. It waits until all recorded calls have been
// delivered, so that its number follows theirs.
func (c *Calls) run(ctx context.Context, n *nestedCall) (out any, err error) {
	c.mu.Lock()
	n.began = true
	c.mu.Unlock()
	r := &nestedResult{}
	defer func() { // also after a panic
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seq++
		r.Seq, r.Time = c.seq, time.Now().UnixMilli()
		n.pause = err != nil && treadle.IsPause(err)
		c.ended = append(c.ended, n)
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}()
	select {
	case <-c.open:
	case <-c.nest.closed:
		return nil, errEnded
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c.slots != nil {
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if r.result, r.IsJSON, err = c.nest.box.nested(ctx, n.call); err != nil {
		c.nest.fail(err)
	}
	return r, err
}

// errEnded is the error of a call that has not started when the tool ends.
var errEnded = errors.New("agent: nested call canceled: calling tool has ended")

// fail notes an error that fails the run, whatever the tool returns.
func (n *nest) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failure == nil && !treadle.IsPause(err) {
		n.failure = err
	}
}

// end ends the nested calls that have not started.
func (n *nest) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	if n.closed != nil {
		close(n.closed)
	}
}

// Next waits until a call has ended and returns its result. Results that are replayed
// come in their recorded order. The second result is false if no call is running. The
// tool must return the error: the pause of calls that interrupted the run, once no other
// call is running, or the failure or cancellation of the run.
func (c *Calls) Next() (end CallEnd, ok bool, err error) {
	if len(c.replayed) > 0 {
		first := 0
		for i, n := range c.replayed {
			if n.result.Seq < c.replayed[first].result.Seq {
				first = i
			}
		}
		n := c.replayed[first]
		c.replayed = slices.Delete(c.replayed, first, first+1)
		return c.deliver(n, n.result), true, nil
	}
	if !c.opened {
		c.opened = true
		close(c.open)
	}
	for c.live > 0 {
		n, err := c.wait()
		if err != nil {
			return end, false, err
		}
		c.live--
		if n.pause {
			c.paused = append(c.paused, n)
			continue
		}
		made, err := n.future.Wait(c.ctx)
		if err != nil {
			return end, false, err
		}
		r, err := nestedResultOf(made)
		if err != nil {
			return end, false, err
		}
		return c.deliver(n, r), true, nil
	}
	for _, n := range c.paused {
		if _, err := n.future.Wait(c.ctx); err != nil {
			return end, false, err
		}
	}
	return end, false, nil
}

// wait returns the next call that has ended.
func (c *Calls) wait() (*nestedCall, error) {
	for {
		c.mu.Lock()
		if len(c.ended) > 0 {
			n := c.ended[0]
			c.ended = c.ended[1:]
			c.mu.Unlock()
			return n, nil
		}
		c.mu.Unlock()
		select {
		case <-c.wake:
		case <-c.ctx.Done():
			return nil, context.Cause(c.ctx)
		}
	}
}

// deliver returns the end of a call and adds what it changed to the result of the tool.
func (c *Calls) deliver(n *nestedCall, r nestedResult) CallEnd {
	c.running = slices.DeleteFunc(slices.Clone(c.running), func(r *nestedCall) bool { return r == n })
	end := CallEnd{Number: n.number, IsJSON: r.IsJSON, Time: time.UnixMilli(r.Time)}
	if r.Message != nil {
		end.Message = *r.Message
	}
	c.nest.mu.Lock()
	defer c.nest.mu.Unlock()
	c.nest.delegated = append(c.nest.delegated, listed(end.Message.Metadata[delegatedKey])...)
	c.nest.updates = append(c.nest.updates, r.Nested...)
	return end
}

// nested makes a nested call. Unlike a call of the model, its result contains the message
// for the caller apart from the rest of the update.
func (b *toolbox) nested(ctx context.Context, call llm.ToolCall) (r result, isJSON bool, err error) {
	c := ToolCall{ToolCall: call, Tool: b.tools[call.Name]}
	for _, before := range b.beforeNested {
		given, m, err := before(ctx, c)
		if err != nil {
			return r, false, err
		}
		if m != nil {
			r, err = read(ctx, c.ToolCall, *m)
			return r, false, err
		}
		c = given
		if c.ID != call.ID || c.Name != call.Name {
			return r, false, fmt.Errorf("agent: tool %s: BeforeNestedCall changed the ID or the name of the call: change only the arguments", call.Name)
		}
	}
	v, r, err := b.through(ctx, c)
	if err != nil || r.Command == nil {
		return r, isValue(v), err
	}
	refuse := func(why string) (result, bool, error) {
		m := llm.ToolResult(call, llm.Message{Status: llm.StatusError, Content: fmt.Sprintf("Error: %s %s: call it directly", call.Name, why)})
		return result{Message: &m}, false, nil
	}
	if r.Command.Parent || len(r.Command.Goto) > 0 {
		return refuse("goes to another node or agent, which is not possible within another tool")
	}
	ms, err := r.Command.messages()
	if err != nil {
		return r, false, err
	}
	if slices.ContainsFunc(ms, clearsAll) {
		return refuse("clears the conversation, which is not possible within another tool")
	}
	return r.split(call, ms)
}

// split separates the result of a call from the other updates of its command.
func (r result) split(call llm.ToolCall, ms llm.Messages) (result, bool, error) {
	var others llm.Messages
	for _, m := range ms {
		if m.Role == llm.RoleTool && m.ToolCallID == call.ID {
			r.Message = &m
		} else {
			others = append(others, m)
		}
	}
	update, err := r.Command.Update.encoded() // see Nesting.Updates
	if err != nil {
		return r, false, fmt.Errorf("agent: tool %s: %w", call.Name, err)
	}
	for _, key := range messageKeys {
		delete(update, key)
	}
	if len(others) > 0 {
		raw, err := json.Marshal(others)
		if err != nil {
			return r, false, fmt.Errorf("agent: tool %s: encode messages: %w", call.Name, err)
		}
		update["messages"] = raw
	}
	r.Command = nil
	if len(update) > 0 {
		r.Nested = []map[string]json.RawMessage{update}
	}
	return r, false, nil
}

// isValue reports whether a tool's result is a value that becomes JSON, and not a text.
func isValue(v any) bool {
	switch v := v.(type) {
	case nil, string, llm.Block, []llm.Block, llm.Message, *llm.Message, error:
		return v == nil
	case llm.ToolOutput:
		return isValue(v.Content)
	case *llm.ToolOutput:
		return v == nil || isValue(v.Content)
	}
	return true
}

// extend adds the updates and the usage of nested calls to the result of a call. It returns
// the error of a nested call that fails the run.
func (n *nest) extend(ctx context.Context, call llm.ToolCall, r *result) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failure != nil {
		return n.failure
	}
	r.Nested = lastOnly(ctx, n.updates)
	switch {
	case len(n.delegated) == 0:
	case r.Message != nil:
		m := n.used(*r.Message)
		r.Message = &m
	default:
		return n.extendCommand(call, r)
	}
	return nil
}

// lastOnly removes all but the last update of each field without a reducer, which can be
// written once.
func lastOnly(ctx context.Context, updates []map[string]json.RawMessage) []map[string]json.RawMessage {
	var out []map[string]json.RawMessage
	seen := map[string]bool{}
	for _, u := range slices.Backward(updates) {
		kept := map[string]json.RawMessage{}
		for name, raw := range u {
			field := pregel.FieldOf(ctx, name)
			if !field.Reduces && seen[field.Name] {
				continue
			}
			seen[field.Name], kept[name] = true, raw
		}
		if len(kept) > 0 {
			out = append(out, kept)
		}
	}
	slices.Reverse(out)
	return out
}

// extendCommand adds the usage of nested calls to the message in a command.
func (n *nest) extendCommand(call llm.ToolCall, r *result) error {
	ms, err := r.Command.messages()
	if err != nil {
		return err
	}
	ms = slices.Clone(ms)
	for i, m := range ms {
		if m.Role == llm.RoleTool && m.ToolCallID == call.ID {
			ms[i] = n.used(m)
		}
	}
	raw, err := json.Marshal(ms)
	if err != nil {
		return fmt.Errorf("agent: tool %s: encode messages: %w", call.Name, err)
	}
	c := *r.Command
	c.Update = maps.Clone(c.Update)
	for _, key := range messageKeys {
		if _, ok := c.Update[key]; ok {
			c.Update[key] = json.RawMessage(raw)
			break
		}
	}
	r.Command = &c
	return nil
}

// used adds the usage of nested calls to a message.
func (n *nest) used(m llm.Message) llm.Message {
	all := append(slices.Clone(n.delegated), listed(m.Metadata[delegatedKey])...)
	m.Metadata = maps.Clone(m.Metadata)
	if m.Metadata == nil {
		m.Metadata = map[string]any{}
	}
	m.Metadata[delegatedKey] = all
	return m
}
