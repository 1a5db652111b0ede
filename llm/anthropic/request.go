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
	"github.com/treadle-go/treadle/llm/catalog"
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
	if req.Temperature != nil && !facts(body.Model).NoTemperature {
		body.Temperature = param.NewOpt(*req.Temperature)
	}
	if req.TopP != nil {
		body.TopP = param.NewOpt(*req.TopP)
	}
	for _, part := range []func(*sdk.MessageNewParams, *llm.Request) error{m.setMessages, setTools, setCache, setReasoning, setOutput} {
		if err := part(&body, req); err != nil {
			return body, nil, err
		}
	}
	settings, err = added(req.Settings)
	return body, settings, err
}

// cites reports whether the texts of the response may have citations: of the results
// of a tool that Anthropic runs, or of documents.
func cites(req *llm.Request) bool {
	if slices.ContainsFunc(req.Tools, func(t *llm.Tool) bool { return t.Run == nil && len(t.Extra) > 0 }) {
		return true
	}
	return slices.ContainsFunc(req.Messages, func(m llm.Message) bool {
		return slices.ContainsFunc(m.Blocks, func(b llm.Block) bool { return b.Extra["citations"] != nil || b.Type == "search_result" })
	})
}

// facts returns what is known about a model.
func facts(model string) llm.Info {
	return catalog.Complete(llm.Info{Provider: provider, Model: model})
}

// added returns the parameters that are added to the body unchanged.
func added(settings map[string]any) ([]option.RequestOption, error) {
	var out []option.RequestOption
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if name == "stream" {
			return nil, errors.New(`setting "stream": use llm.NoStream instead`)
		}
		raw, err := json.Marshal(settings[name])
		if err != nil {
			return nil, fmt.Errorf("setting %q: %w", name, err)
		}
		out = append(out, option.WithJSONSet(param.EscapeSJSONKey(name), json.RawMessage(raw)))
	}
	return out, nil
}

func setTools(body *sdk.MessageNewParams, req *llm.Request) error {
	for _, t := range req.Tools {
		described, err := describe(t, nil)
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
	if !slices.Contains([]string{"", llm.ToolChoiceAuto, llm.ToolChoiceNone}, req.ToolChoice) {
		switch {
		case facts(body.Model).NoToolChoice:
			return fmt.Errorf("%s rejects the tool choice %q, which forces a call: leave out the choice, or request an output", body.Model, req.ToolChoice)
		case req.Reasoning != "" && req.Reasoning != "none":
			return fmt.Errorf("tool choice %q forces a call, which excludes reasoning: leave out one of the two", req.ToolChoice)
		}
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

// describe returns the API's description of a tool, with a cache mark unless mark is
// nil.
func describe(t *llm.Tool, mark any) (sdk.ToolUnionParam, error) {
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
	if mark != nil {
		fields["cache_control"] = mark
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
			return fmt.Errorf("reasoning %q: %s supports none, low, medium, and high", req.Reasoning, body.Model)
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
		return fmt.Errorf("output schema: %w", err)
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil || schema == nil {
		return errors.New("output schema must be an object")
	}
	if _, ok := schema["description"]; !ok && req.Output.Description != "" {
		schema["description"] = req.Output.Description
	}
	// The API supports part of JSON Schema. The SDK moves the rest into
	// descriptions.
	known, _ := sdk.BetaJSONSchemaOutputFormat(schema).Schema.(map[string]any)
	if known == nil {
		return fmt.Errorf("output schema not supported by the SDK: %s", raw)
	}
	body.OutputConfig.Format.Schema = known
	return nil
}
