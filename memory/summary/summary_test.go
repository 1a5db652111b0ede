package summary_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory/summary"
)

// chat returns a conversation of n messages with the IDs first, first+1, and so on; odd
// ones are from the user.
func chat(first, n int) llm.Messages {
	var ms llm.Messages
	for i := first; i < first+n; i++ {
		m := llm.User(fmt.Sprint("Message ", i))
		if i%2 == 0 {
			m = llm.Assistant(fmt.Sprint("Response ", i))
		}
		m.ID = fmt.Sprint(i)
		ms = append(ms, m)
	}
	return ms
}

// with sets the ID of a message.
func with(id string, m llm.Message) llm.Message {
	m.ID = id
	return m
}

func result(id, call string) llm.Message {
	return llm.Message{Role: llm.RoleTool, ID: id, ToolCallID: call, Name: "search", Content: "result of " + call}
}

// messages counts a token for each message.
func messages(_ context.Context, ms []llm.Message) (int, error) { return len(ms), nil }

// by returns limits counted in messages.
func by(model llm.Model, limit, reserve int) *summary.Options {
	return &summary.Options{Model: model, MaxTokens: limit, MaxSummaryTokens: reserve, Count: messages}
}

func summarize(t *testing.T, ms llm.Messages, running summary.Running, opts *summary.Options) summary.Result {
	t.Helper()
	before := slices.Clone(ms)
	res, err := summary.Summarize(t.Context(), ms, running, opts)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, ms); d != "" {
		t.Errorf("the messages given were changed: %s", d)
	}
	return res
}

// shown formats messages briefly: their IDs, and the text of the summary.
func shown(ms llm.Messages) string {
	var out []string
	for _, m := range ms {
		if m.ID == summary.MessageID {
			out = append(out, fmt.Sprintf("%s(%s)", m.Role, strings.TrimPrefix(m.Text(), "Summary of the conversation so far: ")))
			continue
		}
		out = append(out, m.ID)
	}
	return strings.Join(out, " ")
}

func check(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// read returns the IDs of the messages in a request, without the final instruction.
func read(req *llm.Request) string { return shown(req.Messages[:len(req.Messages)-1]) }

func TestShortConversationIsUnchanged(t *testing.T) {
	system := with("s", llm.System("be brief"))
	for name, ms := range map[string]llm.Messages{
		"empty": nil, "only a system message": {system}, "under the limit": chat(1, 3),
		"a system message and under the limit": append(llm.Messages{system}, chat(1, 3)...),
	} {
		t.Run(name, func(t *testing.T) {
			res := summarize(t, ms, summary.Running{}, by(llmtest.Scripted(t), 10, 2))
			if d := cmp.Diff(summary.Result{Messages: ms}, res); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestFirstSummary(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Say("A"))
	res := summarize(t, chat(1, 9), summary.Running{}, by(model, 6, 1))
	check(t, "messages", shown(res.Messages), "system(A) 7 8 9")
	check(t, "read", read(model.Requests()[0]), "1 2 3 4 5 6")
	want := summary.Running{Text: "A", MessageIDs: []string{"1", "2", "3", "4", "5", "6"}, LastMessageID: "6"}
	if d := cmp.Diff(want, res.Running); d != "" {
		t.Error(d)
	}
	// Two more messages do not make another one due: the model is not asked.
	again := summarize(t, chat(1, 11), res.Running, by(model, 6, 1))
	check(t, "messages", shown(again.Messages), "system(A) 7 8 9 10 11")
	if d := cmp.Diff(want, again.Running); d != "" {
		t.Error(d)
	}
}

func TestMaxTokensBeforeSummary(t *testing.T) {
	opts := by(llmtest.Scripted(t, llmtest.Say("A")), 6, 1)
	opts.MaxTokensBeforeSummary = 8
	under := summarize(t, chat(1, 7), summary.Running{}, opts)
	check(t, "under it", shown(under.Messages), "1 2 3 4 5 6 7")
	res := summarize(t, chat(1, 9), summary.Running{}, opts)
	check(t, "messages", shown(res.Messages), "system(A) 9")
}

func TestSystemMessageStaysFirst(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Say("A"))
	ms := append(llm.Messages{llm.System("be brief")}, chat(1, 9)...) // no ID required
	res := summarize(t, ms, summary.Running{}, by(model, 6, 1))
	check(t, "messages", shown(res.Messages), " system(A) 7 8 9")
	check(t, "first", res.Messages[0].Text(), "be brief")
	check(t, "read", read(model.Requests()[0]), "1 2 3 4 5 6")
}

func TestDefaultCounterAndDefaultReserve(t *testing.T) {
	ms := chat(1, 9)
	for _, i := range []int{0, 3, 6} {
		ms[i].Content = ""
	}
	res := summarize(t, ms, summary.Running{}, &summary.Options{
		Model: llmtest.Scripted(t, llmtest.Say("A")), MaxTokens: 50, MaxSummaryTokens: 10})
	check(t, "messages", shown(res.Messages), "system(A) 9")
	_, err := summary.Summarize(t.Context(), ms, summary.Running{}, &summary.Options{Model: llmtest.Scripted(t), MaxTokens: 256})
	if !errors.Is(err, summary.ErrBudget) || !strings.Contains(err.Error(), "MaxSummaryTokens 256") {
		t.Errorf("with 256 tokens set aside by default: %v", err)
	}
}

func TestLongConversation(t *testing.T) {
	res := summarize(t, chat(1, 41), summary.Running{}, by(llmtest.Scripted(t, llmtest.Say("A")), 22, -1))
	if len(res.Messages) != 20 || len(res.Running.MessageIDs) != 22 {
		t.Errorf("%d messages, %d summarized; want 20 and 22", len(res.Messages), len(res.Running.MessageIDs))
	}
}

func TestSummarizesFewestTurns(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Say("A"))
	res := summarize(t, chat(1, 15), summary.Running{}, by(model, 6, 1))
	check(t, "messages", shown(res.Messages), "system(A) 11 12 13 14 15")
	check(t, "read", read(model.Requests()[0]), "5 6 7 8 9 10") // the rest is too much for the model
	check(t, "last id", res.Running.LastMessageID, "10")
}

// A later summary extends the previous one. If the new messages and the old summary exceed
// the model's limit, the model reads the newest messages, starting with a user message,
// and all count as summarized.
func TestSummaryIsExtended(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Say("A"), llmtest.Say("A and B", llmtest.Asked("\n\nA\n\n")))
	first := summarize(t, chat(1, 9), summary.Running{}, by(model, 6, 1))
	res := summarize(t, chat(1, 13), first.Running, by(model, 6, 1))
	check(t, "read", read(model.Requests()[1]), "9 10 11 12")
	check(t, "messages", shown(res.Messages), "system(A and B) 13")
	check(t, "ids", strings.Join(res.Running.MessageIDs, " "), "1 2 3 4 5 6 7 8 9 10 11 12")
	check(t, "last id", res.Running.LastMessageID, "12")
}

func TestSummaryIsExtendedWithDefaultCounter(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Say("A"), llmtest.Say("B"))
	opts := &summary.Options{Model: model, MaxTokens: 46, MaxSummaryTokens: 10} // 8 tokens a message, nearly
	first := summarize(t, chat(1, 7), summary.Running{}, opts)
	check(t, "first", shown(first.Messages), "system(A) 7")
	res := summarize(t, chat(1, 13), first.Running, opts)
	check(t, "messages", shown(res.Messages), "system(B) 13")
	check(t, "read", read(model.Requests()[1]), "9 10 11 12")
}

func TestNoHumanMessageInReach(t *testing.T) {
	ms := chat(2, 3) // 2, 3, 4
	ms[1] = with("3", llm.Assistant("more"))
	ms = append(llm.Messages{with("1", llm.User("go"))}, append(ms, with("5", llm.User("and?")))...)
	model := llmtest.Scripted(t, llmtest.Say("A"))
	opts := by(model, 2, 1)
	res := summarize(t, ms, summary.Running{}, opts)
	check(t, "messages", shown(res.Messages), "system(A) 5")
	check(t, "read", read(model.Requests()[0]), "1 2 3 4")
}

// Defect: §6.2 tool calls are shown to a summarizer that has no tools.
func TestCallAndResultsAreSummarizedTogether(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Say("A"))
	ms := llm.Messages{
		with("1", llm.User("Message 1")),
		with("2", llm.Assistant("", llm.ToolCall{ID: "a", Name: "search", Args: []byte(`{"q":"x"}`)}, llm.ToolCall{ID: "b", Name: "search"})),
		result("3", "a"), result("4", "b"),
		with("5", llm.Assistant("Response 5")), with("6", llm.User("Message 6")),
	}
	res := summarize(t, ms, summary.Running{}, by(model, 4, 1))
	check(t, "messages", shown(res.Messages), "system(A) 6")
	// The summarizer has no tools: it reads text.
	req := model.Requests()[0]
	if err := llmtest.Heard(llm.User("Message 1"),
		llm.Assistant("[Call of search] {\"q\":\"x\"}\n[Call of search] "),
		llm.User("[Result of search] result of a"), llm.User("[Result of search] result of b"),
		llm.Assistant("Response 5"), req.Messages[5])(req); err != nil {
		t.Error(err)
	}
}

func TestMessagesWithoutOrWithRepeatedIDs(t *testing.T) {
	first := summarize(t, chat(1, 3), summary.Running{}, by(llmtest.Scripted(t, llmtest.Say("A")), 2, 1))
	for name, tt := range map[string]struct {
		ms      llm.Messages
		running summary.Running
		want    string
	}{
		"no id":              {append(chat(1, 3), llm.User("x")), summary.Running{}, "message 3 (human) has no ID"},
		"summarized already": {append(chat(1, 4), with("1", llm.User("x"))), first.Running, `message 4 has the ID "1"`},
		"twice":              {append(chat(1, 4), with("3", llm.User("x"))), summary.Running{}, `message 4 has the ID "3"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := summary.Summarize(t.Context(), tt.ms, tt.running, by(llmtest.Scripted(t), 2, 1))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// The result of Summarize can be summarized again, with more messages after it.
func TestShortenedConversationContinues(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Say("A"), llmtest.Say("B"))
	first := summarize(t, chat(1, 9), summary.Running{}, by(model, 6, 1))
	same := summarize(t, first.Messages, first.Running, by(model, 6, 1))
	if d := cmp.Diff(first, same); d != "" {
		t.Error(d)
	}
	res := summarize(t, append(first.Messages, chat(10, 4)...), first.Running, by(model, 6, 1))
	check(t, "messages", shown(res.Messages), "system(B) 13")
	check(t, "ids", strings.Join(res.Running.MessageIDs, " "), "1 2 3 4 5 6 7 8 9 10 11 12")
}

func TestCustomPrompts(t *testing.T) {
	model := llmtest.Scripted(t,
		llmtest.Say("A", llmtest.Asked("first 6")), llmtest.Say("B", llmtest.Asked("A plus 4")))
	opts := by(model, 6, 1)
	opts.InitialPrompt = func(ms llm.Messages) llm.Messages {
		return llm.Messages{llm.User(fmt.Sprint("first ", len(ms)))}
	}
	opts.ExistingPrompt = func(summary string, ms llm.Messages) llm.Messages {
		return llm.Messages{llm.User(fmt.Sprint(summary, " plus ", len(ms)))}
	}
	opts.FinalPrompt = func(summary string) llm.Message { return llm.User("so far: " + summary) }
	first := summarize(t, chat(1, 9), summary.Running{}, opts)
	check(t, "messages", shown(first.Messages), "human(so far: A) 7 8 9")
	res := summarize(t, chat(1, 13), first.Running, opts)
	check(t, "messages", shown(res.Messages), "human(so far: B) 13")
}

func TestMissingModel(t *testing.T) {
	_, summarize := summary.Summarize(t.Context(), chat(1, 1), summary.Running{}, nil)
	_, node := summary.Node(nil)(t.Context(), summary.Input{})
	_, replacing := summary.ReplacingNode(nil)(t.Context(), summary.Input{})
	for _, err := range []error{summarize, node, replacing} {
		if err == nil || err.Error() != "summary: nil model: set Options.Model" {
			t.Errorf("the error is %v", err)
		}
	}
}
