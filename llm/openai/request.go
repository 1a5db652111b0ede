package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	wire "github.com/treadle-go/treadle/internal/schema"
	"github.com/treadle-go/treadle/llm"
)

// chatBody returns the request body.
func (m *Model) chatBody(req *llm.Request) ([]byte, error) {
	messages, err := m.messages(req.Messages, m.readsImages(req))
	if err != nil {
		return nil, err
	}
	body := object{{"messages", messages}, {"model", cmp.Or(req.Model, m.name)}}
	if req.MaxTokens > 0 && m.own {
		body = append(body, field{"max_completion_tokens", req.MaxTokens}) // reasoning models reject max_tokens
	} else if req.MaxTokens > 0 {
		body = append(body, field{"max_tokens", req.MaxTokens}) // the name that all other servers support
	}
	addOptional(&body, "seed", req.Seed)
	addOptional(&body, "temperature", m.temperature(req))
	addOptional(&body, "top_p", req.TopP)
	if req.SerialTools && len(req.Tools) > 0 {
		body = append(body, field{"parallel_tool_calls", false})
	}
	body.add("reasoning_effort", req.Reasoning)
	if len(req.StopWords) > 0 {
		body = append(body, field{"stop", req.StopWords})
	}
	if !req.NoStream {
		body = append(body, field{"stream", true}, field{"stream_options", object{{"include_usage", true}}})
	}
	if req.Output != nil {
		format, err := outputFormat(req.Output)
		if err != nil {
			return nil, err
		}
		body = append(body, field{"response_format", object{{"json_schema", format}, {"type", "json_schema"}}})
	}
	if body, err = addTools(body, req); err != nil {
		return nil, err
	}
	settings, err := settingsOf(req.Settings)
	if err != nil {
		return nil, err
	}
	return marshal(body.with(settings))
}

func addOptional[T any](o *object, name string, v *T) {
	if v != nil {
		*o = append(*o, field{name, *v})
	}
}

// settingsOf returns the caller's own parameters, which take precedence.
func settingsOf(settings map[string]any) (map[string]any, error) {
	if _, there := settings["stream"]; there {
		return nil, errors.New("setting stream: use llm.NoStream instead")
	}
	out := make(map[string]any, len(settings))
	for name, v := range settings {
		raw, err := marshal(v)
		if err != nil {
			return nil, fmt.Errorf("setting %s: %w", name, err)
		}
		out[name] = written(raw)
	}
	return out, nil
}

func addTools(body object, req *llm.Request) (object, error) {
	if len(req.Tools) == 0 {
		return body, nil // the API rejects tool settings without tools
	}
	tools := make([]any, len(req.Tools))
	for i, t := range req.Tools {
		var err error
		if tools[i], err = toolOf(t); err != nil {
			return nil, fmt.Errorf("tool %s: %w", t.Name, err)
		}
	}
	switch req.ToolChoice {
	case "":
	case llm.ToolChoiceAuto, llm.ToolChoiceNone:
		body = append(body, field{"tool_choice", req.ToolChoice})
	case llm.ToolChoiceAny:
		body = append(body, field{"tool_choice", "required"})
	default:
		body = append(body, field{"tool_choice", object{{"function", object{{"name", req.ToolChoice}}}, {"type", "function"}}})
	}
	return append(body, field{"tools", tools}), nil
}

// toolOf returns the API's description of a tool: a function, or the Extra of a
// tool that the server runs.
func toolOf(t *llm.Tool) (any, error) {
	if isProviderTool(t) {
		return t.Extra, nil
	}
	fn, extra, err := functionOf(t)
	if err != nil {
		return nil, err
	}
	return object{{"function", fn}, {"type", "function"}}.with(extra), nil
}

// isProviderTool reports whether the server runs a tool.
func isProviderTool(t *llm.Tool) bool { return t.Run == nil && len(t.Extra) > 0 }

// functionOf describes a function. It also returns the fields of Extra that are not
// part of that description. A custom tool is described as a function too.
func functionOf(t *llm.Tool) (fn object, extra map[string]any, err error) {
	schema := t.Parameters
	fn = object{{"name", t.Name}}
	extra = map[string]any{}
	for name, v := range t.Extra {
		on, isBool := v.(bool)
		if isCustom(t) && (name == "type" || name == "format") {
			continue
		}
		if name != "strict" || !isBool {
			extra[name] = v
			continue
		}
		fn = append(fn, field{"strict", on})
		if on && schema != nil {
			var err error
			if schema, err = strict(schema); err != nil {
				return nil, nil, fmt.Errorf("strict: %w", err)
			}
		}
	}
	fn.add("description", t.Description)
	// The API requires both. Values stay encoded, to preserve the order of
	// properties.
	parameters := map[string]json.RawMessage{"type": []byte(`"object"`), "properties": []byte(`{}`)}
	if schema != nil {
		raw, err := wire.Marshal(schema)
		if err == nil {
			err = json.Unmarshal(raw, &parameters)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("parameters: %w", err)
		}
	}
	return append(fn, field{"parameters", parameters}), extra, nil
}

// outputFormat describes JSON of a schema, in strict mode if possible.
func outputFormat(o *llm.Output) (object, error) {
	if o.Schema == nil {
		return nil, fmt.Errorf("output %s without a schema", o.Name)
	}
	schema, reason := strict(o.Schema)
	if reason != nil {
		schema = o.Schema
	}
	raw, err := wire.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("schema of output %s: %w", o.Name, err)
	}
	format := object{{"name", cmp.Or(o.Name, "answer")}, {"strict", reason == nil}}
	format.add("description", o.Description)
	return append(format, field{"schema", written(raw)}), nil
}
