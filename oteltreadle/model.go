package oteltreadle

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/schema"
	"github.com/treadle-go/treadle/llm"
)

// providers maps our provider names to those of the conventions, where they differ.
var providers = map[string]string{
	"gemini":       "gcp.gemini",
	"google_genai": "gcp.gemini",
	"vertex":       "gcp.vertex_ai",
	"azure":        "azure.ai.openai",
	"azure_openai": "azure.ai.openai",
	"bedrock":      "aws.bedrock",
	"mistral":      "mistral_ai",
	"mistralai":    "mistral_ai",
	"xai":          "x_ai",
}

func providerName(name string) string {
	if known, ok := providers[name]; ok {
		return known
	}
	return name
}

// requested returns the name of the requested model.
func (s *span) requested() string {
	if req, ok := s.op.Call.Detail.(*llm.Request); ok && req.Model != "" {
		return req.Model
	}
	return s.op.Name
}

// identity returns the attributes of a model call that its metrics share.
func (s *span) identity() []attribute.KeyValue {
	attrs := []attribute.KeyValue{semconv.GenAIOperationNameChat, semconv.GenAIRequestModel(s.requested())}
	if p := s.op.Call.Provider; p != "" {
		attrs = append(attrs, semconv.GenAIProviderNameKey.String(providerName(p)))
	}
	return attrs
}

func (s *span) describeModel(ctx context.Context) []attribute.KeyValue {
	attrs := s.identity()
	if thread := treadle.InfoFrom(ctx).Thread; thread != "" {
		attrs = append(attrs, semconv.GenAIConversationID(thread))
	}
	req, ok := s.op.Call.Detail.(*llm.Request)
	if !ok {
		return attrs
	}
	attrs = append(attrs, semconv.GenAIRequestStream(!req.NoStream))
	if req.MaxTokens > 0 {
		attrs = append(attrs, semconv.GenAIRequestMaxTokens(req.MaxTokens))
	}
	if req.Temperature != nil {
		attrs = append(attrs, semconv.GenAIRequestTemperature(*req.Temperature))
	}
	if req.TopP != nil {
		attrs = append(attrs, semconv.GenAIRequestTopP(*req.TopP))
	}
	if req.Seed != nil {
		attrs = append(attrs, semconv.GenAIRequestSeed(int(*req.Seed)))
	}
	if len(req.StopWords) > 0 {
		attrs = append(attrs, semconv.GenAIRequestStopSequences(req.StopWords...))
	}
	if req.Output != nil {
		attrs = append(attrs, semconv.GenAIOutputTypeJSON)
	}
	if s.t.content {
		attrs = append(attrs, s.value(semconv.GenAIInputMessagesKey, said(req.Messages))...)
		attrs = append(attrs, s.value(semconv.GenAIToolDefinitionsKey, definitions(req.Tools))...)
	}
	return attrs
}

// answer returns the attributes of a model's response.
func (s *span) answer(m llm.Message) []attribute.KeyValue {
	var attrs []attribute.KeyValue
	if name, _ := m.Metadata["model_name"].(string); name != "" {
		attrs = append(attrs, semconv.GenAIResponseModel(name))
	}
	if id, _ := m.Metadata["id"].(string); id != "" {
		attrs = append(attrs, semconv.GenAIResponseID(id))
	}
	if m.Stop != "" {
		attrs = append(attrs, semconv.GenAIResponseFinishReasons(string(m.Stop)))
	}
	if u := m.Usage; u != nil {
		attrs = append(attrs, semconv.GenAIUsageInputTokens(u.Input), semconv.GenAIUsageOutputTokens(u.Output))
		if n := u.InputDetails[llm.UsageCacheRead]; n > 0 {
			attrs = append(attrs, semconv.GenAIUsageCacheReadInputTokens(n))
		}
		if n := u.InputDetails[llm.UsageCacheCreation]; n > 0 {
			attrs = append(attrs, semconv.GenAIUsageCacheCreationInputTokens(n))
		}
		if n := u.OutputDetails[llm.UsageReasoning]; n > 0 {
			attrs = append(attrs, semconv.GenAIUsageReasoningOutputTokens(n))
		}
	}
	if s.t.prices != nil {
		if cost, ok := s.cost(m); ok {
			attrs = append(attrs, keyCost.Float64(cost))
		} else {
			attrs = append(attrs, keyUnpriced.Bool(true))
		}
	}
	if s.t.content {
		attrs = append(attrs, s.value(semconv.GenAIOutputMessagesKey, said([]llm.Message{m}))...)
	}
	return attrs
}

// cost returns the cost of a response. It reports false if the cost is unknown.
func (s *span) cost(m llm.Message) (float64, bool) {
	if m.Usage == nil {
		return 0, false
	}
	model, _ := m.Metadata["model_name"].(string)
	if model == "" {
		model = s.requested()
	}
	info, _ := s.t.prices.Find(s.op.Call.Provider, model)
	if info.Price == nil {
		return 0, false
	}
	return info.Price.Cost(*m.Usage), true
}

// message and part represent messages as the conventions define them.
type message struct {
	Role   string `json:"role"`
	Name   string `json:"name,omitempty"`
	Parts  []part `json:"parts"`
	Finish string `json:"finish_reason,omitempty"`
}

type part struct {
	Type      string          `json:"type"`
	Content   string          `json:"content,omitempty"`
	MIMEType  string          `json:"mime_type,omitempty"`
	URI       string          `json:"uri,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  string          `json:"response,omitempty"`
}

var roles = map[llm.Role]string{llm.RoleHuman: "user", llm.RoleAI: "assistant", llm.RoleSystem: "system", llm.RoleTool: "tool"}

// said converts messages to the form of the conventions. For images and other media, it keeps
// only the kind.
func said(messages []llm.Message) []message {
	out := make([]message, 0, len(messages))
	for _, m := range messages {
		n := message{Role: roles[m.Role], Parts: []part{}, Finish: string(m.Stop)}
		if m.Role == llm.RoleTool {
			n.Parts = append(n.Parts, part{Type: "tool_call_response", ID: m.ToolCallID, Response: m.Text()})
			out = append(out, n)
			continue
		}
		n.Name = m.Name
		for _, b := range m.Parts() {
			switch b.Type {
			case llm.BlockText, llm.BlockPlain:
				n.Parts = append(n.Parts, part{Type: "text", Content: b.Text})
			case llm.BlockReasoning:
				n.Parts = append(n.Parts, part{Type: "reasoning", Content: b.Reasoning})
			default:
				n.Parts = append(n.Parts, part{Type: b.Type, MIMEType: b.MIMEType, URI: b.URL})
			}
		}
		for _, c := range m.ToolCalls {
			n.Parts = append(n.Parts, part{Type: "tool_call", ID: c.ID, Name: c.Name, Arguments: c.Args})
		}
		out = append(out, n)
	}
	return out
}

// definition is a tool as the conventions define it.
type definition struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

func definitions(tools []*llm.Tool) []definition {
	var out []definition
	for _, t := range tools {
		d := definition{Type: "function", Name: t.Name, Description: t.Description}
		if t.Parameters != nil {
			d.Parameters, _ = schema.Marshal(t.Parameters) // an invalid schema fails the call
		}
		out = append(out, d)
	}
	return out
}
