package bedrock

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	wire "github.com/treadle-go/treadle/internal/schema"
	"github.com/treadle-go/treadle/llm"
)

// request is a request to the Converse API.
type request struct {
	model  string // the ID in the address
	name   string // the ID of the model itself
	family family
	facts  llm.Info
	tools  bool
	cites  bool
	body   []byte
}

func (m *Model) request(req *llm.Request) (*request, error) {
	r := &request{model: cmp.Or(req.Model, m.name), cites: cites(req)}
	r.name = r.model
	if req.Model == "" {
		r.name = cmp.Or(m.base, m.name)
	}
	r.family = familyOf(r.name)
	r.facts = facts(r.name)
	tools, err := r.toolConfig(req)
	if err != nil {
		return nil, err
	}
	r.tools = tools != nil
	h := history{family: r.family, tools: r.tools, warn: m.warn}
	if err := h.addAll(req.Messages, r.readsImages()); err != nil {
		return nil, err
	}
	r.cache(&h, tools, req)
	body := object{"messages": h.turns}
	if len(h.system) > 0 {
		body["system"] = h.system
	}
	if r.tools {
		body["toolConfig"] = tools
	}
	limits := r.inferenceConfig(req)
	extra, err := r.reasoning(req, limits)
	if err != nil {
		return nil, err
	}
	if len(limits) > 0 {
		body["inferenceConfig"] = limits
	}
	if len(extra) > 0 {
		body["additionalModelRequestFields"] = extra
	}
	if r.family.claude() {
		// The only source of the thinking tokens, and of the stop word.
		body["additionalModelResponseFieldPaths"] = []string{"/usage", "/stop_sequence"}
	}
	if req.Output != nil {
		if body["outputConfig"], err = outputConfig(req.Output); err != nil {
			return nil, err
		}
	}
	if err := set(body, req.Settings); err != nil {
		return nil, err
	}
	r.body, err = encode(body)
	return r, err
}

// readsImages reports whether the model reads images.
func (r *request) readsImages() bool {
	if r.facts.Inputs == nil {
		return r.family.claude()
	}
	return slices.Contains(r.facts.Inputs, llm.BlockImage)
}

// cites reports whether the texts of the response may have citations: of the results
// of a tool that Bedrock runs, or of documents.
func cites(req *llm.Request) bool {
	if slices.ContainsFunc(req.Tools, func(t *llm.Tool) bool { return t.Run == nil && t.Extra["systemTool"] != nil }) {
		return true
	}
	return slices.ContainsFunc(req.Messages, func(m llm.Message) bool {
		return slices.ContainsFunc(m.Blocks, func(b llm.Block) bool { return b.Extra["citations"] != nil })
	})
}

// encode encodes JSON without escaping HTML, because models read it.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// set adds the caller's own parameters. Objects are merged.
func set(body object, settings map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if name == "modelId" {
			return errors.New("setting modelId is reserved: use llm.ModelName")
		}
		value := settings[name]
		was, isObject := body[name].(object)
		if more, ok := value.(map[string]any); ok && isObject {
			was = maps.Clone(was)
			maps.Copy(was, more)
			value = was
		}
		body[name] = value
	}
	return nil
}

func (r *request) inferenceConfig(req *llm.Request) object {
	out := object{}
	if req.MaxTokens > 0 {
		out["maxTokens"] = req.MaxTokens
	}
	if req.Temperature != nil && !r.facts.NoTemperature {
		out["temperature"] = *req.Temperature
	}
	if req.TopP != nil {
		out["topP"] = *req.TopP
	}
	if len(req.StopWords) > 0 {
		out["stopSequences"] = req.StopWords
	}
	return out
}

// toolConfig returns the tools of a request, or nil.
func (r *request) toolConfig(req *llm.Request) (object, error) {
	if len(req.Tools) == 0 || req.ToolChoice == llm.ToolChoiceNone {
		return nil, nil
	}
	if !slices.Contains([]string{"", llm.ToolChoiceAuto}, req.ToolChoice) {
		switch {
		case r.facts.NoToolChoice:
			return nil, fmt.Errorf("tool choice %q forces a call, which model %s rejects: remove the choice, or request an output", req.ToolChoice, r.name)
		case r.family.claude() && req.Reasoning != "" && req.Reasoning != "none":
			return nil, fmt.Errorf("tool choice %q forces a call, which excludes reasoning: remove one of them", req.ToolChoice)
		}
	}
	marks := history{family: r.family}
	var tools []object
	for _, t := range req.Tools {
		described, err := describe(t)
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", t.Name, err)
		}
		tools = append(tools, described)
		if !r.family.nova() {
			tools = append(tools, marks.cachePoint(t.Extra)...)
		}
	}
	out := object{"tools": tools}
	switch req.ToolChoice {
	case "":
	case llm.ToolChoiceAuto:
		out["toolChoice"] = object{"auto": object{}}
	case llm.ToolChoiceAny:
		out["toolChoice"] = object{"any": object{}}
	default:
		out["toolChoice"] = object{"tool": object{"name": req.ToolChoice}}
	}
	return out, nil
}

// describe returns the API's description of a tool.
func describe(t *llm.Tool) (object, error) {
	if t.Run == nil && len(t.Extra) > 0 {
		if t.Extra["systemTool"] == nil && t.Extra["toolSpec"] == nil {
			return nil, errors.New("tools that Bedrock runs have the form {systemTool: {name: …}} in Extra")
		}
		return t.Extra, nil
	}
	spec := object{"name": t.Name, "inputSchema": object{"json": json.RawMessage(`{"type":"object","properties":{}}`)}}
	if t.Description != "" {
		spec["description"] = t.Description
	}
	if t.Parameters != nil {
		parameters, err := wire.Marshal(t.Parameters)
		if err != nil {
			return nil, fmt.Errorf("parameters: %w", err)
		}
		spec["inputSchema"] = object{"json": parameters}
	}
	if strict, ok := t.Extra["strict"].(bool); ok {
		spec["strict"] = strict
	}
	return object{"toolSpec": spec}, nil
}

const (
	// thinkingTokens is the token limit if a budget for thinking is required and
	// the request has no limit.
	thinkingTokens = 16384
	// leastThinking is the smallest budget that Claude accepts.
	leastThinking = 1024
)

// reasoning returns the model's own parameters for the reasoning effort. It may set
// a token limit.
func (r *request) reasoning(req *llm.Request, limits object) (object, error) {
	effort := req.Reasoning
	switch f := r.family; {
	case effort == "":
		return nil, nil
	case f.claude() && effort == "none":
		return object{"thinking": object{"type": "disabled"}}, nil
	case f.claude() && f.thinksByBudget():
		budget, err := budget(effort, cmp.Or(req.MaxTokens, thinkingTokens))
		if err != nil {
			return nil, fmt.Errorf("reasoning %q: model %s %w", effort, r.name, err)
		}
		limits["maxTokens"] = cmp.Or(req.MaxTokens, thinkingTokens)
		return object{"thinking": object{"type": "enabled", "budget_tokens": budget}}, nil
	case f.claude():
		return object{"thinking": object{"type": "adaptive"}, "output_config": object{"effort": effort}}, nil
	case f.any("amazon.nova-2") && effort == "none":
		return object{"reasoningConfig": object{"type": "disabled"}}, nil
	case f.any("amazon.nova-2"):
		return object{"reasoningConfig": object{"type": "enabled", "maxReasoningEffort": effort}}, nil
	case f.any("openai.gpt-oss", "moonshot", "zai."):
		return object{"reasoning_effort": effort}, nil
	case f.any("openai."):
		return object{"reasoning": object{"effort": effort}}, nil
	}
	return nil, nil
}

func budget(effort string, limit int) (int, error) {
	quarters := slices.Index([]string{"low", "medium", "high"}, effort) + 1
	if quarters == 0 {
		return 0, errors.New("supports none, low, medium, and high")
	}
	if limit <= leastThinking {
		return 0, fmt.Errorf("requires MaxTokens above %d, not %d", leastThinking, limit)
	}
	return max(leastThinking, limit*quarters/4), nil
}

func outputConfig(o *llm.Output) (object, error) {
	if o.Schema == nil {
		return nil, fmt.Errorf("output %s has no schema", o.Name)
	}
	raw, err := wire.Marshal(restrict(o.Schema))
	if err != nil {
		return nil, fmt.Errorf("schema of output %s: %w", o.Name, err)
	}
	schema := object{"schema": string(raw), "name": cmp.Or(o.Name, "answer")}
	if o.Description != "" {
		schema["description"] = o.Description
	}
	return object{"textFormat": object{"type": "json_schema", "structure": object{"jsonSchema": schema}}}, nil
}
