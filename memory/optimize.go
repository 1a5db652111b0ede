package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// Prompt is an instruction that an [Optimizer] may rewrite. Its JSON is
// LangMem's.
type Prompt struct {
	// Name tells the prompts of [Optimizer.ImproveAll] apart.
	Name string `json:"name"`
	// Text is the prompt. What stands in it as {name} is a variable, which every
	// rewrite keeps; {{ and }} are braces.
	Text string `json:"prompt"`
	// UpdateInstructions say how the prompt may be changed.
	UpdateInstructions string `json:"update_instructions,omitempty"`
	// WhenToUpdate says which failures are this prompt's fault. The model sees it
	// when it decides which of several prompts to change.
	WhenToUpdate string `json:"when_to_update,omitempty"`
}

// Trajectory is a conversation that was held with a prompt, and what was thought
// of it.
type Trajectory struct {
	Messages llm.Messages
	// Feedback is what somebody said about the conversation; empty is nothing.
	Feedback string
	// Scores are measurements of the conversation, by name.
	Scores map[string]float64
}

// Improvement is what became of a prompt.
type Improvement struct {
	// Prompt is the one to use from now on. If it was not changed it is the one
	// that was given.
	Prompt Prompt
	// Changed: the prompt's text is another one.
	Changed bool
	// Rationale is the model's reason for the change or for leaving the prompt
	// alone; empty if the model was not asked.
	Rationale string
	// Diff is the change, line by line: each line of both texts behind "  ", "- "
	// or "+ ". It is empty if nothing changed.
	Diff string
}

// OptimizerKind is a way to improve a prompt.
type OptimizerKind string

// The ways to improve a prompt. MinSteps and MaxSteps are those of
// [OptimizerOptions].
const (
	// Gradient first finds out what is wrong, in MaxSteps calls at most, and then
	// rewrites the prompt in one more. If nothing is wrong there is no rewrite.
	Gradient OptimizerKind = "gradient"
	// Metaprompt thinks and rewrites in one conversation of at most MaxSteps
	// calls, which ends as soon as there is a new prompt.
	Metaprompt OptimizerKind = "metaprompt"
	// PromptMemory asks once.
	PromptMemory OptimizerKind = "prompt_memory"
)

// OptimizerOptions are settings of an [Optimizer]. A zero field is its default.
type OptimizerOptions struct {
	// MinSteps is the step up to which the model only thinks: it may recommend
	// from the call after MinSteps on (Gradient), or give the new prompt from the
	// call MinSteps on (Metaprompt). Default 1; negative is none.
	MinSteps int
	// MaxSteps bounds the calls that think; the last one must come to a result.
	// Default 5.
	MaxSteps int
	// ReviewInstructions replace what Gradient tells the model about finding
	// faults.
	ReviewInstructions string
	// RewriteInstructions replace what the model is told about rewriting.
	RewriteInstructions string
}

// Optimizer improves prompts by what happened when they were used. It is safe
// for use by several goroutines.
type Optimizer struct {
	model llm.Model
	kind  OptimizerKind
	opts  OptimizerOptions
}

// NewOptimizer is an optimizer that asks the model, which must be able to call
// tools. Tools are never demanded by name, which some servers refuse: where the
// model has no choice, it is offered a single one.
//
// An answer that cannot be used goes back to the model with what is wrong with
// it, at most twice in a row after the last step.
func NewOptimizer(model llm.Model, kind OptimizerKind, opts *OptimizerOptions) (*Optimizer, error) {
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
		return nil, errors.New("memory: NewOptimizer: there is no model")
	case llm.Describe(model).NoTools:
		return nil, fmt.Errorf("memory: NewOptimizer: %s cannot call tools: choose a model that can", llm.Describe(model))
	case kind != Gradient && kind != Metaprompt && kind != PromptMemory:
		return nil, fmt.Errorf("memory: NewOptimizer: unknown kind %q: want %q, %q or %q", kind, Gradient, Metaprompt, PromptMemory)
	case o.opts.MaxSteps < 1 || o.opts.MinSteps > o.opts.MaxSteps:
		return nil, fmt.Errorf("memory: NewOptimizer: MinSteps %d, MaxSteps %d: want MaxSteps of at least 1 and MinSteps", o.opts.MinSteps, o.opts.MaxSteps)
	}
	return o, nil
}

// Improve rewrites the prompt if the trajectories call for it. Without any
// (those that say nothing do not count) the model is not asked. With an error
// the prompt comes back as it was. A model that insists on dropping variables is
// a [*LostVariablesError].
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
		return same, fmt.Errorf("memory: improve prompt %q: %w", p.Name, err)
	}
	same.Rationale = r.why
	if !r.updated || r.text == p.Text {
		return same, nil
	}
	better := Improvement{Prompt: p, Changed: true, Rationale: r.why, Diff: diffLines(p.Text, r.text)}
	better.Prompt.Text = r.text
	return better, nil
}

// ImproveAll asks the model which of the prompts are to blame for what went
// wrong and improves those. The results stand in the order of the prompts. One
// prompt without WhenToUpdate is improved without that question.
//
// If improving some prompts fails, they come back as they were and the error
// joins what went wrong; the others are improved nevertheless.
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
		return out, fmt.Errorf("memory: choose the prompts to improve: %w", err)
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

// rewrite is what the model made of a prompt.
type rewrite struct {
	text    string
	updated bool
	why     string
}

func paragraphs(parts ...string) string {
	var said []string
	for _, p := range parts {
		if p = strings.TrimSpace(p); p != "" {
			said = append(said, p)
		}
	}
	return strings.Join(said, "\n\n")
}
