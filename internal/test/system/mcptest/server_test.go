package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/mcptool"
)

// The smallest files that the kits accept.
var (
	png = []byte("\x89PNG\r\n\x1a\n")
	wav = []byte("RIFF\x24\x00\x00\x00WAVEfmt ")
)

type none struct{}

// newFixture returns the server that the kits expect, without the tools that ask the user, which are
// graphs. Tools with content and errors are Treadle tools.
func newFixture(t *testing.T) *mcp.Server {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "fixture", Version: "v1"}, &mcp.ServerOptions{
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}, nil
		},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	result := func(name string, m llm.Message) *llm.Tool {
		return llm.NewTool(name, "Returns content.", func(context.Context, none) (llm.Message, error) { return m, nil })
	}
	note := llm.File("note.txt", "text/plain", []byte("note"))
	tools := []*llm.Tool{
		result("test_simple_text", llm.Message{Content: "hello"}),
		result("test_image_content", llm.Message{Blocks: []llm.Block{llm.Image("image/png", png)}}),
		result("test_audio_content", llm.Message{Blocks: []llm.Block{llm.Audio("audio/wav", wav)}}),
		result("test_embedded_resource", llm.Message{Blocks: []llm.Block{note}}),
		result("test_multiple_content_types", llm.Message{Blocks: []llm.Block{llm.Text("hello"), llm.Image("image/png", png), note}}),
		result("test_streaming_elicitation", llm.Message{Content: "done"}),
		llm.NewTool("test_error_handling", "Fails.", func(context.Context, none) (string, error) { return "", errors.New("out of owls") }),
	}
	if err := mcptool.Add(s, tools...); err != nil {
		t.Fatal(err)
	}
	addSessionTools(s)
	addInputTools(s)
	addResources(s)
	addPrompts(s)
	return s
}

// question is a form with a key.
func question(key, text, fields string) treadle.Question {
	q := treadle.Question{Key: key, Value: text}
	if fields != "" {
		q.Schema = &jsonschema.Schema{}
		if err := json.Unmarshal([]byte(fields), q.Schema); err != nil {
			panic(err)
		}
	}
	return q
}

// asking returns the graphs that ask the user.
func asking(t *testing.T) []treadle.AnyGraph {
	t.Helper()
	const name = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
	const ok = `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`
	var out []treadle.AnyGraph
	for tool, questions := range map[string][]treadle.Question{
		"test_elicitation":                          {question("", "", `{"type":"object","properties":{"username":{"type":"string"},"email":{"type":"string"}},"required":["username"]}`)},
		"test_elicitation_sep1034_defaults":         {question("", "Defaults", defaults)},
		"test_elicitation_sep1330_enums":            {question("", "Enums", enums)},
		"test_input_required_result_elicitation":    {question("user_name", "What is your name?", name)},
		"test_input_required_result_request_state":  {question("confirm", "Please confirm.", ok)},
		"test_input_required_result_tampered_state": {question("confirm", "Please confirm.", ok)},
		"test_input_required_result_multi_round":    {question("step1", "What is your name?", name), question("step2", "Which color?", `{"type":"object","properties":{"color":{"type":"string"}},"required":["color"]}`)},
	} {
		g, err := treadle.NewWorkflow(tool, func(ctx context.Context, in struct {
			Message string `json:"message,omitempty"`
		}) (string, error) {
			said := "state-ok"
			for _, q := range questions {
				if q.Value == "" {
					q.Value = in.Message
				}
				answer, err := treadle.Interrupt[map[string]any](ctx, q)
				if err != nil {
					return "", err
				}
				said += fmt.Sprint(" ", answer)
			}
			return said, nil
		}, &treadle.Options{Saver: checkpoint.NewMemory()})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, g)
	}
	return out
}

const (
	defaults = `{"type":"object","properties":{
		"name":{"type":"string","default":"John Doe"},
		"age":{"type":"integer","default":30},
		"score":{"type":"number","default":95.5},
		"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},
		"verified":{"type":"boolean","default":true}}}`
	enums = `{"type":"object","properties":{
		"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
		"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
		"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
		"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
		"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}}`
)

var empty = json.RawMessage(`{"type":"object"}`)

func say(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// addSessionTools adds tools that use the session of the call.
func addSessionTools(s *mcp.Server) {
	for _, name := range []string{"test_tool_with_logging", "test_logging_tool"} {
		s.AddTool(&mcp.Tool{Name: name, Description: "A tool of the kit.", InputSchema: empty}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var err error
			for _, text := range []string{"started", "working", "finished"} {
				err = errors.Join(err, r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: text}))
			}
			return say("logged"), err
		})
	}
	s.AddTool(&mcp.Tool{Name: "test_tool_with_progress", Description: "A tool of the kit.", InputSchema: empty}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var err error
		for _, done := range []float64{0, 50, 100} {
			err = errors.Join(err, r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: done, Total: 100}))
		}
		return say("done"), err
	})
	s.AddTool(&mcp.Tool{Name: "test_sampling", Description: "A tool of the kit.", InputSchema: json.RawMessage(`{"type":"object","properties":{"prompt":{"type":"string"}}}`)},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in struct{ Prompt string }
			if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
				return nil, err
			}
			m, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 100,
				Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: in.Prompt}}}})
			if err != nil {
				return nil, err
			}
			text, _ := m.Content.(*mcp.TextContent)
			return say("The model said: " + text.Text), nil
		})
	s.AddTool(&mcp.Tool{Name: "test_missing_capability", Description: "A tool of the kit.", InputSchema: empty}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if c := r.ClientCapabilities(); c != nil && c.Sampling != nil {
			return say("ok"), nil
		}
		return nil, &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "sampling required", Data: json.RawMessage(`{"requiredCapabilities":{"sampling":{}}}`)}
	})
	s.AddTool(&mcp.Tool{Name: "test_trigger_tool_change", Description: "A tool of the kit.", InputSchema: empty}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.AddTool(&mcp.Tool{Name: "changed", Description: "A tool of the kit.", InputSchema: empty}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return say("ok"), nil })
		return say("changed"), nil
	})
	s.AddTool(&mcp.Tool{Name: "test_trigger_prompt_change", Description: "A tool of the kit.", InputSchema: empty}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.AddPrompt(&mcp.Prompt{Name: "changed", Description: "A new prompt."}, prompt(&mcp.TextContent{Text: "changed"}))
		return say("changed"), nil
	})
	schema := `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
		"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
		"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
		"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
		"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`
	s.AddTool(&mcp.Tool{Name: "json_schema_2020_12_tool", Description: "A tool of the kit.", InputSchema: json.RawMessage(schema)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return say("ok"), nil })
}

// addInputTools adds tools that request input other than answers of the user.
func addInputTools(s *mcp.Server) {
	name := &mcp.ElicitParams{Mode: "form", Message: "What is your name?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)}
	greeting := &mcp.CreateMessageParams{MaxTokens: 50, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "Greet."}}}}
	for tool, requests := range map[string]mcp.InputRequestMap{
		"test_input_required_result_sampling":        {"capital_question": greeting},
		"test_input_required_result_list_roots":      {"client_roots": &mcp.ListRootsParams{}},
		"test_input_required_result_multiple_inputs": {"user_name": name, "greeting": greeting, "client_roots": &mcp.ListRootsParams{}},
		"test_input_required_result_capabilities":    {"user_name": name, "greeting": greeting},
	} {
		s.AddTool(&mcp.Tool{Name: tool, Description: "A tool of the kit.", InputSchema: empty}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			caps := r.ClientCapabilities()
			out := mcp.InputRequestMap{}
			for key, one := range requests {
				_, asks := one.(*mcp.ElicitParams)
				_, samples := one.(*mcp.CreateMessageParams)
				if r.Params.InputResponses[key] == nil && (!asks || caps.Elicitation != nil) && (!samples || caps.Sampling != nil) {
					out[key] = one
				}
			}
			if len(out) == 0 {
				return say("complete"), nil
			}
			return &mcp.CallToolResult{InputRequests: out, RequestState: tool}, nil
		})
	}
}

func addResources(s *mcp.Server) {
	add := func(uri, name string, c mcp.ResourceContents) {
		s.AddResource(&mcp.Resource{URI: uri, Name: name, Description: name, MIMEType: c.MIMEType}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			c := c
			c.URI = r.Params.URI
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{&c}}, nil
		})
	}
	add("test://static-text", "text", mcp.ResourceContents{MIMEType: "text/plain", Text: "text"})
	add("test://static-binary", "binary", mcp.ResourceContents{MIMEType: "image/png", Blob: png})
	add("test://watched-resource", "watched", mcp.ResourceContents{MIMEType: "text/plain", Text: "watched"})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", Description: "template", MIMEType: "application/json"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "application/json", Text: fmt.Sprintf(`{"id":%q}`, id)}}}, nil
		})
}

// prompt returns a prompt with a message for each content.
func prompt(content ...mcp.Content) mcp.PromptHandler {
	return func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		out := &mcp.GetPromptResult{}
		for _, c := range content {
			out.Messages = append(out.Messages, &mcp.PromptMessage{Role: "user", Content: c})
		}
		return out, nil
	}
}

func addPrompts(s *mcp.Server) {
	s.AddPrompt(&mcp.Prompt{Name: "test_simple_prompt", Description: "A prompt."}, prompt(&mcp.TextContent{Text: "Hello."}))
	s.AddPrompt(&mcp.Prompt{Name: "test_prompt_with_image", Description: "A picture."}, prompt(&mcp.ImageContent{MIMEType: "image/png", Data: png}, &mcp.TextContent{Text: "Describe it."}))
	s.AddPrompt(&mcp.Prompt{Name: "test_prompt_with_arguments", Description: "Arguments.", Arguments: []*mcp.PromptArgument{
		{Name: "arg1", Description: "the first", Required: true}, {Name: "arg2", Description: "the second", Required: true}}},
		func(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return prompt(&mcp.TextContent{Text: fmt.Sprintf("arg1=%s arg2=%s", r.Params.Arguments["arg1"], r.Params.Arguments["arg2"])})(ctx, r)
		})
	s.AddPrompt(&mcp.Prompt{Name: "test_prompt_with_embedded_resource", Description: "A resource.", Arguments: []*mcp.PromptArgument{
		{Name: "resourceUri", Description: "its URI", Required: true}}},
		func(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return prompt(&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: r.Params.Arguments["resourceUri"], MIMEType: "text/plain", Text: "text"}},
				&mcp.TextContent{Text: "Read it."})(ctx, r)
		})
	s.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: "A question."}, func(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		if e, ok := r.Params.InputResponses["user_context"].(*mcp.ElicitResult); ok && e.Action == "accept" {
			return prompt(&mcp.TextContent{Text: fmt.Sprint(e.Content["context"])})(ctx, r)
		}
		return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"user_context": &mcp.ElicitParams{Mode: "form", Message: "Context?",
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"context":{"type":"string"}},"required":["context"]}`)}}}, nil
	})
}
