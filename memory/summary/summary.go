package summary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// MessageID is the ID of the summary message. A conversation has at most one, so a new
// summary replaces the previous one.
const MessageID = "__summary__"

// ErrBudget is returned when the limits of [Options] leave no room for
// messages.
var ErrBudget = errors.New("summary: token limits leave no room for messages")

// Options configures [Summarize]. Model and MaxTokens are required.
type Options struct {
	// Model writes the summaries. Summarize sets no length limit; bind [llm.MaxTokens] to
	// the model. To keep its tokens out of a stream, bind the tag [treadle.TagNoStream].
	Model llm.Model
	// MaxTokens limits the size of the shortened conversation. The newest human turn is
	// kept even if it exceeds the limit. MaxTokens also limits the messages that Model
	// reads.
	MaxTokens int
	// MaxTokensBeforeSummary is the number of unsummarized tokens that triggers a summary;
	// 0 means MaxTokens minus the tokens of Tools.
	MaxTokensBeforeSummary int
	// MaxSummaryTokens is the part of MaxTokens reserved for the summary; 0 means 256, and
	// a negative number means none.
	MaxSummaryTokens int
	// Count counts tokens; nil means [llm.CountTokens]. It is called with one message at a
	// time, and the counts are added.
	Count llm.Counter
	// Tools lists the tools of the model that reads the shortened conversation. The tokens
	// of their schemas, as counted by [llm.CountTokens], are subtracted from MaxTokens.
	Tools []*llm.Tool

	// InitialPrompt returns the prompt for a first summary, and ExistingPrompt the prompt
	// for extending a summary. In ms, tool calls and their results are text, so that Model
	// does not need the tools. Nil means a prompt in English.
	InitialPrompt  func(ms llm.Messages) llm.Messages
	ExistingPrompt func(summary string, ms llm.Messages) llm.Messages
	// FinalPrompt returns the summary message, which follows the system message; its ID is
	// set to [MessageID]. Nil means a system message. For a provider that accepts only one
	// system message, return [llm.User].
	FinalPrompt func(summary string) llm.Message
}

// Running is the summary of the start of a conversation. The zero value means that
// nothing has been summarized yet. Store it with the conversation.
type Running struct {
	// Text is the summary.
	Text string `json:"summary"`
	// MessageIDs lists the IDs of the summarized messages, in order.
	MessageIDs []string `json:"summarized_message_ids"`
	// LastMessageID is the last of MessageIDs.
	LastMessageID string `json:"last_summarized_message_id"`
}

// IsZero reports whether nothing has been summarized yet.
func (r Running) IsZero() bool { return r.LastMessageID == "" && r.Text == "" }

// Result is the shortened conversation.
type Result struct {
	// Messages contains the system message, the summary, and the remaining messages;
	// without a summary, it contains the original messages.
	Messages llm.Messages
	// Running is the summary to pass to the next call.
	Running Running
}

// Summarize shortens a conversation that has grown too long by replacing its start with a
// summary. Messages that running already covers are not read again. If no new summary is
// needed, Summarize does not call the model and uses the existing summary.
//
// A summary is needed when the unsummarized messages have at least MaxTokensBeforeSummary
// tokens. Summarize then summarizes the fewest turns that have at least that many tokens
// and leave a remainder that fits. It cuts the conversation only between turns. A turn is a
// human message with the responses to it; a tool call, its result, and everything between
// them belong to one turn. The newest turn is never cut, regardless of its length. Without
// human messages, each response is a turn.
//
// If the part to summarize exceeds MaxTokens, the model reads the end of it, starting with
// a human message; if the end contains no human message, the model reads all of it.
//
// A system message at the start is kept. Summarize returns [ErrBudget] if the system
// message leaves no room. Messages need IDs, which messages in a graph's state have. After
// an error, the conversation and the running summary remain valid. Summarize returns an
// error if the model's response is empty or the model refuses.
func Summarize(ctx context.Context, ms llm.Messages, running Running, opts *Options) (Result, error) {
	s := &summarizer{ctx: ctx, running: running}
	if opts != nil {
		s.Options = *opts
	}
	if err := s.defaults(); err != nil {
		return Result{}, err
	}
	out, err := s.summarize(ms)
	if errors.Is(err, ErrBudget) {
		return Result{}, err // has the prefix already
	}
	if err != nil {
		return Result{}, fmt.Errorf("summary: %w", err)
	}
	return out, nil
}

type summarizer struct {
	ctx context.Context
	Options
	running Running
	limit   int // MaxTokens minus the tokens of the tools
}

func (s *summarizer) defaults() error {
	s.MaxSummaryTokens = max(0, cmp.Or(s.MaxSummaryTokens, 256))
	tools := llm.CountTokens(nil, &llm.CountOptions{Tools: s.Tools})
	s.limit = s.MaxTokens - tools
	switch {
	case s.Model == nil:
		return errors.New("summary: nil model: set Options.Model")
	case s.MaxTokensBeforeSummary < 0:
		return fmt.Errorf("summary: invalid Options.MaxTokensBeforeSummary %d: want 0 or more", s.MaxTokensBeforeSummary)
	case s.MaxSummaryTokens >= s.MaxTokens:
		return fmt.Errorf("%w: invalid Options.MaxSummaryTokens %d: want less than MaxTokens (%d)", ErrBudget, s.MaxSummaryTokens, s.MaxTokens)
	case s.MaxSummaryTokens >= s.limit:
		return fmt.Errorf("%w: tools have %d tokens, MaxTokens is %d, MaxSummaryTokens is %d: offer fewer tools or raise MaxTokens",
			ErrBudget, tools, s.MaxTokens, s.MaxSummaryTokens)
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

func (s *summarizer) summarize(given llm.Messages) (Result, error) {
	system, ms := split(given)
	if len(ms) == 0 {
		return Result{given, s.running}, nil
	}
	room, err := s.room(system)
	if err != nil {
		return Result{}, err
	}
	ms, err = s.fresh(ms)
	if err != nil {
		return Result{}, err
	}
	counts, err := s.counts(ms)
	if err != nil {
		return Result{}, err
	}
	cut := s.cut(ms, counts, room)
	if cut > 0 {
		if err := s.extend(ms[:cut:cut], sum(counts[:cut])); err != nil {
			return Result{}, err
		}
	}
	if s.running.IsZero() {
		return Result{Messages: given}, nil
	}
	return Result{slices.Concat(system, llm.Messages{s.message()}, ms[cut:]), s.running}, nil
}

// split separates a system message at the start from the other messages, and removes the
// message of an earlier summary, whose text is in the running summary.
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

func isSummary(m llm.Message) bool { return m.ID == MessageID }

// message returns the running summary as a message.
func (s *summarizer) message() llm.Message {
	m := s.FinalPrompt(s.running.Text)
	m.ID = MessageID
	return m
}

// room returns the number of tokens that may remain after the summary.
func (s *summarizer) room(system llm.Messages) (int, error) {
	counts, err := s.counts(system)
	if err != nil {
		return 0, err
	}
	room := s.limit - s.MaxSummaryTokens - sum(counts)
	if room <= 0 {
		return 0, fmt.Errorf("%w: system message has %d tokens, tools have %d, MaxTokens is %d, MaxSummaryTokens is %d: shorten the system message or raise MaxTokens",
			ErrBudget, sum(counts), s.MaxTokens-s.limit, s.MaxTokens, s.MaxSummaryTokens)
	}
	return room, nil
}

// fresh returns the messages that are not summarized. If the last summarized message is
// missing, it skips the summarized messages at the start.
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
			return nil, fmt.Errorf("message %d (%s) has no ID: add it with Messages.Reduce, which assigns IDs", done+i, m.Role)
		case known[m.ID]:
			return nil, fmt.Errorf("message %d has the ID %q of an earlier or summarized message: IDs must be unique", done+i, m.ID)
		}
		known[m.ID] = true
	}
	return ms[done:], nil
}

// counts returns the number of tokens in each message.
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

// cut returns the number of messages to summarize.
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

// extend extends the running summary to cover ms.
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
		some, err := llm.Trim(s.ctx, ms, &llm.TrimOptions{
			MaxTokens: max(0, limit), Count: s.additive, StartOn: []llm.Role{llm.RoleHuman}, Partial: true,
		})
		if err != nil {
			return err
		}
		// If the end contains no human message, reading too much is better than reading
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
	s.running = Running{text, ids, ms[len(ms)-1].ID}
	return nil
}

// additive counts message by message, like the rest of the summarizer.
func (s *summarizer) additive(_ context.Context, ms []llm.Message) (int, error) {
	counts, err := s.counts(ms)
	return sum(counts), err
}

// ask requests a summary from the model.
func (s *summarizer) ask(read llm.Messages) (string, error) {
	prompt := s.InitialPrompt(withoutTools(read))
	if !s.running.IsZero() {
		prompt = s.ExistingPrompt(s.running.Text, withoutTools(read))
	}
	answer, err := llm.Generate(s.ctx, s.Model, prompt...)
	switch {
	case err != nil:
		return "", err
	case answer.Stop == llm.StopRefusal || answer.Stop == llm.StopFilter:
		return "", fmt.Errorf("model refused to summarize (%s): %q", answer.Stop, answer.Text())
	case strings.TrimSpace(answer.Text()) == "":
		return "", errors.New("empty summary from the model")
	}
	return answer.Text(), nil
}
