package llm_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

func at(i int, b llm.Block) llm.Block {
	b.Index = &i
	return b
}

func reasoning(s string) llm.Block { return llm.Block{Type: llm.BlockReasoning, Reasoning: s} }

func TestChunksJoin(t *testing.T) {
	extra := func(m map[string]any) llm.Chunk { return llm.Chunk{Extra: m} }
	for _, test := range []struct {
		name   string
		chunks []llm.Chunk
		want   llm.Chunk
	}{
		{"texts", []llm.Chunk{{Content: "a"}, {Content: "b"}, {}, {Content: "c"}}, llm.Chunk{Content: "abc"}},
		{"blocks after a text", []llm.Chunk{{Content: "a"}, {Blocks: []llm.Block{llm.ImageURL("u")}}},
			llm.Chunk{Content: "a", Blocks: []llm.Block{llm.ImageURL("u")}}},
		{"a text after blocks", []llm.Chunk{{Blocks: []llm.Block{at(0, reasoning("hm"))}}, {Content: "a"}, {}, {Content: "b"}},
			llm.Chunk{Blocks: []llm.Block{at(0, reasoning("hm")), llm.Text("ab")}}},
		{"blocks of one place", []llm.Chunk{{Blocks: []llm.Block{at(0, reasoning("h"))}}, {Blocks: []llm.Block{at(1, llm.Text("a"))}},
			{Blocks: []llm.Block{at(0, reasoning("m"))}}, {Blocks: []llm.Block{at(1, llm.Block{Text: "b"})}}},
			llm.Chunk{Blocks: []llm.Block{at(0, reasoning("hm")), at(1, llm.Text("ab"))}}},
		{"blocks of one place with different ids", []llm.Chunk{{Blocks: []llm.Block{at(0, llm.Block{Type: "text", ID: "x", Text: "a"})}}, {Blocks: []llm.Block{at(0, llm.Block{Type: "text", ID: "y", Text: "b"})}}},
			llm.Chunk{Blocks: []llm.Block{at(0, llm.Block{Type: "text", ID: "x", Text: "a"}), at(0, llm.Block{Type: "text", ID: "y", Text: "b"})}}},
		{"blocks without a place", []llm.Chunk{{Blocks: []llm.Block{llm.Text("a")}}, {Blocks: []llm.Block{llm.Text("b")}}},
			llm.Chunk{Blocks: []llm.Block{llm.Text("a"), llm.Text("b")}}},
		{"a signature", []llm.Chunk{{Blocks: []llm.Block{at(0, llm.Block{Type: "reasoning", Extra: map[string]any{"signature": "ab"}})}}, {Blocks: []llm.Block{at(0, llm.Block{Type: "reasoning", Extra: map[string]any{"signature": "cd"}})}}},
			llm.Chunk{Blocks: []llm.Block{at(0, llm.Block{Type: "reasoning", Extra: map[string]any{"signature": "abcd"}})}}},
		{"a place that LangChain named", []llm.Chunk{{Blocks: []llm.Block{{Type: "text", Text: "a", Extra: map[string]any{"index": "lc_txt_0"}}}}, {Blocks: []llm.Block{{Type: "text", Text: "b", Extra: map[string]any{"index": "lc_txt_0"}}}}},
			llm.Chunk{Blocks: []llm.Block{{Type: "text", Text: "ab", Extra: map[string]any{"index": "lc_txt_0"}}}}},
		{"provider-specific fields", []llm.Chunk{{Blocks: []llm.Block{at(0, llm.Text("a"))}}, {Blocks: []llm.Block{at(0, llm.Block{Type: "non_standard", Extra: map[string]any{"value": map[string]any{"k": "v"}}})}}},
			llm.Chunk{Blocks: []llm.Block{at(0, llm.Block{Type: "text", Text: "a", Extra: map[string]any{"extras": map[string]any{"k": "v"}}})}}},
		{"tool calls", []llm.Chunk{{ToolCalls: []llm.ToolCallChunk{{Index: new(0), ID: "c1", Name: "add", Args: `{"a`}}}, {ToolCalls: []llm.ToolCallChunk{{Index: new(1), ID: "c2", Name: "sub"}}},
			{ToolCalls: []llm.ToolCallChunk{{Index: new(0), Args: `":1}`}, {Index: new(1), ID: "c2", Name: "sub", Args: `{}`}}}},
			llm.Chunk{ToolCalls: []llm.ToolCallChunk{{Index: new(0), ID: "c1", Name: "add", Args: `{"a":1}`}, {Index: new(1), ID: "c2", Name: "sub", Args: `{}`}}}},
		{"tool calls without a place", []llm.Chunk{{ToolCalls: []llm.ToolCallChunk{{ID: "c1", Name: "add", Args: `{}`}}}, {ToolCalls: []llm.ToolCallChunk{{ID: "c2", Name: "add", Args: `{}`}}}},
			llm.Chunk{ToolCalls: []llm.ToolCallChunk{{ID: "c1", Name: "add", Args: `{}`}, {ID: "c2", Name: "add", Args: `{}`}}}},
		{"usage, id, name and stop", []llm.Chunk{{ID: "m1", Name: "bob", Usage: &llm.Usage{Input: 3, Total: 3, InputDetails: map[string]int{"cache_read": 1}}}, {ID: "m2", Usage: &llm.Usage{Output: 2, Total: 2}, Stop: llm.StopLength}, {}},
			llm.Chunk{ID: "m1", Name: "bob", Stop: llm.StopLength, Usage: &llm.Usage{Input: 3, Output: 2, Total: 5, InputDetails: map[string]int{"cache_read": 1}}}},
		{"maps", []llm.Chunk{extra(map[string]any{"a": map[string]any{"s": "x", "n": 1, "id": "i", "gone": nil}}), extra(map[string]any{"a": map[string]any{"s": "y", "n": 2, "id": "i", "gone": "here"}, "b": true})},
			extra(map[string]any{"a": map[string]any{"s": "xy", "n": 3, "id": "i", "gone": "here"}, "b": true})},
		{"the last time counts", []llm.Chunk{extra(map[string]any{"created": 1, "index": 0, "same": 7}), extra(map[string]any{"created": 5, "index": 1, "same": 7, "none": nil})},
			extra(map[string]any{"created": 5, "index": 1, "same": 7, "none": nil})},
		{"lists", []llm.Chunk{extra(map[string]any{"l": []any{map[string]any{"index": 0.0, "s": "a"}, "p"}}), extra(map[string]any{"l": []any{map[string]any{"index": 0.0, "s": "b"}, map[string]any{"index": 1.0}, "q"}})},
			extra(map[string]any{"l": []any{map[string]any{"index": 0.0, "s": "ab"}, "p", map[string]any{"index": 1.0}, "q"}})},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got llm.Chunk
			for _, c := range test.chunks {
				var err error
				if got, err = got.Add(c); err != nil {
					t.Fatal(err)
				}
			}
			same(t, "the chunk", test.want, got)
		})
	}
}

func TestIncompatibleChunksAreErrors(t *testing.T) {
	for _, test := range []struct {
		a, b any
		want string
	}{
		{"text", 5, "a string and a int cannot be joined"},
		{map[string]any{}, "x", "cannot be joined"},
		{true, false, "true (bool) and false (bool) cannot be joined"},
	} {
		_, err := llm.Chunk{Metadata: map[string]any{"field": test.a}}.Add(llm.Chunk{Metadata: map[string]any{"field": test.b}})
		if err == nil || !strings.Contains(err.Error(), "field field: ") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v and %v: the error is %v, want the field and %q", test.a, test.b, err, test.want)
		}
	}
}

// While a model still speaks, half of its arguments are better than none.
func TestArgumentsSoFar(t *testing.T) {
	for raw, want := range map[string]string{
		``:                      `{}`,
		`{`:                     `{}`,
		`{"ci`:                  `{}`,
		`{"city"`:               `{}`,
		`{"city":`:              `{}`,
		`{"city": "San Fr`:      `{"city":"San Fr"}`,
		`{"city": "a\`:          `{"city":"a"}`,
		`{"city": "a\u00`:       `{"city":"a"}`,
		"{\"city\": \"a\nb":     `{"city":"a\u000ab"}`,
		"{\"city\": \"M\xc3":    `{"city":"M"}`,
		`{"a": 1, "b": tru`:     `{"a":1}`,
		`{"a": 1, "b": true`:    `{"a":1,"b":true}`,
		`{"a": 1,`:              `{"a":1}`,
		`{"a": 12`:              `{"a":12}`,
		`{"a": 1.`:              `{"a":1}`,
		`{"a": -`:               `{}`,
		`{"a": [1, {"b": "x"},`: `{"a":[1,{"b":"x"}]}`,
		`{"a": [1, {"b":`:       `{"a":[1,{}]}`,
		`{"a": {}`:              `{"a":{}}`,
		`{"a": 1} and so on`:    `{"a":1}`,
		`{"a": nonsense, "b":1`: `{}`,
		` {"a" : 1 } `:          `{"a":1}`,
	} {
		m := llm.Chunk{ToolCalls: []llm.ToolCallChunk{{ID: "c", Name: "f", Args: raw}}}.Message()
		if len(m.ToolCalls) != 1 || string(m.ToolCalls[0].Args) != want {
			t.Errorf("%q is so far %+v, invalid %+v; want %s", raw, m.ToolCalls, m.InvalidToolCalls, want)
		}
	}
	for _, raw := range []string{`[1`, `5`, `"x`, `nonsense`, `{"a": [1}`, `{"a": ]`, strings.Repeat("[", 1000)} {
		m := llm.Chunk{ToolCalls: []llm.ToolCallChunk{{ID: "c", Name: "f", Args: raw}}}.Message()
		if len(m.ToolCalls) != 0 || len(m.InvalidToolCalls) != 1 || m.InvalidToolCalls[0].Args != raw || m.InvalidToolCalls[0].Error == "" {
			t.Errorf("%q is the call %+v, invalid %+v; want an invalid call with a reason", raw, m.ToolCalls, m.InvalidToolCalls)
		}
	}
}

// A call that was cut off must not be run with half of its arguments.
func TestTruncatedArgumentsAreInvalid(t *testing.T) {
	m := llm.Chunk{Stop: llm.StopLength, ToolCalls: []llm.ToolCallChunk{{ID: "c", Name: "delete", Args: `{"path": "/tmp/wor`}}}.Message()
	if len(m.ToolCalls) != 0 || len(m.InvalidToolCalls) != 1 {
		t.Errorf("the calls are %+v, invalid %+v; want one invalid call", m.ToolCalls, m.InvalidToolCalls)
	}
}

func TestCollectReturnsPartialMessage(t *testing.T) {
	broken := errors.New("broken")
	m, err := llm.Collect(func(yield func(llm.Chunk, error) bool) {
		_ = yield(llm.Chunk{ID: "m", Content: "a"}, nil) && yield(llm.Chunk{}, broken)
	})
	if !errors.Is(err, broken) || m.Content != "a" || m.Role != llm.RoleAI {
		t.Errorf("collected %+v, %v; want the text so far and the error", m, err)
	}
}

func TestUsageAddsAndSubtracts(t *testing.T) {
	a := llm.Usage{Input: 5, Output: 3, Total: 8, InputDetails: map[string]int{"cache_read": 2}}
	b := llm.Usage{Input: 2, Output: 4, Total: 6, InputDetails: map[string]int{"cache_read": 3, "audio": 1}, OutputDetails: map[string]int{"reasoning": 1}}
	same(t, "the sum", llm.Usage{Input: 7, Output: 7, Total: 14, InputDetails: map[string]int{"cache_read": 5, "audio": 1}, OutputDetails: map[string]int{"reasoning": 1}}, a.Add(b))
	same(t, "the difference, never below zero", llm.Usage{Input: 3, Total: 2, InputDetails: map[string]int{"cache_read": 0, "audio": 0}, OutputDetails: map[string]int{"reasoning": 0}}, a.Sub(b))
	same(t, "the first", 2, a.InputDetails["cache_read"])
}

// Whatever arrives, and wherever it breaks off, the result is JSON, and a
// prefix of an object is an object.
func FuzzPartialArguments(f *testing.F) {
	f.Add(`{"a": [1, {"b": "x\u00e9\n"}], "c": null, "d": -1.5e3}`, 10)
	f.Add(`{"a":"`, 3)
	f.Fuzz(func(t *testing.T, raw string, cut int) {
		whole := json.Valid([]byte(raw)) && strings.HasPrefix(strings.TrimSpace(raw), "{")
		if cut < 0 || cut > len(raw) {
			cut = len(raw)
		}
		prefix := raw[:cut]
		m := llm.Chunk{ToolCalls: []llm.ToolCallChunk{{ID: "c", Name: "f", Args: prefix}}}.Message()
		for _, c := range m.ToolCalls {
			var v map[string]any
			if err := json.Unmarshal(c.Args, &v); err != nil {
				t.Fatalf("%q became %s: %v", prefix, c.Args, err)
			}
		}
		if len(m.ToolCalls)+len(m.InvalidToolCalls) != 1 {
			t.Fatalf("%q is %d calls and %d invalid ones", prefix, len(m.ToolCalls), len(m.InvalidToolCalls))
		}
		if whole && len(m.ToolCalls) != 1 && strings.Count(raw, "[")+strings.Count(raw, "{") < 400 {
			t.Fatalf("%q, a part of %q, is invalid: %s", prefix, raw, m.InvalidToolCalls[0].Error)
		}
	})
}
