package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

// reasoned returns an answer of a server that shows its reasoning.
func reasoned(field, text string, calls ...llm.ToolCall) llm.Message {
	return llm.Message{Role: llm.RoleAI, ToolCalls: calls, Blocks: []llm.Block{
		{Type: llm.BlockReasoning, Reasoning: text, Extra: map[string]any{"reasoning_field": field}}}}
}

func call(id, args string) llm.ToolCall {
	return llm.ToolCall{ID: id, Name: "get_weather", Args: json.RawMessage(args)}
}

// The exact bodies that are sent, by kind of server.
func TestRequestBodies(t *testing.T) {
	paris, rome := call("call_1", `{"city":"Paris"}`), call("call_2", ``)
	rome.Extra = map[string]any{"extra_content": map[string]any{"google": map[string]any{"thought_signature": "c2ln"}}}
	chart := llm.Image("image/png", []byte("a chart"))
	marked := llm.Text("A long text.")
	marked.Extra = map[string]any{"cache_control": map[string]any{"type": "ephemeral"}}
	named := llm.User("Hi")
	named.Name = "Ann Lee"
	detailed := llm.ImageURL("https://example.com/owl.jpg")
	detailed.Extra = map[string]any{"detail": "low"}
	details := reasoned("reasoning", "Earlier.")
	details.Blocks[0].Extra["reasoning_details"] = []any{map[string]any{"type": "reasoning.text", "text": "Earlier.", "signature": "c2ln"}}
	details.Content = "Yes."

	tools := []llm.Message{
		llm.System("Be brief."), named, reasoned("reasoning_content", "Left out."), llm.User("Weather?"),
		reasoned("reasoning_content", "I look.", paris, rome),
		llm.ToolResult(paris, "sunny"), llm.ToolResult(rome, []llm.Block{llm.Text("a chart"), chart}),
	}
	tools[2].Content = "Hello!"
	spoken := llm.Message{Role: llm.RoleAI, Blocks: []llm.Block{{Type: llm.BlockAudio, ID: "audio_1", Data: []byte("hoot")}}}
	for _, test := range []struct {
		file    string
		url     string
		opts    []llm.Option
		history []llm.Message
	}{
		{"history_openai.json", own, []llm.Option{llm.Tools(weather())}, tools},
		{"history_other.json", another, []llm.Option{llm.Tools(weather())}, tools},
		{"texts_other.json", another, nil, []llm.Message{{Role: llm.RoleSystem, Blocks: []llm.Block{llm.Text("One."), llm.Text("Two.")}}, llm.User("", llm.Text("Three."), llm.Text("Four.")),
			llm.Assistant("Five.", paris), llm.ToolResult(paris, []llm.Block{llm.Text("Six."), llm.Text("Seven.")}), llm.Assistant("Eight."),
			llm.User("More?"), llm.Assistant("", rome), llm.ToolResult(rome, chart), llm.User("Well?", llm.Audio("audio/x-wav", []byte("hoot")), llm.Audio("audio/wave", []byte("hoot")))}},
		{"audio_openai.json", own, []llm.Option{llm.Setting("modalities", []string{"text", "audio"})}, []llm.Message{llm.User("Sing."), spoken, llm.User("Louder.")}},
		{"details_other.json", another, nil, []llm.Message{llm.User("Sure?"), details, llm.User("Really?")}},
		{"settings_openai.json", own, []llm.Option{llm.MaxTokens(128), llm.Temperature(0), llm.TopP(0.5), llm.Seed(7), llm.StopWords("END"),
			llm.Reasoning("low"), llm.Setting("verbosity", "low"), llm.Setting("seed", 8), llm.Setting("a.b", []int{1})}, []llm.Message{llm.User("Hi")}},
		{"settings_other.json", another, []llm.Option{llm.MaxTokens(128), llm.Tools(weather()), llm.ToolChoice(llm.ToolChoiceAny), llm.SerialTools()}, []llm.Message{llm.User("Hi")}},
		{"media_openai.json", own, nil, []llm.Message{llm.User("What is it?", chart, detailed, llm.Audio("audio/mpeg", []byte("hoot")),
			llm.File("owls.pdf", "application/pdf", []byte("%PDF")), llm.Block{Type: llm.BlockFile, FileID: "file-1"}, llm.Block{Type: llm.BlockPlain, Text: "a document"})}},
		{"media_other.json", another, nil, []llm.Message{llm.User("", marked, llm.Block{Type: llm.BlockVideo, URL: "https://example.com/owl.mp4"},
			llm.Block{Type: llm.BlockFile, URL: "https://example.com/owl.pdf"}, llm.Block{Type: "custom", Extra: map[string]any{"a": 1}})}},
	} {
		t.Run(strings.TrimSuffix(test.file, ".json"), func(t *testing.T) {
			body, err := bodyOf(t, test.url, test.opts, test.history...)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "request_"+test.file, body)
		})
	}
}

// Requests by llm.Object, and accepted responses.
func TestStructuredOutput(t *testing.T) {
	type part struct {
		Of string `json:"of"`
		No int    `json:"no,omitempty"`
	}
	type city struct {
		Name  string   `json:"name" jsonschema:"what people call it" default:"Paris"`
		Area  *float64 `json:"area" jsonschema:"in km²"`
		Kind  string   `json:"kind,omitempty" enum:"town,city"`
		Parts []part   `json:"parts"`
	}
	type counts struct {
		Of map[string]int `json:"of"`
	}
	t.Run("strict, with null for absent values", func(t *testing.T) {
		got, sent := objectOf[city](t, `{"name":null,"area":null,"kind":null,"parts":[{"of":"Montmartre","no":null}]}`)
		same(t, "the value", city{Name: "Paris", Parts: []part{{Of: "Montmartre"}}}, got)
		golden(t, "request_output_strict.json", sent)
	})
	t.Run("a hint, if strict mode cannot say it", func(t *testing.T) {
		got, sent := objectOf[counts](t, `{"of":{"owls":2}}`)
		same(t, "the value", counts{map[string]int{"owls": 2}}, got)
		golden(t, "request_output_loose.json", sent)
	})
	t.Run("in an object, if the type is not one", func(t *testing.T) {
		got, sent := objectOf[[]string](t, `{"value":["a"]}`)
		same(t, "the value", []string{"a"}, got)
		golden(t, "request_output_list.json", sent)
	})
}

func objectOf[T any](t *testing.T, answer string) (T, []byte) {
	t.Helper()
	content, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{body: strings.Replace(okBody, `"ok"`, string(content), 1)}
	v, err := llm.Object[T](t.Context(), llm.With(modelAt(t, own, w), llm.NoStream()), llm.User("Hi"))
	if err != nil {
		t.Fatal(err)
	}
	return v, w.sent
}

func TestToolExtraFieldsAreSent(t *testing.T) {
	strict, cached := weather(), &llm.Tool{Name: "list", Run: weather().Run}
	strict.Extra = map[string]any{"strict": true}
	cached.Extra = map[string]any{"cache_control": map[string]any{"type": "ephemeral"}}
	search := &llm.Tool{Extra: map[string]any{"type": "web_search", "web_search": map[string]any{"max_results": 3}}}
	body, err := bodyOf(t, another, []llm.Option{llm.Tools(strict, cached, search), llm.ToolChoice("list")}, llm.User("Hi"))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "request_tools.json", body)
}

// What cannot be said is an error that names it, and nothing is sent.
func TestInexpressibleRequestsFail(t *testing.T) {
	user := func(b llm.Block) []llm.Message { return []llm.Message{llm.System("x"), llm.User("Hi", b)} }
	maps := llm.NewTool("count", "", func(context.Context, struct {
		Of map[string]int `json:"of"`
	}) (string, error) {
		return "", nil
	})
	maps.Extra = map[string]any{"strict": true}
	paris := call("call_1", `{}`)
	for _, test := range []struct {
		want    string
		url     string
		opts    []llm.Option
		history []llm.Message
	}{
		{`openai: message 1 (human): OpenAI does not accept videos`, own, nil, user(llm.Block{Type: llm.BlockVideo, URL: "https://example.com/v"})},
		{`openai: message 1 (human): video without Data or URL (file ID "f")`, another, nil, user(llm.Block{Type: llm.BlockVideo, FileID: "f"})},
		{`openai: message 1 (human): image without Data or URL (file ID "f")`, own, nil, user(llm.Block{Type: llm.BlockImage, FileID: "f"})},
		{`openai: message 1 (human): audio without Data (URL "https://example.com/a", file ID "")`, own, nil, user(llm.Block{Type: llm.BlockAudio, URL: "https://example.com/a"})},
		{`openai: message 1 (human): OpenAI accepts audio as wav or mp3, not as "audio/flac"`, own, nil, user(llm.Audio("audio/flac", []byte("a")))},
		{`openai: message 1 (human): file without Data or FileID (URL "https://example.com/f")`, own, nil, user(llm.Block{Type: llm.BlockFile, URL: "https://example.com/f"})},
		{`openai: message 1 (human): OpenAI does not accept blocks of type "custom"`, own, nil, user(llm.Block{Type: "custom"})},
		{`openai: message 0 (system): block of type image in a system message: move it to a user message`, another, nil,
			[]llm.Message{{Role: llm.RoleSystem, Blocks: []llm.Block{llm.ImageURL("https://example.com/i")}}, llm.User("Hi")}},
		{`openai: message 2 (tool): OpenAI does not accept videos`, own, nil,
			[]llm.Message{llm.User("Show."), llm.Assistant("", paris), llm.ToolResult(paris, llm.Block{Type: llm.BlockVideo, URL: "https://example.com/v"})}},
		{`openai: setting stream: use llm.NoStream instead`, own, []llm.Option{llm.Setting("stream", false)}, []llm.Message{llm.User("Hi")}},
		{`openai: setting bad: json: unsupported type: chan int`, own, []llm.Option{llm.Setting("bad", make(chan int))}, []llm.Message{llm.User("Hi")}},
		{`openai: tool count: strict: the value.of: strict mode does not support objects with any properties, such as maps`, own, []llm.Option{llm.Tools(maps)}, []llm.Message{llm.User("Hi")}},
		{`openai: output x without a schema`, own, []llm.Option{&llm.Output{Name: "x"}}, []llm.Message{llm.User("Hi")}},
	} {
		sent, err := bodyOf(t, test.url, test.opts, test.history...)
		if err == nil || err.Error() != test.want {
			t.Errorf("the error is %v, want %s", err, test.want)
		}
		if e, ok := errors.AsType[*llm.Error](err); ok {
			t.Errorf("%v is an error of the provider (temporary: %v), want one of the request", e, e.Temporary())
		}
		if sent != nil {
			t.Errorf("%s: nevertheless sent %s", test.want, sent)
		}
	}
}
