package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle/llm"
)

// ModerateOptions configures [Moderate]. A nil *ModerateOptions means the defaults.
type ModerateOptions struct {
	// SkipInput and SkipOutput disable one of the two checks.
	SkipInput, SkipOutput bool
	// Text is the response if a message is flagged; empty means "I cannot help with
	// that."
	Text string
}

// Moderate calls flag for each user message before the model sees it, and for each
// response. If flag reports true, the agent ends with Text: the model is not called
// with a flagged user message, and Text replaces a flagged response, whose tool
// calls are not made. A flagged user message stays in the conversation, so the model
// sees it if the conversation continues. A stream already contains the tokens of a flagged response; to keep
// them out, give the model the tag [treadle.TagNoStream]. If flag returns an error,
// the run fails, and nothing unchecked passes.
func Moderate(flag func(ctx context.Context, m llm.Message) (bool, error), opts *ModerateOptions) *Middleware {
	o := valueOf(opts)
	o.Text = cmp.Or(o.Text, "I cannot help with that.")
	m := moderator{o, flag}
	out := &Middleware{Name: "moderate", Check: invalid(m.check())}
	if !o.SkipInput {
		out.BeforeModel = NewHook(m.input, JumpEnd)
	}
	if !o.SkipOutput {
		out.AfterModel = NewHook(m.output, JumpEnd)
	}
	return out
}

type moderator struct {
	ModerateOptions
	flag func(context.Context, llm.Message) (bool, error)
}

func (m moderator) check() error {
	switch {
	case m.flag == nil:
		return errors.New("nil function")
	case m.SkipInput && m.SkipOutput:
		return errors.New("nothing to check: SkipInput and SkipOutput are both set")
	}
	return nil
}

// input checks the user messages after the last response.
func (m moderator) input(ctx context.Context, c conversation) (halted, error) {
	for _, message := range c.Messages[lastAI(c.Messages)+1:] {
		if message.Role != llm.RoleHuman {
			continue
		}
		flagged, err := m.flag(ctx, message)
		if err != nil {
			return halted{}, fmt.Errorf("agent: moderate the user's message: %w", err)
		}
		if flagged {
			return m.refuse(llm.Message{}), nil
		}
	}
	return halted{}, nil
}

// output checks the last response.
func (m moderator) output(ctx context.Context, c conversation) (halted, error) {
	i := lastAI(c.Messages)
	if i < 0 {
		return halted{}, nil
	}
	flagged, err := m.flag(ctx, c.Messages[i])
	if err != nil {
		return halted{}, fmt.Errorf("agent: moderate the response: %w", err)
	}
	if flagged {
		return m.refuse(c.Messages[i]), nil
	}
	return halted{}, nil
}

// refuse ends the agent with Text, which replaces a flagged response, if any. Its
// usage stays, because the provider charges for it.
func (m moderator) refuse(flagged llm.Message) halted {
	refusal := llm.Assistant(m.Text)
	refusal.ID, refusal.Usage, refusal.Stop = flagged.ID, flagged.Usage, llm.StopRefusal
	for _, key := range []string{"model_provider", "model_name", discardedKey} {
		if v, ok := flagged.Metadata[key]; ok {
			refusal = noted(refusal, key, v)
		}
	}
	return halted{Detour{JumpEnd}, llm.Messages{refusal}}
}
