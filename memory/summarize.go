package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// SummaryID is the id of the message that carries a summary. There is one at
// most in a conversation, so a later summary takes the place of an earlier one.
const SummaryID = "__summary__"

// ErrSummaryBudget says that the limits of [SummaryOptions] leave no room for
// messages.
var ErrSummaryBudget = errors.New("memory: the token limits of the summary leave no room for messages")

// SummaryOptions say when and how a conversation is summarised.
type SummaryOptions struct {
	// Model writes the summaries. It is not told how long they may be: bind
	// [llm.MaxTokens] to it. To keep its tokens out of a stream, bind the tag
	// [treadle.TagNoStream].
	Model llm.Model
	// MaxTokens is how many tokens the shortened conversation may have. The
	// newest human turn stays even if it has more. It is also the most that Model
	// is given to read.
	MaxTokens int
	// MaxTokensBeforeSummary is how many tokens that are in no summary yet make
	// one due; 0 means MaxTokens, without what Tools take of it.
	MaxTokensBeforeSummary int
	// MaxSummaryTokens is how much of MaxTokens is set aside for the summary; 0
	// means 256, less than 0 nothing.
	MaxSummaryTokens int
	// Count counts tokens; nil is [llm.CountTokens]. It is given one message at a
	// time and the counts are added, so that the parts always make up the whole.
	Count llm.Counter
	// Tools are those that the shortened conversation is given to a model with.
	// Their schemas count: what [llm.CountTokens] says of them is taken off
	// MaxTokens.
	Tools []*llm.Tool

	// InitialPrompt is what Model is asked for a first summary of messages, and
	// ExistingPrompt for one that goes on from an existing summary. Tool calls and
	// their results are text in them: Model need not have the tools. Nil asks in
	// English.
	InitialPrompt  func(ms llm.Messages) llm.Messages
	ExistingPrompt func(summary string, ms llm.Messages) llm.Messages
	// FinalPrompt is the message that carries the summary in the shortened
	// conversation, behind the system message; its id will be [SummaryID]. Nil is
	// a system message: where the provider takes only one, make it [llm.User].
	FinalPrompt func(summary string) llm.Message
}

// RunningSummary is what is known of the beginning of a conversation. The zero
// value is that nothing has been summarised yet. Keep it with the conversation.
type RunningSummary struct {
	// Summary is the text.
	Summary string `json:"summary"`
	// MessageIDs are the messages that it is about, in their order.
	MessageIDs []string `json:"summarized_message_ids"`
	// LastMessageID is the last of them.
	LastMessageID string `json:"last_summarized_message_id"`
}

// IsZero reports whether nothing has been summarised yet.
func (r RunningSummary) IsZero() bool { return r.LastMessageID == "" && r.Summary == "" }

// SummaryResult is a conversation to give to a model.
type SummaryResult struct {
	// Messages are the system message, the summary and the messages behind it; or
	// the very messages that were given, if there is no summary.
	Messages llm.Messages
	// Running is the summary to go on from.
	Running RunningSummary
}

// Summarize shortens a conversation that has become too long: its beginning is
// replaced by a summary. Messages that running is about already are not read
// again; without a need for a new summary the model is not called and the
// existing one is shown.
//
// When the messages that are in no summary have MaxTokensBeforeSummary tokens or
// more, the fewest turns are summarised that have so many and leave no more than
// fits. The conversation is cut between turns only: a turn is a human message and
// the answers to it, and a tool call and its result are always of one turn, with
// whatever stands between them. The newest turn is never cut, however long it is.
// (Without any human message each answer is a turn.)
//
// If more than MaxTokens are to be summarised, the model reads the last of them,
// from a human message on, and only if there is none among those all of them.
//
// A message at the beginning that is a system message stays. If it leaves no room
// the error is [ErrSummaryBudget]. Messages need ids, as those of a graph's state
// have. On an error nothing has changed: go on with what you have. That the model
// said nothing or declined is an error too.
func Summarize(ctx context.Context, ms llm.Messages, running RunningSummary, o *SummaryOptions) (SummaryResult, error) {
	s := &summarizer{ctx: ctx, running: running}
	if o != nil {
		s.SummaryOptions = *o
	}
	if err := s.defaults(); err != nil {
		return SummaryResult{}, err
	}
	out, err := s.summarize(ms)
	if err != nil {
		return SummaryResult{}, fmt.Errorf("memory: summarize: %w", err)
	}
	return out, nil
}

type summarizer struct {
	ctx context.Context
	SummaryOptions
	running RunningSummary
	limit   int // MaxTokens without what the tools take
}

func (s *summarizer) defaults() error {
	s.MaxSummaryTokens = max(0, cmp.Or(s.MaxSummaryTokens, 256))
	tools := llm.CountTokens(nil, &llm.CountOptions{Tools: s.Tools})
	s.limit = s.MaxTokens - tools
	switch {
	case s.Model == nil:
		return errors.New("memory: summarize: there is no model: set SummaryOptions.Model")
	case s.MaxTokensBeforeSummary < 0:
		return fmt.Errorf("memory: summarize: MaxTokensBeforeSummary is %d", s.MaxTokensBeforeSummary)
	case s.MaxSummaryTokens >= s.MaxTokens:
		return fmt.Errorf("%w: MaxSummaryTokens is %d and must be less than MaxTokens, which is %d", ErrSummaryBudget, s.MaxSummaryTokens, s.MaxTokens)
	case s.MaxSummaryTokens >= s.limit:
		return fmt.Errorf("%w: the tools have %d tokens, MaxTokens is %d and MaxSummaryTokens is %d: offer fewer tools or raise MaxTokens",
			ErrSummaryBudget, tools, s.MaxTokens, s.MaxSummaryTokens)
	}
	s.MaxTokensBeforeSummary = cmp.Or(s.MaxTokensBeforeSummary, s.limit)
	if s.Count == nil {
		s.Count = func(_ context.Context, ms []llm.Message) (int, error) { return llm.CountTokens(ms, nil), nil }
	}
	if s.InitialPrompt == nil {
		s.InitialPrompt = askForSummary
	}
	if s.ExistingPrompt == nil {
		s.ExistingPrompt = askToExtend
	}
	if s.FinalPrompt == nil {
		s.FinalPrompt = func(summary string) llm.Message {
			return llm.System("Summary of the conversation so far: " + summary)
		}
	}
	return nil
}

func (s *summarizer) summarize(given llm.Messages) (SummaryResult, error) {
	system, ms := split(given)
	if len(ms) == 0 {
		return SummaryResult{given, s.running}, nil
	}
	room, err := s.room(system)
	if err != nil {
		return SummaryResult{}, err
	}
	ms, err = s.fresh(ms)
	if err != nil {
		return SummaryResult{}, err
	}
	counts, err := s.counts(ms)
	if err != nil {
		return SummaryResult{}, err
	}
	cut := s.cut(ms, counts, room)
	if cut > 0 {
		if err := s.extend(ms[:cut:cut], sum(counts[:cut])); err != nil {
			return SummaryResult{}, err
		}
	}
	if s.running.IsZero() {
		return SummaryResult{Messages: given}, nil
	}
	return SummaryResult{slices.Concat(system, llm.Messages{s.message()}, ms[cut:]), s.running}, nil
}

// split takes a system message off the beginning and leaves out the message of
// an earlier summary, wherever it is: its text is in the running summary.
func split(given llm.Messages) (system, ms llm.Messages) {
	ms = given
	if i := slices.IndexFunc(given, isSummary); i >= 0 {
		ms = slices.DeleteFunc(slices.Clone(given), isSummary)
	}
	if len(ms) > 0 && ms[0].Role == llm.RoleSystem {
		return ms[:1:1], ms[1:]
	}
	return nil, ms
}

func isSummary(m llm.Message) bool { return m.ID == SummaryID }

// message is the running summary as a message.
func (s *summarizer) message() llm.Message {
	m := s.FinalPrompt(s.running.Summary)
	m.ID = SummaryID
	return m
}

// room is how many tokens may stay behind the summary.
func (s *summarizer) room(system llm.Messages) (int, error) {
	counts, err := s.counts(system)
	if err != nil {
		return 0, err
	}
	room := s.limit - s.MaxSummaryTokens - sum(counts)
	if room <= 0 {
		return 0, fmt.Errorf("%w: the system message has %d tokens, the tools have %d, MaxTokens is %d and MaxSummaryTokens is %d: shorten it or raise MaxTokens",
			ErrSummaryBudget, sum(counts), s.MaxTokens-s.limit, s.MaxTokens, s.MaxSummaryTokens)
	}
	return room, nil
}

// fresh is the messages that are in no summary yet. Where the last one that is
// has gone, those at the beginning are left out that are.
func (s *summarizer) fresh(ms llm.Messages) (llm.Messages, error) {
	known := make(map[string]bool, len(s.running.MessageIDs)+len(ms))
	for _, id := range s.running.MessageIDs {
		known[id] = true
	}
	done := 1 + slices.IndexFunc(ms, func(m llm.Message) bool { return m.ID != "" && m.ID == s.running.LastMessageID })
	for lost := done == 0; lost && done < len(ms) && known[ms[done].ID]; {
		done++
	}
	for i, m := range ms[done:] {
		switch {
		case m.ID == "":
			return nil, fmt.Errorf("message %d (%s) has no id: merge it into the conversation with Messages.Reduce, which gives it one", done+i, m.Role)
		case known[m.ID]:
			return nil, fmt.Errorf("message %d has the id %q of a message before it, which may be in the summary already: give it another", done+i, m.ID)
		}
		known[m.ID] = true
	}
	return ms[done:], nil
}

// counts is the tokens of each message.
func (s *summarizer) counts(ms llm.Messages) ([]int, error) {
	counts := make([]int, len(ms))
	for i := range ms {
		n, err := s.Count(s.ctx, ms[i:i+1:i+1])
		if err != nil {
			return nil, fmt.Errorf("count tokens: %w", err)
		}
		counts[i] = n
	}
	return counts, nil
}

func sum(counts []int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}

// cut is how many of the messages to summarise.
func (s *summarizer) cut(ms llm.Messages, counts []int, room int) int {
	total, n, cut := sum(counts), 0, 0
	if total < s.MaxTokensBeforeSummary {
		return 0
	}
	for _, end := range bounds(ms) {
		n += sum(counts[cut:end])
		cut = end
		if n >= s.MaxTokensBeforeSummary && total-n <= room {
			break
		}
	}
	return cut
}

// extend makes the running summary one of these messages as well.
func (s *summarizer) extend(ms llm.Messages, tokens int) error {
	limit := s.MaxTokens
	if !s.running.IsZero() {
		counts, err := s.counts(llm.Messages{s.message()})
		if err != nil {
			return err
		}
		limit -= sum(counts)
	}
	read := ms
	if tokens > limit {
		some, err := llm.Trim(s.ctx, ms, llm.TrimOptions{
			MaxTokens: max(0, limit), Count: s.additive, StartOn: []llm.Role{llm.RoleHuman}, Partial: true,
		})
		if err != nil {
			return err
		}
		// Without a human message in reach it is better to read too much than
		// nothing.
		if len(some) > 0 {
			read = some
		}
	}
	text, err := s.ask(read)
	if err != nil {
		return err
	}
	ids := slices.Clone(s.running.MessageIDs)
	for _, m := range ms {
		ids = append(ids, m.ID)
	}
	s.running = RunningSummary{text, ids, ms[len(ms)-1].ID}
	return nil
}

// additive counts as the rest of the summariser does, message by message.
func (s *summarizer) additive(_ context.Context, ms []llm.Message) (int, error) {
	counts, err := s.counts(ms)
	return sum(counts), err
}

// ask is the model's summary.
func (s *summarizer) ask(read llm.Messages) (string, error) {
	prompt := s.InitialPrompt(withoutTools(read))
	if !s.running.IsZero() {
		prompt = s.ExistingPrompt(s.running.Summary, withoutTools(read))
	}
	answer, err := llm.Generate(s.ctx, s.Model, prompt...)
	switch {
	case err != nil:
		return "", err
	case answer.Stop == llm.StopRefusal || answer.Stop == llm.StopFilter:
		return "", fmt.Errorf("the model declined to summarise (%s): %q", answer.Stop, answer.Text())
	case strings.TrimSpace(answer.Text()) == "":
		return "", errors.New("the model's summary is empty")
	}
	return answer.Text(), nil
}
