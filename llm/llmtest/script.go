package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/llm"
)

// Turn is one response of a [Script].
type Turn struct {
	// Message is the response. It is streamed: its text word by word, its tool
	// calls in pieces. An empty Stop means [llm.StopTools] if there are calls, and
	// otherwise [llm.StopEnd].
	Message llm.Message
	// Chunks is the response in chunks; it replaces Message.
	Chunks []llm.Chunk
	// Err, if not nil, is yielded after the response.
	Err error
	// Delay is the wait before each chunk.
	Delay time.Duration
	// Hang makes the model wait after the response until the call is canceled.
	Hang bool
	// Expect lists checks of the request; see [Asked], [Heard], and [Offered].
	Expect []func(*llm.Request) error
}

// Say returns a turn that responds with a text.
func Say(text string, expect ...func(*llm.Request) error) Turn {
	return Turn{Message: llm.Assistant(text), Expect: expect}
}

// Ask returns a turn that calls tools. Calls without an ID get one: call_1, call_2,
// and so on, numbered across the whole script.
func Ask(calls ...llm.ToolCall) Turn { return Turn{Message: llm.Assistant("", calls...)} }

// Fail returns a turn that fails before its first chunk.
func Fail(err error) Turn { return Turn{Err: err} }

// ToolCall returns a tool call. args is a value whose JSON is an object, or a
// string that contains JSON.
func ToolCall(name string, args any) llm.ToolCall {
	if s, ok := args.(string); ok {
		return llm.ToolCall{Name: name, Args: json.RawMessage(s)}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		raw = json.RawMessage(fmt.Sprintf(`{"error": %q}`, err))
	}
	return llm.ToolCall{Name: name, Args: raw}
}

// Asked checks that the text of the last message contains part.
func Asked(part string) func(*llm.Request) error {
	return func(r *llm.Request) error {
		if last := r.Messages[len(r.Messages)-1]; !strings.Contains(last.Text(), part) {
			return fmt.Errorf("last message is %q: want %q in it", last.Text(), part)
		}
		return nil
	}
}

// Heard checks that the request contains exactly these messages. IDs, usage,
// metadata, stop reasons, and artifacts are ignored.
func Heard(want ...llm.Message) func(*llm.Request) error {
	return func(r *llm.Request) error {
		if d := cmp.Diff(want, []llm.Message(r.Messages), sameMessages); d != "" {
			return fmt.Errorf("messages differ (-want +got):\n%s", d)
		}
		return nil
	}
}

var sameMessages = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.IgnoreFields(llm.Message{}, "ID", "Usage", "Metadata", "Stop", "Artifact"),
}

// Offered checks that the request offers exactly these tools, in this order.
func Offered(names ...string) func(*llm.Request) error {
	return func(r *llm.Request) error {
		var got []string
		for _, t := range r.Tools {
			got = append(got, t.Name)
		}
		if !slices.Equal(got, names) {
			return fmt.Errorf("tools are %q, want %q", got, names)
		}
		return nil
	}
}

// Script is a model with scripted responses, one turn for each request. A request
// fails if no turn is left, if it does not meet the turn's Expect, or if a provider
// would reject its history. In addition to the rules of [llm.Check], message IDs
// must be unique, system messages must come first, at least one other message must
// follow them, the first of these must not be an AI message, and no message may be
// empty, except tool results.
//
// A Script is safe for concurrent use. Turns are used in the order in which
// requests arrive.
type Script struct {
	// NativeOutput and NoTools are the fields of the model's [llm.Info].
	NativeOutput, NoTools bool

	t testing.TB // reports rejected requests, if not nil

	mu       sync.Mutex
	turns    []Turn
	requests []*llm.Request
	calls    int
}

// NewScript returns a model that responds with the turns in order.
func NewScript(turns ...Turn) *Script { return &Script{turns: turns} }

// Scripted is like [NewScript], but for a test. The test fails if a request fails,
// even if the program handles the error, or if turns are left at the end.
func Scripted(t testing.TB, turns ...Turn) *Script {
	s := NewScript(turns...)
	s.t = t
	t.Cleanup(func() {
		if n := s.Left(); n > 0 && !t.Failed() {
			t.Errorf("llmtest: %d turns of the script were not used", n)
		}
	})
	return s
}

// Requests returns the requests received so far.
func (s *Script) Requests() []*llm.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Left returns the number of unused turns.
func (s *Script) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.turns)
}

// Describe implements [llm.Describer].
func (s *Script) Describe() llm.Info {
	return llm.Info{Provider: "llmtest", Model: "script", NativeOutput: s.NativeOutput, NoTools: s.NoTools}
}

// Stream implements [llm.Model].
func (s *Script) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		turn, err := s.next(req)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		for _, c := range turn.pieces(req.NoStream) {
			if err := pause(ctx, turn.Delay); err != nil {
				yield(llm.Chunk{}, err)
				return
			}
			if !yield(c, nil) {
				return
			}
		}
		if turn.Hang {
			<-ctx.Done()
			yield(llm.Chunk{}, context.Cause(ctx))
			return
		}
		if turn.Err != nil {
			if err := pause(ctx, turn.Delay); err != nil {
				turn.Err = err
			}
			yield(llm.Chunk{}, turn.Err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	if err := context.Cause(ctx); err != nil || d <= 0 {
		return err
	}
	return delay.For(ctx, d)
}

// next takes the next turn. A rejected request uses no turn.
func (s *Script) next(req *llm.Request) (turn Turn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := *req
	kept.Messages = slices.Clone(req.Messages)
	s.requests = append(s.requests, &kept)
	n := len(s.requests)
	defer func() {
		if err == nil {
			return
		}
		err = fmt.Errorf("llmtest: request %d: %w", n, err)
		if s.t != nil {
			s.t.Error(err)
		}
	}()
	if err := strict(req); err != nil {
		return Turn{}, err
	}
	if len(s.turns) == 0 {
		return Turn{}, fmt.Errorf("script has no more turns; the last message is %q", req.Messages[len(req.Messages)-1].Text())
	}
	turn = s.turns[0]
	for _, expect := range turn.Expect {
		if err := expect(&kept); err != nil {
			return Turn{}, err
		}
	}
	s.turns = s.turns[1:]
	turn.Message.ToolCalls = slices.Clone(turn.Message.ToolCalls)
	for i := range turn.Message.ToolCalls {
		s.calls++
		if c := &turn.Message.ToolCalls[i]; c.ID == "" {
			c.ID = fmt.Sprintf("call_%d", s.calls)
		}
	}
	return turn, nil
}

// strict applies the rules of the strictest provider.
func strict(req *llm.Request) error {
	if err := llm.Check(req.Messages); err != nil {
		return err
	}
	if len(req.Messages) == 0 {
		return errors.New("no messages")
	}
	ids := map[string]bool{}
	begun := false
	for i, m := range req.Messages {
		refuse := func(format string, args ...any) error {
			return &llm.HistoryError{Index: i, ID: m.ID, Reason: fmt.Sprintf(format, args...)}
		}
		switch {
		case m.ID != "" && ids[m.ID]:
			return refuse("another message has the same ID")
		case m.Role == llm.RoleSystem && begun:
			return refuse("system message after other messages")
		case m.Role == llm.RoleAI && !begun:
			return refuse("conversation starts with an AI message")
		case m.Role != llm.RoleTool && len(m.ToolCalls) == 0 && len(m.Parts()) == 0:
			return refuse("empty message")
		}
		for _, c := range m.ToolCalls {
			var args map[string]any
			if len(c.Args) > 0 && json.Unmarshal(c.Args, &args) != nil {
				return refuse("arguments of call %s are not a JSON object: %s", c.ID, c.Args)
			}
		}
		ids[m.ID] = true
		begun = begun || m.Role != llm.RoleSystem
	}
	if !begun {
		return errors.New("only system messages")
	}
	return nil
}

// pieces returns the chunks that the model streams.
func (t Turn) pieces(whole bool) []llm.Chunk {
	if t.Chunks != nil {
		return t.Chunks
	}
	m := t.Message
	if m.Role == "" {
		return nil // only an error, or no response
	}
	if m.Stop == "" && t.Err == nil && !t.Hang {
		m.Stop = llm.StopEnd
		if len(m.ToolCalls) > 0 {
			m.Stop = llm.StopTools
		}
	}
	if whole {
		return []llm.Chunk{m.Chunk()}
	}
	return streamed(m)
}

// streamed splits a message: texts after each word, arguments in the middle.
func streamed(m llm.Message) []llm.Chunk {
	all := m.Chunk()
	id := llm.Chunk{ID: m.ID, Name: m.Name}
	var out []llm.Chunk
	add := func(fill func(*llm.Chunk)) {
		c := id
		fill(&c)
		out = append(out, c)
	}
	for _, word := range words(all.Content) {
		add(func(c *llm.Chunk) { c.Content = word })
	}
	for i, b := range all.Blocks {
		text := b.Text
		if b.Type == llm.BlockReasoning {
			text = b.Reasoning
		}
		for k, word := range words(text) {
			piece := llm.Block{Type: b.Type, Index: new(i)}
			if k == 0 {
				piece = b
				piece.Index = new(i)
			}
			if b.Type == llm.BlockReasoning {
				piece.Reasoning = word
			} else {
				piece.Text = word
			}
			add(func(c *llm.Chunk) { c.Blocks = []llm.Block{piece} })
		}
		if text == "" {
			add(func(c *llm.Chunk) { c.Blocks = []llm.Block{b} })
		}
	}
	for _, call := range all.ToolCalls {
		first, rest := call, llm.ToolCallChunk{Index: call.Index}
		half := len(call.Args) / 2
		first.Args, rest.Args = call.Args[:half], call.Args[half:]
		add(func(c *llm.Chunk) { c.ToolCalls = []llm.ToolCallChunk{first} })
		add(func(c *llm.Chunk) { c.ToolCalls = []llm.ToolCallChunk{rest} })
	}
	// Data that is known only at the end comes with the last piece, so that a
	// streamed text has as many pieces as words.
	if len(out) == 0 || m.Usage != nil || m.Metadata != nil || len(all.ToolCalls) > 0 {
		add(func(*llm.Chunk) {})
	}
	last := &out[len(out)-1]
	last.Usage = all.Usage
	last.Stop = all.Stop
	last.Metadata = all.Metadata
	last.Extra = all.Extra
	return out
}

// words splits a text into words, each with the spaces that follow it.
func words(s string) []string {
	var out []string
	for s != "" {
		end := strings.IndexByte(s, ' ')
		for end >= 0 && end < len(s) && s[end] == ' ' {
			end++
		}
		if end < 0 {
			end = len(s)
		}
		out = append(out, s[:end])
		s = s[end:]
	}
	return out
}
