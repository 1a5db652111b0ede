package llm_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

// LangChain's JSON survives decoding and encoding unchanged.
func TestMessageJSONIsLangChains(t *testing.T) {
	for _, test := range []struct {
		name, raw string
		want      llm.Message
	}{
		{"human", `{"type":"human","content":"hi"}`, llm.User("hi")},
		{"with name and id", `{"type":"human","content":"hi","name":"bob","id":"1"}`,
			llm.Message{Role: llm.RoleHuman, Content: "hi", Name: "bob", ID: "1"}},
		{"system", `{"type":"system","content":"be brief"}`, llm.System("be brief")},
		{"blocks", `{"type":"human","content":[{"type":"text","text":"what?"},{"type":"image","url":"https://x/y.png"}]}`,
			llm.Message{Role: llm.RoleHuman, Blocks: []llm.Block{llm.Text("what?"), llm.ImageURL("https://x/y.png")}}},
		{"a text before blocks", `{"type":"human","content":["what?",{"type":"image","base64":"aGk=","mime_type":"image/png"}]}`,
			llm.User("what?", llm.Image("image/png", []byte("hi")))},
		{"tool calls", `{"type":"ai","content":"","tool_calls":[{"name":"add","args":{"b":2,"a":1},"id":"c1","type":"tool_call"}]}`,
			llm.Assistant("", llm.ToolCall{ID: "c1", Name: "add", Args: json.RawMessage(`{"b":2,"a":1}`)})},
		{"invalid tool calls", `{"type":"ai","content":"","invalid_tool_calls":[{"name":"add","args":"{","id":"c1","error":"bad","type":"invalid_tool_call"}]}`,
			llm.Message{Role: llm.RoleAI, InvalidToolCalls: []llm.InvalidToolCall{{ID: "c1", Name: "add", Args: "{", Error: "bad"}}}},
		{"usage and metadata", `{"type":"ai","content":"x","usage_metadata":{"input_tokens":1,"output_tokens":2,"total_tokens":3,"input_token_details":{"cache_read":1}},"response_metadata":{"finish_reason":"length","model_name":"m"}}`,
			llm.Message{Role: llm.RoleAI, Content: "x", Stop: llm.StopLength, Metadata: map[string]any{"model_name": "m"},
				Usage: &llm.Usage{Input: 1, Output: 2, Total: 3, InputDetails: map[string]int{"cache_read": 1}}}},
		{"tool", `{"type":"tool","content":"3","name":"add","tool_call_id":"c1","status":"error","artifact":{"n":3}}`,
			llm.Message{Role: llm.RoleTool, Content: "3", Name: "add", ToolCallID: "c1", Status: llm.StatusError, Artifact: map[string]any{"n": 3.0}}},
		{"removal", `{"type":"remove","content":"","id":"1"}`, llm.Remove("1")},
		{"chat", `{"type":"chat","content":"x","role":"narrator"}`,
			llm.Message{Role: "chat", Content: "x", Extra: map[string]any{"role": "narrator"}}},
		{"unknown fields", `{"type":"ai","content":"x","additional_kwargs":{"a":{"b":[1,null]}},"example":false}`,
			llm.Message{Role: llm.RoleAI, Content: "x", Extra: map[string]any{"example": false, "additional_kwargs": map[string]any{"a": map[string]any{"b": []any{1.0, nil}}}}}},
		{"long numbers", `{"type":"ai","content":"x","big":12345678901234567890,"tiny":0.1}`,
			llm.Message{Role: llm.RoleAI, Content: "x", Extra: map[string]any{"big": json.Number("12345678901234567890"), "tiny": 0.1}}},
		{"unknown blocks", `{"type":"ai","content":[{"type":"hologram","depth":3,"text":5},{"type":"reasoning","reasoning":"hm","signature":"s"}]}`,
			llm.Message{Role: llm.RoleAI, Blocks: []llm.Block{
				{Type: "hologram", Extra: map[string]any{"depth": 3.0, "text": 5.0}},
				{Type: llm.BlockReasoning, Reasoning: "hm", Extra: map[string]any{"signature": "s"}}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got llm.Message
			if err := json.Unmarshal([]byte(test.raw), &got); err != nil {
				t.Fatal(err)
			}
			same(t, "the message", test.want, got)
			raw, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "written again", sorted(t, test.raw), sorted(t, string(raw)))
		})
	}
}

// sorted returns JSON as a value, so that the order of fields does not count.
func sorted(t *testing.T, raw string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

// The forms that people and other libraries write. These are the rows of
// LangChain's convert_to_messages.
func TestMessagesDecodeFromManyForms(t *testing.T) {
	call := llm.ToolCall{ID: "c1", Name: "add", Args: json.RawMessage(`{"a":1}`)}
	for _, test := range []struct {
		name, raw string
		want      llm.Messages
	}{
		{"a string", `"hi"`, llm.Messages{llm.User("hi")}},
		{"strings", `["hi","you"]`, llm.Messages{llm.User("hi"), llm.User("you")}},
		{"one message", `{"role":"user","content":"hi"}`, llm.Messages{llm.User("hi")}},
		{"pairs", `[["system","s"],["human","h"],["user","u"],["ai","a"],["assistant","b"]]`,
			llm.Messages{llm.System("s"), llm.User("h"), llm.User("u"), llm.Assistant("a"), llm.Assistant("b")}},
		{"a pair with blocks", `[["user",[{"type":"text","text":"hi"}]]]`, llm.Messages{{Role: llm.RoleHuman, Blocks: []llm.Block{llm.Text("hi")}}}},
		{"roles", `[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":null},{"role":"tool","content":"t","tool_call_id":"c1"}]`,
			llm.Messages{llm.System("s"), llm.User("u"), llm.Assistant(""), {Role: llm.RoleTool, Content: "t", ToolCallID: "c1"}}},
		{"a developer", `[{"role":"developer","content":"s"}]`,
			llm.Messages{{Role: llm.RoleSystem, Content: "s", Extra: map[string]any{"additional_kwargs": map[string]any{"__openai_role__": "developer"}}}}},
		{"OpenAI's tool calls", `[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\": 1}"}}]}]`,
			llm.Messages{llm.Assistant("", call)}},
		{"OpenAI's tool calls without arguments", `[{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"now","arguments":""}}]}]`,
			llm.Messages{llm.Assistant("", llm.ToolCall{ID: "c1", Name: "now", Args: json.RawMessage(`{}`)})}},
		{"OpenAI's tool calls kept by LangChain", `[{"type":"ai","content":"","tool_calls":[],"additional_kwargs":{"tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\":1}"}}]}}]`,
			llm.Messages{{Role: llm.RoleAI, ToolCalls: []llm.ToolCall{call}, Extra: map[string]any{"additional_kwargs": map[string]any{"tool_calls": []any{
				map[string]any{"id": "c1", "type": "function", "function": map[string]any{"name": "add", "arguments": `{"a":1}`}}}}}}}},
		{"arguments that are no object", `[{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":"[1]"}}]}]`,
			llm.Messages{{Role: llm.RoleAI, InvalidToolCalls: []llm.InvalidToolCall{{ID: "c1", Name: "add", Args: "[1]", Error: "the arguments are not a JSON object"}}}}},
		{"a constructor", `[{"lc":1,"type":"constructor","id":["langchain","schema","messages","HumanMessage"],"kwargs":{"content":"hi","additional_kwargs":{}}}]`,
			llm.Messages{llm.User("hi")}},
		{"a chunk", `[{"type":"AIMessageChunk","content":"","tool_call_chunks":[{"name":"add","args":"{\"a\":1","id":"c1","index":0}]}]`,
			llm.Messages{llm.Assistant("", call)}},
		{"LangChain's nulls", `[{"type":"ai","content":"x","name":null,"id":null,"tool_calls":[],"invalid_tool_calls":[],"usage_metadata":null,"additional_kwargs":{},"response_metadata":{}}]`,
			llm.Messages{llm.Assistant("x")}},
		{"OpenAI's item", `[{"type":"message","role":"user","content":"hi"}]`, llm.Messages{llm.User("hi")}},
		{"null", `null`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got llm.Messages
			if err := json.Unmarshal([]byte(test.raw), &got); err != nil {
				t.Fatal(err)
			}
			same(t, "the messages", test.want, got)
		})
	}
}

func TestInvalidMessagesAreErrors(t *testing.T) {
	for raw, want := range map[string]string{
		`{"role":"boss","content":"x"}`:            `unknown role "boss"`,
		`{"content":"x"}`:                          "neither role nor type",
		`{"role":"user"}`:                          "needs content",
		`{"role":"user","content":5}`:              "content: want a string or a list of blocks",
		`["user"]`:                                 "list of 1 elements: want a pair",
		`{"type":"remove","id":"1","content":"x"}`: "removal with content",
		`{"lc":1,"type":"constructor","id":["os","system"],"kwargs":{"content":"x"}}`: `"os.system" is not a message class of LangChain`,
		`{"role":"user","content":[5]}`:                                               "block 0",
		`5`:                                                                           "want an object",
		`{"role":"assistant","content":"","tool_calls":[5]}`: "tool_calls 0",
	} {
		var m llm.Message
		if err := json.Unmarshal([]byte(raw), &m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one with %q", raw, err, want)
		}
	}
}

func TestMarshalRejectsMessageWithoutRole(t *testing.T) {
	if raw, err := json.Marshal(llm.Messages{{Content: "hi"}}); err == nil || !strings.Contains(err.Error(), "message without a role") {
		t.Errorf("got %s, %v; want an error with a remedy", raw, err)
	}
}

func TestChunkJSONIsLangChains(t *testing.T) {
	raw := `{"type":"AIMessageChunk","content":"a","id":"m1","tool_call_chunks":[{"name":"add","args":"{","id":null,"index":0,"type":"tool_call_chunk"}],` +
		`"usage_metadata":{"input_tokens":1,"output_tokens":0,"total_tokens":1},"response_metadata":{"finish_reason":"stop"},"chunk_position":"last"}`
	var c llm.Chunk
	if err := json.Unmarshal([]byte(raw), &c); err != nil {
		t.Fatal(err)
	}
	same(t, "the chunk", llm.Chunk{ID: "m1", Content: "a", Stop: llm.StopEnd, Usage: &llm.Usage{Input: 1, Total: 1},
		ToolCalls: []llm.ToolCallChunk{{Index: new(0), Name: "add", Args: "{"}}}, c)
	again, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	full := `{"content":"a","additional_kwargs":{},"response_metadata":{"finish_reason":"stop"},"type":"AIMessageChunk","name":null,"id":"m1",` +
		`"tool_calls":[{"name":"add","args":{},"id":null,"type":"tool_call"}],"invalid_tool_calls":[],"usage_metadata":{"input_tokens":1,"output_tokens":0,"total_tokens":1},` +
		`"tool_call_chunks":[{"name":"add","args":"{","id":null,"index":0,"type":"tool_call_chunk"}],"chunk_position":"last"}`
	same(t, "written again", sorted(t, full), sorted(t, string(again)))
}

// The texts are LangChain's, as its server sends them.
func TestChunkJSONHasAllFields(t *testing.T) {
	const rest = `"additional_kwargs":{},"response_metadata":{},"type":"AIMessageChunk","name":null,"id":"m1"`
	for name, tt := range map[string]struct {
		chunk llm.Chunk
		want  string
	}{
		"text": {llm.Chunk{ID: "m1", Content: "It "},
			`{"content":"It ",` + rest + `,"tool_calls":[],"invalid_tool_calls":[],"usage_metadata":null,"tool_call_chunks":[],"chunk_position":null}`},
		"start of a call": {llm.Chunk{ID: "m1", ToolCalls: []llm.ToolCallChunk{{Index: new(0), ID: "c1", Name: "get_weather"}}},
			`{"content":"",` + rest + `,"tool_calls":[{"name":"get_weather","args":{},"id":"c1","type":"tool_call"}],"invalid_tool_calls":[],"usage_metadata":null,` +
				`"tool_call_chunks":[{"name":"get_weather","args":"","id":"c1","index":0,"type":"tool_call_chunk"}],"chunk_position":null}`},
		"partial arguments": {llm.Chunk{ID: "m1", ToolCalls: []llm.ToolCallChunk{{Index: new(0), Args: `{"city":`}}},
			`{"content":"",` + rest + `,"tool_calls":[{"name":"","args":{},"id":null,"type":"tool_call"}],"invalid_tool_calls":[],"usage_metadata":null,` +
				`"tool_call_chunks":[{"name":null,"args":"{\"city\":","id":null,"index":0,"type":"tool_call_chunk"}],"chunk_position":null}`},
		"end of arguments": {llm.Chunk{ID: "m1", ToolCalls: []llm.ToolCallChunk{{Index: new(0), Args: `"Paris"}`}}},
			`{"content":"",` + rest + `,"tool_calls":[],"invalid_tool_calls":[{"name":null,"args":"\"Paris\"}","id":null,"error":null,"type":"invalid_tool_call"}],"usage_metadata":null,` +
				`"tool_call_chunks":[{"name":null,"args":"\"Paris\"}","id":null,"index":0,"type":"tool_call_chunk"}],"chunk_position":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(tt.chunk)
			if err != nil {
				t.Fatal(err)
			}
			if string(raw) != tt.want {
				t.Errorf("got\n%s\nwant\n%s", raw, tt.want)
			}
			var again llm.Chunk
			if err := json.Unmarshal(raw, &again); err != nil {
				t.Fatal(err)
			}
			same(t, "read again", tt.chunk, again)
		})
	}
	with := llm.Chunk{Extra: map[string]any{"additional_kwargs": map[string]any{"reasoning_content": "hm"}}}
	raw, err := json.Marshal(with)
	if err != nil || !strings.Contains(string(raw), `"additional_kwargs":{"reasoning_content":"hm"}`) {
		t.Errorf("got %s, %v", raw, err)
	}
}

// Decoding and encoding lose nothing: the written JSON decodes to the same value.
func FuzzMessageJSON(f *testing.F) {
	for _, raw := range []string{
		`"hi"`, `["user","hi"]`, `{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}`,
		`{"type":"ai","content":["a",{"type":"text","text":""},{"type":"x","index":"lc_1","base64":"???"}],"additional_kwargs":{"n":1e400}}`,
		`{"type":"tool","content":[{"type":"image","base64":"aGk="}],"tool_call_id":"1","artifact":[1.0,2]}`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var first, second llm.Message
		if json.Unmarshal(raw, &first) != nil {
			return
		}
		once, err := json.Marshal(first)
		if err != nil {
			t.Fatalf("%s was read and cannot be written: %v", raw, err)
		}
		if err := json.Unmarshal(once, &second); err != nil {
			t.Fatalf("%s was written as %s, which cannot be read: %v", raw, once, err)
		}
		twice, err := json.Marshal(second)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("%s was written as %s and then as %s (%v)", raw, once, twice, err)
		}
		first.Parts() // never fails
		_ = first.Pretty()
		llm.CountTokens([]llm.Message{first}, nil)
	})
}
