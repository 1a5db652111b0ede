package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// talk returns a conversation with the given number of turns.
func talk(turns int) llm.Messages {
	var ms llm.Messages
	for i := range turns {
		ms = append(ms, llm.User(fmt.Sprint("question ", i)), llm.Assistant(fmt.Sprint("answer ", i)))
	}
	return ms
}

func chat(ms ...llm.Message) agent.State { return agent.State{Chat: llm.Chat{Messages: ms}} }

func TestLongConversationIsSummarized(t *testing.T) {
	small := llmtest.Scripted(t, llmtest.Say("They talked.", llmtest.Asked("human: question 0\nai: answer 0\nhuman: question 1\nai: answer 1\n")))
	model := llmtest.Scripted(t, llmtest.Say("fine"))
	a := made(t, model, &agent.Options{Prompt: "Be kind.", Middleware: []*agent.Middleware{agent.Summarize(small, &agent.SummarizeOptions{Messages: 7, Keep: 3})}})
	out, err := a.Run(t.Context(), chat(append(talk(3), llm.User("and now?"))...))
	if err != nil {
		t.Fatal(err)
	}
	short := []string{"human: Here is a summary of the conversation to date:\n\nThey talked.", "human: question 2", "ai: answer 2", "human: and now?"}
	wantLines(t, model.Requests()[0].Messages, append([]string{"system: Be kind."}, short...)...)
	wantLines(t, out.Messages, append(short, "ai: fine")...)
}

// System messages at the start are not part of the summary.
func TestSystemMessagesPrecedeSummary(t *testing.T) {
	small := llmtest.Scripted(t, llmtest.Say("They talked.", llmtest.Asked("human: question 0\nai: answer 0\n")))
	model := llmtest.Scripted(t, llmtest.Say("fine"))
	a := made(t, model, with(agent.Summarize(small, &agent.SummarizeOptions{Messages: 4, Keep: 1})))
	said := append(llm.Messages{llm.System("Be kind."), llm.System("Be brief.")}, talk(1)...)
	out, err := a.Run(t.Context(), chat(append(said, llm.User("and now?"))...))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "system: Be kind.", "system: Be brief.",
		"human: Here is a summary of the conversation to date:\n\nThey talked.", "human: and now?", "ai: fine")
}

func TestSummarizeRequiresLimit(t *testing.T) {
	_, err := agent.New(llmtest.NewScript(), with(agent.Summarize(llmtest.NewScript(), &agent.SummarizeOptions{Keep: 1})))
	if err == nil || !strings.Contains(err.Error(), "summarize: no limit: set Tokens, Share, or Messages") {
		t.Errorf("err = %v", err)
	}
}

func TestConversationIsSummarizedByTokens(t *testing.T) {
	long := llm.User(strings.Repeat("word ", 100))
	for _, tt := range []struct {
		o    *agent.SummarizeOptions
		want int
	}{
		{&agent.SummarizeOptions{Tokens: 100, Keep: 1}, 1},
		{&agent.SummarizeOptions{Tokens: 1000, Keep: 1}, 0},
		{&agent.SummarizeOptions{Tokens: 1000, Keep: 1, Count: func(context.Context, []llm.Message) (int, error) { return 1000, nil }}, 1},
		{&agent.SummarizeOptions{Tokens: 1000, Messages: 3, Keep: 1}, 1},
		{&agent.SummarizeOptions{Share: 0.1, Keep: 1}, 1},
		{&agent.SummarizeOptions{Share: 1, Keep: 1}, 0},
	} {
		small := llmtest.NewScript(llmtest.Say("short"))
		a := made(t, llmtest.NewScript(llmtest.Say("ok")), &agent.Options{Middleware: []*agent.Middleware{agent.Summarize(llm.WithInfo(small, llm.Info{Window: 1000}), tt.o)}})
		if _, err := a.Run(t.Context(), chat(long, llm.Assistant("yes"), llm.User("and?"))); err != nil {
			t.Fatal(err)
		}
		if got := len(small.Requests()); got != tt.want {
			t.Errorf("%+v: summarized %d times, want %d", tt.o, got, tt.want)
		}
	}
}

func TestSummaryKeepsCallsWithResults(t *testing.T) {
	call := llm.ToolCall{ID: "1", Name: "echo"}
	history := llm.Messages{llm.User("old"), llm.Assistant("reply"), llm.User("new"), llm.Assistant("", call), llm.ToolResult(call, "result")}
	small := llmtest.Scripted(t, llmtest.Say("They greeted.", llmtest.Asked("human: old\nai: reply\n")))
	model := llmtest.Scripted(t, llmtest.Say("ok"))
	a := made(t, model, &agent.Options{Tools: []*llm.Tool{echo}, Middleware: []*agent.Middleware{agent.Summarize(small, &agent.SummarizeOptions{Messages: 3, Keep: 1})}})
	out, err := a.Run(t.Context(), chat(history...))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages[1:], "human: new", "ai:  [echo ]", "tool: result", "ai: ok")
}

func TestFailedSummaryKeepsMessages(t *testing.T) {
	for name, turn := range map[string]llmtest.Turn{
		"fails": llmtest.Fail(errors.New("down")),
		"empty": llmtest.Say("  "),
	} {
		small := llmtest.NewScript(turn, llmtest.Say("They talked."))
		model := llmtest.Scripted(t, llmtest.Say("fine"))
		thread := made(t, model, &agent.Options{Graph: memory(), Middleware: []*agent.Middleware{agent.Summarize(small, &agent.SummarizeOptions{Messages: 3, Keep: 1})}}).Thread("1")
		_, err := thread.Run(t.Context(), chat(append(talk(2), llm.User("new"))...))
		if err == nil || !strings.Contains(err.Error(), "agent: summarize 4 messages") {
			t.Errorf("%s: err = %v", name, err)
		}
		snap, err := thread.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var s agent.State
		if err := snap.Read(&s); err != nil {
			t.Fatal(err)
		}
		wantLines(t, s.Messages, "human: question 0", "ai: answer 0", "human: question 1", "ai: answer 1", "human: new")
		out, err := thread.Continue(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantLines(t, out.Messages[1:], "human: new", "ai: fine")
	}
}

// For every conversation and every limit, the newest user message is kept, no call loses
// its result, and the model accepts the rest.
func TestSummaryKeepsNewestUserMessage(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := randomHistory(rt)
		newest := ""
		for _, m := range history {
			if m.Role == llm.RoleHuman {
				newest = m.Text()
			}
		}
		model := llmtest.NewScript(llmtest.Say("ok"))
		o := &agent.SummarizeOptions{Messages: 1, Keep: rapid.IntRange(1, 6).Draw(rt, "keep")}
		a, err := agent.New(model, &agent.Options{Tools: []*llm.Tool{echo}, Middleware: []*agent.Middleware{agent.Summarize(llmtest.NewScript(llmtest.Say("short")), o)}})
		if err != nil {
			rt.Fatal(err)
		}
		out, err := a.Run(t.Context(), chat(history...))
		if err != nil {
			rt.Fatal(err)
		}
		if err := llm.Check(llm.Repair(out.Messages)); err != nil {
			rt.Error(err)
		}
		found := false
		for _, m := range model.Requests()[0].Messages {
			found = found || m.Role == llm.RoleHuman && m.Text() == newest
			if m.Role == llm.RoleTool && m.Status == llm.StatusError {
				rt.Errorf("a call has lost its result: %q", lines(out.Messages))
			}
		}
		if !found {
			rt.Errorf("the newest question %q is gone: %q", newest, lines(out.Messages))
		}
	})
}

// randomHistory returns a conversation that ends with a user message or with results.
func randomHistory(rt *rapid.T) llm.Messages {
	var ms llm.Messages
	calls := 0
	for i := range rapid.IntRange(1, 6).Draw(rt, "turns") {
		ms = append(ms, llm.User(fmt.Sprint("question ", i)))
		for range rapid.IntRange(0, 3).Draw(rt, "steps") {
			var made []llm.ToolCall
			for range rapid.IntRange(1, 3).Draw(rt, "calls") {
				calls++
				made = append(made, llm.ToolCall{ID: fmt.Sprint("c", calls), Name: "echo"})
			}
			ms = append(ms, llm.Assistant("", made...))
			for _, c := range made {
				ms = append(ms, llm.ToolResult(c, "result "+c.ID))
			}
		}
		if rapid.Bool().Draw(rt, "answered") {
			ms = append(ms, llm.Assistant(fmt.Sprint("answer ", i)))
		}
	}
	if ms[len(ms)-1].Role == llm.RoleAI {
		ms = append(ms, llm.User("last question"))
	}
	return ms
}

func TestSummaryIsNotStreamed(t *testing.T) {
	a := made(t, llmtest.Scripted(t, llmtest.Say("fine")), &agent.Options{Middleware: []*agent.Middleware{
		agent.Summarize(llmtest.Scripted(t, llmtest.Say("They talked.")), &agent.SummarizeOptions{Messages: 3, Keep: 1})}})
	var said string
	for ev, err := range a.Stream(t.Context(), chat(append(talk(2), llm.User("new"))...), treadle.Modes(treadle.ModeMessages)) {
		if err != nil {
			t.Fatal(err)
		}
		if token, ok := ev.(treadle.Token); ok {
			if c, ok := token.Chunk.(llm.Chunk); ok {
				said += c.Content
			}
		}
	}
	if said != "fine" {
		t.Errorf("streamed %q", said)
	}
}

func ExampleSummarize() {
	small := llmtest.NewScript(llmtest.Say("The user is Ada and likes owls."))
	model := llmtest.NewScript(llmtest.Say("You are Ada."))
	a, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{
		agent.Summarize(small, &agent.SummarizeOptions{Messages: 5, Keep: 1})}})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Run(context.Background(), chat(
		llm.User("I am Ada."), llm.Assistant("Hello Ada."),
		llm.User("I like owls."), llm.Assistant("So do I."),
		llm.User("Who am I?")))
	for _, line := range lines(out.Messages) {
		fmt.Println(line)
	}
	fmt.Println(err)
	// Output:
	// human: Here is a summary of the conversation to date:
	//
	// The user is Ada and likes owls.
	// human: Who am I?
	// ai: You are Ada.
	// <nil>
}
