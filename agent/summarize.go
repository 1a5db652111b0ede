package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/turns"
	"github.com/treadle-go/treadle/llm"
)

// SummarizeOptions configures [Summarize]. Tokens or Messages is required.
type SummarizeOptions struct {
	// Tokens and Messages are thresholds: the conversation is summarized when it
	// has at least that many of them. 0 means no threshold.
	Tokens, Messages int
	// Keep is the number of last messages that are not summarized; 0 means 20. A
	// few more may be kept, so that calls stay with their results.
	Keep int
	// Count counts tokens; nil means [llm.CountTokens] with Scale.
	Count llm.Counter
	// Prompt is the instruction for the summary; empty means a default prompt.
	Prompt string
}

const summaryPrompt = "Summarise the conversation below for a colleague who goes on with it and sees nothing else of it. " +
	"Keep what was asked, decided and found out, names, numbers and identifiers, and what is still to be done. " +
	"Answer with the summary only."

// summaryTitle precedes a summary.
const summaryTitle = "Here is a summary of the conversation to date:\n\n"

// quiet keeps the tokens of the middleware's own model calls out of the stream.
func quiet(m llm.Model) llm.Model { return llm.With(m, llm.Tags(treadle.TagNoStream)) }

// Summarize shortens a conversation that has become too long before the agent's
// model is called: a message with a summary replaces the older messages. The given
// model writes the summary. System messages at the start and the user's newest
// message are always kept. If the summary fails, the run fails and the conversation
// remains unchanged.
func Summarize(model llm.Model, options *SummarizeOptions) *Middleware {
	o := valueOf(options)
	o.Keep = cmp.Or(o.Keep, 20)
	o.Prompt = cmp.Or(o.Prompt, summaryPrompt)
	err := errors.Join(noModel(model), o.check())
	if err != nil {
		return &Middleware{Name: "summarize", err: err}
	}
	s := summarizer{o, quiet(model)}
	return &Middleware{Name: "summarize", BeforeModel: NewHook(s.shorten)}
}

func (o SummarizeOptions) check() error {
	switch {
	case o.Tokens < 0 || o.Messages < 0 || o.Keep < 0:
		return errors.New("Tokens, Messages and Keep must not be negative") //nolint:staticcheck // it begins with the name of an option
	case o.Tokens == 0 && o.Messages == 0:
		return errors.New("it does not say when to summarise: set Tokens or Messages")
	}
	return nil
}

type summarizer struct {
	SummarizeOptions
	model llm.Model
}

func (s summarizer) shorten(ctx context.Context, c conversation) (*said, error) {
	long, err := s.long(ctx, c.Messages)
	if err != nil || !long {
		return nil, err
	}
	p := s.part(c.Messages)
	if len(p.old) == 0 {
		return nil, nil
	}
	answer, err := llm.Generate(ctx, s.model, llm.System(s.Prompt), llm.User(transcript(p.old)))
	if err != nil {
		return nil, fmt.Errorf("agent: summarising %d messages: %w", len(p.old), err)
	}
	text := strings.TrimSpace(answer.Text())
	if text == "" {
		return nil, fmt.Errorf("agent: summarising %d messages: the summary is empty", len(p.old))
	}
	summary := llm.User(summaryTitle + text)
	summary.Extra = map[string]any{"additional_kwargs": map[string]any{"lc_source": "summarization"}}
	return &said{slices.Concat(llm.Messages{llm.RemoveAll()}, p.system, llm.Messages{summary}, p.kept)}, nil
}

func (s summarizer) long(ctx context.Context, ms llm.Messages) (bool, error) {
	if s.Messages > 0 && len(ms) >= s.Messages {
		return true, nil
	}
	if s.Tokens <= 0 {
		return false, nil
	}
	if s.Count == nil {
		return llm.CountTokens(ms, &llm.CountOptions{Scale: true}) >= s.Tokens, nil
	}
	n, err := s.Count(ctx, ms)
	if err != nil {
		return false, fmt.Errorf("agent: counting the tokens of the conversation: %w", err)
	}
	return n >= s.Tokens, nil
}

// parts are the parts of a conversation: the system messages at its start, the
// messages to summarize, and the messages kept after the summary.
type parts struct{ system, old, kept llm.Messages }

func (s summarizer) part(ms llm.Messages) parts {
	begin := 0
	for begin < len(ms) && ms[begin].Role == llm.RoleSystem {
		begin++
	}
	p := parts{system: ms[:begin:begin]}
	cut := whole(ms, max(begin, len(ms)-s.Keep))
	p.old, p.kept = slices.Clone(ms[begin:cut]), ms[cut:]
	// In a long turn with many tool calls, the user's message itself would be lost.
	if !slices.ContainsFunc(p.kept, isHuman) {
		for i, m := range slices.Backward(p.old) {
			if isHuman(m) {
				p.kept = append(llm.Messages{m}, p.kept...)
				p.old = slices.Delete(p.old, i, i+1)
				break
			}
		}
	}
	if len(p.old) == 1 && isSummary(p.old[0]) {
		p.old = nil // nothing new to summarize
	}
	return p
}

func isHuman(m llm.Message) bool { return m.Role == llm.RoleHuman && !isSummary(m) }

func isSummary(m llm.Message) bool {
	kwargs, _ := m.Extra["additional_kwargs"].(map[string]any)
	return kwargs["lc_source"] == "summarization"
}

// whole moves a cut back until no result after it belongs to a call before it.
func whole(ms llm.Messages, cut int) int {
	last := 0
	for _, end := range turns.Ends(ms) {
		if end <= cut {
			last = end
		}
	}
	return last
}

// transcript returns the conversation as text.
func transcript(ms llm.Messages) string {
	var b strings.Builder
	for _, m := range ms {
		fmt.Fprintf(&b, "%s: %s", cmp.Or(m.Name, string(m.Role)), m.Text())
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, " [calls %s %s]", c.Name, c.Args)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
