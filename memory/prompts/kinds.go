package prompts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// Tools that the model calls to return its results. Their arguments use LangMem's names.
const (
	toolRecommend = "recommend"
	toolOutput    = "optimized_prompt_output"
	toolClassify  = "classify"
)

// recommendation is the result of a review.
type recommendation struct {
	Warranted       bool   `json:"warrants_adjustment" jsonschema:"whether the prompt must change"`
	Hypotheses      string `json:"hypotheses,omitempty" jsonschema:"why the conversations went as they did"`
	Recommendations string `json:"full_recommendations,omitempty" jsonschema:"every change to make to the prompt"`
}

// optimizedPrompt is a new prompt. Analysis is the first field, so that the model writes it
// before the prompt.
type optimizedPrompt struct {
	Analysis string `json:"analysis" jsonschema:"what is wrong with the prompt and how the new one mends it"`
	Improved string `json:"improved_prompt" jsonschema:"the whole new prompt; empty to leave the prompt as it is"`
}

// declined reports whether the model wants to keep the prompt. Some models say so in words.
func (p optimizedPrompt) declined() bool {
	text := strings.ToLower(strings.TrimSpace(p.Improved))
	return text == "" || strings.HasPrefix(text, "no recommend")
}

// promptUpdate is the model's response with Memory.
type promptUpdate struct {
	Logic  string `json:"logic" jsonschema:"why the prompt should change, or why not"`
	Update bool   `json:"update_prompt" jsonschema:"whether to change the prompt"`
	Prompt string `json:"new_prompt,omitempty" jsonschema:"the whole new prompt, if it is to change"`
}

// promptChoice is the model's choice of prompts to change.
type promptChoice struct {
	Reasoning string   `json:"reasoning" jsonschema:"which prompts are at fault, and why"`
	Which     []string `json:"which" jsonschema:"names of the prompts to change; none if all are fine"`
}

func (c promptChoice) has(name string) bool { return slices.Contains(c.Which, name) }

func (o *Optimizer) gradient(ctx context.Context, p Prompt, sessions string) (rewrite, error) {
	review := dialogue[recommendation]{
		tool: toolRecommend, description: "Ends the review with what to do about the prompt.",
		thinking: o.opts.MinSteps, steps: o.opts.MaxSteps,
		check: func(r *recommendation) error {
			if r.Warranted && strings.TrimSpace(r.Recommendations) == "" {
				return errors.New("full_recommendations is empty but warrants_adjustment is true: state the changes")
			}
			return nil
		},
	}
	r, err := review.run(ctx, o.model, llm.System(o.opts.ReviewInstructions), llm.User(describePrompt(p, sessions)))
	if err != nil {
		return rewrite{}, fmt.Errorf("review: %w", err)
	}
	if !r.Warranted {
		return rewrite{why: paragraphs(r.Hypotheses)}, nil
	}
	findings := describePrompt(p, "") + "\n\n" + inTag("hypotheses", r.Hypotheses) + "\n\n" + inTag("recommendations", r.Recommendations)
	out, err := o.rewrite(ctx, p, 0, 1, findings)
	if err != nil {
		return rewrite{}, fmt.Errorf("rewrite: %w", err)
	}
	out.why = paragraphs(r.Hypotheses, out.why)
	return out, nil
}

func (o *Optimizer) metaprompt(ctx context.Context, p Prompt, sessions string) (rewrite, error) {
	return o.rewrite(ctx, p, max(0, o.opts.MinSteps-1), o.opts.MaxSteps, describePrompt(p, sessions))
}

// rewrite requests a new prompt from the model.
func (o *Optimizer) rewrite(ctx context.Context, p Prompt, thinking, steps int, about string) (rewrite, error) {
	d := dialogue[optimizedPrompt]{
		tool: toolOutput, description: "Gives the improved prompt and ends the work.",
		thinking: thinking, steps: steps,
		check: func(out *optimizedPrompt) (err error) {
			if !out.declined() {
				out.Improved, err = repairPrompt(p, out.Improved)
			}
			return err
		},
	}
	out, err := d.run(ctx, o.model, llm.System(o.opts.RewriteInstructions), llm.User(about))
	if err != nil {
		return rewrite{}, err
	}
	return rewrite{text: out.Improved, updated: !out.declined(), why: paragraphs(out.Analysis)}, nil
}

func (o *Optimizer) promptMemory(ctx context.Context, p Prompt, sessions string) (rewrite, error) {
	d := dialogue[promptUpdate]{
		tool: toolOutput, description: "Says whether the prompt changes, and gives the new one.", steps: 1,
		check: func(out *promptUpdate) (err error) {
			if out.Update {
				out.Prompt, err = repairPrompt(p, out.Prompt)
			}
			return err
		},
	}
	out, err := d.run(ctx, o.model, llm.System(o.opts.RewriteInstructions), llm.User(describePrompt(p, sessions)))
	if err != nil {
		return rewrite{}, err
	}
	return rewrite{text: out.Prompt, updated: out.Update, why: paragraphs(out.Logic)}, nil
}

// choosePrompts asks the model which prompts to change.
func (o *Optimizer) choosePrompts(ctx context.Context, ps []Prompt, sessions string) (promptChoice, error) {
	var names []string
	var about []string
	for i, p := range ps {
		if p.Name == "" || slices.Contains(names, p.Name) {
			return promptChoice{}, fmt.Errorf("prompt %d is named %q: names must be unique and not empty", i, p.Name)
		}
		names = append(names, p.Name)
		about = append(about, "Prompt "+p.Name+":\n"+describePrompt(p, ""))
	}
	d := dialogue[promptChoice]{
		tool: toolClassify, description: "Names the prompts to change.", steps: 1,
		check: func(c *promptChoice) error {
			for _, name := range c.Which {
				if !slices.Contains(names, name) {
					return fmt.Errorf("unknown prompt %q: want some of %q", name, names)
				}
			}
			return nil
		},
	}
	return d.run(ctx, o.model, llm.System(chooseInstructions), llm.User(strings.Join(append(about, sessions), "\n\n")))
}
