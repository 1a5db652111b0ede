package summary_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory/summary"
)

// LangMem summarizes everything when the newest message crosses the threshold, and the
// model receives only a system message. Here, the newest user turn and everything after it
// are kept, regardless of length.
//
// Defect: §6.2 (A) the newest user turn is summarized away.
func TestNewestHumanTurnIsNeverCut(t *testing.T) {
	long := func(_ context.Context, ms []llm.Message) (n int, err error) {
		for _, m := range ms {
			n++
			if m.Name == "long" {
				n += 100
			}
		}
		return n, nil
	}
	newest := with("5", llm.User("a long text"))
	newest.Name = "long"
	call := with("6", llm.Assistant("", llm.ToolCall{ID: "a", Name: "search"}))
	for name, tt := range map[string]struct {
		ms   llm.Messages
		want string
	}{
		"at the end":     {append(chat(1, 4), newest), "system(A) 5"},
		"a turn goes on": {append(chat(1, 4), newest, call, result("7", "a")), "system(A) 5 6 7"},
		"its only turn":  {llm.Messages{newest}, "5"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := by(llmtest.NewScript(llmtest.Say("A")), 10, 1)
			opts.Count = long
			res := summarize(t, tt.ms, summary.Running{}, opts)
			check(t, "messages", shown(res.Messages), tt.want)
		})
	}
}

func TestLastGroupStaysWithoutHumanMessage(t *testing.T) {
	call := with("3", llm.Assistant("", llm.ToolCall{ID: "a", Name: "search"}))
	ms := llm.Messages{with("1", llm.Assistant("x")), with("2", llm.Assistant("y")), call, result("4", "a")}
	opts := by(llmtest.NewScript(llmtest.Say("A")), 2, 1)
	opts.InitialPrompt = func(llm.Messages) llm.Messages { return llm.Messages{llm.User("sum up")} }
	res := summarize(t, ms, summary.Running{}, opts)
	check(t, "messages", shown(res.Messages), "system(A) 3 4")
}

// LangMem cuts after the first of two results and leaves the second without its call.
//
// Defect: §6.2 (B) a cut between parallel results leaves one without its call.
func TestParallelCallsStayTogether(t *testing.T) {
	ms := llm.Messages{
		with("1", llm.User("Message 1")),
		with("2", llm.Assistant("", llm.ToolCall{ID: "a", Name: "search"}, llm.ToolCall{ID: "b", Name: "search"})),
		result("3", "a"), result("4", "b"), with("5", llm.User("Message 5")),
	}
	res := summarize(t, ms, summary.Running{}, by(llmtest.Scripted(t, llmtest.Say("A")), 3, 1))
	check(t, "messages", shown(res.Messages), "system(A) 5")
}

// LangMem searches for results anywhere and cuts by their number, which loses a message in
// between. Here, messages in between are kept together.
//
// Defect: §6.2 (C) a result that is not next to its call costs another message.
func TestLateToolResultExtendsTurn(t *testing.T) {
	ms := llm.Messages{
		with("1", llm.User("Message 1")),
		with("2", llm.Assistant("", llm.ToolCall{ID: "a", Name: "search"})),
		with("3", llm.User("Message 3")), result("4", "a"),
		with("5", llm.Assistant("Response 5")), with("6", llm.User("Message 6")),
	}
	model := llmtest.Scripted(t, llmtest.Say("A"))
	res := summarize(t, ms, summary.Running{}, by(model, 3, 1))
	check(t, "messages", shown(res.Messages), "system(A) 6")
	if got := strings.Join(res.Running.MessageIDs, " "); got != "1 2 3 4 5" {
		t.Errorf("summarized are %s", got)
	}
	// The newest human message among them keeps the whole turn.
	res = summarize(t, ms[:5], summary.Running{}, by(llmtest.Scripted(t), 3, 1))
	check(t, "messages", shown(res.Messages), "1 2 3 4 5")
}

// Upstream never summarizes, without a word, when the system message leaves no
// room.
//
// Defect: §6.2 (D) a system prompt that leaves no room ends summaries without a word.
func TestSystemMessageLeavesNoRoom(t *testing.T) {
	ms := append(llm.Messages{with("s", llm.System(strings.Repeat("rule ", 100)))}, chat(1, 3)...)
	opts := &summary.Options{Model: llmtest.Scripted(t), MaxTokens: 138, MaxSummaryTokens: 8}
	_, err := summary.Summarize(t.Context(), ms, summary.Running{}, opts)
	if !errors.Is(err, summary.ErrBudget) || !strings.Contains(err.Error(), "system message has 130 tokens") {
		t.Errorf("got %v", err)
	}
	opts.MaxTokens++
	summarize(t, ms, summary.Running{}, opts)
}

// Counters may add an overhead per list. LangMem then compares a sum of counts with the
// count of a list; here, counts are always added.
//
// Defect: §6.2 the counts of messages do not add up to that of the list.
func TestCountsAddUp(t *testing.T) {
	opts := by(llmtest.Scripted(t, llmtest.Say("A")), 12, 1)
	opts.Count = func(_ context.Context, ms []llm.Message) (int, error) {
		if len(ms) > 1 {
			return 0, fmt.Errorf("%d messages in one call", len(ms))
		}
		return 1 + len(ms), nil
	}
	res := summarize(t, chat(1, 7), summary.Running{}, opts)
	check(t, "messages", shown(res.Messages), "system(A) 7")
}

// Providers that accept only one system block at the start reject LangMem's summary, which
// is a second one. Here, the caller chooses its role.
//
// Defect: §6.2 the summary is a second system message, which some providers refuse.
func TestSummaryMayBeHumanMessage(t *testing.T) {
	opts := by(llmtest.Scripted(t, llmtest.Say("A")), 6, 1)
	opts.FinalPrompt = func(summary string) llm.Message { return llm.User("so far: " + summary) }
	res := summarize(t, append(llm.Messages{with("s", llm.System("be brief"))}, chat(1, 9)...), summary.Running{}, opts)
	check(t, "messages", shown(res.Messages), "s human(so far: A) 7 8 9")
	for i, m := range res.Messages {
		if m.Role == llm.RoleSystem && i > 0 {
			t.Errorf("message %d is a system message", i)
		}
	}
}

// LangMem ignores the tools offered to the model along with the conversation, whose
// schemas may be larger than the conversation.
//
// Defect: §6.2 the schemas of tools are never counted.
func TestToolsCountAgainstLimit(t *testing.T) {
	tool := &llm.Tool{Name: "search", Description: strings.Repeat("x", 400)}
	room := llm.CountTokens(nil, &llm.CountOptions{Tools: []*llm.Tool{tool}})
	if room < 100 {
		t.Fatalf("the tool has %d tokens", room)
	}
	ms := chat(1, 9)
	opts := by(llmtest.Scripted(t), 6+room, 1)
	check(t, "without tools", shown(summarize(t, ms, summary.Running{}, opts).Messages), "1 2 3 4 5 6 7 8 9")
	opts.Tools, opts.Model = []*llm.Tool{tool}, llmtest.Scripted(t, llmtest.Say("A"))
	check(t, "with tools", shown(summarize(t, ms, summary.Running{}, opts).Messages), "system(A) 7 8 9")
	opts.MaxTokens = 1 + room
	_, err := summary.Summarize(t.Context(), ms, summary.Running{}, opts)
	if want := fmt.Sprintf("tools have %d tokens", room); !errors.Is(err, summary.ErrBudget) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %v with %q", err, summary.ErrBudget, want)
	}
}

func TestFailedSummaryChangesNothing(t *testing.T) {
	down := errors.New("down")
	first := summarize(t, chat(1, 9), summary.Running{}, by(llmtest.Scripted(t, llmtest.Say("A")), 6, 1))
	declined := llm.Assistant("I cannot help with that.")
	declined.Stop = llm.StopRefusal
	for name, tt := range map[string]struct {
		turn llmtest.Turn
		want string
	}{
		"the model fails":            {llmtest.Fail(down), "down"},
		"the answer breaks off":      {llmtest.Turn{Message: llm.Assistant("half of"), Err: down}, "down"},
		"the model declines":         {llmtest.Turn{Message: declined}, "I cannot help with that."},
		"the model wants to call":    {llmtest.Ask(llmtest.ToolCall("search", `{}`)), "empty summary from the model"},
		"the model says only spaces": {llmtest.Say(" \n"), "empty summary from the model"},
	} {
		t.Run(name, func(t *testing.T) {
			ms, running := chat(1, 13), first.Running
			res, err := summary.Summarize(t.Context(), ms, running, by(llmtest.Scripted(t, tt.turn), 6, 1))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if d := cmp.Diff(summary.Result{}, res); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(chat(1, 13), ms) + cmp.Diff(first.Running, running); d != "" {
				t.Error(d)
			}
		})
	}
}

// For all conversations and limits: no message is lost or shown twice, the strictest
// provider accepts the result, and it contains the newest user message.
func TestNoMessageIsLostOrTorn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms, answer := conversation(t)
		opts := by(nil, rapid.IntRange(2, 8).Draw(t, "limit"), 1)
		opts.MaxTokensBeforeSummary = rapid.IntRange(0, 12).Draw(t, "threshold")
		var running summary.Running
		for n := 1; n <= len(ms); n++ {
			if !answer[n-1] {
				continue
			}
			opts.Model = llmtest.NewScript(llmtest.Say(fmt.Sprint("S", n)))
			res, err := summary.Summarize(context.Background(), ms[:n], running, opts)
			if err != nil {
				t.Fatal(err)
			}
			running = res.Running
			rest := res.Messages
			if !running.IsZero() {
				rest = rest[1:]
			}
			if err := llm.Check(rest); err != nil || rest[0].Role != llm.RoleHuman {
				t.Fatalf("the result starts with %s, %v", rest[0].Role, err)
			}
			got := strings.TrimSpace(strings.Join(running.MessageIDs, " ") + " " + shown(rest))
			if want := shown(ms[:n]); got != want {
				t.Fatalf("summarized and shown are %q, want %q", got, want)
			}
			if i := newestHuman(ms[:n]); !strings.Contains(" "+shown(rest)+" ", " "+ms[i].ID+" ") {
				t.Fatalf("the newest human message %s is not shown: %s", ms[i].ID, shown(rest))
			}
		}
	})
}

// conversation returns a conversation with some calls, and the points where the model
// would be called.
func conversation(t *rapid.T) (ms llm.Messages, ask []bool) {
	add := func(m llm.Message, asked bool) {
		ms = append(ms, with(fmt.Sprint("m", len(ms)), m))
		ask = append(ask, asked)
	}
	for range rapid.IntRange(1, 8).Draw(t, "turns") {
		add(llm.User("question"), true)
		for range rapid.IntRange(0, 2).Draw(t, "rounds") {
			var calls []llm.ToolCall
			for range rapid.IntRange(1, 3).Draw(t, "calls") {
				calls = append(calls, llm.ToolCall{ID: fmt.Sprint("c", len(ms), "_", len(calls)), Name: "search"})
			}
			add(llm.Assistant("", calls...), false)
			for i, c := range calls {
				add(result("", c.ID), i == len(calls)-1)
			}
		}
		add(llm.Assistant("answer"), false)
	}
	return ms, ask
}

func newestHuman(ms llm.Messages) int {
	for i := len(ms) - 1; i > 0; i-- {
		if ms[i].Role == llm.RoleHuman {
			return i
		}
	}
	return 0
}
