package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/internal/turns"
	"github.com/treadle-go/treadle/llm"
)

// SelectOptions configures [SelectTools]. A nil *SelectOptions means the defaults.
type SelectOptions struct {
	// Max is the maximum number of selected tools; 0 means no limit.
	Max int
	// Always lists tools that are always offered. They do not count toward Max.
	Always []string
	// Prompt is the instruction for the selection; empty means a default prompt.
	Prompt string
}

const selectPrompt = "Choose the tools that are of use for answering the user's message, the most useful first."

// toolChoice is the response of the selecting model.
type toolChoice struct {
	Tools []string `json:"tools" jsonschema:"the names of the tools, the most useful first"`
}

// SelectTools makes another, usually smaller, model select the tools offered to the
// agent's model, based on the user's last message. Tools that the provider runs are
// always offered. The selecting model is not called if there are no more than Max
// tools to choose from. If it names only unknown tools, the run fails.
func SelectTools(model llm.Model, opts *SelectOptions) *Middleware {
	o := valueOf(opts)
	o.Prompt = cmp.Or(o.Prompt, selectPrompt)
	err := noModel(model)
	if o.Max < 0 {
		err = errors.Join(err, fmt.Errorf("invalid Max %d: want 1 or more, or 0 for no limit", o.Max))
	}
	if err != nil {
		return &Middleware{Name: "select_tools", Check: invalid(err)}
	}
	model = quiet(model)
	check := func(s Setup) error { return s.RequireTools(o.Always...) }
	return &Middleware{Name: "select_tools", Check: check, WrapModel: func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
		chosen, err := o.choose(ctx, model, call)
		if err != nil {
			return llm.Message{}, fmt.Errorf("agent: select tools: %w", err)
		}
		call.Tools = chosen
		return next(ctx, call)
	}}
}

// fixed reports whether a tool is always offered.
func (o SelectOptions) fixed(t *llm.Tool) bool {
	return t.Run == nil || slices.Contains(o.Always, t.Name)
}

func (o SelectOptions) choose(ctx context.Context, model llm.Model, call ModelCall) ([]*llm.Tool, error) {
	var list strings.Builder
	n := 0
	for _, t := range call.Tools {
		if !o.fixed(t) {
			n++
			fmt.Fprintf(&list, "\n- %s: %s", t.Name, t.Description)
		}
	}
	last := turns.LastHuman(call.Messages)
	if n == 0 || last < 0 || o.Max > 0 && n <= o.Max {
		return call.Tools, nil
	}
	prompt := o.Prompt
	if o.Max > 0 {
		prompt += fmt.Sprintf(" Choose at most %d.", o.Max)
	}
	choice, err := llm.Object[toolChoice](ctx, model, llm.System(prompt+" The tools are:"+list.String()), call.Messages[last])
	if err != nil {
		return nil, err
	}
	return o.keep(call.Tools, choice.Tools)
}

// keep returns the named tools in their original order.
func (o SelectOptions) keep(tools []*llm.Tool, names []string) ([]*llm.Tool, error) {
	known := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !slices.ContainsFunc(tools, func(t *llm.Tool) bool { return t.Name == name && !o.fixed(t) })
	})
	if len(known) == 0 && len(names) > 0 {
		return nil, fmt.Errorf("model selected only unknown tools %q", names)
	}
	if o.Max > 0 {
		known = known[:min(len(known), o.Max)]
	}
	var out []*llm.Tool
	for _, t := range tools {
		if o.fixed(t) || slices.Contains(known, t.Name) {
			out = append(out, t)
		}
	}
	return out, nil
}
