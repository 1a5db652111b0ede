package openai

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/catalog"
)

func (m *Model) modelOf(req *llm.Request) string { return cmp.Or(req.Model, m.name) }

// temperature returns the temperature of a request, or nil if the model would reject
// it. Some models accept one only without reasoning.
func (m *Model) temperature(req *llm.Request) *float64 {
	if req.Temperature == nil || req.Reasoning == "none" {
		return req.Temperature
	}
	name := m.modelOf(req)
	if catalog.Complete(llm.Info{Provider: m.client.provider, Model: name}).NoTemperature {
		m.warn.Once("temperature "+name, "leaving out the temperature, which the model rejects", "model", name)
		return nil
	}
	return req.Temperature
}

// body returns the request body.
func (f responses) body(req *llm.Request, r relaxed) ([]byte, error) {
	history, previous := req.Messages, ""
	if f.stateful && !r.noPrevious {
		history, previous = f.unstored(req.Messages)
	}
	in := input{Model: f.Model, noReasoning: r.noReasoning}
	if err := in.addAll(req.Messages, history, f.readsImages(req)); err != nil {
		return nil, err
	}
	body := object{{"input", in.items}, {"model", f.modelOf(req)}, {"store", f.stateful}}
	body.add("previous_response_id", previous)
	if req.MaxTokens > 0 {
		body = append(body, field{"max_output_tokens", req.MaxTokens})
	}
	addOptional(&body, "temperature", f.temperature(req))
	addOptional(&body, "top_p", req.TopP)
	if !req.NoStream {
		body = append(body, field{"stream", true})
	}
	if !req.NoStream && f.client.own { // padding that hides the length of tokens
		body = append(body, field{"stream_options", object{{"include_obfuscation", false}}})
	}
	body, err := addResponseTools(body, req)
	if err != nil {
		return nil, err
	}
	return f.finish(body, req, r)
}

// finish adds the fields that settings extend instead of replacing.
func (f responses) finish(body object, req *llm.Request, r relaxed) ([]byte, error) {
	settings, err := settingsOf(req.Settings)
	if err != nil {
		return nil, err
	}
	var reasoning, text object
	reasoning.add("effort", req.Reasoning)
	if req.Output != nil {
		format, err := outputFormat(req.Output)
		if err != nil {
			return nil, err
		}
		text = object{{"format", append(object{{"type", "json_schema"}}, format...)}}
	}
	for name, o := range map[string]object{"reasoning": reasoning, "text": text} {
		if more, ok := req.Settings[name].(map[string]any); ok {
			o = o.with(more)
		} else if _, other := req.Settings[name]; other {
			continue
		}
		if len(o) > 0 {
			settings[name] = o
		}
	}
	if list, err := f.includes(req, r); err != nil {
		return nil, err
	} else if len(list) > 0 {
		settings["include"] = list
	}
	return marshal(body.with(settings))
}

// unstored returns the messages after the last response that the server stores, and
// the ID of that response.
func (f responses) unstored(history llm.Messages) (llm.Messages, string) {
	for i, m := range slices.Backward(history) {
		if id, _ := m.Metadata["id"].(string); m.Role == llm.RoleAI && strings.HasPrefix(id, "resp_") && f.wrote(&m) {
			return history[i+1:], id
		}
	}
	return history, ""
}

// included maps tools that the server runs, by the start of their type, to the
// output that it returns only on request. Without that output, the items cannot be
// shown or sent back.
var included = map[string]string{
	"web_search":       "web_search_call.action.sources",
	"file_search":      "file_search_call.results",
	"code_interpreter": "code_interpreter_call.outputs",
}

// includes lists the additional output to request.
func (f responses) includes(req *llm.Request, r relaxed) ([]string, error) {
	var out []string
	if _, plain := f.plain.Load(f.modelOf(req)); !plain && !r.noInclude {
		out = append(out, "reasoning.encrypted_content")
	}
	for _, t := range req.Tools {
		for kind, name := range included {
			if strings.HasPrefix(providerType(t), kind) {
				out = append(out, name)
			}
		}
	}
	switch more := req.Settings["include"].(type) {
	case nil:
	case []string:
		out = append(out, more...)
	case []any:
		for _, v := range more {
			name, ok := v.(string)
			if !ok {
				return nil, fmt.Errorf("setting include: %v is not a string", v)
			}
			out = append(out, name)
		}
	default:
		return nil, fmt.Errorf("setting include: %T is not a list of strings", more)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// providerType returns the type of a tool that the server runs, or "".
func providerType(t *llm.Tool) string {
	if !isProviderTool(t) {
		return ""
	}
	kind, _ := t.Extra["type"].(string)
	return kind
}

func addResponseTools(body object, req *llm.Request) (object, error) {
	if len(req.Tools) == 0 {
		return body, nil // the API rejects tool settings without tools
	}
	if req.SerialTools {
		body = append(body, field{"parallel_tool_calls", false})
	}
	tools := make([]any, len(req.Tools))
	for i, t := range req.Tools {
		var err error
		if tools[i], err = responseTool(t); err != nil {
			return nil, fmt.Errorf("tool %s: %w", t.Name, err)
		}
		if t.Name == req.ToolChoice && t.Name != "" {
			body = append(body, field{"tool_choice", chosen(t)})
		}
	}
	switch req.ToolChoice {
	case llm.ToolChoiceAuto, llm.ToolChoiceNone:
		body = append(body, field{"tool_choice", req.ToolChoice})
	case llm.ToolChoiceAny:
		body = append(body, field{"tool_choice", "required"})
	}
	return append(body, field{"tools", tools}), nil
}

// chosen returns the choice of one tool.
func chosen(t *llm.Tool) object {
	switch {
	case isCustom(t):
		return object{{"type", "custom"}, {"name", t.Name}}
	case !isProviderTool(t):
		return object{{"type", "function"}, {"name", t.Name}}
	}
	choice := object{{"type", providerType(t)}}
	label, _ := t.Extra["server_label"].(string)
	choice.add("server_label", label)
	return choice
}

// isCustom reports whether a tool takes free text instead of JSON.
func isCustom(t *llm.Tool) bool { return t.Run != nil && t.Extra["type"] == "custom" }

// customArg is the argument that contains the text for a custom tool, as in
// LangChain.
const customArg = "__arg1"

// responseTool describes a tool. Strict mode must be set explicitly, because the
// API turns it on by default.
func responseTool(t *llm.Tool) (any, error) {
	switch {
	case isProviderTool(t):
		return t.Extra, nil
	case isCustom(t):
		tool := object{{"type", "custom"}, {"name", t.Name}}
		tool.add("description", t.Description)
		return tool.with(t.Extra), nil
	}
	fn, extra, err := functionOf(t)
	if err != nil {
		return nil, err
	}
	if _, set := t.Extra["strict"]; !set {
		fn = append(fn, field{"strict", false})
	}
	return append(object{{"type", "function"}}, fn...).with(maps.Clone(extra)), nil
}
