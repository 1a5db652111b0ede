package bedrock_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// The wire format, written from the service description of bedrock-runtime and the
// specification of event streams.

type object = map[string]any

func marshal(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// frame returns a message of an event stream: lengths with their checksum, headers,
// payload, and a checksum of everything.
func frame(headers map[string]string, payload []byte) []byte {
	var head []byte
	for _, name := range []string{":message-type", ":event-type", ":exception-type", ":error-code", ":error-message", ":content-type"} {
		if value, ok := headers[name]; ok {
			head = append(head, byte(len(name)))
			head = append(head, name...)
			head = append(head, 7) // a string
			head = binary.BigEndian.AppendUint16(head, uint16(len(value)))
			head = append(head, value...)
		}
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(16+len(head)+len(payload)))
	out = binary.BigEndian.AppendUint32(out, uint32(len(head)))
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
	out = append(append(out, head...), payload...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}

// event returns an event as Bedrock sends it, with padding.
func event(typ string, payload object) []byte {
	payload["p"] = "abcd"
	return frame(map[string]string{":message-type": "event", ":event-type": typ, ":content-type": "application/json"}, marshal(payload))
}

func exception(typ string, payload object) []byte {
	return frame(map[string]string{":message-type": "exception", ":exception-type": typ, ":content-type": "application/json"}, marshal(payload))
}

type wireBlock struct {
	Text  *string
	Image *struct {
		Format string
		Source struct{ Bytes []byte }
	}
	Document *struct {
		Format, Name string
		Source       struct {
			Bytes      []byte
			S3Location *struct{ URI string }
		}
		Citations *struct{ Enabled bool }
	}
	ToolUse *struct {
		ToolUseID, Name, Type string
		Input                 json.RawMessage
	}
	ToolResult *struct {
		ToolUseID string
		Content   []wireBlock
		Status    string
	}
	ReasoningContent *struct {
		ReasoningText   *struct{ Text, Signature string }
		RedactedContent []byte
	}
	CachePoint   *struct{ Type, TTL string }
	GuardContent json.RawMessage

	all object // all fields
}

func (b *wireBlock) UnmarshalJSON(raw []byte) error {
	type plain wireBlock
	return errors.Join(json.Unmarshal(raw, (*plain)(b)), json.Unmarshal(raw, &b.all))
}

// kind returns the name of the block's only member, and an error unless it has one.
func (b wireBlock) kind() (string, error) {
	var kinds []string
	for name, set := range map[string]bool{"text": b.Text != nil, "image": b.Image != nil, "document": b.Document != nil, "toolUse": b.ToolUse != nil,
		"toolResult": b.ToolResult != nil, "reasoningContent": b.ReasoningContent != nil, "cachePoint": b.CachePoint != nil, "guardContent": b.GuardContent != nil} {
		if set {
			kinds = append(kinds, name)
		}
	}
	if len(kinds) != 1 {
		return "", fmt.Errorf("content block with members %q", kinds)
	}
	if b.Text != nil && strings.TrimSpace(*b.Text) == "" {
		return "", errors.New("blank text")
	}
	return kinds[0], nil
}

type wireRequest struct {
	Messages []struct {
		Role    string
		Content []wireBlock
	}
	System          []wireBlock
	InferenceConfig struct {
		MaxTokens     int
		Temperature   *float64
		TopP          *float64
		StopSequences []string
	}
	ToolConfig *struct {
		Tools []struct {
			ToolSpec *struct {
				Name, Description string
				InputSchema       struct{ JSON json.RawMessage }
				Strict            bool
			}
			SystemTool object
			CachePoint *struct{ Type, TTL string }
		}
		ToolChoice map[string]struct{ Name string }
	}
	OutputConfig *struct {
		TextFormat struct {
			Type      string
			Structure struct{ JSONSchema struct{ Schema, Name string } }
		}
	}
	AdditionalModelRequestFields      object
	AdditionalModelResponseFieldPaths []string
	GuardrailConfig                   object
	RequestMetadata                   map[string]string
}

// check returns an error for a request that Bedrock rejects.
func (r wireRequest) check() error {
	if len(r.Messages) == 0 || r.Messages[0].Role != "user" {
		return errors.New("the first message is not the user's")
	}
	tools := false
	for i, m := range r.Messages {
		if i > 0 && m.Role == r.Messages[i-1].Role {
			return fmt.Errorf("messages %d and %d have the same role", i-1, i)
		}
		if len(m.Content) == 0 {
			return fmt.Errorf("message %d is empty", i)
		}
		text, document := false, false
		for _, b := range m.Content {
			if _, err := b.kind(); err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
			tools = tools || b.ToolUse != nil || b.ToolResult != nil
			text, document = text || b.Text != nil, document || b.Document != nil
		}
		if document && !text {
			return fmt.Errorf("message %d has a document without text", i)
		}
	}
	if tools && r.ToolConfig == nil {
		return errors.New("the toolConfig field must be defined when using toolUse and toolResult content blocks")
	}
	return nil
}

func readRequest(r *http.Request, body []byte) (got llmtest.Received, err error) {
	auth := r.Header.Get("Authorization")
	if !strings.HasPrefix(auth, "AWS4-HMAC-SHA256 Credential=AKID/") || !strings.Contains(auth, "/us-east-1/bedrock/aws4_request") || r.Header.Get("Content-Type") != "application/json" {
		return got, fmt.Errorf("authorization %q, content type %q", auth, r.Header.Get("Content-Type"))
	}
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/model/")
	model, operation, _ := strings.Cut(rest, "/")
	if !ok || r.Method != http.MethodPost || operation != "converse" && operation != "converse-stream" {
		return got, fmt.Errorf("%s %s", r.Method, r.URL.EscapedPath())
	}
	if got.Model, err = url.PathUnescape(model); err != nil {
		return got, err
	}
	got.Stream = operation == "converse-stream"
	var req wireRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return got, err
	}
	if err := errors.Join(req.check(), matches("ConverseRequest", body)); err != nil {
		return got, err
	}
	for _, b := range req.System {
		got.System = strings.TrimPrefix(got.System+"\n\n"+*b.Text, "\n\n")
	}
	for _, m := range req.Messages {
		got.Messages = append(got.Messages, readMessages(m.Role, m.Content)...)
	}
	got.MaxTokens, got.Temperature, got.StopWords = req.InferenceConfig.MaxTokens, req.InferenceConfig.Temperature, req.InferenceConfig.StopSequences
	if req.OutputConfig != nil {
		got.Output = json.RawMessage(req.OutputConfig.TextFormat.Structure.JSONSchema.Schema)
	}
	if req.ToolConfig == nil {
		got.ToolChoice = llm.ToolChoiceNone // the model cannot call a tool
		return got, nil
	}
	for _, t := range req.ToolConfig.Tools {
		if t.SystemTool != nil {
			got.Tools = append(got.Tools, llmtest.ReceivedTool{Fields: object{"systemTool": t.SystemTool}})
			continue
		}
		got.Tools = append(got.Tools, llmtest.ReceivedTool{Name: t.ToolSpec.Name, Description: t.ToolSpec.Description, Parameters: t.ToolSpec.InputSchema.JSON})
	}
	for kind, choice := range req.ToolConfig.ToolChoice {
		got.ToolChoice = kind
		if kind == "tool" {
			got.ToolChoice = choice.Name
		}
	}
	return got, nil
}

// readMessages returns the messages of a turn: its content, and one message for each
// tool result.
func readMessages(role string, content []wireBlock) (out []llm.Message) {
	m := llm.Message{Role: llm.RoleHuman}
	if role == "assistant" {
		m.Role = llm.RoleAI
	}
	for _, b := range content {
		switch {
		case b.Text != nil:
			m.Blocks = append(m.Blocks, llm.Text(*b.Text))
		case b.Image != nil:
			m.Blocks = append(m.Blocks, llm.Image("image/"+b.Image.Format, b.Image.Source.Bytes))
		case role == "assistant" && (b.ToolResult != nil || b.ToolUse != nil && b.ToolUse.Type != ""):
			m.Blocks = append(m.Blocks, llm.Block{Type: "server", Extra: b.all})
		case b.ToolUse != nil:
			m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: b.ToolUse.ToolUseID, Name: b.ToolUse.Name, Args: b.ToolUse.Input})
			m.Blocks = append(m.Blocks, llm.Block{Type: llm.BlockToolCall, ID: b.ToolUse.ToolUseID})
		case b.ToolResult != nil:
			result := llm.Message{Role: llm.RoleTool, ToolCallID: b.ToolResult.ToolUseID, Status: llm.Status(b.ToolResult.Status)}
			result.Blocks = readMessages("user", b.ToolResult.Content)[0].Blocks
			out = append(out, result)
		case b.ReasoningContent != nil && b.ReasoningContent.ReasoningText != nil:
			m.Blocks = append(m.Blocks, llm.Block{Type: llm.BlockReasoning, Reasoning: b.ReasoningContent.ReasoningText.Text,
				Extra: object{"signature": b.ReasoningContent.ReasoningText.Signature}})
		}
	}
	if len(m.Blocks) > 0 || len(m.ToolCalls) > 0 {
		out = append(out, m)
	}
	return out
}

var stopReasons = map[llm.StopReason]string{llm.StopEnd: "end_turn", llm.StopTools: "tool_use", llm.StopLength: "max_tokens", llm.StopFilter: "guardrail_intervened"}

func wireUsage(u llm.Usage) object {
	read, written := u.InputDetails[llm.UsageCacheRead], u.InputDetails[llm.UsageCacheCreation]
	return object{"inputTokens": u.Input - read - written, "outputTokens": u.Output, "totalTokens": u.Total, "cacheReadInputTokens": read, "cacheWriteInputTokens": written}
}

// fields returns the model's own fields that the request asks for.
func fields(u llm.Usage) object {
	return object{"usage": object{"output_tokens_details": object{"thinking_tokens": u.OutputDetails[llm.UsageReasoning]}}, "stop_sequence": nil}
}

func writeWhole(r llmtest.Reply) []byte {
	var content []object
	for _, p := range r.Parts() {
		if len(p.Reasoning) > 0 {
			content = append(content, object{"reasoningContent": object{"reasoningText": object{"text": strings.Join(p.Reasoning, ""), "signature": p.Signature}}})
		}
		content = append(content, p.Items...)
		text := object{"text": strings.Join(p.Text, "")}
		if p.Citation != nil {
			text = object{"citationsContent": object{"content": []object{text}, "citations": []object{p.Citation}}}
		}
		if len(p.Text) > 0 {
			content = append(content, text)
		}
		for _, c := range p.Calls {
			content = append(content, object{"toolUse": object{"toolUseId": c.ID, "name": c.Name, "input": json.RawMessage(strings.Join(c.Args, ""))}})
		}
	}
	return marshal(object{"output": object{"message": object{"role": "assistant", "content": content}}, "stopReason": stopReasons[r.Stop],
		"usage": wireUsage(r.Usage), "metrics": object{"latencyMs": 551}, "additionalModelResponseFields": fields(r.Usage)})
}

func writeStream(r llmtest.Reply) [][]byte {
	events := [][]byte{event("messageStart", object{"role": "assistant"})}
	index := 0
	delta := func(d object) {
		events = append(events, event("contentBlockDelta", object{"contentBlockIndex": index, "delta": d}))
	}
	stop := func() {
		events = append(events, event("contentBlockStop", object{"contentBlockIndex": index}))
		index++
	}
	for _, p := range r.Parts() {
		if len(p.Reasoning) > 0 {
			for _, text := range p.Reasoning {
				delta(object{"reasoningContent": object{"text": text}})
			}
			delta(object{"reasoningContent": object{"signature": p.Signature}})
			stop()
		}
		for _, item := range p.Items {
			begun, deltas := serverEvents(item)
			events = append(events, event("contentBlockStart", object{"contentBlockIndex": index, "start": begun}))
			for _, d := range deltas {
				delta(d)
			}
			stop()
		}
		if len(p.Text) > 0 {
			for _, text := range p.Text {
				delta(object{"text": text})
			}
			if p.Citation != nil {
				delta(object{"citation": p.Citation})
			}
			stop()
		}
		for _, c := range p.Calls {
			events = append(events, event("contentBlockStart", object{"contentBlockIndex": index, "start": object{"toolUse": object{"toolUseId": c.ID, "name": c.Name}}}))
			for _, args := range append([]string{""}, c.Args...) {
				delta(object{"toolUse": object{"input": args}})
			}
			stop()
		}
	}
	return append(events,
		event("messageStop", object{"stopReason": stopReasons[r.Stop], "additionalModelResponseFields": fields(r.Usage)}),
		event("metadata", object{"usage": wireUsage(r.Usage), "metrics": object{"latencyMs": 1275}}))
}

// serverEvents returns the start and the deltas of the call or the result of a tool
// that Bedrock runs.
func serverEvents(item object) (begun object, deltas []object) {
	if use, ok := item["toolUse"].(object); ok {
		begun, input := maps.Clone(use), string(marshal(use["input"]))
		delete(begun, "input")
		return object{"toolUse": begun}, []object{{"toolUse": object{"input": input[:5]}}, {"toolUse": object{"input": input[5:]}}}
	}
	result := item["toolResult"].(object)
	begun = maps.Clone(result)
	delete(begun, "content")
	return object{"toolResult": begun}, []object{{"toolResult": result["content"]}}
}
