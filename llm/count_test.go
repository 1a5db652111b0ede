package llm_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

func TestCountTokens(t *testing.T) {
	named := llm.Message{Role: llm.RoleHuman, Content: "foo", Name: "tests"}
	toolMsg := llm.Message{Role: llm.RoleTool, Content: "result", Name: "tool", ToolCallID: "abc"}
	call := llm.Assistant("", llm.ToolCall{ID: "1", Name: "foo", Args: []byte(`{"bar":"baz"}`)})
	picture := llm.User("", llm.Text("what is it?"), llm.Image("image/png", make([]byte, 5000)))
	said := func(provider string, total int) llm.Message {
		m := llm.Assistant("bar")
		if provider != "" {
			m.Metadata = map[string]any{"model_provider": provider}
		}
		if total > 0 {
			m.Usage = &llm.Usage{Total: total}
		}
		return m
	}
	tool := llm.Tool{Name: "f", Description: "d"}
	for _, test := range []struct {
		name string
		ms   []llm.Message
		opts *llm.CountOptions
		want int
	}{
		{"nothing", nil, nil, 0},
		{"an empty message", []llm.Message{llm.User("")}, nil, 4},                                // user: 1, and 3
		{"a short one", []llm.Message{llm.User("12345678")}, nil, 6},                             // 12 characters: 3, and 3
		{"roles count", []llm.Message{llm.Assistant(""), llm.System("")}, nil, 6 + 5},            // 9 and 6 characters
		{"counts add up", []llm.Message{llm.User("12345678"), llm.Assistant("abc")}, nil, 6 + 6}, // 12 and 12
		{"with a name", []llm.Message{named}, nil, 6},                                            // 12 characters
		{"without the name", []llm.Message{named}, &llm.CountOptions{NoNames: true}, 5},          // 7 characters
		{"a tool's result", []llm.Message{toolMsg}, nil, 8},                                      // 6+3+4+4 = 17 characters: 5
		{"characters, not bytes", []llm.Message{llm.User("éééé")}, nil, 5},                       // 8 characters
		{"another ratio", []llm.Message{llm.User("123456")}, &llm.CountOptions{CharsPerToken: 2}, 8},
		{"another cost per message", []llm.Message{llm.User("1234"), llm.User("1234")}, &llm.CountOptions{PerMessage: new(1.5)}, 7},
		{"no cost per message", []llm.Message{llm.User("1234")}, &llm.CountOptions{PerMessage: new(0.0)}, 2},
		{"text blocks", []llm.Message{{Role: llm.RoleHuman, Blocks: []llm.Block{llm.Text("1234"), llm.Text("5678")}}}, nil, 6},
		{"an image", []llm.Message{picture}, nil, 85 + 4 + 3},
		{"an image by OpenAI", []llm.Message{llm.User("", llm.Block{Type: "image_url"})}, nil, 85 + 1 + 3},
		{"another cost per image", []llm.Message{picture}, &llm.CountOptions{PerImage: 1000}, 1000 + 4 + 3},
		{"another block by its JSON", []llm.Message{llm.User("", llm.Block{Type: "foo", Extra: map[string]any{"bar": "baz"}})}, nil, 11}, // 26 and 4: 30
		{"tool calls by their JSON", []llm.Message{call}, nil, 22},                                                                       // 64 and 9 characters: 19
		{"tool calls in the blocks count once", []llm.Message{{Role: llm.RoleAI, ToolCalls: call.ToolCalls, Blocks: []llm.Block{{Type: "tool_use", Extra: map[string]any{"name": "f"}}}}}, nil, 13}, // 30 and 9 characters: 10
		{"tool calls alongside blocks", []llm.Message{{Role: llm.RoleAI, ToolCalls: call.ToolCalls, Blocks: []llm.Block{llm.Text("1234567"), {Type: llm.BlockToolCall, ID: "x"}}}}, nil, 24},        // 7 characters more
		{"tools", []llm.Message{llm.User("")}, &llm.CountOptions{Tools: []*llm.Tool{&tool}}, 4 + 8},                                                                                                 // [{"name":"f","description":"d"}]: 31
		{"scaled up", []llm.Message{llm.User("foo"), said("p", 11), llm.User("x")}, &llm.CountOptions{Scale: true}, 16},
		{"scaled by a quarter at most", []llm.Message{llm.User("foo"), said("p", 1000), llm.User("x")}, &llm.CountOptions{Scale: true}, 20},
		{"never scaled down", []llm.Message{llm.User("foo"), said("p", 1), llm.User("x")}, &llm.CountOptions{Scale: true}, 16},
		{"not scaled over providers", []llm.Message{llm.User("foo"), said("p", 1000), said("q", 1000)}, &llm.CountOptions{Scale: true}, 17},
		{"not scaled without a provider", []llm.Message{llm.User("foo"), said("", 1000)}, &llm.CountOptions{Scale: true}, 11},
		{"not scaled without being asked to", []llm.Message{llm.User("foo"), said("p", 1000)}, nil, 11},
		{"one message is not scaled", []llm.Message{said("p", 1000)}, &llm.CountOptions{Scale: true}, 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := llm.CountTokens(test.ms, test.opts); got != test.want {
				t.Errorf("%d tokens, want %d", got, test.want)
			}
		})
	}
}

func TestCountTokensOfLongText(t *testing.T) {
	if got := llm.CountTokens([]llm.Message{llm.User(strings.Repeat("x", 100_000))}, nil); got != 25_001+3 {
		t.Errorf("%d tokens, want 25004", got)
	}
}

// The descriptions of tools are encoded once, because agents count them in each call.
func TestCountTokensOfToolsIsCheap(t *testing.T) {
	type query struct {
		City string `json:"city" jsonschema:"where to look, in English"`
	}
	find := llm.NewTool("find", "Finds a city.", func(context.Context, query) (string, error) { return "", nil })
	count := func(tools ...*llm.Tool) int {
		return llm.CountTokens(nil, &llm.CountOptions{Tools: tools, CharsPerToken: 1})
	}
	first := count(find, find)
	if again := count(find, find); again != first {
		t.Errorf("count changed from %d to %d", first, again)
	}
	raw, err := json.Marshal([]any{map[string]any{"name": find.Name, "description": find.Description, "parameters": find.Parameters}})
	if n := count(find); err != nil || n != len(raw) {
		t.Errorf("count %d, want %d, %v", n, len(raw), err)
	}
	if n := testing.AllocsPerRun(10, func() { count(find, find) }); n > 5 {
		t.Errorf("%v allocations", n)
	}
	other := *find
	other.Description += " And more."
	extra := other
	extra.Extra = map[string]any{"cache_control": "ephemeral"}
	if a, b, c := count(find), count(&other), count(&extra); b != a+len(" And more.") || c <= b || count(find) != a {
		t.Errorf("counts %d, %d, %d of copies", a, b, c)
	}
}
