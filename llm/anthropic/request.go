package anthropic

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
	"github.com/google/jsonschema-go/jsonschema"

	wire "github.com/treadle-go/treadle/internal/schema"
	"github.com/treadle-go/treadle/llm"
)

// maxTokens is the default token limit of a response. All models accept it, a
// response of that length need not be streamed, and it leaves room for thinking.
const maxTokens = 16384

// leastThinking is the smallest budget that the API accepts.
const leastThinking = 1024

// request returns the body of a request and the caller's own parameters.
func (m *Model) request(req *llm.Request) (body sdk.MessageNewParams, settings []option.RequestOption, err error) {
	body = sdk.MessageNewParams{
		Model:         cmp.Or(req.Model, m.name),
		MaxTokens:     cmp.Or(int64(req.MaxTokens), maxTokens),
		StopSequences: req.StopWords,
	}
	if req.Temperature != nil {
		body.Temperature = param.NewOpt(*req.Temperature)
	}
	if req.TopP != nil {
		body.TopP = param.NewOpt(*req.TopP)
	}
	for _, part := range []func(*sdk.MessageNewParams, *llm.Request) error{setMessages, setTools, setReasoning, setOutput} {
		if err := part(&body, req); err != nil {
			return body, nil, err
		}
	}
	settings, err = added(req.Settings)
	return body, settings, err
}

// added returns the parameters that are added to the body unchanged.
func added(settings map[string]any) ([]option.RequestOption, error) {
	var out []option.RequestOption
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if name == "stream" {
			return nil, errors.New(`the setting "stream" cannot be set: use llm.NoStream`)
		}
		raw, err := json.Marshal(settings[name])
		if err != nil {
			return nil, fmt.Errorf("the setting %q: %w", name, err)
		}
		out = append(out, option.WithJSONSet(param.EscapeSJSONKey(name), json.RawMessage(raw)))
	}
	return out, nil
}

func setTools(body *sdk.MessageNewParams, req *llm.Request) error {
	for _, t := range req.Tools {
		described, err := describe(t)
		if err != nil {
			return fmt.Errorf("tool %s: %w", t.Name, err)
		}
		body.Tools = append(body.Tools, described)
	}
	if len(body.Tools) == 0 {
		return nil // the API rejects a choice without tools
	}
	var serial param.Opt[bool]
	if req.SerialTools {
		serial = param.NewOpt(true)
	}
	switch req.ToolChoice {
	case llm.ToolChoiceNone:
		body.ToolChoice.OfNone = &sdk.ToolChoiceNoneParam{}
	case llm.ToolChoiceAny:
		body.ToolChoice.OfAny = &sdk.ToolChoiceAnyParam{DisableParallelToolUse: serial}
	case "", llm.ToolChoiceAuto:
		if req.SerialTools || req.ToolChoice != "" {
			body.ToolChoice.OfAuto = &sdk.ToolChoiceAutoParam{DisableParallelToolUse: serial}
		}
	default:
		body.ToolChoice.OfTool = &sdk.ToolChoiceToolParam{Name: req.ToolChoice, DisableParallelToolUse: serial}
	}
	return nil
}

// describe returns the API's description of a tool.
func describe(t *llm.Tool) (sdk.ToolUnionParam, error) {
	fields := maps.Clone(t.Extra)
	if t.Run != nil || len(t.Extra) == 0 {
		schema := t.Parameters
		if schema == nil {
			schema = &jsonschema.Schema{Type: "object"}
		}
		parameters, err := wire.Marshal(schema)
		if err != nil {
			return sdk.ToolUnionParam{}, err
		}
		fields = map[string]any{"name": t.Name, "input_schema": parameters}
		if t.Description != "" {
			fields["description"] = t.Description
		}
		maps.Copy(fields, t.Extra)
	}
	// JSON of a map has its fields in the same order each time, as Anthropic's
	// prompt cache requires.
	raw, err := json.Marshal(fields)
	return param.Override[sdk.ToolUnionParam](json.RawMessage(raw)), err
}

func setReasoning(body *sdk.MessageNewParams, req *llm.Request) error {
	switch {
	case req.Reasoning == "":
	case req.Reasoning == "none":
		body.Thinking.OfDisabled = &sdk.ThinkingConfigDisabledParam{}
	case !thinksByBudget(body.Model):
		// Models differ in whether they return thinking by default.
		body.Thinking.OfAdaptive = &sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}
		body.OutputConfig.Effort = sdk.OutputConfigEffort(req.Reasoning)
	default:
		quarters := int64(slices.Index([]string{"low", "medium", "high"}, req.Reasoning) + 1)
		if quarters == 0 {
			return fmt.Errorf("reasoning %q: %s supports none, low, medium and high", req.Reasoning, body.Model)
		}
		if body.MaxTokens <= leastThinking {
			return fmt.Errorf("reasoning %q: %s needs a limit of more than %d tokens, but MaxTokens is %d", req.Reasoning, body.Model, leastThinking, body.MaxTokens)
		}
		body.Thinking.OfEnabled = &sdk.ThinkingConfigEnabledParam{BudgetTokens: max(leastThinking, body.MaxTokens*quarters/4)}
	}
	return nil
}

func setOutput(body *sdk.MessageNewParams, req *llm.Request) error {
	if req.Output == nil {
		return nil
	}
	raw, err := wire.Marshal(req.Output.Schema)
	if err != nil {
		return fmt.Errorf("the schema of the output: %w", err)
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil || schema == nil {
		return errors.New("the schema of the output must be an object")
	}
	if _, ok := schema["description"]; !ok && req.Output.Description != "" {
		schema["description"] = req.Output.Description
	}
	// The API supports part of JSON Schema. The SDK moves the rest into
	// descriptions.
	known, _ := sdk.BetaJSONSchemaOutputFormat(schema).Schema.(map[string]any)
	if known == nil {
		return fmt.Errorf("the SDK cannot read the schema of the output: %s", raw)
	}
	body.OutputConfig.Format.Schema = known
	return nil
}
