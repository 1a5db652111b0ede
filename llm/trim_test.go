package llm_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/treadle-go/treadle/llm"
)

// tens counts ten tokens for a message that is a text, and for each block.
func tens(_ context.Context, ms []llm.Message) (int, error) {
	n := 0
	for _, m := range ms {
		n += 10 * max(1, len(m.Blocks))
	}
	return n, nil
}

func count(_ context.Context, ms []llm.Message) (int, error) { return len(ms), nil }

// chars counts characters, so that partial messages matter.
func chars(_ context.Context, ms []llm.Message) (int, error) {
	n := 0
	for _, m := range ms {
		n += len(m.Text())
	}
	return n, nil
}

func TestTrim(t *testing.T) {
	sys := llm.System("sys")
	h1 := llm.User("h1")
	a1 := llm.Assistant("a1")
	h2 := llm.User("h2")
	a2 := llm.Assistant("a2")
	tool := llm.Message{Role: llm.RoleTool, Content: "t1", ToolCallID: "c"}
	all := llm.Messages{sys, h1, a1, h2, a2}
	blocks := llm.Message{Role: llm.RoleHuman, Blocks: []llm.Block{llm.Text("b1"), llm.Text("b2"), llm.Text("b3")}}
	lines := llm.User("l1\nl2\nl3")
	for _, test := range []struct {
		name string
		in   llm.Messages
		opts *llm.TrimOptions
		want llm.Messages
	}{
		{"all fit", all, &llm.TrimOptions{MaxTokens: 5, Count: count}, all},
		{"the last", all, &llm.TrimOptions{MaxTokens: 2, Count: count}, llm.Messages{h2, a2}},
		{"none", all, &llm.TrimOptions{Count: count}, nil},
		{"of nothing", nil, &llm.TrimOptions{MaxTokens: 2, Count: count}, nil},
		{"the first", all, &llm.TrimOptions{MaxTokens: 2, Count: count, First: true}, llm.Messages{sys, h1}},
		{"the first, all fit", all, &llm.TrimOptions{MaxTokens: 9, Count: count, First: true}, all},
		{"the first, none", all, &llm.TrimOptions{Count: count, First: true}, nil},
		{"the first, to a human", all, &llm.TrimOptions{MaxTokens: 3, Count: count, First: true, EndOn: []llm.Role{llm.RoleHuman}}, llm.Messages{sys, h1}},
		{"the first, all fit, to a human", all, &llm.TrimOptions{MaxTokens: 9, Count: count, First: true, EndOn: []llm.Role{llm.RoleHuman}}, llm.Messages{sys, h1, a1, h2}},
		{"with the system message", all, &llm.TrimOptions{MaxTokens: 3, Count: count, KeepSystem: true}, llm.Messages{sys, h2, a2}},
		{"with a system message that alone is too much", all, &llm.TrimOptions{Count: count, KeepSystem: true}, llm.Messages{sys}},
		{"no system message to keep", all[1:], &llm.TrimOptions{MaxTokens: 2, Count: count, KeepSystem: true}, llm.Messages{h2, a2}},
		{"from a human on", all, &llm.TrimOptions{MaxTokens: 3, Count: count, StartOn: []llm.Role{llm.RoleHuman}}, llm.Messages{h2, a2}},
		{"from a human on, with the system message", all, &llm.TrimOptions{MaxTokens: 4, Count: count, StartOn: []llm.Role{llm.RoleHuman}, KeepSystem: true}, llm.Messages{sys, h2, a2}},
		{"from a human on, all fit", all, &llm.TrimOptions{MaxTokens: 9, Count: count, StartOn: []llm.Role{llm.RoleHuman}, KeepSystem: true}, all},
		{"from a human message on, without one", llm.Messages{a1, a2}, &llm.TrimOptions{MaxTokens: 9, Count: count, StartOn: []llm.Role{llm.RoleHuman}}, nil},
		{"up to a human", all, &llm.TrimOptions{MaxTokens: 2, Count: count, EndOn: []llm.Role{llm.RoleHuman}}, llm.Messages{a1, h2}},
		{"up to a human or a tool", llm.Messages{h1, a1, tool, a2}, &llm.TrimOptions{MaxTokens: 3, Count: count, EndOn: []llm.Role{llm.RoleHuman, llm.RoleTool}}, llm.Messages{h1, a1, tool}},
		{"up to a missing role", all, &llm.TrimOptions{MaxTokens: 9, Count: count, EndOn: []llm.Role{llm.RoleTool}}, nil},
		{"blocks that fit in part", llm.Messages{blocks, a1}, &llm.TrimOptions{MaxTokens: 30, Count: tens, Partial: true},
			llm.Messages{{Role: llm.RoleHuman, Blocks: []llm.Block{llm.Text("b2"), llm.Text("b3")}}, a1}},
		{"blocks that fit in part, first", llm.Messages{a1, blocks}, &llm.TrimOptions{MaxTokens: 30, Count: tens, Partial: true, First: true},
			llm.Messages{a1, {Role: llm.RoleHuman, Blocks: []llm.Block{llm.Text("b1"), llm.Text("b2")}}}},
		{"blocks that do not fit in part", llm.Messages{blocks, a1}, &llm.TrimOptions{MaxTokens: 10, Count: tens, Partial: true}, llm.Messages{a1}},
		{"the blocks' text in part", llm.Messages{{Role: llm.RoleHuman, Blocks: []llm.Block{llm.Text("l1\nl2"), llm.ImageURL("u")}}, a1},
			&llm.TrimOptions{MaxTokens: 4, Count: chars, Partial: true}, llm.Messages{{Role: llm.RoleHuman, Blocks: []llm.Block{llm.ImageURL("u")}}, a1}},
		{"lines that fit", llm.Messages{lines, a1}, &llm.TrimOptions{MaxTokens: 7, Count: chars, Partial: true}, llm.Messages{llm.User("l2\nl3"), a1}},
		{"lines that fit, first", llm.Messages{a1, lines}, &llm.TrimOptions{MaxTokens: 8, Count: chars, Partial: true, First: true}, llm.Messages{a1, llm.User("l1\nl2\n")}},
		{"no line fits", llm.Messages{lines, a1}, &llm.TrimOptions{MaxTokens: 3, Count: chars, Partial: true}, llm.Messages{a1}},
		{"words that fit", llm.Messages{llm.User("one two three"), a1},
			&llm.TrimOptions{MaxTokens: 7, Count: chars, Partial: true, Split: func(s string) []string { return strings.SplitAfter(s, " ") }}, llm.Messages{llm.User("three"), a1}},
		{"an empty text has no part", llm.Messages{llm.User(""), lines, a1}, &llm.TrimOptions{MaxTokens: 2, Count: chars, Partial: true}, llm.Messages{a1}},
		{"a part must start on a human too", llm.Messages{h1, llm.Assistant("l1\nl2"), h2}, &llm.TrimOptions{MaxTokens: 4, Count: chars, Partial: true, StartOn: []llm.Role{llm.RoleHuman}}, llm.Messages{h2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := append(llm.Messages(nil), test.in...)
			got, err := llm.Trim(t.Context(), test.in, test.opts)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "what is left", test.want, got)
			same(t, "the caller's messages", before, test.in)
		})
	}
}

func TestTrimRejectsInvalidOptions(t *testing.T) {
	broken := errors.New("the counter is broken")
	for want, opts := range map[string]*llm.TrimOptions{
		"StartOn cannot be used with First":    {First: true, StartOn: []llm.Role{llm.RoleHuman}},
		"KeepSystem cannot be used with First": {First: true, KeepSystem: true},
		"invalid MaxTokens -1":                 {MaxTokens: -1},
		broken.Error():                         {MaxTokens: 1, Count: func(context.Context, []llm.Message) (int, error) { return 0, broken }},
	} {
		if _, err := llm.Trim(t.Context(), llm.Messages{llm.User("a"), llm.User("b")}, opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}

// The incremental estimate equals a full count.
func TestTrimByGuessAgreesWithCounting(t *testing.T) {
	guess := func(_ context.Context, ms []llm.Message) (int, error) { return llm.CountTokens(ms, nil), nil }
	rapid.Check(t, func(t *rapid.T) {
		var ms llm.Messages
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			m := llm.User(rapid.StringN(0, 40, -1).Draw(t, "text"))
			m.Role = rapid.SampledFrom([]llm.Role{llm.RoleHuman, llm.RoleAI, llm.RoleSystem}).Draw(t, "role")
			ms = append(ms, m)
		}
		opts := &llm.TrimOptions{MaxTokens: rapid.IntRange(0, 150).Draw(t, "max"), First: rapid.Bool().Draw(t, "first"), Partial: rapid.Bool().Draw(t, "partial")}
		quick, err := llm.Trim(t.Context(), ms, opts)
		if err != nil {
			t.Fatal(err)
		}
		opts.Count = guess
		slow, err := llm.Trim(t.Context(), ms, opts)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(slow, quick); d != "" {
			t.Fatalf("(-counted +guessed):\n%s", d)
		}
	})
}

func TestFilter(t *testing.T) {
	sys := llm.Message{Role: llm.RoleSystem, Name: "blah", ID: "1", Content: "s"}
	h := llm.Message{Role: llm.RoleHuman, Name: "blur", ID: "2", Content: "h"}
	h2 := llm.Message{Role: llm.RoleHuman, Name: "bar", ID: "3", Content: "h2"}
	a := llm.Message{Role: llm.RoleAI, ID: "4", Content: "a", ToolCalls: []llm.ToolCall{{ID: "x", Name: "f"}, {ID: "y", Name: "f"}},
		Blocks: []llm.Block{{Type: "tool_use", ID: "x"}, {Type: "tool_use", ID: "y"}}}
	rx, ry := result("x", "1"), result("y", "2")
	all := llm.Messages{sys, h, h2, a, rx, ry}
	onlyY := a
	onlyY.ToolCalls, onlyY.Blocks = a.ToolCalls[1:], a.Blocks[1:]
	thoughtful, onlyThoughtY := a, a
	thoughtful.Blocks = []llm.Block{reasoning("x?"), {Type: llm.BlockToolCall, ID: "x"}, reasoning("y?"), {Type: llm.BlockToolCall, ID: "y"}}
	onlyThoughtY.ToolCalls, onlyThoughtY.Blocks = a.ToolCalls[1:], thoughtful.Blocks[2:]
	for _, test := range []struct {
		name string
		opts *llm.FilterOptions
		want llm.Messages
	}{
		{"everything", &llm.FilterOptions{}, all},
		{"by name", &llm.FilterOptions{Names: []string{"blur"}}, llm.Messages{h}},
		{"by role", &llm.FilterOptions{Roles: []llm.Role{llm.RoleSystem}}, llm.Messages{sys}},
		{"by id", &llm.FilterOptions{IDs: []string{"3"}}, llm.Messages{h2}},
		{"any inclusion counts", &llm.FilterOptions{IDs: []string{"3"}, Roles: []llm.Role{llm.RoleSystem}}, llm.Messages{sys, h2}},
		{"not by name", &llm.FilterOptions{NotNames: []string{"blah", "bar"}}, llm.Messages{h, a, rx, ry}},
		{"not by role", &llm.FilterOptions{NotRoles: []llm.Role{llm.RoleTool, llm.RoleAI}}, llm.Messages{sys, h, h2}},
		{"not by id", &llm.FilterOptions{NotIDs: []string{"4", ""}}, llm.Messages{sys, h, h2}},
		{"exclusions win", &llm.FilterOptions{Roles: []llm.Role{llm.RoleHuman}, NotIDs: []string{"2"}}, llm.Messages{h2}},
		{"no tool calls", &llm.FilterOptions{NoToolCalls: true}, llm.Messages{sys, h, h2}},
		{"one call less", &llm.FilterOptions{NotToolCalls: []string{"x"}}, llm.Messages{sys, h, h2, onlyY, ry}},
		{"all calls named", &llm.FilterOptions{NotToolCalls: []string{"x", "y"}}, llm.Messages{sys, h, h2}},
		{"a call that is not there", &llm.FilterOptions{NotToolCalls: []string{"z"}}, all},
	} {
		t.Run(test.name, func(t *testing.T) {
			same(t, "what is left", test.want, llm.Filter(all, test.opts))
			if len(a.ToolCalls) != 2 {
				t.Error("the caller's message was changed")
			}
		})
	}
	got := llm.Filter(llm.Messages{thoughtful}, &llm.FilterOptions{NotToolCalls: []string{"x"}})
	same(t, "the message without a call and its reasoning", llm.Messages{onlyThoughtY}, got)
}

func TestMergeRuns(t *testing.T) {
	image := llm.ImageURL("u")
	ai := func(id, text string, callIDs ...string) llm.Message {
		m := calls(callIDs...)
		m.ID, m.Content = id, text
		return m
	}
	for _, test := range []struct {
		name, sep string
		in, want  llm.Messages
	}{
		{"nothing", "\n", nil, nil},
		{"one", "\n", llm.Messages{llm.User("a")}, llm.Messages{llm.User("a")}},
		{"runs", "\n", llm.Messages{llm.System("a"), llm.System("b"), llm.User("c"), llm.User("d"), llm.User("e"), llm.Assistant("f")},
			llm.Messages{llm.System("a\nb"), llm.User("c\nd\ne"), llm.Assistant("f")}},
		{"another separator", "<sep>", llm.Messages{llm.User("a"), llm.User("b")}, llm.Messages{llm.User("a<sep>b")}},
		{"no separator next to an empty text", "\n", llm.Messages{llm.User(""), llm.User("b"), llm.User("")}, llm.Messages{llm.User("b")}},
		{"texts and blocks", "\n", llm.Messages{llm.User("a"), {Role: llm.RoleHuman, Blocks: []llm.Block{llm.Text("b"), image}}, llm.User("c")},
			llm.Messages{llm.User("a", llm.Text("b"), image, llm.Text("c"))}},
		{"tool calls", "\n", llm.Messages{ai("1", "a", "x"), ai("2", "b", "y")}, llm.Messages{ai("1", "a\nb", "x", "y")}},
		{"results stay apart", "\n", llm.Messages{result("x", "1"), result("y", "2")}, llm.Messages{result("x", "1"), result("y", "2")}},
		{"the first one's metadata", "\n",
			llm.Messages{{Role: llm.RoleAI, Content: "a", Metadata: map[string]any{"m": 1}, Usage: &llm.Usage{Total: 1}}, {Role: llm.RoleAI, Content: "b", Metadata: map[string]any{"m": 2}, Usage: &llm.Usage{Total: 2}}},
			llm.Messages{{Role: llm.RoleAI, Content: "a\nb", Metadata: map[string]any{"m": 1}, Usage: &llm.Usage{Total: 3}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := append(llm.Messages(nil), test.in...)
			same(t, "the messages", test.want, llm.MergeRuns(test.in, test.sep))
			same(t, "the caller's messages", before, test.in)
		})
	}
}

func TestNilOptionsEqualZeroValue(t *testing.T) {
	all := llm.Messages{llm.User("hi"), llm.Assistant("hello")}
	if got := llm.Filter(all, nil); len(got) != len(all) {
		t.Errorf("Filter keeps %v", got)
	}
	if got, err := llm.Trim(t.Context(), all, nil); len(got) != 0 || err != nil {
		t.Errorf("Trim keeps %v, %v", got, err)
	}
}
