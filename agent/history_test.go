package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"testing"

	"pgregory.net/rapid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// strictModel returns generated responses and checks every request against the rules of
// providers.
type strictModel struct {
	answers []llm.Message
	cancel  context.CancelFunc // of the run that is under way
	asked   int
	refused error
}

const hang = "(hangs)"

func (m *strictModel) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	if err := llm.Check(req.Messages); err != nil && m.refused == nil {
		m.refused = fmt.Errorf("%w in %q", err, lines(req.Messages))
	}
	answer := llm.Assistant("that is all")
	if m.asked < len(m.answers) {
		answer = m.answers[m.asked]
	}
	m.asked++
	if answer.Content == hang {
		m.cancel()
	}
	return llmtest.NewScript(llmtest.Turn{Message: answer, Hang: answer.Content == hang}).Stream(ctx, &llm.Request{Messages: llm.Messages{llm.User("go")}})
}

var (
	callNames = rapid.SampledFrom([]string{"echo", "fail", "panic", "ask", "stop", "nowhere", "forget"})
	callIDs   = rapid.SampledFrom([]string{"", "a", "b", "c", "d"})
	anyCall   = rapid.Custom(func(t *rapid.T) llm.ToolCall {
		args := rapid.SampledFrom([]string{`{"text":"x"}`, `{}`, ``}).Draw(t, "args")
		return llm.ToolCall{ID: callIDs.Draw(t, "id"), Name: callNames.Draw(t, "name"), Args: json.RawMessage(args)}
	})
	anyAnswer = rapid.Custom(func(t *rapid.T) llm.Message {
		if rapid.IntRange(0, 9).Draw(t, "hangs") == 0 {
			return llm.Assistant(hang)
		}
		return llm.Assistant(rapid.SampledFrom([]string{"", "well"}).Draw(t, "text"), rapid.SliceOfN(anyCall, 1, 4).Draw(t, "calls")...)
	})
	anyMessage = rapid.Custom(func(t *rapid.T) llm.Message {
		switch rapid.IntRange(0, 3).Draw(t, "role") {
		case 0:
			return llm.Assistant("earlier", rapid.SliceOfN(anyCall, 0, 3).Draw(t, "calls")...)
		case 1:
			return llm.ToolResult(anyCall.Draw(t, "of"), "a result from somewhere")
		}
		return llm.User("question")
	})
	anyDecision = rapid.SampledFrom([]agent.Decision{{Type: agent.Approve}, {Type: agent.Reject}, {Type: agent.Respond, Message: "mine"},
		{Type: agent.Edit, Edited: &agent.Action{Name: "echo", Args: json.RawMessage(`{"text":"edited"}`)}}})
)

// handling is an agent under test with the thread that it works on.
type handling struct {
	*rapid.T
	ctx    context.Context
	model  *strictModel
	thread *treadle.Thread[agent.State, agent.State]
}

func newHandling(ctx context.Context, t *rapid.T) *handling {
	h := &handling{T: t, ctx: ctx, model: &strictModel{answers: rapid.SliceOfN(anyAnswer, 0, 12).Draw(t, "answers")}}
	text := func(name string, fn func(ctx context.Context) (any, error)) *llm.Tool {
		return &llm.Tool{Name: name, Run: func(ctx context.Context, _ json.RawMessage) (any, error) { return fn(ctx) }}
	}
	tools := []*llm.Tool{echo,
		text("fail", func(context.Context) (any, error) { return nil, errors.New("failed") }),
		text("panic", func(context.Context) (any, error) { panic("oh") }),
		text("ask", func(ctx context.Context) (any, error) { return treadle.Interrupt[string](ctx, "sure?") }),
		text("stop", func(ctx context.Context) (any, error) {
			h.model.cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		text("forget", func(context.Context) (any, error) {
			return treadle.Command[llm.Chat]{Update: &llm.Chat{Messages: llm.Messages{llm.RemoveAll()}}}, nil
		}),
	}
	var use []*agent.Middleware
	for _, m := range []*agent.Middleware{
		agent.Gates(agent.Gate{Tool: "echo"}, agent.Gate{Tool: "fail"}),
		agent.LimitToolCalls("", agent.Limit{Run: 3}),
		agent.LimitToolCalls("echo", agent.Limit{Run: 2, OnLimit: agent.OnLimitEnd}),
		agent.ClearResults(&agent.ClearOptions{Tokens: 20, Keep: 1, Args: true}),
		agent.Summarize(summaries, &agent.SummarizeOptions{Messages: 6, Keep: 2}),
		agent.Todos(),
	} {
		if rapid.IntRange(0, 2).Draw(t, m.Name) == 0 {
			use = append(use, m)
		}
	}
	o := &agent.Options{Tools: tools, Middleware: use, Graph: memory()}
	if rapid.Bool().Draw(t, "raise") {
		o.OnToolError = agent.RaiseToolErrors
	}
	o.Graph.StepLimit = 40
	o.Graph.Logger = slog.New(slog.DiscardHandler) // the tool "panic" logs
	a, err := agent.New(h.model, o)
	if err != nil {
		t.Fatal(err)
	}
	h.thread = a.Thread("1")
	return h
}

// summaries summarizes anything.
var summaries = llmtest.Func(func(context.Context, *llm.Request) (llm.Message, error) { return llm.Assistant("in short"), nil })

// step runs an operation that may fail, stop, or be canceled: only the model's input
// matters.
func (h *handling) step(do func(ctx context.Context) (agent.State, error)) {
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	h.model.cancel = cancel
	_, _ = do(ctx)
	if h.model.refused != nil {
		h.Fatal(h.model.refused)
	}
}

func (h *handling) say() {
	in := chat(append(rapid.SliceOfN(anyMessage, 0, 4).Draw(h.T, "messages"), llm.User("now"))...)
	h.step(func(ctx context.Context) (agent.State, error) { return h.thread.Run(ctx, in) })
}

func (h *handling) goOn() {
	h.step(func(ctx context.Context) (agent.State, error) { return h.thread.Continue(ctx) })
}

// answer answers the open questions, or some of them.
func (h *handling) answer() {
	snap, err := h.thread.State(h.ctx)
	if err != nil {
		h.Fatal(err)
	}
	answers := treadle.Answers{}
	for _, p := range snap.Pauses {
		var r agent.Review
		if p.Decode(&r) == nil && len(r.Calls) > 0 {
			answers[p.ID] = agent.Decisions(rapid.SliceOfN(anyDecision, len(r.Calls), len(r.Calls)).Draw(h.T, "decisions"))
		} else if rapid.Bool().Draw(h.T, "answers") {
			answers[p.ID] = "yes"
		}
	}
	if len(answers) > 0 {
		h.step(func(ctx context.Context) (agent.State, error) { return h.thread.Resume(ctx, answers) })
	}
}

// edit removes a message from the thread.
func (h *handling) edit() {
	snap, err := h.thread.State(h.ctx)
	if err != nil {
		h.Fatal(err)
	}
	var s agent.State
	if err := snap.Read(&s); err != nil {
		h.Fatal(err)
	}
	if len(s.Messages) > 0 {
		m := rapid.SampledFrom(s.Messages).Draw(h.T, "removed")
		_, _ = h.thread.Update(h.ctx, llm.Chat{Messages: llm.Messages{llm.Remove(m.ID)}})
	}
}

// After any sequence of messages, calls, cancellations, interrupts, answers, removals, and
// continuations, with any middleware, no model receives a call without exactly one result,
// or a result without its call.
//
// Parity: 209, 210.
func TestModelsGetCompleteHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHandling(t.Context(), rt)
		h.say()
		for range rapid.IntRange(0, 8).Draw(rt, "actions") {
			rapid.SampledFrom([]func(){h.say, h.goOn, h.answer, h.edit}).Draw(rt, "action")()
		}
	})
}
