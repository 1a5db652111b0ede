package prompts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// Prompt is a prompt that an [Optimizer] can rewrite. Its JSON uses LangMem's format.
type Prompt struct {
	// Name identifies the prompt among those of [Optimizer.ImproveAll].
	Name string `json:"name"`
	// Text is the prompt. {name} is a variable, which every rewrite preserves; {{ and }}
	// are literal braces.
	Text string `json:"prompt"`
	// UpdateInstructions tell the model how it may change the prompt.
	UpdateInstructions string `json:"update_instructions,omitempty"`
	// WhenToUpdate describes the failures that this prompt causes, to help the model choose
	// between several prompts.
	WhenToUpdate string `json:"when_to_update,omitempty"`
}

// A Trajectory is a conversation that used a prompt, with feedback.
type Trajectory struct {
	Messages llm.Messages
	// Feedback is a comment on the conversation; empty means none.
	Feedback string
	// Scores contains measurements of the conversation, by name.
	Scores map[string]float64
}

// Improvement is the result of improving a prompt.
type Improvement struct {
	// Prompt is the new prompt, or the old one if it was not changed.
	Prompt Prompt
	// Changed reports whether the text was changed.
	Changed bool
	// Rationale is the model's reason for changing or keeping the prompt; empty if the
	// model was not called.
	Rationale string
	// Diff contains the lines of both texts, prefixed with "  ", "- ", or "+ ". It is empty
	// if the text did not change.
	Diff string
}

// A Kind is a method for improving a prompt.
type Kind string

// The methods for improving a prompt. MinSteps and MaxSteps are fields of
// [Options].
const (
	// Gradient first reviews the conversations, in at most MaxSteps calls, and then
	// rewrites the prompt in another call, unless the review found no problem.
	Gradient Kind = "gradient"
	// Metaprompt reviews and rewrites in one conversation of at most MaxSteps calls, which
	// ends with the new prompt.
	Metaprompt Kind = "metaprompt"
	// Memory requests the new prompt in a single call.
	Memory Kind = "prompt_memory"
)

// Options configures an [Optimizer]. A nil *Options means the defaults.
type Options struct {
	// MinSteps is the minimum number of calls that the model must spend on thinking. The
	// model may return its result in the call after these (Gradient) or in the last of them
	// (Metaprompt). 0 means 1, and a negative number means none.
	MinSteps int
	// MaxSteps is the maximum number of these calls; the last must return the result. 0
	// means 5.
	MaxSteps int
	// ReviewInstructions replaces the instructions for Gradient's review.
	ReviewInstructions string
	// RewriteInstructions replaces the instructions for rewriting.
	RewriteInstructions string
}

// An Optimizer improves prompts based on conversations that used them. It is safe for
// concurrent use.
type Optimizer struct {
	model llm.Model
	kind  Kind
	opts  Options
}

// NewOptimizer returns an optimizer that uses the model, which must support tools. It never
// requires a tool by name, because some servers reject that; to require a tool, it offers
// no other.
//
// If a response is unusable, the optimizer sends the error to the model and requests
// another, at most twice after the last step.
func NewOptimizer(model llm.Model, kind Kind, opts *Options) (*Optimizer, error) {
	o := &Optimizer{model: model, kind: kind}
	if opts != nil {
		o.opts = *opts
	}
	o.opts.MinSteps = max(0, cmp.Or(o.opts.MinSteps, 1))
	o.opts.MaxSteps = cmp.Or(o.opts.MaxSteps, 5)
	o.opts.ReviewInstructions = cmp.Or(o.opts.ReviewInstructions, reviewInstructions)
	o.opts.RewriteInstructions = cmp.Or(o.opts.RewriteInstructions, rewriteInstructions)
	switch {
	case model == nil:
		return nil, errors.New("prompts: nil model")
	case llm.Describe(model).NoTools:
		return nil, fmt.Errorf("prompts: %s does not support tools: choose another model", llm.Describe(model))
	case kind != Gradient && kind != Metaprompt && kind != Memory:
		return nil, fmt.Errorf("prompts: unknown kind %q: want %q, %q, or %q", kind, Gradient, Metaprompt, Memory)
	case o.opts.MaxSteps < 1 || o.opts.MinSteps > o.opts.MaxSteps:
		return nil, fmt.Errorf("prompts: invalid Options.MaxSteps %d: want %d (MinSteps) or more, or 0 for 5", o.opts.MaxSteps, max(1, o.opts.MinSteps))
	}
	return o, nil
}

// Model returns the model of the optimizer.
func (o *Optimizer) Model() llm.Model { return o.model }

// Improve rewrites the prompt if the trajectories give a reason to. If there are no
// trajectories, or all are empty, it does not call the model. On error, it returns the
// prompt unchanged. It returns a [*LostVariablesError] if the model keeps dropping
// variables.
func (o *Optimizer) Improve(ctx context.Context, p Prompt, ts []Trajectory) (Improvement, error) {
	same := Improvement{Prompt: p}
	sessions := formatTrajectories(ts)
	if sessions == "" {
		return same, nil
	}
	var r rewrite
	var err error
	switch o.kind {
	case Gradient:
		r, err = o.gradient(ctx, p, sessions)
	case Metaprompt:
		r, err = o.metaprompt(ctx, p, sessions)
	default:
		r, err = o.promptMemory(ctx, p, sessions)
	}
	if err != nil {
		return same, fmt.Errorf("prompts: improve %q: %w", p.Name, err)
	}
	same.Rationale = r.why
	if !r.updated || r.text == p.Text {
		return same, nil
	}
	better := Improvement{Prompt: p, Changed: true, Rationale: r.why, Diff: diffLines(p.Text, r.text)}
	better.Prompt.Text = r.text
	return better, nil
}

// ImproveAll asks the model which of the prompts caused the failures and improves those.
// The results are in the order of the prompts. A single prompt without WhenToUpdate is
// improved directly.
//
// If improving a prompt fails, ImproveAll returns it unchanged, improves the others, and
// joins the errors.
func (o *Optimizer) ImproveAll(ctx context.Context, ps []Prompt, ts []Trajectory) ([]Improvement, error) {
	out := make([]Improvement, len(ps))
	for i, p := range ps {
		out[i].Prompt = p
	}
	if len(ps) == 1 && ps[0].WhenToUpdate == "" {
		var err error
		out[0], err = o.Improve(ctx, ps[0], ts)
		return out, err
	}
	sessions := formatTrajectories(ts)
	if len(ps) == 0 || sessions == "" {
		return out, nil
	}
	chosen, err := o.choosePrompts(ctx, ps, sessions)
	if err != nil {
		return out, fmt.Errorf("prompts: choose prompts to improve: %w", err)
	}
	var errs []error
	for i, p := range ps {
		if !chosen.has(p.Name) {
			out[i].Rationale = chosen.Reasoning
			continue
		}
		if out[i], err = o.Improve(ctx, p, ts); err != nil {
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}

// rewrite is the model's new version of a prompt.
type rewrite struct {
	text    string
	updated bool
	why     string
}

// paragraphs joins the parts that are not empty, separated by empty lines.
func paragraphs(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "\n\n")
}
