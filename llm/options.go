package llm

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"
)

// An Option configures requests to a model; see [With]. In addition to the results
// of functions such as [Temperature], an [*Output] and an [ObjectMode] are options.
type Option interface{ set(*Request) }

type option func(*Request)

func (o option) set(r *Request) { o(r) }

// With returns the model with options bound to it:
//
//	joker := llm.With(model, llm.Temperature(1), llm.Tags("joke"))
//
// An outer With overrides the settings of an inner one; tags, metadata, and tools
// are added. With panics if the model or an option is nil.
//
// This also applies if wrappers such as [Retry] are in between. A custom wrapper
// needs two methods for that: Unwrap() llm.Model returns the wrapped model, and
// Rewrap(llm.Model) llm.Model returns the same wrapper around another model.
// Without them, the call's events lack the tags and metadata bound to the wrapped
// model.
func With(model Model, opts ...Option) Model {
	need("With", model)
	if slices.ContainsFunc(opts, func(o Option) bool { return o == nil }) {
		panic("llm: With: nil option")
	}
	return &bound{model, opts}
}

// need panics if a model is nil. The functions that wrap models return no error,
// and the first call would fail far from the mistake.
func need(function string, models ...Model) {
	if slices.Contains(models, nil) {
		panic("llm: " + function + ": nil model")
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

// override replaces settings of r with those of an outer request. It leaves the
// messages, which already come from the outer request.
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
	r.PromptCache = cmp.Or(outer.PromptCache, r.PromptCache)
	r.Settings = overlaid(r.Settings, outer.Settings)
	r.about(outer)
}

// about adds the settings that describe the call and are not sent to the model.
func (r *Request) about(outer *Request) {
	r.NoStream = r.NoStream || outer.NoStream
	r.Tags = slices.Concat(r.Tags, outer.Tags)
	r.Metadata = overlaid(r.Metadata, outer.Metadata)
}

// overlaid merges two maps; the outer map wins.
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

// A wrapper is a model that wraps one other model.
type wrapper interface {
	Model
	Unwrap() Model
	Rewrap(Model) Model // the same wrapper around another model
}

// bind moves the settings bound to the model, or to a model wrapped in it, into the
// request and returns the model without them.
func bind(m Model, req *Request) Model {
	m, _ = unbound(m, req)
	return m
}

// unbound is like bind, but also reports whether anything was bound. (Comparing the
// models would not work, because a model may be a function.)
func unbound(m Model, req *Request) (Model, bool) {
	switch m := m.(type) {
	case *bound:
		inner := bind(m.model, req)
		for _, opt := range m.opts {
			opt.set(req)
		}
		return inner, true
	case wrapper:
		if inner, found := unbound(m.Unwrap(), req); found {
			return m.Rewrap(inner), true
		}
	case fallback:
		describeAs(m[0], req)
	case *hedged:
		describeAs(m.model, req)
	}
	return m, false
}

// describeAs gives the request of several models the tags and metadata bound to the
// first. Each model has its own settings, but the run sees one call.
func describeAs(first Model, req *Request) {
	var r Request
	bind(first, &r)
	req.about(&r)
}

// ModelName selects another model of the same provider.
func ModelName(name string) Option { return option(func(r *Request) { r.Model = name }) }

// MaxTokens limits the tokens of the response; see [StopLength].
func MaxTokens(n int) Option { return option(func(r *Request) { r.MaxTokens = n }) }

// Temperature sets the randomness of the response; 0 is the minimum.
func Temperature(t float64) Option { return option(func(r *Request) { r.Temperature = &t }) }

// TopP restricts the model to the most likely tokens whose probabilities add up to
// p.
func TopP(p float64) Option { return option(func(r *Request) { r.TopP = &p }) }

// StopWords makes the model stop before it writes one of the given texts.
func StopWords(words ...string) Option { return option(func(r *Request) { r.StopWords = words }) }

// Seed requests the same response to the same request, if the provider supports it.
func Seed(n int64) Option { return option(func(r *Request) { r.Seed = &n }) }

// Reasoning sets the reasoning effort; see [Request].Reasoning.
func Reasoning(effort string) Option { return option(func(r *Request) { r.Reasoning = effort }) }

// CachePrompt asks the provider to cache the system prompt, the tools, and the
// conversation for the given time; 0 means 5 minutes. Later requests that start with
// the same prompt cost less and respond sooner. It is for providers that cache only
// marked prompts (Anthropic, Bedrock), which choose a time near the given one. Other
// providers cache by themselves, and ignore it.
func CachePrompt(ttl time.Duration) Option {
	return option(func(r *Request) { r.PromptCache = cmp.Or(ttl, 5*time.Minute) })
}

// Tools adds tools that the model may call.
func Tools(tools ...*Tool) Option {
	return option(func(r *Request) { r.Tools = slices.Concat(r.Tools, tools) })
}

// OnlyTools replaces the tools that the model may call, including those bound by an
// inner [With].
func OnlyTools(tools ...*Tool) Option { return option(func(r *Request) { r.Tools = tools }) }

// ToolChoice controls whether the model must call a tool, and which one; see
// [Request].ToolChoice.
func ToolChoice(choice string) Option { return option(func(r *Request) { r.ToolChoice = choice }) }

// SerialTools allows at most one tool call in a response.
func SerialTools() Option { return option(func(r *Request) { r.SerialTools = true }) }

// NoStream requests the whole response at once. A run's stream then contains one
// event with the whole message.
func NoStream() Option { return option(func(r *Request) { r.NoStream = true }) }

// Setting sets a parameter by its name in the provider's API; see
// [Request].Settings.
func Setting(name string, value any) Option {
	return option(func(r *Request) {
		settings := maps.Clone(r.Settings)
		if settings == nil {
			settings = map[string]any{}
		}
		settings[name] = value
		r.Settings = settings
	})
}

// Tags adds tags to the call's events, so that readers of a stream can filter by
// them. The tag treadle.TagNoStream keeps the call's tokens out of the stream.
func Tags(tags ...string) Option {
	return option(func(r *Request) { r.Tags = slices.Concat(r.Tags, tags) })
}

// Metadata adds data to the call's events.
func Metadata(m map[string]any) Option {
	return option(func(r *Request) {
		sum := maps.Clone(r.Metadata)
		if sum == nil {
			sum = make(map[string]any, len(m))
		}
		maps.Copy(sum, m)
		r.Metadata = sum
	})
}

// check returns an error for a request that no model can process.
func (r *Request) check() error {
	if len(r.Messages) == 0 {
		return fmt.Errorf("llm: no messages")
	}
	seen := map[string]bool{}
	for _, t := range r.Tools {
		if err := t.check(); err != nil {
			return err
		}
		if seen[t.Name] && t.Name != "" {
			return fmt.Errorf("llm: duplicate tool name %q", t.Name)
		}
		seen[t.Name] = true
	}
	switch r.ToolChoice {
	case "", ToolChoiceAuto, ToolChoiceNone, ToolChoiceAny:
	default:
		if !seen[r.ToolChoice] {
			return fmt.Errorf("llm: unknown tool choice %q: use the name of a tool in the request, or auto, none, or any", r.ToolChoice)
		}
	}
	return nil
}
