package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/treadle-go/treadle/llm"
)

// params is the request in the API's words.
func (m *Model) params(req *llm.Request) (sdk.ChatCompletionNewParams, error) {
	p := sdk.ChatCompletionNewParams{
		Model:           cmp.Or(req.Model, m.name),
		ReasoningEffort: sdk.ReasoningEffort(req.Reasoning),
		Temperature:     optional(req.Temperature),
		TopP:            optional(req.TopP),
		Seed:            optional(req.Seed),
	}
	if len(req.StopWords) > 0 {
		p.Stop.OfStringArray = req.StopWords
	}
	if req.MaxTokens > 0 && m.own {
		p.MaxCompletionTokens = sdk.Int(int64(req.MaxTokens)) // max_tokens is refused by models that reason
	} else if req.MaxTokens > 0 {
		p.MaxTokens = sdk.Int(int64(req.MaxTokens)) // the name that every other server knows
	}
	if !req.NoStream {
		p.StreamOptions.IncludeUsage = sdk.Bool(true)
	}
	var err error
	if p.Messages, err = m.messages(req.Messages); err != nil {
		return p, err
	}
	if err := addTools(&p, req); err != nil {
		return p, err
	}
	if req.Output != nil {
		p.ResponseFormat, err = responseFormat(req.Output)
		if err != nil {
			return p, err
		}
	}
	return p, addSettings(&p, req.Settings)
}

func optional[T comparable](v *T) (o param.Opt[T]) {
	if v != nil {
		o = param.NewOpt(*v)
	}
	return o
}

// addSettings adds the parameters of the caller's own, which win.
func addSettings(p *sdk.ChatCompletionNewParams, settings map[string]any) error {
	if len(settings) == 0 {
		return nil
	}
	if _, there := settings["stream"]; there {
		return errors.New("the setting stream is not yours to make: bind NoStream to the model instead")
	}
	for name, v := range settings {
		if _, err := json.Marshal(v); err != nil {
			return fmt.Errorf("the setting %s: %w", name, err)
		}
	}
	p.SetExtraFields(settings)
	return nil
}

func addTools(p *sdk.ChatCompletionNewParams, req *llm.Request) error {
	if len(req.Tools) == 0 {
		return nil // and the API refuses what is about tools
	}
	for _, t := range req.Tools {
		tool, err := toolOf(t)
		if err != nil {
			return fmt.Errorf("tool %s: %w", t.Name, err)
		}
		p.Tools = append(p.Tools, tool)
	}
	if req.SerialTools {
		p.ParallelToolCalls = sdk.Bool(false)
	}
	switch req.ToolChoice {
	case "":
	case llm.ToolChoiceAuto, llm.ToolChoiceNone:
		p.ToolChoice.OfAuto = sdk.String(req.ToolChoice)
	case llm.ToolChoiceAny:
		p.ToolChoice.OfAuto = sdk.String("required")
	default:
		p.ToolChoice.OfFunctionToolChoice = &sdk.ChatCompletionNamedToolChoiceParam{
			Function: sdk.ChatCompletionNamedToolChoiceFunctionParam{Name: req.ToolChoice}}
	}
	return nil
}

func toolOf(t *llm.Tool) (sdk.ChatCompletionToolUnionParam, error) {
	if t.Run == nil && len(t.Extra) > 0 {
		raw, err := json.Marshal(t.Extra)
		if err != nil {
			return sdk.ChatCompletionToolUnionParam{}, err
		}
		return param.Override[sdk.ChatCompletionToolUnionParam](json.RawMessage(raw)), nil
	}
	fn := shared.FunctionDefinitionParam{Name: t.Name}
	if t.Description != "" {
		fn.Description = sdk.String(t.Description)
	}
	schema := t.Parameters
	extra := map[string]any{}
	for name, v := range t.Extra {
		on, isBool := v.(bool)
		if name != "strict" || !isBool {
			extra[name] = v
			continue
		}
		fn.Strict = sdk.Bool(on)
		if on && schema != nil {
			var err error
			if schema, err = strict(schema); err != nil {
				return sdk.ChatCompletionToolUnionParam{}, fmt.Errorf("it is marked strict, but %w", err)
			}
		}
	}
	fn.Parameters = shared.FunctionParameters{"type": "object", "properties": map[string]any{}}
	if schema != nil {
		raw, err := json.Marshal(schema)
		if err != nil {
			return sdk.ChatCompletionToolUnionParam{}, fmt.Errorf("its parameters: %w", err)
		}
		// Values stay as they are written, for the order of the properties.
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			return sdk.ChatCompletionToolUnionParam{}, fmt.Errorf("its parameters: %w", err)
		}
		for name, v := range fields {
			fn.Parameters[name] = v
		}
	}
	tool := sdk.ChatCompletionFunctionToolParam{Function: fn}
	if len(extra) > 0 {
		tool.SetExtraFields(extra)
	}
	return sdk.ChatCompletionToolUnionParam{OfFunction: &tool}, nil
}

// responseFormat asks for JSON of a schema, in strict mode if it can be.
func responseFormat(o *llm.Output) (f sdk.ChatCompletionNewParamsResponseFormatUnion, err error) {
	if o.Schema == nil {
		return f, fmt.Errorf("the output %s has no schema", o.Name)
	}
	schema, reason := strict(o.Schema)
	if reason != nil {
		schema = o.Schema
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return f, fmt.Errorf("the schema of the output %s: %w", o.Name, err)
	}
	format := shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: cmp.Or(o.Name, "answer"),
		Schema: json.RawMessage(raw), Strict: sdk.Bool(reason == nil)}
	if o.Description != "" {
		format.Description = sdk.String(o.Description)
	}
	f.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: format}
	return f, nil
}
