package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/turns"
	"github.com/treadle-go/treadle/llm"
)

// SummarizeOptions configures [Summarize]. Tokens, Share, or Messages is required.
type SummarizeOptions struct {
	// Tokens and Messages are thresholds: the conversation is summarized when it
	// has at least that many of them. 0 means no threshold.
	Tokens, Messages int
	// Share, if Tokens is 0, is the threshold as a share of the context window of
	// the model that writes the summary, such as 0.8. The window must be known; see
	// [llm.Info].
	Share float64
	// Keep is the number of last messages that are not summarized; 0 means 20. A
	// few more may be kept, so that calls stay with their results.
	Keep int
	// Count counts tokens; nil means [llm.CountTokens] with [llm.CountOptions].Scale set.
	Count llm.Counter
	// Prompt is the instruction for the summary; empty means a default prompt.
	Prompt string
}

const summaryPrompt = "Summarize the conversation below for a colleague who continues it and sees nothing else of it. " +
	"Keep the questions, decisions, and findings, names, numbers, and identifiers, and what remains to be done. " +
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
//
// If the provider nevertheless rejects a call with an [llm.ContextError], the
// conversation is summarized for this call, which is made again once. The saved
// conversation is then summarized before the next call.
func Summarize(model llm.Model, opts *SummarizeOptions) *Middleware {
	o := valueOf(opts)
	o.Keep = cmp.Or(o.Keep, 20)
	o.Prompt = cmp.Or(o.Prompt, summaryPrompt)
	err := noModel(model)
	if err == nil {
		err = o.check(llm.Describe(model))
	}
	if err != nil {
		return &Middleware{Name: "summarize", Check: invalid(err)}
	}
	s := summarizer{o, quiet(model)}
	return &Middleware{Name: "summarize", BeforeModel: NewHook(s.shorten), WrapModel: s.recover}
}

// check checks the options, and sets Tokens from Share.
func (o *SummarizeOptions) check(model llm.Info) (err error) {
	switch {
	case o.Share != 0 && o.Tokens != 0:
		return errors.New("both Tokens and Share are set: choose one")
	case o.Share != 0:
		if o.Tokens, err = model.Share(o.Share); err != nil {
			return err
		}
	}
	switch {
	case o.Tokens < 0 || o.Messages < 0 || o.Keep < 0:
		return notNegative(map[string]int{"Tokens": o.Tokens, "Messages": o.Messages, "Keep": o.Keep})
	case o.Tokens == 0 && o.Messages == 0:
		return errors.New("no limit: set Tokens, Share, or Messages")
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
	short, err := s.summarize(ctx, c.Messages)
	if err != nil || short == nil {
		return nil, err
	}
	return &said{append(llm.Messages{llm.RemoveAll()}, short...)}, nil
}

// summarize returns the conversation with a summary in place of its older messages,
// or nil if there is nothing to summarize.
func (s summarizer) summarize(ctx context.Context, ms llm.Messages) (llm.Messages, error) {
	p := s.part(ms)
	if len(p.old) == 0 {
		return nil, nil
	}
	answer, err := llm.Generate(ctx, s.model, llm.System(s.Prompt), llm.User(turns.Transcript(p.old)))
	if err != nil {
		return nil, fmt.Errorf("agent: summarize %d messages: %w", len(p.old), err)
	}
	text := strings.TrimSpace(answer.Text())
	if text == "" {
		return nil, fmt.Errorf("agent: summarize %d messages: empty summary", len(p.old))
	}
	summary := llm.User(summaryTitle + text)
	summary.Extra = map[string]any{"additional_kwargs": map[string]any{"lc_source": "summarization"}}
	kept := slices.Clone(p.kept)
	for i := range kept {
		if overflowed(kept[i]) {
			kept[i].Metadata = maps.Clone(kept[i].Metadata)
			delete(kept[i].Metadata, overflowKey)
		}
	}
	return slices.Concat(p.system, llm.Messages{summary}, kept), nil
}

// overflowKey marks the response to a call that was repeated with a summary,
// because the conversation exceeded the context window.
const overflowKey = "context_overflow"

func overflowed(m llm.Message) bool { return m.Metadata[overflowKey] == true }

// recover repeats a call that exceeds the context window with a summary.
func (s summarizer) recover(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
	answer, err := next(ctx, call)
	if _, over := errors.AsType[*llm.ContextError](err); !over || treadle.Propagate(ctx, err) != nil {
		return answer, err
	}
	short, failure := s.summarize(ctx, call.Messages)
	if failure != nil || short == nil {
		return answer, errors.Join(err, failure)
	}
	call.Messages = short
	if answer, err = next(ctx, call); err != nil {
		return answer, err
	}
	return noted(answer, overflowKey, true), nil
}

func (s summarizer) long(ctx context.Context, ms llm.Messages) (bool, error) {
	if s.Messages > 0 && len(ms) >= s.Messages || slices.ContainsFunc(ms, overflowed) {
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
		return false, fmt.Errorf("agent: count tokens of the conversation: %w", err)
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
	cut := turns.Whole(ms, max(begin, len(ms)-s.Keep))
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
