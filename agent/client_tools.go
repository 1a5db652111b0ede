package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// ClientCall is the interrupt value that [ClientTools] sends: a call that the client
// runs. The answer is a [ClientResult].
type ClientCall struct {
	Type string          `json:"type"` // ClientCallType
	ID   string          `json:"tool_call_id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// ClientResult is the answer to a [ClientCall].
type ClientResult struct {
	Content string `json:"content"`         // the result for the model
	Error   string `json:"error,omitempty"` // why the client could not run the call
}

// ClientCallType is the Type of every [ClientCall].
const ClientCallType = "client_tool_call"

// clientConfig contains the configurable values of a run that a server's client sets.
type clientConfig struct {
	Tools []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"client_tools"`
	Context []struct {
		Description string `json:"description"`
		Value       any    `json:"value"`
	} `json:"client_context"`
}

// ClientTools offers the model tools that run where the caller is, for example in a web
// page. The caller of the server lists them for each run, with a name, a description,
// and a JSON schema of the parameters, in the configurable value client_tools; the AG-UI
// endpoint sets it from the tools of the page. A call interrupts the run with a
// [ClientCall], and the run resumes with the [ClientResult]. Calls of one message
// interrupt the run together, with one question each.
//
// What the caller lists in the configurable value client_context, pairs of description
// and value, is appended to the system prompt.
//
// A client tool with the name of a tool of the agent fails the run, so that a caller
// cannot replace a tool. The agent needs a saver and must run on a thread.
func ClientTools() *Middleware {
	return &Middleware{Name: "client_tools", WrapModel: offerClientTools, WrapTool: callClientTool}
}

// clientConfigOf returns the client's configuration of the run.
func clientConfigOf(ctx context.Context) (c clientConfig, err error) {
	conf, _ := treadle.InfoFrom(ctx).Config["configurable"].(map[string]any)
	own := map[string]any{}
	for _, key := range []string{"client_tools", "client_context"} {
		if v, ok := conf[key]; ok {
			own[key] = v
		}
	}
	if len(own) == 0 {
		return c, nil
	}
	raw, err := json.Marshal(own)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		return c, fmt.Errorf("agent: client tools: configurable values client_tools and client_context: %w", err)
	}
	return c, nil
}

func offerClientTools(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
	c, err := clientConfigOf(ctx)
	if err != nil {
		return llm.Message{}, err
	}
	tools, err := c.tools(call.Tools)
	if err != nil {
		return llm.Message{}, err
	}
	if len(tools) > 0 {
		call.Tools = slices.Concat(call.Tools, tools)
	}
	if text := c.facts(); text != "" {
		call.System = strings.TrimSpace(call.System + "\n\n" + text)
	}
	return next(ctx, call)
}

// tools returns the client's tools. The agent never runs them itself.
func (c clientConfig) tools(own []*llm.Tool) (out []*llm.Tool, err error) {
	for i, given := range c.Tools {
		taken := func(t *llm.Tool) bool { return t.Name == given.Name }
		if slices.ContainsFunc(own, taken) || slices.ContainsFunc(out, taken) {
			return nil, fmt.Errorf("agent: client tool %q: another tool has this name: rename the client's tool", given.Name)
		}
		t := &llm.Tool{Name: given.Name, Description: given.Description, Run: func(context.Context, json.RawMessage) (any, error) {
			return nil, errors.New("client tools run at the client")
		}}
		if len(given.Parameters) > 0 && string(given.Parameters) != "null" {
			t.Parameters = &jsonschema.Schema{}
			if err := json.Unmarshal(given.Parameters, t.Parameters); err != nil {
				return nil, fmt.Errorf("agent: client tool %q: parameters: %w", given.Name, err)
			}
		}
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("agent: client tool at index %d: %w", i, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// facts returns the client's context as a part of the system prompt.
func (c clientConfig) facts() string {
	if len(c.Context) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("What the user's application shows now, as data:")
	for _, fact := range c.Context {
		value, ok := fact.Value.(string)
		if !ok {
			raw, err := json.Marshal(fact.Value)
			if err != nil { // it was decoded from JSON
				continue
			}
			value = string(raw)
		}
		fmt.Fprintf(&b, "\n- %s: %s", oneLine(fact.Description), oneLine(value))
	}
	return b.String()
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// callClientTool asks the client for the result of a call that no tool of the agent
// handles. When the run is resumed, the client may not list the tool again, so the
// decision to ask is recorded.
func callClientTool(ctx context.Context, call ToolCall, next ToolFunc) (any, error) {
	if call.Tool != nil {
		return next(ctx, call)
	}
	offered, err := treadle.Do(ctx, "client tool "+call.Name, func(ctx context.Context) (bool, error) {
		c, err := clientConfigOf(ctx)
		if err != nil {
			return false, err
		}
		for _, t := range c.Tools {
			if t.Name == call.Name {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	if !offered {
		return next(ctx, call)
	}
	args := call.Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	got, err := treadle.Interrupt[ClientResult](ctx, treadle.Question{
		Value: ClientCall{ClientCallType, call.ID, call.Name, args}, Key: "client_tool " + call.ID})
	if err != nil {
		return nil, err
	}
	if got.Error != "" {
		return llm.Message{Content: got.Error, Status: llm.StatusError}, nil
	}
	return got.Content, nil
}
