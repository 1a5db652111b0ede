package openai_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

// responsesAt returns a model that uses the Responses API of the server w.
func responsesAt(t *testing.T, url string, w http.RoundTripper, change ...func(*openai.Options)) *openai.Model {
	t.Helper()
	t.Setenv("OPENAI_BASE_URL", "")
	o := &openai.Options{BaseURL: url, Key: "a key", API: "responses", HTTPClient: &http.Client{Transport: w}, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(o)
	}
	m, err := openai.New("gpt-test", o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// okResponse is a whole response.
const okResponse = `{"id":"resp_1","object":"response","status":"completed","model":"gpt-test-2026","output":[{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"ok","annotations":[]}]}]}`

func ours(m llm.Message) llm.Message {
	m.Role, m.Metadata = llm.RoleAI, map[string]any{"model_provider": "openai", "host": "api.openai.com", "id": "resp_0"}
	return m
}

func reasoningBlock(id, text string, extra map[string]any) llm.Block {
	return llm.Block{Type: llm.BlockReasoning, ID: id, Reasoning: text, Extra: extra}
}

func mark(id string) llm.Block { return llm.Block{Type: llm.BlockToolCall, ID: id} }

// runTool returns a custom tool.
func runTool() *llm.Tool {
	type code struct {
		Text string `json:"__arg1"`
	}
	t := llm.NewTool("run", "Runs code.", func(context.Context, code) (string, error) { return "", nil })
	t.Extra = map[string]any{"type": "custom", "format": map[string]any{"type": "grammar", "syntax": "regex", "definition": ".+"}}
	return t
}

func TestResponsesRequestBodies(t *testing.T) {
	paris, code := call("call_1", `{"city":"Paris"}`), llm.ToolCall{ID: "call_2", Name: "run", Args: json.RawMessage(`{"__arg1":"print(1)\n"}`)}
	paris.Extra, code.Extra = map[string]any{"namespace": "weather"}, map[string]any{"custom": true}
	long := llm.ToolCall{ID: strings.Repeat("x", 65), Name: "get_weather"}
	summary := []any{map[string]any{"type": "summary_text", "text": "One."}, map[string]any{"type": "summary_text", "text": "Two."}}
	history := []llm.Message{
		llm.System("Be brief."),
		llm.User("What is it?", llm.Image("image/png", []byte("owl")), llm.Block{Type: llm.BlockImage, FileID: "file-2", Extra: map[string]any{"detail": "low"}},
			llm.File("owls.pdf", "application/pdf", []byte("%PDF")), llm.Block{Type: llm.BlockFile, URL: "https://example.com/owl.pdf"}, llm.Block{Type: llm.BlockFile, FileID: "file-1"}),
		ours(llm.Message{ToolCalls: []llm.ToolCall{paris, code}, Blocks: []llm.Block{
			reasoningBlock("rs_1", "One.\n\nTwo.", map[string]any{"encrypted_content": "ZW5jMQ==", "summary": summary}),
			{Type: llm.BlockText, Text: "Let me look.", Extra: map[string]any{"phase": "commentary"}},
			{Type: "web_search_call", ID: "ws_1", Extra: map[string]any{"status": "completed", "action": map[string]any{"type": "search", "query": "owls"}}},
			{Type: "image_generation_call", ID: "ig_1", Extra: map[string]any{"status": "completed"}},
			mark("call_1"), reasoningBlock("rs_2", "Hm.", map[string]any{"encrypted_content": "ZW5jMg=="}), mark("call_2"),
		}}),
		llm.ToolResult(paris, []llm.Block{llm.Text("A chart."), llm.Image("image/png", []byte("chart"))}), llm.ToolResult(code, "1"),
		llm.System("Be briefer."),
		ours(llm.Message{Blocks: []llm.Block{{Type: llm.BlockText, Text: "I cannot.", Extra: map[string]any{"refusal": true}}, reasoningBlock("rs_3", "Lost.", nil)}}),
		llm.User("", llm.Block{Type: "mcp_approval_response", Extra: map[string]any{"approval_request_id": "mcpr_1", "approve": true}}),
	}
	foreign := []llm.Message{llm.User("Hi"),
		{Role: llm.RoleAI, Metadata: map[string]any{"model_provider": "anthropic"}, ToolCalls: []llm.ToolCall{long}, Blocks: []llm.Block{
			reasoningBlock("", "Secret.", map[string]any{"signature": "c2ln"}), {Type: "server_tool_use", ID: "srvtoolu_1"}, llm.Text("Hello."), mark(long.ID)}},
		llm.ToolResult(long, "sunny"),
		{Role: llm.RoleAI, Content: "Sunny.", Metadata: map[string]any{"model_provider": "openai", "host": "llm.example.com"}, Blocks: []llm.Block{
			reasoningBlock("rs_1", "Elsewhere.", map[string]any{"encrypted_content": "dmxsbQ=="}), {Type: "mcp_call", ID: "mcp_1"}}},
		llm.User("Thanks")}
	strict := weather()
	strict.Extra = map[string]any{"strict": true}
	strict.Name = "strict_weather"
	search := llm.ProviderTool(map[string]any{"type": "web_search", "search_context_size": "low"})
	docs := llm.ProviderTool(map[string]any{"type": "mcp", "server_label": "docs", "server_url": "https://example.com/mcp"})
	tools := llm.Tools(weather(), strict, runTool(), search, llm.ProviderTool(map[string]any{"type": "code_interpreter", "container": map[string]any{"type": "auto"}}),
		llm.ProviderTool(map[string]any{"type": "file_search", "vector_store_ids": []string{"vs_1"}}), docs)
	schema, err := jsonschema.For[struct {
		Name string `json:"name"`
	}](nil)
	if err != nil {
		t.Fatal(err)
	}
	settings := []llm.Option{llm.MaxTokens(128), llm.Temperature(0), llm.TopP(0.5), llm.Seed(7), llm.StopWords("END"), llm.Reasoning("low"), llm.SerialTools(),
		llm.Setting("reasoning", map[string]any{"summary": "auto"}), llm.Setting("text", map[string]any{"verbosity": "low"}), llm.Setting("prompt_cache_key", "thread-1"),
		llm.Setting("service_tier", "flex"), llm.Setting("include", []string{"message.output_text.logprobs"})}
	for _, test := range []struct {
		file    string
		opts    []llm.Option
		history []llm.Message
	}{
		{"history.json", []llm.Option{llm.Tools(weather(), runTool())}, history},
		{"foreign.json", nil, foreign},
		{"tools.json", []llm.Option{tools, llm.ToolChoice("docs")}, []llm.Message{llm.User("Hi")}},
		{"settings.json", append(settings, &llm.Output{Name: "owl", Schema: schema}), []llm.Message{llm.User("Hi")}},
	} {
		t.Run(strings.TrimSuffix(test.file, ".json"), func(t *testing.T) {
			w := &wire{body: okResponse}
			if _, err := llm.Generate(t.Context(), llm.With(responsesAt(t, own, w), append(test.opts, llm.NoStream())...), test.history...); err != nil {
				t.Fatal(err)
			}
			golden(t, "responses_"+test.file, w.sent)
		})
	}
}

func TestResponsesToolChoice(t *testing.T) {
	search := llm.ProviderTool(map[string]any{"type": "web_search"})
	for choice, want := range map[string]string{
		llm.ToolChoiceAuto: `"auto"`, llm.ToolChoiceNone: `"none"`, llm.ToolChoiceAny: `"required"`,
		"get_weather": `{"type":"function","name":"get_weather"}`, "run": `{"type":"custom","name":"run"}`, "web_search": `{"type":"web_search"}`,
	} {
		w := &wire{body: okResponse}
		model := llm.With(responsesAt(t, own, w), llm.Tools(weather(), runTool(), search), llm.ToolChoice(choice), llm.NoStream())
		if _, err := llm.Generate(t.Context(), model, llm.User("Hi")); err != nil {
			t.Fatal(err)
		}
		var sent struct {
			Choice json.RawMessage `json:"tool_choice"`
		}
		if err := json.Unmarshal(w.sent, &sent); err != nil || string(sent.Choice) != want {
			t.Errorf("%s: tool_choice %s, %v; want %s", choice, sent.Choice, err, want)
		}
	}
}

func TestResponsesRejectsMediaItCannotSend(t *testing.T) {
	c := call("call_1", `{}`)
	for want, history := range map[string][]llm.Message{
		`block of type "audio", which the Responses API does not accept`: {llm.User("", llm.Audio("audio/wav", []byte("hoot")))},
		"image requires one of Data, URL, and FileID":                    {llm.User("", llm.Block{Type: llm.BlockImage})},
		"requires Data, URL, or FileID":                                  {llm.User("", llm.Block{Type: llm.BlockFile})},
		"in a system message: move it to a user message":                 {{Role: llm.RoleSystem, Blocks: []llm.Block{llm.ImageURL("https://example.com/owl.png")}}, llm.User("Hi")},
		`blocks of type "surprise" in tool results`:                      {llm.User("Hi"), llm.Assistant("", c), llm.ToolResult(c, llm.Block{Type: "surprise"})},
	} {
		w := &wire{body: okResponse}
		_, err := llm.Generate(t.Context(), responsesAt(t, own, w), history...)
		if err == nil || !strings.Contains(err.Error(), want) || w.sent != nil {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

func TestResponsesStreams(t *testing.T) {
	tool := func(id, name, args string) llm.ToolCall {
		return llm.ToolCall{ID: id, Name: name, Args: json.RawMessage(args)}
	}
	weather, code := tool("call_1", "get_weather", `{"city":"Paris"}`), tool("call_2", "run", `{"__arg1":"print(\"hi\")\n"}`)
	weather.Extra, code.Extra = map[string]any{"namespace": "weather"}, map[string]any{"custom": true}
	summary := []any{map[string]any{"type": "summary_text", "text": "Search first."}, map[string]any{"type": "summary_text", "text": "Then ask."}}
	thought := reasoningBlock("rs_1", "Search first.\n\nThen ask.", map[string]any{"encrypted_content": "ZW5jMQ==", "summary": summary})
	usage := &llm.Usage{Input: 120, Output: 60, Total: 180, OutputDetails: map[string]int{llm.UsageReasoning: 32},
		InputDetails: map[string]int{llm.UsageCacheRead: 100, llm.UsageCacheCreation: 8}}
	meta := func() map[string]any {
		return map[string]any{"model_provider": "openai", "host": "api.openai.com", "id": "resp_abc", "model_name": "gpt-6-sol-2026-10-01", "service_tier": "priority"}
	}
	notes := []any{map[string]any{"type": "url_citation", "url": "https://example.com/owls", "title": "Owls", "start_index": 0., "end_index": 4.},
		map[string]any{"type": "file_citation", "file_id": "file_1", "filename": "a.txt", "index": 0.}, map[string]any{"type": "file_citation", "file_id": "file_2", "filename": "b.txt", "index": 0.}}
	said := func(text, phase string) llm.Block {
		return llm.Block{Type: llm.BlockText, Text: text, Extra: map[string]any{"phase": phase}}
	}
	answer := said("Owls hoot.", "final_answer")
	answer.Extra["annotations"] = notes
	invalid := func(id, args, reason string) llm.InvalidToolCall {
		return llm.InvalidToolCall{ID: id, Name: "get_weather", Args: args, Error: "the arguments are not valid JSON: " + reason, Extra: weather.Extra}
	}
	const cut = "unexpected end of JSON input"
	for file, want := range map[string]llm.Message{
		"full": {Stop: llm.StopTools, Usage: usage, Metadata: meta(), ToolCalls: []llm.ToolCall{weather, code}, Blocks: []llm.Block{
			thought, said("Let me look.", "commentary"),
			{Type: "web_search_call", ID: "ws_1", Extra: map[string]any{"status": "completed", "action": map[string]any{"type": "search", "query": "owls", "sources": []any{map[string]any{"type": "url", "url": "https://example.com/owls"}}}}},
			mark("call_1"), reasoningBlock("rs_2", "", map[string]any{"encrypted_content": "ZW5jMg=="}), mark("call_2"), answer}},
		"no_indexes": {Stop: llm.StopEnd, Usage: &llm.Usage{Input: 5, Output: 4, Total: 9},
			Metadata: map[string]any{"model_provider": "openai", "host": "api.openai.com", "id": "resp_x", "model_name": "qwen3"},
			Blocks:   []llm.Block{reasoningBlock("rs_a", "Owls fly.", map[string]any{"content": []any{map[string]any{"type": "reasoning_text", "text": "Owls fly."}}}), llm.Text("They do.")}},
		"done_only": {Stop: llm.StopTools, Metadata: meta(), ToolCalls: []llm.ToolCall{weather}, Blocks: []llm.Block{thought, llm.Text("Let me look.")}},
		"end_only": {Stop: llm.StopTools, Metadata: meta(), ToolCalls: []llm.ToolCall{weather},
			Blocks: []llm.Block{thought, mark("call_1"), {Type: llm.BlockText, Text: "No.", Extra: map[string]any{"refusal": true, "phase": "final_answer"}}}},
		"cut_calls": {Stop: llm.StopLength, Usage: usage, Metadata: meta(), InvalidToolCalls: []llm.InvalidToolCall{
			invalid("call_1", `{"ci`, cut), invalid("call_2", "{", cut), invalid("call_3", "{", cut)}},
		"parallel": {Stop: llm.StopTools, Metadata: meta(), ToolCalls: []llm.ToolCall{tool("call_1_0", "get_weather", `{"city":"Paris"}`), tool("call_1_1", "get_time", `{}`)}},
	} {
		t.Run(file, func(t *testing.T) {
			w := &wire{body: readFile(t, "responses_"+file+".sse"), header: map[string]string{"Content-Type": "text/event-stream"}}
			got, err := llm.Generate(t.Context(), responsesAt(t, own, w), llm.User("Hi"))
			if err != nil {
				t.Fatal(err)
			}
			want.Role, want.ID = llm.RoleAI, got.ID
			same(t, "the message", want, got)
			if file != "full" {
				return
			}
			w.body = string(endOf(t, w.body)) // the same response in one piece
			whole, err := llm.Generate(t.Context(), llm.With(responsesAt(t, own, w), llm.NoStream()), llm.User("Hi"))
			if err != nil {
				t.Fatal(err)
			}
			whole.ID = got.ID
			same(t, "the whole message", want, whole)
		})
	}
}

// endOf returns the response in the last event of a stream.
func endOf(t *testing.T, stream string) []byte {
	t.Helper()
	at := strings.LastIndex(stream, "data: ")
	var event struct{ Response json.RawMessage }
	if err := json.Unmarshal([]byte(stream[at+len("data: "):]), &event); err != nil {
		t.Fatal(err)
	}
	return event.Response
}

func TestResponsesStopReasons(t *testing.T) {
	for body, want := range map[string]llm.StopReason{
		okResponse: llm.StopEnd,
		`{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}`: llm.StopFilter,
		`{"status":"incomplete","incomplete_details":{"reason":"steered"},"output":[]}`:        "steered",
		`{"status":"incomplete","incomplete_details":null,"output":[]}`:                        "incomplete",
		`{"status":"cancelled","output":[]}`:                                                   "cancelled",
	} {
		m, err := llm.Generate(t.Context(), llm.With(responsesAt(t, own, &wire{body: body}), llm.NoStream()), llm.User("Hi"))
		if err != nil || m.Stop != want {
			t.Errorf("%s: stop %q, %v; want %q", body, m.Stop, err, want)
		}
	}
}

func TestResponsesErrors(t *testing.T) {
	const delta = `data: {"type":"response.output_text.delta","item_id":"msg_1","delta":"a"}` + "\n\n"
	for _, test := range []struct {
		name string
		wire wire
		want llm.Error
		temp bool
	}{
		{"quota", wire{status: 429, body: `{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`},
			llm.Error{Status: 429, Code: "insufficient_quota", Message: "You exceeded your current quota."}, false},
		{"event before output", wire{body: `data: {"type":"error","code":null,"message":"Slow down.","param":null,"sequence_number":0}` + "\n\n"},
			llm.Error{Status: 500, Message: "Slow down."}, true},
		{"nested event after output", wire{body: delta + `data: {"type":"error","error":{"type":"server_error","code":null,"message":"Sorry."}}` + "\n\n"},
			llm.Error{Status: 500, Code: "server_error", Message: "Sorry.", Cut: true}, true},
		{"failed before output", wire{body: `data: {"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"Slow down."}}}` + "\n\n"},
			llm.Error{Status: 429, Code: "rate_limit_exceeded", Message: "Slow down."}, true},
		{"failed after output", wire{body: delta + `data: {"type":"response.failed","response":{"error":{"code":"invalid_prompt","message":"Bad."}}}` + "\n\n"},
			llm.Error{Status: 200, Code: "invalid_prompt", Message: "Bad."}, false},
		{"failed without a reason", wire{body: `data: {"type":"response.failed","response":{"error":null}}` + "\n\n"},
			llm.Error{Status: 500, Message: "the response failed without a reason"}, true},
		{"context", wire{status: 400, body: `{"error":{"message":"Your input exceeds the context window.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`},
			llm.Error{Status: 400, Code: "context_length_exceeded", Message: "Your input exceeds the context window."}, false},
		{"cut", wire{body: delta}, llm.Error{Status: 200, Cut: true}, true},
		{"other event", wire{body: "data: 1\n\n"}, llm.Error{Status: 200}, false},
		{"invalid item", wire{body: `data: {"type":"response.output_item.done","item":{"type":1}}` + "\n\n"}, llm.Error{Status: 200}, false},
		{"invalid end", wire{body: `data: {"type":"response.completed","response":1}` + "\n\n"}, llm.Error{Status: 200}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := llm.Generate(t.Context(), responsesAt(t, own, &test.wire), llm.User("Hi"))
			got, ok := errors.AsType[*llm.Error](err)
			if !ok {
				t.Fatalf("the error is %v (%T)", err, err)
			}
			test.want.Provider = "openai"
			if d := cmp.Diff(test.want, *got, cmpopts.IgnoreFields(llm.Error{}, "Err")); d != "" || got.Temporary() != test.temp {
				t.Errorf("the error is temporary %v (-want +got):\n%s", got.Temporary(), d)
			}
		})
	}
	for body, want := range map[string]string{
		`{"status":"failed","error":{"code":"server_error","message":"Sorry."}}`: "openai: 500 Internal Server Error: server_error: Sorry.",
		`{"id":"resp_1","status":"queued","output":[]}`:                          "openai: 200 OK: response resp_1 is queued: remove the setting background, or stream the response",
		`{}`:             "openai: 200 OK: response without output: {}",
		`{"out`:          "openai: 200 OK: error parsing response json: unexpected EOF",
		`{"output":[1]}`: "openai: 200 OK: output item: json: cannot unmarshal number into Go value of type openai.outputItem",
	} {
		_, err := llm.Generate(t.Context(), llm.With(responsesAt(t, own, &wire{body: body}), llm.NoStream()), llm.User("Hi"))
		if err == nil || err.Error() != want {
			t.Errorf("%s: the error is %v, want %s", body, err, want)
		}
	}
}

func TestMissingResponsesAPI(t *testing.T) {
	const hint = `set Options.API to "chat"`
	for _, test := range []struct {
		url, body string
		status    int
		hint      bool
	}{
		{another, `{"detail":"Not Found"}`, 404, true},
		{another, "<html>405</html>", 405, true},
		{another, `{"error":{"message":"The model does not exist.","code":"model_not_found"}}`, 404, false},
		{own, `{"error":{"message":"Not found."}}`, 404, false},
		{another, `{"error":{"message":"Wrong key."}}`, 401, false},
	} {
		_, err := llm.Generate(t.Context(), responsesAt(t, test.url, &wire{status: test.status, body: test.body}), llm.User("Hi"))
		if err == nil || strings.Contains(err.Error(), hint) != test.hint {
			t.Errorf("%s: the error is %v, want the remedy: %v", test.body, err, test.hint)
		}
	}
}

// replies answers each request with the next body. A body that starts with the
// number of a status is an error.
type replies struct {
	bodies []string
	sent   []string
}

func (r *replies) RoundTrip(req *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.sent = append(r.sent, string(raw))
	w := &wire{body: r.bodies[0]}
	r.bodies = r.bodies[1:]
	if body, failed := strings.CutPrefix(w.body, "400 "); failed {
		w.status, w.body = http.StatusBadRequest, body
	}
	return w.RoundTrip(req)
}

func TestResponsesRecover(t *testing.T) {
	const (
		mismatch  = `400 {"error":{"message":"The encrypted content could not be verified.","type":"invalid_request_error","code":"invalid_encrypted_content"}}`
		plain     = `400 {"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","param":"include","code":null}}`
		forgotten = `400 {"error":{"message":"Previous response with id 'resp_0' not found.","type":"invalid_request_error","code":"previous_response_not_found"}}`
	)
	c := call("call_1", `{}`)
	history := []llm.Message{llm.User("Weather?"),
		ours(llm.Message{ToolCalls: []llm.ToolCall{c}, Blocks: []llm.Block{reasoningBlock("rs_1", "Hm.", map[string]any{"encrypted_content": "ZW5j"})}}), llm.ToolResult(c, "sunny")}
	ask := func(t *testing.T, model *openai.Model, times int) {
		t.Helper()
		for range times {
			if _, err := llm.Generate(t.Context(), llm.With(model, llm.NoStream()), history...); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("reasoning of another organization", func(t *testing.T) {
		r := &replies{bodies: []string{mismatch, okResponse}}
		ask(t, responsesAt(t, own, r), 1)
		if !strings.Contains(r.sent[0], "rs_1") || strings.Contains(r.sent[1], `"reasoning"`) || !strings.Contains(r.sent[1], "call_1") {
			t.Errorf("sent %s", r.sent)
		}
		r.bodies = []string{mismatch, mismatch}
		if _, err := llm.Generate(t.Context(), responsesAt(t, own, r), history...); err == nil {
			t.Error("the second failure is not returned")
		}
	})
	t.Run("model without encryption", func(t *testing.T) {
		r := &replies{bodies: []string{plain, okResponse, okResponse}}
		ask(t, responsesAt(t, own, r), 2)
		for i, want := range []bool{true, false, false} {
			if strings.Contains(r.sent[i], "reasoning.encrypted_content") != want {
				t.Errorf("request %d: %s", i, r.sent[i])
			}
		}
	})
	t.Run("stored response", func(t *testing.T) {
		r := &replies{bodies: []string{okResponse, forgotten, okResponse}}
		model := responsesAt(t, own, r, func(o *openai.Options) { o.Stateful = true })
		ask(t, model, 2)
		for i, want := range []bool{true, true, false} {
			if stored := strings.Contains(r.sent[i], `"previous_response_id":"resp_0"`); stored != want || stored == strings.Contains(r.sent[i], "Weather?") ||
				!strings.Contains(r.sent[i], "sunny") || !strings.Contains(r.sent[i], `"store":true`) {
				t.Errorf("request %d: %s", i, r.sent[i])
			}
		}
	})
}

func TestResponsesWarnOnce(t *testing.T) {
	var logged bytes.Buffer
	const surprise = `data: {"type":"response.surprise"}` + "\n\n"
	end := `data: {"type":"response.completed","response":{"output":[],"input_transformations":[{"action":"removed","reason":"model_mismatch"}]}}` + "\n\n"
	w := &wire{body: surprise + surprise + `data: {"type":"response.other"}` + "\n\n" + end}
	model := responsesAt(t, own, w, func(o *openai.Options) { o.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
	other := llm.Message{Role: llm.RoleAI, Metadata: map[string]any{"model_provider": "anthropic"}, Content: "Hi.", Blocks: []llm.Block{reasoningBlock("", "Secret.", nil)}}
	for range 2 {
		if _, err := llm.Generate(t.Context(), model, llm.User("Hi"), other, other, llm.User("Hi")); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"type=response.surprise", "type=response.other", "dropping reasoning", "reason=model_mismatch"} {
		if n := strings.Count(logged.String(), want); n != 1 {
			t.Errorf("%s is logged %d times:\n%s", want, n, &logged)
		}
	}
}

func TestAPISelection(t *testing.T) {
	for _, test := range []struct{ url, api, want string }{
		{own, "", "/v1/responses"}, {own, "chat", "/v1/chat/completions"},
		{another, "", "/v1/chat/completions"}, {another, "responses", "/v1/responses"},
	} {
		w := &wire{status: 500}
		_, _ = llm.Generate(t.Context(), responsesAt(t, test.url, w, func(o *openai.Options) { o.API = test.api }), llm.User("Hi"))
		same(t, test.url+" "+test.api, test.want, w.request.URL.Path)
	}
	for want, o := range map[string]*openai.Options{
		`unknown API "soap": use "responses" or "chat"`: {Key: "k", API: "soap"},
		"Stateful requires the Responses API":           {Key: "k", API: "chat", Stateful: true},
	} {
		if _, err := openai.New("gpt-test", o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

// FuzzResponses checks that a stream is a complete response that can be sent back,
// or an error.
func FuzzResponses(f *testing.F) {
	for _, name := range []string{"full", "no_indexes", "done_only", "end_only", "cut_calls", "parallel"} {
		f.Add(readFile(f, "responses_"+name+".sse"))
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := &wire{body: body, header: map[string]string{"Content-Type": "text/event-stream"}}
		model := responsesAt(t, own, w)
		m, err := llm.Generate(t.Context(), model, llm.User("Hi"))
		if err != nil {
			return
		}
		if m.Stop == "" {
			t.Error("the response has no stop reason")
		}
		w.body = okResponse
		w.header = nil
		if _, err := llm.Generate(t.Context(), llm.With(model, llm.NoStream()), llm.User("Hi"), m, llm.User("Go on")); err != nil {
			t.Errorf("the response cannot be sent back: %v", err)
		}
	})
}

func TestResponsesTokenAllocations(t *testing.T) {
	const n = 1000
	var b strings.Builder
	b.WriteString(`data: {"type":"response.output_item.added","item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}` + "\n\n")
	for i := range n {
		fmt.Fprintf(&b, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\" token%d\",\"logprobs\":[],\"sequence_number\":%d}\n\n", i, i)
	}
	b.WriteString(`data: {"type":"response.completed","response":{"output":[]}}` + "\n\n")
	model := responsesAt(t, own, roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(b.String()))}, nil
	}))
	req := &llm.Request{Messages: llm.Messages{llm.User("Hi")}}
	allocs := testing.AllocsPerRun(5, func() {
		for _, err := range model.Stream(context.Background(), req) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs > n+200 {
		t.Errorf("%d tokens take %v allocations, want one for each and at most 200 for the call", n, allocs)
	}
}
