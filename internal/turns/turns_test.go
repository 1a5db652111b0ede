package turns_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/internal/turns"
	"github.com/treadle-go/treadle/llm"
)

func TestGroupsKeepCallsAndResultsTogether(t *testing.T) {
	user, said := llm.User("?"), llm.Assistant("!")
	calls := func(ids ...string) llm.Message {
		m := llm.Message{Role: llm.RoleAI}
		for _, id := range ids {
			m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: id, Name: "echo"})
		}
		return m
	}
	result := func(id string) llm.Message { return llm.Message{Role: llm.RoleTool, ToolCallID: id} }
	invalid := llm.Message{Role: llm.RoleAI, InvalidToolCalls: []llm.InvalidToolCall{{ID: "a", Name: "echo"}}}
	for _, test := range []struct {
		name string
		ms   llm.Messages
		want []int
	}{
		{"nothing", nil, nil},
		{"without tools", llm.Messages{user, said, user}, []int{1, 2, 3}},
		{"two calls", llm.Messages{user, calls("a", "b"), result("a"), result("b"), said}, []int{1, 4, 5}},
		{"a message in between", llm.Messages{calls("a"), user, result("a"), said}, []int{3, 4}},
		{"one group inside another", llm.Messages{calls("a"), calls("b"), result("b"), result("a")}, []int{4}},
		{"no result yet", llm.Messages{user, calls("a")}, []int{1, 2}},
		{"an invalid call", llm.Messages{user, invalid, result("a"), said}, []int{1, 3, 4}},
		{"a reused ID", llm.Messages{calls("a"), result("a"), said, calls("a"), result("a")}, []int{2, 3, 5}},
		{"a result of no call", llm.Messages{user, result("a"), said}, []int{1, 2, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if d := cmp.Diff(test.want, turns.Ends(test.ms)); d != "" {
				t.Errorf("the ends (-want +got):\n%s", d)
			}
		})
	}
}

func TestLastHumanIsNewest(t *testing.T) {
	for want, ms := range map[int]llm.Messages{
		-1: {llm.System("x"), llm.Assistant("y")},
		0:  {llm.User("a"), llm.Assistant("b")},
		2:  {llm.User("a"), llm.Assistant("b"), llm.User("c"), llm.Assistant("d")},
	} {
		if got := turns.LastHuman(ms); got != want {
			t.Errorf("it is %d in %v, want %d", got, ms, want)
		}
	}
}
