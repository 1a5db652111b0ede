package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/treadle-go/treadle/llm"
)

func calls(ids ...string) llm.Message {
	var cs []llm.ToolCall
	for _, id := range ids {
		cs = append(cs, llm.ToolCall{ID: id, Name: "f"})
	}
	return llm.Assistant("", cs...)
}

func result(id, text string) llm.Message {
	return llm.Message{Role: llm.RoleTool, ToolCallID: id, Content: text}
}

// flow returns a history in short: "u", "ai(a,b)", "a=text", "a!" for an answer that
// was made up.
func flow(ms []llm.Message) string {
	var parts []string
	for _, m := range ms {
		switch {
		case m.Role == llm.RoleTool && m.Status == llm.StatusError && strings.Contains(m.Content, "no result"):
			parts = append(parts, m.ToolCallID+"!")
		case m.Role == llm.RoleTool:
			parts = append(parts, m.ToolCallID+"="+m.Content)
		case m.Role == llm.RoleAI:
			var ids []string
			for _, c := range m.ToolCalls {
				ids = append(ids, c.ID)
			}
			parts = append(parts, m.Content+"("+strings.Join(ids, ",")+")")
		default:
			parts = append(parts, m.Content)
		}
	}
	return strings.Join(parts, " ")
}

func TestRepair(t *testing.T) {
	u := llm.User("u")
	bad := func(ids ...string) llm.Message {
		m := llm.Assistant("bad")
		for _, id := range ids {
			m.InvalidToolCalls = append(m.InvalidToolCalls, llm.InvalidToolCall{ID: id, Name: "f", Args: `{"x`})
		}
		return m
	}
	for _, test := range []struct {
		name    string
		history []llm.Message
		want    string
		fine    bool // nothing is to do
	}{
		{"no tools", []llm.Message{llm.System("s"), u, llm.Assistant("a"), u}, "s u a() u", true},
		{"calls with results", []llm.Message{u, calls("a", "b"), result("a", "1"), result("b", "2"), llm.Assistant("done")}, "u (a,b) a=1 b=2 done()", true},
		{"ids used again", []llm.Message{u, calls("a"), result("a", "1"), calls("a"), result("a", "2")}, "u (a) a=1 (a) a=2", true},
		{"out of order", []llm.Message{u, calls("a", "b"), result("b", "2"), result("a", "1")}, "u (a,b) a=1 b=2", false},
		{"a call without a result", []llm.Message{u, calls("a")}, "u (a) a!", false},
		{"one of two without a result", []llm.Message{u, calls("a", "b"), result("b", "2"), u}, "u (a,b) a! b=2 u", false},
		{"a late result", []llm.Message{u, calls("a"), llm.User("wait"), result("a", "1")}, "u (a) a=1 wait", false},
		{"a result twice", []llm.Message{u, calls("a"), result("a", "1"), result("a", "2")}, "u (a) a=1", false},
		{"a result twice, later", []llm.Message{u, calls("a"), result("a", "1"), u, result("a", "2"), u}, "u (a) a=1 u u", false},
		{"an orphan", []llm.Message{u, result("x", "1"), llm.Assistant("a")}, "u a()", false},
		{"an orphan before its call", []llm.Message{u, result("a", "1"), calls("a")}, "u (a) a!", false},
		{"a result without an id", []llm.Message{u, calls("a"), result("", "1")}, "u (a) a!", false},
		{"the result belongs to the later use of the id", []llm.Message{u, calls("a"), calls("a"), result("a", "2")}, "u (a) a! (a) a=2", false},
		{"a call without an id", []llm.Message{u, calls("")}, "u (call_0) call_0!", false},
		{"two calls with one id", []llm.Message{u, calls("a", "a"), result("a", "1"), result("a", "2")}, "u (a,a_1) a=1 a_1=2", false},
		{"a removal", []llm.Message{u, llm.Remove("x"), u}, "u u", false},
		{"an empty answer", []llm.Message{u, llm.Assistant(""), u}, "u u", false},
		{"an invalid call", []llm.Message{u, bad("a"), u}, "u bad() u", false},
		{"an invalid call that was answered", []llm.Message{u, bad("a"), result("a", "try again"), u}, "u bad(a) a=try again u", false},
		{"nothing", nil, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := flow(test.history)
			got := llm.Repair(test.history)
			if flow(got) != test.want {
				t.Errorf("the history is %q, want %q", flow(got), test.want)
			}
			if err := llm.Check(got); err != nil {
				t.Errorf("it is still wrong: %v", err)
			}
			if flow(test.history) != before {
				t.Errorf("the caller's history is now %q", flow(test.history))
			}
			if test.fine && len(got) > 0 && &got[0] != &test.history[0] {
				t.Error("a history that is fine was copied")
			}
		})
	}
}

// The model sees its invalid call together with the error.
func TestRepairShowsInvalidCallToModel(t *testing.T) {
	got := llm.Repair([]llm.Message{llm.User("u"),
		{Role: llm.RoleAI, InvalidToolCalls: []llm.InvalidToolCall{{ID: "a", Name: "f", Args: `{"x`}}}, result("a", "not JSON")})
	same(t, "the call", llm.ToolCall{ID: "a", Name: "f", Args: json.RawMessage(`{"invalid_json":"{\"x"}`)}, got[1].ToolCalls[0])
}

func TestCheckReportsCause(t *testing.T) {
	for _, test := range []struct {
		history []llm.Message
		index   int
		want    string
	}{
		{[]llm.Message{llm.User("u"), calls("a")}, 1, "missing result"},
		{[]llm.Message{llm.User("u"), result("a", "1")}, 1, "without a matching call"},
		{[]llm.Message{calls("a", "b"), result("b", "1"), result("a", "2")}, 1, "expected the result of call a"},
		{[]llm.Message{calls("a", "a"), result("a", "1")}, 0, "duplicate call ID"},
		{[]llm.Message{calls(""), result("", "1")}, 0, "without an ID"},
		{[]llm.Message{llm.Remove("x")}, 0, "Messages.Reduce"},
		{[]llm.Message{calls("a"), result("a", "1"), result("a", "1")}, 2, "without a matching call"},
	} {
		e, ok := errors.AsType[*llm.HistoryError](llm.Check(test.history))
		if !ok || e.Index != test.index || !strings.Contains(e.Error(), test.want) {
			t.Errorf("%s: the error is %v, want one at %d with %q", flow(test.history), e, test.index, test.want)
		}
	}
}

// anyHistory returns a history as crashes, cancellations, edits and late results may
// leave it.
func anyHistory(t *rapid.T) []llm.Message {
	id := rapid.SampledFrom([]string{"", "a", "b", "c", "a_1", "call_0"})
	var out []llm.Message
	for i := range rapid.IntRange(0, 14).Draw(t, "length") {
		switch rapid.IntRange(0, 8).Draw(t, "kind") {
		case 0:
			out = append(out, llm.User(fmt.Sprint("u", i)))
		case 1:
			out = append(out, llm.Remove("x"))
		case 2, 3, 4:
			m := calls(rapid.SliceOfN(id, 0, 3).Draw(t, "calls")...)
			m.Content = rapid.SampledFrom([]string{"", "said"}).Draw(t, "text")
			for _, bad := range rapid.SliceOfN(id, 0, 1).Draw(t, "invalid") {
				m.InvalidToolCalls = append(m.InvalidToolCalls, llm.InvalidToolCall{ID: bad, Name: "f", Args: "{"})
			}
			out = append(out, m)
		default:
			out = append(out, result(id.Draw(t, "result"), fmt.Sprint("r", i)))
		}
	}
	return out
}

// No history with an orphaned, repeated or missing result leaves Repair, no
// result is invented where there is one, and what is right stays as it is.
func TestRepairLeavesNoOrphans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := anyHistory(t)
		before := flow(history)
		got := llm.Repair(history)
		if err := llm.Check(got); err != nil {
			t.Fatalf("%q became %q: %v", before, flow(got), err)
		}
		if flow(history) != before {
			t.Fatalf("the history itself was changed: %q", flow(history))
		}
		if again := llm.Repair(got); flow(again) != flow(got) {
			t.Fatalf("repaired again it is %q, not %q", flow(again), flow(got))
		}
		seen := map[string]bool{}
		for _, m := range got {
			if m.Role != llm.RoleTool || m.Status == llm.StatusError {
				continue
			}
			if seen[m.Content] {
				t.Fatalf("the result %s is there twice: %q", m.Content, flow(got))
			}
			seen[m.Content] = true
			if !slices.ContainsFunc(history, func(o llm.Message) bool { return o.Role == llm.RoleTool && o.Content == m.Content }) {
				t.Fatalf("the result %s is from nowhere", m.Content)
			}
		}
		users := func(ms []llm.Message) (out []string) {
			for _, m := range ms {
				if m.Role == llm.RoleHuman {
					out = append(out, m.Content)
				}
			}
			return out
		}
		if !slices.Equal(users(got), users(history)) {
			t.Fatalf("the user said %q, and then %q", users(history), users(got))
		}
	})
}

// Whichever way leads to a model, what arrives there is in order. Some calls are
// canceled in the middle, and the conversation goes on with what they left.
func TestNoBrokenHistoryReachesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := modelFunc(func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
			if err := llm.Check(req.Messages); err != nil {
				t.Fatalf("a model was given %q: %v", flow(req.Messages), err)
			}
			answer := calls(rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b"}), 0, 3).Draw(t, "asked")...)
			answer.Content = "{}"
			if yield(answer.Chunk(), nil) && rapid.Bool().Draw(t, "cancelled") {
				yield(llm.Chunk{}, context.Canceled)
			}
		})
		history := llm.Messages{llm.User("begin")}
		for range rapid.IntRange(1, 6).Draw(t, "turns") {
			// What a crash or an edit may do to a thread.
			history = append(history, anyHistory(t)...)
			switch rapid.IntRange(0, 2).Draw(t, "way") {
			case 0:
				m, _ := llm.Generate(context.Background(), llm.Retry(model, nil), history...)
				history = append(history, m)
			case 1:
				for chunk := range llm.Stream(context.Background(), llm.Fallback(model, model), history...) {
					history = append(history, chunk.Message())
					break
				}
			case 2:
				_, _ = llm.Object[map[string]any](context.Background(), llm.With(model, llm.ByPrompt), history...)
			}
			if len(history) > 60 {
				history = history[len(history)-20:]
			}
			history = append(history, llm.User("and on"))
		}
	})
}

// FuzzRepair drives the same property by bytes, for long runs.
func FuzzRepair(f *testing.F) {
	seed := make([]byte, 1<<14) // enough for any history; less is skipped, which our tests must not be
	_, _ = rand.NewChaCha8([32]byte{1}).Read(seed)
	f.Add(seed)
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		if err := llm.Check(llm.Repair(anyHistory(t))); err != nil {
			t.Fatal(err)
		}
	}))
}
