package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// Options configures an agent. A nil *Options means the defaults.
type Options struct {
	// Name is the name of the graph. If set, it is also the Name of the agent's
	// messages.
	Name string
	// Prompt is the system prompt. To compute it from the state, use the middleware
	// [Prompt].
	Prompt string
	// Tools lists the tools that the model may call. The provider runs the tools
	// that have no function.
	Tools []*llm.Tool
	// ToolOptions configures tool calls.
	ToolOptions
	// Middleware customizes the agent.
	Middleware []*Middleware
	// Response, if not nil, adds a structured response at the end of the run.
	Response *Response
	// Graph configures the agent's graph. Its StepLimit defaults to 100.
	Graph treadle.Options
}

// The names of an agent's nodes.
const (
	nodeModel    = "model"
	nodeTools    = "tools"
	nodeResponse = "structured_response"
)

const (
	defaultSteps = 100
	defaultName  = "agent"
)

// New returns an agent whose state is a conversation.
func New(model llm.Model, opts *Options) (*treadle.Graph[State, State], error) {
	return For[State](model, opts)
}

// For is like [New], but the agent's state is your type S. S must have a field
// Messages of type [llm.Messages]; embedding [llm.Chat] adds it. With
// [Options].Response, S must also have a field Response of type json.RawMessage.
func For[S any](model llm.Model, opts *Options) (*treadle.Graph[S, S], error) {
	if opts == nil {
		opts = &Options{}
	}
	a, err := newAgent[S](model, opts)
	if err != nil {
		return nil, err
	}
	b := treadle.New[S](cmp.Or(opts.Name, defaultName))
	a.build(b)
	graph := opts.Graph
	graph.StepLimit = cmp.Or(graph.StepLimit, defaultSteps)
	return b.Compile(&graph)
}

// agent builds an agent's graph.
type agent[S any] struct {
	*Options
	ask      ModelFunc
	object   ResponseFunc // nil without a structured response
	base     ModelCall
	tools    *toolbox
	messages history[S]
}

var middlewareName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func newAgent[S any](model llm.Model, opts *Options) (*agent[S], error) {
	a := &agent[S]{Options: opts}
	var errs []error
	if model == nil {
		errs = append(errs, errors.New("agent: nil model"))
	}
	all := opts.Tools
	for i, m := range opts.Middleware {
		switch {
		case m == nil:
			errs = append(errs, fmt.Errorf("agent: nil middleware at index %d", i))
			continue
		case !middlewareName.MatchString(m.Name):
			errs = append(errs, fmt.Errorf("agent: invalid name %q of middleware at index %d: use letters, digits, _ and -", m.Name, i))
		case slices.Contains(opts.Middleware[:i], m):
			errs = append(errs, fmt.Errorf("agent: middleware %q listed twice", m.Name))
		}
		all = append(slices.Clip(all), m.Tools...)
	}
	setup := Setup{Model: model, Tools: slices.DeleteFunc(slices.Clone(all), func(t *llm.Tool) bool { return t == nil })}
	for _, m := range opts.Middleware {
		if m != nil {
			errs = append(errs, m.check(setup))
		}
	}
	if opts.Response != nil && opts.Response.make == nil {
		errs = append(errs, errors.New("agent: empty Options.Response: create it with NewResponse"))
	}
	var err error
	if a.messages, err = historyOf[S](); err != nil {
		errs = append(errs, err)
	}
	if a.tools, err = newToolbox(all, &opts.ToolOptions, opts.Middleware); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	a.base = ModelCall{Model: model, System: opts.Prompt, Tools: all}
	a.ask = wrapModel(opts.Middleware, generate)
	if opts.Response != nil {
		a.object = wrapResponse(opts.Middleware, opts.Response.make)
	}
	return a, nil
}

// stages names the first node of each stage of the loop. The end stage creates the
// structured response, if one is configured; exit comes after it.
type stages struct {
	start, model, end, exit string
}

// build adds the nodes and edges. It skips missing parts: an agent without tools
// has no tools node, and without hooks an edge leads from the start directly to the
// model.
func (a *agent[S]) build(b *treadle.Builder[S]) {
	before := a.hooks("before_agent", func(m *Middleware) *Hook { return m.BeforeAgent })
	beforeModel := a.hooks("before_model", func(m *Middleware) *Hook { return m.BeforeModel })
	afterModel := a.hooks("after_model", func(m *Middleware) *Hook { return m.AfterModel })
	after := a.hooks("after_agent", func(m *Middleware) *Hook { return m.AfterAgent })
	slices.Reverse(afterModel)
	slices.Reverse(after)

	var at stages
	at.exit = first(after, treadle.End)
	at.end = at.exit
	if a.Response != nil {
		at.end = nodeResponse
	}
	at.model = first(beforeModel, nodeModel)
	at.start = first(before, at.model)

	treadle.AddNode(b, nodeModel, a.model, a.reads()...)
	var routes []string
	if a.tools.runnable {
		routes = append(routes, nodeTools)
	}
	routes = append(routes, at.end)
	decide := func(_ context.Context, c conversation) (treadle.Goto, error) {
		switch {
		case a.tools.runnable && a.tools.isDue(c.Messages):
			return treadle.To(nodeTools), nil
		case a.tools.answered(c.Messages):
			// A hook that ran after the model has answered its calls.
			return treadle.To(at.model), nil
		}
		return treadle.To(at.end), nil
	}

	b.Edge(treadle.Start, at.start)
	a.chain(b, before, at.model, nil, at)
	a.chain(b, beforeModel, nodeModel, nil, at)
	if len(afterModel) > 0 {
		b.Edge(nodeModel, afterModel[0].name)
		a.chain(b, afterModel, "", decide, at)
	} else {
		treadle.AddBranch(b, nodeModel, decide, treadle.Nodes(routes)...)
	}
	if a.tools.runnable {
		a.buildTools(b, at)
	}
	if a.Response != nil {
		treadle.AddNode(b, nodeResponse, a.respond)
		b.Edge(nodeResponse, at.exit)
	}
	a.chain(b, after, treadle.End, nil, at)
}

// buildTools adds the tools node and its outgoing branch.
func (a *agent[S]) buildTools(b *treadle.Builder[S], at stages) {
	treadle.AddNode(b, nodeTools, func(ctx context.Context, s S) ([]treadle.Command[any], error) {
		return a.tools.run(withModel(ctx, a.base.Model), s, a.messages.of(s))
	}, append(a.reads(), treadle.Additive(), treadle.Destinations(at.model, at.end))...)
	treadle.AddBranch(b, nodeTools, func(_ context.Context, c conversation) (treadle.Goto, error) {
		if a.tools.direct(c.Messages) {
			return treadle.To(at.end), nil
		}
		return treadle.To(at.model), nil
	}, at.model, at.end)
}

// hooked is a hook and its node name.
type hooked struct {
	name string
	hook *Hook
}

func first(hooks []hooked, otherwise string) string {
	if len(hooks) > 0 {
		return hooks[0].name
	}
	return otherwise
}

// names returns a unique name for each middleware. A repeated name gets a number
// suffix that yields no other middleware's name.
func (a *agent[S]) names() []string {
	given, out := map[string]bool{}, make([]string, len(a.Middleware))
	for _, m := range a.Middleware {
		if m != nil {
			given[m.Name] = true
		}
	}
	seen := map[string]bool{}
	for i, m := range a.Middleware {
		if m == nil { // reported when the agent is built
			continue
		}
		out[i] = m.Name
		for n := 2; seen[out[i]] || n > 2 && given[out[i]]; n++ {
			out[i] = fmt.Sprintf("%s_%d", m.Name, n)
		}
		seen[out[i]] = true
	}
	return out
}

// hooks returns the hooks that hookOf selects, in the order of the middleware. kind is part of
// the names of their nodes.
func (a *agent[S]) hooks(kind string, hookOf func(*Middleware) *Hook) []hooked {
	var out []hooked
	names := a.names()
	for i, m := range a.Middleware {
		if m == nil {
			continue
		}
		if hook := hookOf(m); hook != nil {
			out = append(out, hooked{names[i] + "." + kind, hook})
		}
	}
	return out
}

// A router chooses the agent's next node.
type router = func(context.Context, conversation) (treadle.Goto, error)

// chain adds hooks in sequence. The last hook is followed by the node next, or by
// the node that decide chooses.
func (a *agent[S]) chain(b *treadle.Builder[S], hooks []hooked, next string, decide router, at stages) {
	for i, h := range hooks {
		b.Add(h.hook.node(h.name, a.base.Model))
		then, choose := next, decide
		if i+1 < len(hooks) {
			then, choose = hooks[i+1].name, nil
		}
		switch {
		case len(h.hook.jumps) > 0:
			a.jump(b, h, then, choose, at)
		case choose != nil:
			treadle.AddBranch(b, h.name, choose, treadle.Nodes(a.places(at))...)
		default:
			b.Edge(h.name, then)
		}
	}
}

// jump adds the branch after a hook that may jump.
func (a *agent[S]) jump(b *treadle.Builder[S], h hooked, then string, choose router, at stages) {
	places := append(a.places(at), at.exit)
	if then != "" {
		places = append(places, then)
	}
	treadle.AddBranch(b, h.name, func(ctx context.Context, j jumping) (treadle.Goto, error) {
		switch j.JumpTo {
		case "":
		case JumpModel:
			return treadle.To(at.model), nil
		case JumpEnd:
			return treadle.To(at.exit), nil
		case JumpTools:
			if !a.tools.runnable {
				return nil, fmt.Errorf("agent: hook %s jumps to the tools, but the agent has no tools", h.name)
			}
			return treadle.To(nodeTools), nil
		default:
			return nil, fmt.Errorf("agent: hook %s: invalid jump %q: want %s, %s, or %s", h.name, j.JumpTo, JumpModel, JumpTools, JumpEnd)
		}
		if choose != nil {
			return choose(ctx, conversation{j.Messages})
		}
		return treadle.To(then), nil
	}, treadle.Nodes(places)...)
}

// places returns the possible destinations of a router.
func (a *agent[S]) places(at stages) []string {
	places := []string{at.model, at.end}
	if a.tools.runnable {
		places = append(places, nodeTools)
	}
	return places
}

// model runs the node that calls the model.
func (a *agent[S]) model(ctx context.Context, s S) (said, error) {
	call := a.base
	call.Messages = a.messages.of(s)
	answer, err := a.ask(withModel(llm.WithState(ctx, s), a.base.Model), call)
	if err != nil {
		return said{}, err
	}
	answer.Name = cmp.Or(answer.Name, a.Name)
	answer.ToolCalls = distinct(answer.ID, answer.ToolCalls)
	if left := treadle.InfoFrom(ctx).RemainingSteps; left < 2 && a.tools.isDue(llm.Messages{answer}) {
		answer = llm.Message{Role: llm.RoleAI, ID: answer.ID, Name: answer.Name, Content: outOfSteps, Usage: answer.Usage}
	}
	out := llm.Messages{answer}
	if !a.tools.runnable {
		// An agent without tools has no node to answer the calls, and a message
		// with nothing but calls would look like the end.
		for _, call := range a.tools.due(out) {
			out = append(out, llm.ToolResult(call, a.tools.unknown(call.Name)))
		}
	}
	return said{out}, nil
}

// outOfSteps is the response when too few steps remain to run tools.
const outOfSteps = "Sorry, need more steps to process this request."

// generate calls the model. It is the innermost ModelFunc.
func generate(ctx context.Context, c ModelCall) (llm.Message, error) {
	opts := c.Options
	if len(c.Tools) > 0 {
		opts = append([]llm.Option{llm.Tools(c.Tools...)}, opts...)
	}
	return llm.Generate(ctx, llm.With(c.Model, opts...), c.history()...)
}

// history returns the messages of the call, including the system prompt.
func (c ModelCall) history() llm.Messages {
	if c.System == "" {
		return c.Messages
	}
	return append(llm.Messages{llm.System(c.System)}, c.Messages...)
}

// Response describes the structured response of an agent. Create one with
// [NewResponse].
type Response struct {
	make   ResponseFunc
	model  llm.Model // overrides the agent's model; may be nil
	prompt string
}

// NewResponse requests a structured response of type T; see [llm.Object]. The agent
// requests it in one more model call, after the model has answered without tool
// calls. The prompt, if not empty, is the system prompt of that call. The model, if
// not nil, replaces the agent's model.
func NewResponse[T any](prompt string, model llm.Model) *Response {
	return &Response{model: model, prompt: prompt, make: func(ctx context.Context, c ModelCall) (json.RawMessage, error) {
		v, err := llm.Object[T](ctx, llm.With(c.Model, c.Options...), c.history()...)
		if err != nil {
			return nil, err
		}
		return json.Marshal(v)
	}}
}

type responded struct {
	Response json.RawMessage
}

func (a *agent[S]) respond(ctx context.Context, c conversation) (responded, error) {
	call := ModelCall{Model: a.base.Model, System: a.Response.prompt, Messages: c.Messages}
	if a.Response.model != nil {
		call.Model = a.Response.model
	}
	raw, err := a.object(withModel(ctx, a.base.Model), call)
	return responded{raw}, err
}
