package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/bounded"
	"github.com/treadle-go/treadle/internal/caught"
	"github.com/treadle-go/treadle/internal/observe"
)

// Tool is a function that a model may call. Create one with [NewTool], or as a
// literal if the schema is known only at run time. Set its fields before the first
// use. A Tool is safe for concurrent use if its function is.
type Tool struct {
	Name        string // letters, digits, _, and -
	Description string // for the model
	// Parameters is the schema of the arguments, which are an object. Nil means any
	// object.
	Parameters *jsonschema.Schema
	// Run is called with a JSON object that matches Parameters and includes their
	// defaults. It returns a value for [ToolResult]. If Run is nil, the provider
	// runs the tool, which Extra describes.
	Run func(ctx context.Context, args json.RawMessage) (any, error)
	// ReturnDirect makes the result the agent's answer: the model is not called
	// again.
	ReturnDirect bool
	// Timeout limits the duration of a call by canceling its context; 0 means no
	// limit. A result that Run returns after the timeout still counts.
	Timeout time.Duration
	// Extra contains further fields of the tool's description in the provider's
	// API, such as cache_control. For a tool without Run, it is the whole
	// description; see [ProviderTool].
	Extra map[string]any

	resolved *parameters // resolved from Parameters by NewTool
	err      error       // why NewTool failed
}

// NewTool returns a tool that calls fn. In is a struct whose fields are the
// arguments:
//
//	type query struct {
//		City string `json:"city" jsonschema:"where to look"`
//		Unit string `json:"unit" enum:"celsius,fahrenheit" default:"celsius"`
//		Days int    `json:"days,omitempty"`
//	}
//
// A field is required unless it has a default, is a pointer, or is marked omitempty
// or omitzero. The tag jsonschema describes the field to the model, enum lists the
// allowed values, separated by commas, and default is the default value, as JSON
// or, for a string, as text. If the arguments do not match the schema, the function
// is not called, and the call fails with an [*ArgumentsError] that the model can
// read.
//
// The function's context provides data that the model does not see: the call
// ([CallFrom]), the agent's state ([StateFrom]), and the values of the run. Out may
// be any type that [ToolResult] accepts.
//
// If In has no schema or fn is nil, [Tool.Check] and every use of the tool return
// an error.
func NewTool[In, Out any](name, description string, fn func(context.Context, In) (Out, error)) *Tool {
	t := &Tool{Name: name, Description: description}
	t.Parameters, t.resolved, t.err = parametersOf[In]()
	t.Run = func(ctx context.Context, args json.RawMessage) (any, error) {
		var in In
		if err := decodeArgs(args, &in); err != nil {
			return nil, &ArgumentsError{Tool: name, Args: args, Err: err}
		}
		return fn(ctx, in)
	}
	if fn == nil {
		t.err = errors.New("nil function")
	}
	return t
}

// ProviderTool returns a tool that the provider runs. The fields describe it in the
// provider's API:
//
//	llm.ProviderTool(map[string]any{"type": "web_search"})
//
// The tool's name, for [ToolChoice], is the field name, server_label, or type, or
// else the only field.
func ProviderTool(fields map[string]any) *Tool {
	t := &Tool{Extra: fields, Name: cmp.Or(text(fields["name"]), text(fields["server_label"]), text(fields["type"]))}
	if len(fields) == 0 {
		t.err = errors.New("provider tool without fields")
	}
	for name := range fields {
		if t.Name == "" && len(fields) == 1 {
			t.Name = name
		}
	}
	return t
}

// ToolError reports an error or panic of a tool's function.
type ToolError struct {
	Tool   string
	CallID string
	Err    error
	// Stack is the stack trace of a panic, or nil.
	Stack []byte

	at string // the first frame in user code
}

// Error returns a message that names the tool and the place of a panic.
func (e *ToolError) Error() string {
	text := fmt.Sprintf("tool %s: %v", e.Tool, e.Err)
	if e.at != "" {
		text += " (" + e.at + ")"
	}
	return text
}

// Unwrap returns the function's error.
func (e *ToolError) Unwrap() error { return e.Err }

// ArgumentsError reports arguments of a call that do not match the tool's schema.
// Its text is written for the model.
type ArgumentsError struct {
	Tool string
	Args json.RawMessage
	Err  error
}

// Error returns a message for the model with the arguments and the reason.
func (e *ArgumentsError) Error() string {
	return fmt.Sprintf("Error invoking tool '%s' with kwargs %s with error:\n %v\n Please fix the error and try again.", e.Tool, e.Args, e.Err)
}

// Unwrap returns the reason.
func (e *ArgumentsError) Unwrap() error { return e.Err }

// isToolName reports whether all providers accept name. It runs on every call, so
// it avoids a regular expression.
func isToolName(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= 64
}

func (t *Tool) check() error {
	switch {
	case t == nil:
		return errors.New("llm: nil tool")
	case t.err != nil:
		return fmt.Errorf("llm: tool %s: %w", t.Name, t.err)
	case t.Run == nil && len(t.Extra) > 0: // named by the provider
	case !isToolName(t.Name):
		return fmt.Errorf("llm: tool %q: invalid name: want 1 to 64 letters, digits, _, and -", t.Name)
	}
	return nil
}

// Check returns an error if the tool cannot be used: its name is invalid, [NewTool]
// failed, or its schema cannot be checked in bounded time. Functions that build
// agents call it.
func (t *Tool) Check() error {
	if err := t.check(); err != nil {
		return err
	}
	if t.Parameters == nil || t.resolved != nil && t.resolved.Schema.Schema() == t.Parameters {
		return nil
	}
	if _, err := bounded.Resolve(t.Parameters, nil); err != nil {
		return fmt.Errorf("llm: tool %s: parameters: invalid schema: %w", t.Name, err)
	}
	return nil
}

// Call runs the tool for a model's call and reports the call to the run. It returns
// the function's result, which [ToolResult] converts to a message. Agents apply a
// result that is a treadle.Command to their graph.
//
// Call returns an [*ArgumentsError] if the arguments do not match the schema, and a
// [*ToolError] that wraps the cause if the function fails or panics.
func (t *Tool) Call(ctx context.Context, call ToolCall) (out any, err error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	if t.Run == nil {
		return nil, fmt.Errorf("llm: tool %s has no function: the provider runs it", t.Name)
	}
	if ctx == nil {
		return nil, fmt.Errorf("llm: tool %s: nil context", t.Name)
	}
	ctx, span := observe.Begin(ctx, observe.Call{Kind: observe.Tool, Name: t.Name, Input: call.arguments(), ToolCall: call.ID, Detail: t})
	defer func() { span.End(out, err) }()
	args, err := t.arguments(call.arguments())
	if err != nil {
		return nil, &ArgumentsError{Tool: t.Name, Args: call.arguments(), Err: err}
	}
	call.Args = args
	return t.run(&callContext{ctx, call}, call)
}

func (t *Tool) run(ctx context.Context, call ToolCall) (out any, err error) {
	if t.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.Timeout, errToolTimeout)
		defer cancel()
	}
	defer func() {
		if p := recover(); p != nil {
			cause, ok := p.(error)
			if !ok {
				cause = fmt.Errorf("%v", p)
			}
			e := caught.New("", p)
			out, err = nil, &ToolError{t.Name, call.ID, fmt.Errorf("panic: %w", cause), e.Stack, e.At}
		}
	}()
	out, err = t.Run(ctx, call.Args)
	if err == nil {
		return out, nil
	}
	if _, ok := errors.AsType[*ArgumentsError](err); ok {
		return nil, err
	}
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), errToolTimeout) {
		err = fmt.Errorf("timed out after %v: %w", t.Timeout, err)
	}
	return nil, &ToolError{Tool: t.Name, CallID: call.ID, Err: err}
}

var errToolTimeout = errors.New("tool timed out")

// arguments returns the call's arguments, or {} if they are empty.
func (c ToolCall) arguments() json.RawMessage {
	if len(c.Args) == 0 {
		return json.RawMessage("{}")
	}
	return c.Args
}

type callKey struct{}

// callContext is a context with a call. It uses less memory than
// [context.WithValue].
type callContext struct {
	context.Context
	call ToolCall
}

// Value implements [context.Context].
func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return &c.call
	}
	return c.Context.Value(key)
}

// CallFrom returns the call for which a tool's function runs. The second result is
// false outside of [Tool.Call].
func CallFrom(ctx context.Context) (ToolCall, bool) {
	call, ok := ctx.Value(callKey{}).(*ToolCall)
	if !ok {
		return ToolCall{}, false
	}
	return *call, true
}

type stateKey struct{}

// WithState returns a context with a state that tools read with [StateFrom]. Agents
// call it with the state of their graph.
func WithState(ctx context.Context, state any) context.Context {
	return context.WithValue(ctx, stateKey{}, state)
}

// StateFrom returns the state of the agent that calls the tool. The second result
// is false if the context has no state or the state has another type.
func StateFrom[S any](ctx context.Context) (S, bool) {
	s, ok := ctx.Value(stateKey{}).(S)
	return s, ok
}
