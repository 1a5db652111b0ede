package llm

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
)

// With returns the model with settings bound to it:
//
//	joker := llm.With(model, llm.Temperature(1), llm.Tags("joke"))
//
// Of two bindings the outer one wins; tags, metadata and tools add up. It is the
// same where a [Retry] or the like stands between them. A model of one's own that
// stands around another has two methods for that, which every such model of this
// package has: Unwrap() llm.Model, the one inside, and Rewrap(llm.Model) llm.Model,
// the same around another. Without them the events of a call lack the tags that
// were bound inside. A nil model or option is a panic.
func With(model Model, opts ...Option) Model {
	need("With", model)
	if slices.ContainsFunc(opts, func(o Option) bool { return o == nil }) {
		panic("llm: With: an option is nil")
	}
	return &bound{model, opts}
}

// need panics if a model is not there: the functions that wrap models have no error
// to return, and the first call would be far from the mistake.
func need(function string, models ...Model) {
	if slices.Contains(models, nil) {
		panic("llm: " + function + ": a model is nil")
	}
}

type bound struct {
	model Model
	opts  []Option
}

// Stream implements [Model].
func (b *bound) Stream(ctx context.Context, req *Request) iter.Seq2[Chunk, error] {
	r := Request{Messages: req.Messages}
	model := bind(b, &r)
	r.override(req)
	return model.Stream(ctx, &r)
}

// override has the settings of an outer request win. The messages are those that
// r has, which are the outer's as the options have left them.
func (r *Request) override(outer *Request) {
	r.Model = cmp.Or(outer.Model, r.Model)
	r.Tools = slices.Concat(r.Tools, outer.Tools)
	r.ToolChoice = cmp.Or(outer.ToolChoice, r.ToolChoice)
	r.SerialTools = r.SerialTools || outer.SerialTools
	r.Output = cmp.Or(outer.Output, r.Output)
	r.Objects = cmp.Or(outer.Objects, r.Objects)
	r.MaxTokens = cmp.Or(outer.MaxTokens, r.MaxTokens)
	r.Temperature = cmp.Or(outer.Temperature, r.Temperature)
	r.TopP = cmp.Or(outer.TopP, r.TopP)
	if outer.StopWords != nil {
		r.StopWords = outer.StopWords
	}
	r.Seed = cmp.Or(outer.Seed, r.Seed)
	r.Reasoning = cmp.Or(outer.Reasoning, r.Reasoning)
	r.Settings = overlaid(r.Settings, outer.Settings)
	r.about(outer)
}

// about adds what is not for the model but about the call.
func (r *Request) about(outer *Request) {
	r.NoStream = r.NoStream || outer.NoStream
	r.Tags = slices.Concat(r.Tags, outer.Tags)
	r.Metadata = overlaid(r.Metadata, outer.Metadata)
}

// overlaid has what both maps have, and where both have it what the outer has.
func overlaid(inner, outer map[string]any) map[string]any {
	if len(inner) == 0 {
		return outer
	}
	inner = maps.Clone(inner)
	maps.Copy(inner, outer)
	return inner
}

// Describe implements [Describer].
func (b *bound) Describe() Info { return Describe(b.model) }

// A wrapper is a model around one other model.
type wrapper interface {
	Model
	Unwrap() Model
	Rewrap(Model) Model // the same wrapper around another model
}

// bind moves the settings that are bound to the model, or to one that is wrapped
// in it, into the request and returns the model without them.
func bind(m Model, req *Request) Model {
	m, _ = unbound(m, req)
	return m
}

// unbound is bind, and says whether anything was bound. (Models cannot be
// compared: a model may be a function.)
func unbound(m Model, req *Request) (Model, bool) {
	switch m := m.(type) {
	case *bound:
		inner := bind(m.model, req)
		for _, opt := range m.opts {
			opt(req)
		}
		return inner, true
	case wrapper:
		if inner, found := unbound(m.Unwrap(), req); found {
			return m.Rewrap(inner), true
		}
	case fallback:
		// Each model has its own settings, but there is one call to tell of.
		var first Request
		bind(m[0], &first)
		req.about(&first)
	}
	return m, false
}

// ModelName asks for another model of the same provider.
func ModelName(name string) Option { return func(r *Request) { r.Model = name } }

// MaxTokens bounds the length of the answer. See [StopLength].
func MaxTokens(n int) Option { return func(r *Request) { r.MaxTokens = n } }

// Temperature says how freely the model chooses its words; 0 is not at all.
func Temperature(t float64) Option { return func(r *Request) { r.Temperature = &t } }

// TopP limits the choice of words to the likeliest ones.
func TopP(p float64) Option { return func(r *Request) { r.TopP = &p } }

// StopWords end the answer where one of them would come.
func StopWords(words ...string) Option { return func(r *Request) { r.StopWords = words } }

// Seed asks for the same answer to the same request, as far as the provider can.
func Seed(n int64) Option { return func(r *Request) { r.Seed = &n } }

// Reasoning says how much the model is to think: see [Request.Reasoning].
func Reasoning(effort string) Option { return func(r *Request) { r.Reasoning = effort } }

// Tools gives the model tools to call, besides those it has.
func Tools(tools ...*Tool) Option {
	return func(r *Request) { r.Tools = slices.Concat(r.Tools, tools) }
}

// ToolChoice says whether and which tool to call: see [Request.ToolChoice].
func ToolChoice(choice string) Option { return func(r *Request) { r.ToolChoice = choice } }

// SerialTools asks for at most one tool call in an answer.
func SerialTools() Option { return func(r *Request) { r.SerialTools = true } }

// NoStream asks for the answer in one piece. A run sees one event with the whole
// message.
func NoStream() Option { return func(r *Request) { r.NoStream = true } }

// Setting sets a parameter of the provider's own.
func Setting(name string, value any) Option {
	return func(r *Request) {
		settings := maps.Clone(r.Settings)
		if settings == nil {
			settings = map[string]any{}
		}
		settings[name] = value
		r.Settings = settings
	}
}

// Tags mark the call's events, so that a stream can be filtered by them. The tag
// treadle.TagNoStream keeps its tokens out of the stream.
func Tags(tags ...string) Option {
	return func(r *Request) { r.Tags = slices.Concat(r.Tags, tags) }
}

// Metadata goes with the call's events.
func Metadata(m map[string]any) Option {
	return func(r *Request) {
		sum := maps.Clone(r.Metadata)
		if sum == nil {
			sum = make(map[string]any, len(m))
		}
		maps.Copy(sum, m)
		r.Metadata = sum
	}
}

// check reports what is wrong with the request before anybody is asked.
func (r *Request) check() error {
	if len(r.Messages) == 0 {
		return fmt.Errorf("llm: there are no messages to answer")
	}
	seen := map[string]bool{}
	for _, t := range r.Tools {
		if err := t.check(); err != nil {
			return err
		}
		if seen[t.Name] {
			return fmt.Errorf("llm: two tools are named %q", t.Name)
		}
		seen[t.Name] = true
	}
	switch r.ToolChoice {
	case "", ToolChoiceAuto, ToolChoiceNone, ToolChoiceAny:
	default:
		if !seen[r.ToolChoice] {
			return fmt.Errorf("llm: tool choice %q is no tool of the request", r.ToolChoice)
		}
	}
	return nil
}
