package bedrock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/bedrock"
)

func runTool(context.Context, json.RawMessage) (any, error) { return "ok", nil }

var look = llm.ToolCall{ID: "call_1", Name: "look", Args: json.RawMessage(`{"b":1,"a":2}`)}

func lookTool() llm.Option { return llm.Tools(&llm.Tool{Name: "look", Run: runTool}) }

// Bedrock requires tools in a request whose history has tool calls.
func TestToolHistoryWithoutTools(t *testing.T) {
	signed := llm.Message{Role: llm.RoleAI, Blocks: []llm.Block{{Type: llm.BlockReasoning, Reasoning: "Hm", Extra: object{"signature": "cw=="}}}, ToolCalls: []llm.ToolCall{look}}
	history := []llm.Message{llm.User("Hi"), signed, llm.ToolResult(look, "an owl"), llm.Assistant("An owl."), llm.User("Thanks")}
	for name, opts := range map[string][]llm.Option{"no tools": nil, "choice none": {lookTool(), llm.ToolChoice(llm.ToolChoiceNone)}} {
		got := send(t, claude, opts, history...)
		if got.ToolConfig != nil || len(got.Messages) != 5 {
			t.Fatalf("%s: %+v", name, got)
		}
		same(t, name, []string{"text"}, kinds(t, got.Messages[1].Content))
		if text := *got.Messages[1].Content[0].Text; !strings.Contains(text, "look") || !strings.Contains(text, `{"b":1,"a":2}`) {
			t.Errorf("%s: the call became %q", name, text)
		}
		if text := *got.Messages[2].Content[0].Text; !strings.Contains(text, "look") || !strings.Contains(text, "an owl") {
			t.Errorf("%s: the result became %q", name, text)
		}
	}
	got := send(t, claude, []llm.Option{lookTool()}, history...)
	same(t, "with tools", []string{"reasoningContent", "toolUse"}, kinds(t, got.Messages[1].Content))
}

func TestTurnsAlternate(t *testing.T) {
	second := llm.ToolCall{ID: "toolu.2:x/" + strings.Repeat("y", 80), Name: "look"}
	failed := llm.ToolResult(second, "")
	failed.Status = llm.StatusError
	got := send(t, claude, []llm.Option{lookTool()},
		llm.System("One."), llm.User("Hi"), llm.User("  "+"you"), llm.System("Two."),
		llm.Assistant(" \n", look, second), llm.ToolResult(look, "an owl"), failed, llm.User("So?"), llm.Assistant("It is "))
	if len(got.System) != 2 || len(got.Messages) != 4 {
		t.Fatalf("%d system texts, %d messages", len(got.System), len(got.Messages))
	}
	same(t, "user", []string{"text", "text"}, kinds(t, got.Messages[0].Content))
	same(t, "calls", []string{"toolUse", "toolUse"}, kinds(t, got.Messages[1].Content))
	same(t, "results", []string{"toolResult", "toolResult", "text"}, kinds(t, got.Messages[2].Content))
	if text := *got.Messages[3].Content[0].Text; text != "It is" {
		t.Errorf("prefill %q, want no space at the end", text)
	}
	call, result := got.Messages[1].Content[1].ToolUse, got.Messages[2].Content[1].ToolResult
	if call.ToolUseID != result.ToolUseID || len(call.ToolUseID) > 64 || strings.ContainsAny(call.ToolUseID, ".:/") || string(call.Input) != "{}" {
		t.Errorf("call %+v, result %+v", call, result)
	}
	if result.Status != "error" || len(result.Content) != 1 {
		t.Errorf("result %+v, want an error with a text", result)
	}
	for reason, history := range map[string][]llm.Message{
		"user message first": {llm.Assistant("Hello")},
		"empty message":      {llm.User("  ")},
		"only texts":         {{Role: llm.RoleSystem, Blocks: []llm.Block{llm.Image("image/png", []byte("x"))}}, llm.User("Hi")},
	} {
		if got := rejected(t, claude, history...); !strings.Contains(got, reason) && !strings.Contains(got, strings.TrimPrefix(reason, "only ")) {
			t.Errorf("rejected for %q, want %q", got, reason)
		}
	}
}

func TestReasoningGoesBackToItsVendor(t *testing.T) {
	const nova, oss, r1 = "us.amazon.nova-2-lite-v1:0", "openai.gpt-oss-120b-1:0", "us.deepseek.r1-v1:0"
	thought := func(provider, model, signature string) llm.Message {
		m := llm.Message{Role: llm.RoleAI, Blocks: []llm.Block{{Type: llm.BlockReasoning, Reasoning: "Hm"}, llm.Text("Yes.")}}
		if provider != "" {
			m.Metadata = object{"model_provider": provider, "model_name": model}
		}
		if signature != "" {
			m.Blocks[0].Extra = object{"signature": signature}
		}
		return m
	}
	for name, test := range map[string]struct {
		to   string
		from llm.Message
		want bool
	}{
		"signed, same vendor":        {claude, thought("bedrock_converse", "eu.anthropic.claude-opus-5-5", "cw=="), true},
		"signed, Anthropic's API":    {claude, thought("anthropic", "claude-opus-5-5", "cw=="), true},
		"signed, unknown":            {claude, thought("", "", "cw=="), true},
		"unsigned, same vendor":      {claude, thought("bedrock_converse", claude, ""), false},
		"signed, another vendor":     {claude, thought("bedrock_converse", nova, "cw=="), false},
		"another provider":           {claude, thought("gemini", "gemini-4", "cw=="), false},
		"unsigned Nova":              {nova, thought("bedrock_converse", nova, ""), true},
		"unsigned OSS":               {oss, thought("bedrock_converse", oss, ""), true},
		"Nova from OSS":              {nova, thought("bedrock_converse", oss, ""), false},
		"DeepSeek R1":                {r1, thought("bedrock_converse", r1, "cw=="), false},
		"Anthropic's API, to Nova 2": {nova, thought("anthropic", "claude-opus-5-5", "cw=="), false},
	} {
		got := send(t, test.to, nil, llm.User("Hi"), test.from, llm.User("Sure?"))
		if has := got.Messages[1].Content[0].ReasoningContent != nil; has != test.want {
			t.Errorf("%s: reasoning sent: %v, want %v", name, has, test.want)
		}
	}
	redacted := llm.Message{Role: llm.RoleAI, Metadata: object{"model_provider": "bedrock_converse", "model_name": claude},
		Blocks: []llm.Block{{Type: "redacted_thinking", Data: []byte("secret")}, llm.Text("Yes.")}}
	if got := send(t, claude, nil, llm.User("Hi"), redacted, llm.User("Sure?")).Messages[1].Content[0].ReasoningContent; got == nil || string(got.RedactedContent) != "secret" {
		t.Errorf("redacted reasoning %+v", got)
	}
}

func TestMedia(t *testing.T) {
	png := []byte("\x89PNG\r\n\x1a\n a picture")
	got := send(t, claude, []llm.Option{lookTool()},
		llm.User("", llm.File("Q3 report_v2.final.pdf", "application/pdf", []byte("%PDF")), llm.File("Q3 report_v2.final.pdf", "application/pdf", []byte("%PDF-2")),
			llm.Block{Type: llm.BlockFile, URL: "s3://bucket/notes.csv", MIMEType: "text/csv", Extra: object{"citations": object{"enabled": true}}},
			llm.Block{Type: llm.BlockPlain, Text: "plain"}, llm.Image("", png), llm.ImageURL("data:image/webp;base64,YWJj")),
		llm.Assistant("", look), llm.ToolResult(look, llm.Image("image/png", png)))
	content := got.Messages[0].Content
	same(t, "blocks", []string{"document", "document", "document", "document", "image", "image", "text"}, kinds(t, content))
	if content[0].Document.Name != "Q3 report v2 final" || content[1].Document.Name != "Q3 report v2 final (2)" || content[0].Document.Format != "pdf" {
		t.Errorf("documents %+v and %+v", content[0].Document, content[1].Document)
	}
	if d := content[2].Document; d.Source.S3Location == nil || d.Source.S3Location.URI != "s3://bucket/notes.csv" || d.Format != "csv" || !d.Citations.Enabled {
		t.Errorf("document %+v", d)
	}
	if d := content[3].Document; string(d.Source.Bytes) != "plain" || d.Format != "txt" || !strings.HasPrefix(d.Name, "document-") {
		t.Errorf("text document %+v", d)
	}
	if content[4].Image.Format != "png" || content[5].Image.Format != "webp" || string(content[5].Image.Source.Bytes) != "abc" {
		t.Errorf("images %+v, %+v", content[4].Image, content[5].Image)
	}
	if result := got.Messages[2].Content[0].ToolResult; len(result.Content) != 1 || result.Content[0].Image == nil {
		t.Errorf("result %+v, want the image", result)
	}

	// Other vendors accept no media in results.
	got = send(t, "mistral.pixtral-large-2502-v1:0", []llm.Option{lookTool()}, llm.User("Look"), llm.Assistant("", look, llm.ToolCall{ID: "2", Name: "look"}),
		llm.ToolResult(look, llm.Image("image/png", png)), llm.ToolResult(llm.ToolCall{ID: "2", Name: "look"}, "nothing"))
	same(t, "results and image", []string{"toolResult", "toolResult", "text", "image"}, kinds(t, got.Messages[2].Content))

	for _, b := range []llm.Block{llm.ImageURL("https://example.com/owl.jpg"), {Type: llm.BlockFile, FileID: "file_1"}} {
		if reason := rejected(t, claude, llm.User("Look", b)); !strings.Contains(reason, "s3://") {
			t.Errorf("%s: %s", b.Type, reason)
		}
	}
	for _, b := range []llm.Block{llm.Image("image/tiff", png), llm.File("a.zip", "application/zip", png), {Type: "container_upload"}} {
		if reason := rejected(t, claude, llm.User("Look", b)); !strings.Contains(reason, "Bedrock") {
			t.Errorf("%s: %s", b.Type, reason)
		}
	}
}

func TestCachePoints(t *testing.T) {
	mark := object{"cache_control": object{"type": "ephemeral", "ttl": "1h"}}
	tool := &llm.Tool{Name: "look", Run: runTool, Extra: mark}
	system := llm.Message{Role: llm.RoleSystem, Blocks: []llm.Block{{Type: llm.BlockText, Text: "Be brief.", Extra: mark}}}
	history := []llm.Message{system, llm.User("", llm.Block{Type: llm.BlockText, Text: "Hi", Extra: mark}), llm.Assistant("", look),
		llm.ToolResult(look, llm.Block{Type: llm.BlockText, Text: "an owl", Extra: mark})}
	got := send(t, claude, []llm.Option{llm.Tools(tool)}, history...)
	same(t, "system", []string{"text", "cachePoint"}, kinds(t, got.System))
	same(t, "user", []string{"text", "cachePoint"}, kinds(t, got.Messages[0].Content))
	same(t, "result", []string{"toolResult", "cachePoint"}, kinds(t, got.Messages[2].Content))
	if p := got.System[1].CachePoint; p.Type != "default" || p.TTL != "1h" {
		t.Errorf("cache point %+v", p)
	}
	if tools := got.ToolConfig.Tools; len(tools) != 2 || tools[1].CachePoint == nil {
		t.Errorf("tools %+v", tools)
	}
	got = send(t, "amazon.nova-pro-v1:0", []llm.Option{llm.Tools(tool)}, history...)
	same(t, "Nova's system", []string{"text", "cachePoint"}, kinds(t, got.System))
	same(t, "Nova's result", []string{"toolResult"}, kinds(t, got.Messages[2].Content))
	if got.System[1].CachePoint.TTL != "" || len(got.ToolConfig.Tools) != 1 {
		t.Errorf("Nova gets %+v and tools %+v", got.System[1].CachePoint, got.ToolConfig.Tools)
	}
	got = send(t, "meta.llama4-maverick-17b-instruct-v1:0", []llm.Option{llm.Tools(tool)}, history...)
	same(t, "Llama's system", []string{"text"}, kinds(t, got.System))
}

func TestCachePrompt(t *testing.T) {
	mark := object{"cache_control": object{"type": "ephemeral"}}
	history := []llm.Message{llm.System("Be brief."), llm.User("Hi"), llm.Assistant("", look), llm.ToolResult(look, "an owl")}
	opts := []llm.Option{lookTool(), llm.CachePrompt(time.Hour)}
	got := send(t, claude, opts, history...)
	same(t, "system", []string{"text", "cachePoint"}, kinds(t, got.System))
	same(t, "newest turn", []string{"toolResult", "cachePoint"}, kinds(t, got.Messages[2].Content))
	same(t, "turn before", []string{"toolUse", "cachePoint"}, kinds(t, got.Messages[1].Content))
	same(t, "first turn", []string{"text"}, kinds(t, got.Messages[0].Content))
	if tools := got.ToolConfig.Tools; len(tools) != 2 || tools[1].CachePoint == nil || tools[1].CachePoint.TTL != "1h" {
		t.Errorf("tools %+v", tools)
	}

	// Points in Extra count.
	marked := llm.User("", llm.Block{Type: llm.BlockText, Text: "a", Extra: mark}, llm.Block{Type: llm.BlockText, Text: "b", Extra: mark}, llm.Block{Type: llm.BlockText, Text: "c", Extra: mark}, llm.Text("d"))
	got = send(t, claude, opts, llm.System("Be brief."), marked)
	same(t, "system", []string{"text", "cachePoint"}, kinds(t, got.System))
	same(t, "marked turn", []string{"text", "cachePoint", "text", "cachePoint", "text", "cachePoint", "text"}, kinds(t, got.Messages[0].Content))

	got = send(t, "amazon.nova-pro-v1:0", opts, history...)
	same(t, "Nova's system", []string{"text", "cachePoint"}, kinds(t, got.System))
	same(t, "Nova's results", []string{"toolResult"}, kinds(t, got.Messages[2].Content))
	if len(got.ToolConfig.Tools) != 1 || got.System[1].CachePoint.TTL != "" {
		t.Errorf("Nova's tools %+v, point %+v", got.ToolConfig.Tools, got.System[1].CachePoint)
	}
	got = send(t, "meta.llama4-maverick-17b-instruct-v1:0", opts, history...)
	same(t, "Llama's system", []string{"text"}, kinds(t, got.System))
}

// Facts about models come from package catalog.
func TestFacts(t *testing.T) {
	info := open(t, claude, "http://localhost").Describe()
	if info.Provider != "bedrock" || info.Model != claude || info.Window == 0 || !info.NativeOutput || !info.NoToolChoice || info.Price == nil {
		t.Errorf("%+v", info)
	}
	if info := open(t, "deepseek.r1-v1:0", "http://localhost").Describe(); !info.NoTools || info.NativeOutput {
		t.Errorf("%+v", info)
	}
	if got := send(t, claude, []llm.Option{llm.Temperature(0)}, llm.User("Hi")); got.InferenceConfig.Temperature != nil {
		t.Errorf("temperature %v for a model that rejects it", *got.InferenceConfig.Temperature)
	}
	const old = "us.anthropic.claude-sonnet-4-6"
	for name, model := range map[string]llm.Model{
		"forced call":               llm.With(open(t, claude, "http://localhost"), llm.ToolChoice("look")),
		"forced call and reasoning": llm.With(open(t, old, "http://localhost"), llm.ToolChoice("any"), llm.Reasoning("low")),
	} {
		if _, err := llm.Generate(t.Context(), llm.With(model, lookTool()), llm.User("Hi")); err == nil || !strings.Contains(err.Error(), "forces a call") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDroppedReasoningIsLoggedOnce(t *testing.T) {
	var logged bytes.Buffer
	s := &server{body: hello}
	opts := options(s.start(t))
	opts.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	m, err := bedrock.New(claude, opts)
	if err != nil {
		t.Fatal(err)
	}
	foreign := llm.Message{Role: llm.RoleAI, Content: "Hi.", Metadata: object{"model_provider": "openai"}, Blocks: []llm.Block{{Type: llm.BlockReasoning, Reasoning: "Secret."}}}
	for range 2 {
		if _, err := llm.Generate(t.Context(), m, llm.User("Hi"), foreign, llm.User("Hi")); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(logged.String(), "provider=openai"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &logged)
	}
}

func TestGuardedContent(t *testing.T) {
	got := send(t, claude, []llm.Option{llm.Setting("guardrailConfig", map[string]any{"guardrailIdentifier": "g1", "guardrailVersion": "1"})},
		llm.User("Summarize", llm.Block{Type: llm.BlockText, Text: "the mail", Extra: object{"guard": true}}))
	same(t, "blocks", []string{"text", "guardContent"}, kinds(t, got.Messages[0].Content))
	if raw := string(got.Messages[0].Content[1].GuardContent); raw != `{"text":{"text":"the mail"}}` || got.GuardrailConfig["guardrailIdentifier"] != "g1" {
		t.Errorf("content %s, configuration %v", raw, got.GuardrailConfig)
	}
}

func TestReasoningEffort(t *testing.T) {
	for model, want := range map[string]map[string]object{
		claude: {"high": {"thinking": object{"type": "adaptive"}, "output_config": object{"effort": "high"}}, "none": {"thinking": object{"type": "disabled"}}},
		"us.anthropic.claude-3-7-sonnet-20250219-v1:0": {"low": {"thinking": object{"type": "enabled", "budget_tokens": 4096.0}}},
		"us.amazon.nova-2-lite-v1:0":                   {"medium": {"reasoningConfig": object{"type": "enabled", "maxReasoningEffort": "medium"}}},
		"openai.gpt-oss-20b-1:0":                       {"low": {"reasoning_effort": "low"}},
		"openai.gpt-6-sol":                             {"low": {"reasoning": object{"effort": "low"}}},
		"meta.llama4-scout-17b-instruct-v1:0":          {"low": nil},
	} {
		for effort, fields := range want {
			got := send(t, model, []llm.Option{llm.Reasoning(effort)}, llm.User("Hi"))
			same(t, model+" "+effort, fields, got.AdditionalModelRequestFields)
		}
	}
	got := send(t, claude, []llm.Option{llm.Reasoning("low"), llm.TopP(0.5), llm.Setting("additionalModelRequestFields", map[string]any{"top_k": 5}),
		llm.Setting("inferenceConfig", map[string]any{"topP": 0.9}), llm.Setting("requestMetadata", map[string]any{"team": "owls"})}, llm.User("Hi"))
	if got.AdditionalModelRequestFields["top_k"] != 5.0 || got.AdditionalModelRequestFields["thinking"] == nil || *got.InferenceConfig.TopP != 0.9 || got.RequestMetadata["team"] != "owls" {
		t.Errorf("settings %+v", got)
	}
}

func TestBedrockServerTools(t *testing.T) {
	grounding := &llm.Tool{Extra: object{"systemTool": object{"name": "nova_grounding"}}}
	got := send(t, "us.amazon.nova-premier-v1:0", []llm.Option{llm.Tools(grounding)}, llm.User("Hi"))
	if tools := got.ToolConfig.Tools; len(tools) != 1 || tools[0].SystemTool == nil || tools[0].SystemTool["name"] != "nova_grounding" {
		t.Errorf("tools %+v", tools)
	}
}

// Schemas keep the order of their properties, and lose what structured output does
// not support.
func TestSchemas(t *testing.T) {
	type value struct {
		Zeta  string `json:"zeta"`
		Alpha int    `json:"alpha"`
	}
	tool := llm.NewTool("look", "Looks.", func(context.Context, value) (string, error) { return "", nil })
	got := send(t, claude, []llm.Option{llm.Tools(tool)}, llm.User("Hi"))
	schema := string(got.ToolConfig.Tools[0].ToolSpec.InputSchema.JSON)
	if strings.Index(schema, "zeta") > strings.Index(schema, "alpha") {
		t.Errorf("schema %s", schema)
	}
	limited := tool.Parameters.CloneSchemas()
	limited.Properties["alpha"].Minimum = new(1.0)
	limited.Properties["zeta"].MaxLength = new(3)
	got = send(t, claude, []llm.Option{&llm.Output{Name: "value", Schema: limited}}, llm.User("Hi"))
	text := got.OutputConfig.TextFormat.Structure.JSONSchema.Schema
	if strings.Contains(text, "minimum") || strings.Contains(text, "maxLength") || strings.Index(text, "zeta") > strings.Index(text, "alpha") {
		t.Errorf("schema %s", text)
	}
	if limited.Properties["alpha"].Minimum == nil {
		t.Error("the request changed the schema")
	}
}
