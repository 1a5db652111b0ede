package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/google/jsonschema-go/jsonschema"
	"google.golang.org/genai"

	wire "github.com/treadle-go/treadle/internal/schema"
	"github.com/treadle-go/treadle/llm"
)

// setTools adds the request's tools. All functions together form one API tool.
func setTools(c *genai.GenerateContentConfig, req *llm.Request) error {
	var functions []*genai.FunctionDeclaration
	var own []*genai.Tool
	for _, t := range req.Tools {
		if t.Run == nil {
			tool, err := ownTool(t)
			if err != nil {
				return fmt.Errorf("tool %s: %w", t.Name, err)
			}
			own = append(own, tool)
			continue
		}
		f, err := declaration(t)
		if err != nil {
			return fmt.Errorf("tool %s: %w", t.Name, err)
		}
		functions = append(functions, f)
	}
	if len(functions) > 0 {
		c.Tools = append(c.Tools, &genai.Tool{FunctionDeclarations: functions})
	}
	c.Tools = append(c.Tools, own...)
	if choice := choiceOf(req.ToolChoice); choice != nil {
		c.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: choice}
	}
	return nil
}

func choiceOf(choice string) *genai.FunctionCallingConfig {
	switch choice {
	case "":
		return nil
	case llm.ToolChoiceAuto:
		return &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAuto}
	case llm.ToolChoiceNone:
		return &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeNone}
	case llm.ToolChoiceAny:
		return &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAny}
	}
	return &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAny, AllowedFunctionNames: []string{choice}}
}

// ownTool returns a tool that Google runs, as described by its Extra.
func ownTool(t *llm.Tool) (*genai.Tool, error) {
	raw, err := json.Marshal(t.Extra)
	if err != nil {
		return nil, fmt.Errorf("field Extra: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields() // such as another provider's {"type": "web_search"}
	var tool genai.Tool
	err = d.Decode(&tool)
	if err == nil && len(t.Extra) == 0 {
		err = errors.New("empty object")
	}
	if err != nil {
		return nil, fmt.Errorf(`no Run, and Extra %s is not a tool of the Gemini API, such as {"googleSearch": {}}: %w`, raw, err)
	}
	return &tool, nil
}

// declaration describes a function. Fields of the tool's Extra that the API does
// not support, such as another provider's cache_control, are omitted.
func declaration(t *llm.Tool) (*genai.FunctionDeclaration, error) {
	fields := maps.Clone(t.Extra)
	if fields == nil {
		fields = map[string]any{}
	}
	fields["name"], fields["description"] = t.Name, t.Description
	if t.Parameters != nil {
		schema, err := schemaOf(t.Parameters)
		if err != nil {
			return nil, fmt.Errorf("parameter schema: %w", err)
		}
		fields["parametersJsonSchema"] = schema
	}
	f, err := plainJSON[*genai.FunctionDeclaration](fields)
	if err != nil {
		return nil, fmt.Errorf("field Extra: %w", err)
	}
	return f, nil
}

// schemaOf returns a schema with the order of its properties, in which the model
// writes them. The SDK sorts them by name, so a conclusion could come before its
// reasons.
func schemaOf(s *jsonschema.Schema) (map[string]any, error) {
	raw, err := wire.Marshal(s)
	if err != nil {
		return nil, err
	}
	out, err := plainJSON[map[string]any](raw)
	if err == nil {
		order(s, out)
	}
	return out, err
}

// order adds the property order of s and of all schemas within it to its JSON.
func order(s *jsonschema.Schema, out any) {
	fields, ok := out.(map[string]any)
	if s == nil || !ok {
		return // a schema may be false
	}
	if len(s.PropertyOrder) > 1 {
		fields["propertyOrdering"] = s.PropertyOrder
	}
	for name, in := range map[string]map[string]*jsonschema.Schema{"properties": s.Properties, "$defs": s.Defs} {
		named, _ := fields[name].(map[string]any)
		for name, p := range in {
			order(p, named[name])
		}
	}
	for name, in := range map[string][]*jsonschema.Schema{"anyOf": s.AnyOf, "oneOf": s.OneOf, "prefixItems": s.PrefixItems} {
		list, _ := fields[name].([]any)
		for i := range min(len(in), len(list)) {
			order(in[i], list[i])
		}
	}
	order(s.Items, fields["items"])
	order(s.AdditionalProperties, fields["additionalProperties"])
}
