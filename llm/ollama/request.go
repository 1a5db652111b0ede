package ollama

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/treadle-go/treadle/internal/adapter"
	wire "github.com/treadle-go/treadle/internal/schema"
	"github.com/treadle-go/treadle/llm"
)

// body returns the request body.
func (m *Model) body(req *llm.Request) (map[string]any, error) {
	name := cmp.Or(req.Model, m.name)
	messages, err := m.messages(req.Messages)
	if err != nil {
		return nil, err
	}
	// Without truncate, the server would remove the start of a conversation that
	// does not fit, including the system prompt.
	body := map[string]any{"model": name, "messages": messages, "stream": !req.NoStream, "truncate": false}
	m.client.addKeepAlive(body)
	if req.Reasoning != "" {
		body["think"] = think(name, req.Reasoning)
	}
	if req.Output != nil {
		if req.Output.Schema == nil {
			return nil, fmt.Errorf("output %s has no schema", req.Output.Name)
		}
		if body["format"], err = wire.Marshal(req.Output.Schema); err != nil {
			return nil, fmt.Errorf("schema of output %s: %w", req.Output.Name, err)
		}
	}
	if err := addTools(body, req); err != nil {
		return nil, err
	}
	options, err := m.options(req)
	if err != nil {
		return nil, err
	}
	if len(options) > 0 {
		body["options"] = options
	}
	for name, v := range req.Settings {
		switch name {
		case "options": // merged by options
		case "stream":
			return nil, errors.New("setting stream is reserved: use llm.NoStream")
		default:
			body[name] = v
		}
	}
	return body, nil
}

func (c *client) addKeepAlive(body map[string]any) {
	switch {
	case c.keepAlive < 0:
		body["keep_alive"] = -1
	case c.keepAlive > 0:
		body["keep_alive"] = c.keepAlive.String()
	}
}

// think returns the value of the field think. Only gpt-oss models support an
// effort; the server rejects it for other models.
func think(model, effort string) any {
	switch {
	case effort == "none":
		return false
	case strings.Contains(model, "gpt-oss"):
		return effort
	}
	return true
}

// options returns the model options.
func (m *Model) options(req *llm.Request) (map[string]any, error) {
	out := map[string]any{}
	if m.client.context > 0 {
		out["num_ctx"] = m.client.context
	}
	if req.MaxTokens > 0 {
		out["num_predict"] = req.MaxTokens
	}
	if req.Temperature != nil {
		out["temperature"] = *req.Temperature
	}
	if req.TopP != nil {
		out["top_p"] = *req.TopP
	}
	if req.Seed != nil {
		out["seed"] = *req.Seed
	}
	if len(req.StopWords) > 0 {
		out["stop"] = req.StopWords
	}
	if v, set := req.Settings["options"]; set {
		own, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("setting options has type %T, want map[string]any", v)
		}
		maps.Copy(out, own)
	}
	return out, nil
}

func addTools(body map[string]any, req *llm.Request) error {
	switch req.ToolChoice {
	case "", llm.ToolChoiceAuto:
	case llm.ToolChoiceNone:
		return nil
	default:
		return fmt.Errorf("tool choice %q: Ollama cannot force a tool call: use llm.ToolChoiceAuto, or llm.Object for a value", req.ToolChoice)
	}
	tools := make([]any, len(req.Tools))
	for i, t := range req.Tools {
		if t.Run == nil && len(t.Extra) > 0 {
			return fmt.Errorf("tool %s: Ollama runs no tools itself: set Tool.Run", cmp.Or(t.Name, fmt.Sprint(t.Extra["type"])))
		}
		parameters := json.RawMessage(`{"type":"object","properties":{}}`)
		if t.Parameters != nil {
			var err error
			if parameters, err = wire.Marshal(t.Parameters); err != nil {
				return fmt.Errorf("parameters of tool %s: %w", t.Name, err)
			}
		}
		tools[i] = tool{"function", function{t.Name, t.Description, parameters}}
	}
	if len(tools) > 0 {
		body["tools"] = tools
	}
	return nil
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// message is a message of the conversation.
type message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	Thinking   string     `json:"thinking,omitempty"`
	Images     [][]byte   `json:"images,omitempty"` // base64 in JSON
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolName   string     `json:"tool_name,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Index     int             `json:"index"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// messages returns the conversation in the API's format. The images of tool results
// follow them in a user message, because models see images only there. Images of AI
// messages do so only if users sent images too, because many models do not read any.
func (m *Model) messages(conversation llm.Messages) ([]message, error) {
	moved := adapter.MoveMedia(conversation, false, nil, func(b llm.Block) bool {
		_, err := imageOf(b)
		return err == nil
	})
	m.warn.Media(moved)
	history, turn := moved.Messages, moved.Turn()
	var out []message
	var shown *message // images of tool results, not yet sent
	flush := func() {
		if shown != nil {
			out, shown = append(out, *shown), nil
		}
	}
	for i := range history {
		msg := &history[i]
		if msg.Role != llm.RoleTool {
			flush()
		}
		one, err := m.message(msg, i > turn)
		if err != nil {
			return nil, &llm.HistoryError{Index: moved.At(i), ID: msg.ID, Reason: err.Error()}
		}
		if msg.Role == llm.RoleTool && len(one.Images) > 0 {
			if shown == nil {
				shown = &message{Role: "user"}
			}
			shown.Content = strings.TrimPrefix(fmt.Sprintf("%s\nFrom tool %s:", shown.Content, msg.Name), "\n")
			shown.Images = append(shown.Images, one.Images...)
			one.Images = nil
			one.Content = cmp.Or(one.Content, "The result is in the next user message.")
		}
		out = append(out, one)
	}
	flush()
	return out, nil
}

// message returns a message in the API's format. current reports whether it belongs to
// the current turn.
func (m *Model) message(msg *llm.Message, current bool) (out message, err error) {
	switch msg.Role {
	case llm.RoleAI:
		return m.assistant(msg, current), nil
	case llm.RoleHuman:
		out.Role = "user"
	case llm.RoleSystem:
		out.Role = "system"
	case llm.RoleTool:
		out = message{Role: "tool", ToolName: msg.Name, ToolCallID: msg.ToolCallID}
	default:
		return out, fmt.Errorf("unknown role %q", msg.Role)
	}
	var texts []string
	for _, b := range msg.Parts() {
		switch b.Type {
		case llm.BlockText, llm.BlockPlain:
			texts = append(texts, b.Text)
		case llm.BlockReasoning:
		case llm.BlockImage:
			data, err := imageOf(b)
			if err != nil {
				return out, err
			}
			out.Images = append(out.Images, data)
		default:
			return out, fmt.Errorf("block of type %q: Ollama accepts only texts and images", b.Type)
		}
	}
	out.Content = strings.Join(texts, "\n")
	return out, nil
}

// imageOf returns the bytes of an image.
func imageOf(b llm.Block) ([]byte, error) {
	if len(b.Data) > 0 {
		return b.Data, nil
	}
	if _, data, ok := strings.Cut(b.URL, ";base64,"); ok && strings.HasPrefix(b.URL, "data:") {
		raw, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, fmt.Errorf("image with an invalid data: URL: %w", err)
		}
		return raw, nil
	}
	return nil, fmt.Errorf("image without Data (URL %q, file ID %q): Ollama accepts only bytes: download it first", b.URL, b.FileID)
}

// author returns the provider whose model wrote a message, and whether it may be a
// model of Ollama.
func author(m *llm.Message) (from string, own bool) {
	from, known := m.Metadata["model_provider"].(string)
	return from, !known || from == provider
}

// assistant returns a model's message.
func (m *Model) assistant(msg *llm.Message, current bool) message {
	out := message{Role: "assistant"}
	from, own := author(msg)
	if !own && msg.Reasoning() != "" {
		m.warn.ForeignReasoning(from)
	}
	for _, b := range msg.Parts() {
		switch b.Type {
		case llm.BlockText, llm.BlockPlain:
			out.Content += b.Text
		case llm.BlockReasoning:
			if own && current {
				out.Thinking += b.Reasoning
			}
		}
		// Skip blocks of other types, which are data of another provider.
	}
	for i, call := range msg.ToolCalls {
		c := toolCall{ID: call.ID}
		c.Function.Index, c.Function.Name, c.Function.Arguments = i, call.Name, call.Args
		if len(call.Args) == 0 {
			c.Function.Arguments = json.RawMessage("{}")
		}
		out.ToolCalls = append(out.ToolCalls, c)
	}
	return out
}
