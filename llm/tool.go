package llm

import (
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

// Tool is something that a model may ask to have done. Make one with [NewTool],
// or as a literal where the schema is known only at run time. A Tool must not
// be changed once it is in use, and is safe for use by several goroutines if
// its function is.
type Tool struct {
	Name        string // letters, digits, _ and -
	Description string // for the model
	// Parameters is the schema of the arguments, an object. Nil is an object of
	// anything.
	Parameters *jsonschema.Schema
	// Run does it. The arguments are a JSON object that Parameters allows, with
	// its defaults filled in. The result is what [ToolResult] takes. A nil Run is
	// a tool that the provider itself runs; Extra then describes it.
	Run func(ctx context.Context, args json.RawMessage) (any, error)
	// ReturnDirect: the result is the agent's answer; the model is not asked
	// again.
	ReturnDirect bool
	// Timeout bounds a call; 0 is no bound.
	Timeout time.Duration
	// Extra is added to the tool's description as the provider sees it, for what
	// only that provider knows, such as cache_control. For a tool without Run it
	// is the whole description: {"type": "web_search", …}.
	Extra map[string]any

	resolved *parameters // of Parameters, if NewTool made them
	err      error       // why NewTool failed
}

// ToolOption is a setting of a tool. Any function of this type will do.
type ToolOption func(*Tool)

// ReturnDirect makes the tool's result the agent's answer.
func ReturnDirect() ToolOption { return func(t *Tool) { t.ReturnDirect = true } }

// Timeout bounds the tool's calls. The function is told through its context; a
// result that it returns nevertheless counts.
func Timeout(d time.Duration) ToolOption { return func(t *Tool) { t.Timeout = d } }

// NewTool makes a tool of a function. The model sees the fields of In, a struct:
//
//	type query struct {
//		City string `json:"city" jsonschema:"where to look"`
//		Unit string `json:"unit" enum:"celsius,fahrenheit" default:"celsius"`
//		Days int    `json:"days,omitempty"`
//	}
//
// A field is required unless it has a default, is a pointer, or is marked
// omitempty or omitzero. The jsonschema tag describes the field to the model,
// enum lists its values, separated by commas, and default is a value's JSON or,
// for a string, the string. Arguments that do not fit never reach the function:
// the call fails with an [*ArgumentsError] that the model can read.
//
// What the model should not see, the function finds in its context: the call
// itself ([CallFrom]), the agent's state ([StateFrom]), and whatever the run has
// put there. Out may be any type that [ToolResult] takes.
//
// If there can be no schema for In, or fn is nil, [Tool.Check] and every use of the
// tool is an error that says why.
func NewTool[In, Out any](name, description string, fn func(context.Context, In) (Out, error), opts ...ToolOption) *Tool {
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
		t.err = errors.New("its function is nil")
	}
	for i, opt := range opts {
		if opt == nil {
			t.err = errors.Join(t.err, fmt.Errorf("its option %d is nil", i))
			continue
		}
		opt(t)
	}
	return t
}

// ToolError is the failure of a tool's function.
type ToolError struct {
	Tool   string
	CallID string
	Err    error
	// Stack is where the function panicked, if it did.
	Stack []byte

	at string // the first frame of it that is the user's
}

// Error names the tool and, if its function panicked, where.
func (e *ToolError) Error() string {
	text := fmt.Sprintf("tool %s: %v", e.Tool, e.Err)
	if e.at != "" {
		text += " (" + e.at + ")"
	}
	return text
}

// Unwrap is the function's error.
func (e *ToolError) Unwrap() error { return e.Err }

// ArgumentsError says that a call's arguments are not what the tool takes. Its
// text is written for the model.
type ArgumentsError struct {
	Tool string
	Args json.RawMessage
	Err  error
}

// Error tells the model what it wrote and what is wrong with it.
func (e *ArgumentsError) Error() string {
	return fmt.Sprintf("Error invoking tool '%s' with kwargs %s with error:\n %v\n Please fix the error and try again.", e.Tool, e.Args, e.Err)
}

// Unwrap is what is wrong with the arguments.
func (e *ArgumentsError) Unwrap() error { return e.Err }

// isToolName is what all providers accept. It is asked at every call, so it is no
// regular expression.
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
		return errors.New("llm: a tool is nil")
	case t.err != nil:
		return fmt.Errorf("llm: tool %s: %w", t.Name, t.err)
	case t.Run == nil && len(t.Extra) > 0: // the provider names it
	case !isToolName(t.Name):
		return fmt.Errorf("llm: tool %q: a name is made of 1 to 64 letters, digits, _ and -", t.Name)
	}
	return nil
}

// Check reports what is wrong with the tool: its name, what [NewTool] could not
// make, and a schema that arguments cannot be checked against in bounded time. Agents
// check their tools when they are made.
func (t *Tool) Check() error {
	if err := t.check(); err != nil {
		return err
	}
	if t.Parameters == nil || t.resolved != nil && t.resolved.Schema.Schema() == t.Parameters {
		return nil
	}
	if _, err := bounded.Resolve(t.Parameters, nil); err != nil {
		return fmt.Errorf("llm: tool %s: the schema of its parameters: %w", t.Name, err)
	}
	return nil
}

// Call runs the tool for a call of a model and reports it to the run. The value
// is what the function returned. [ToolResult] makes the message of it, unless it
// means something to the caller: agents take a command to their graph as one.
//
// Arguments that the schema does not allow are an [*ArgumentsError]. An error or
// a panic of the function is a [*ToolError]; errors.Is and errors.As see through
// it.
func (t *Tool) Call(ctx context.Context, call ToolCall) (out any, err error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	if t.Run == nil {
		return nil, fmt.Errorf("llm: tool %s is the provider's to run", t.Name)
	}
	if ctx == nil {
		return nil, fmt.Errorf("llm: tool %s: the context is nil", t.Name)
	}
	ctx, span := observe.Begin(ctx, observe.Call{Kind: observe.Tool, Name: t.Name, Input: call.arguments(),
		Metadata: map[string]any{"tool_call_id": call.ID}})
	defer func() { span.End(out, err) }()
	args, err := t.arguments(call.arguments())
	if err != nil {
		return nil, &ArgumentsError{Tool: t.Name, Args: call.arguments(), Err: err}
	}
	call.Args = args
	return t.run(context.WithValue(ctx, callKey{}, &call), call)
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

var errToolTimeout = errors.New("the tool's time is up")

// arguments is the call's JSON object.
func (c ToolCall) arguments() json.RawMessage {
	if len(c.Args) == 0 {
		return json.RawMessage("{}")
	}
	return c.Args
}

type callKey struct{}

// CallFrom is the call that a tool's function is running for. The second result
// is false outside of [Tool.Call].
func CallFrom(ctx context.Context) (ToolCall, bool) {
	call, ok := ctx.Value(callKey{}).(*ToolCall)
	if !ok {
		return ToolCall{}, false
	}
	return *call, true
}

type stateKey struct{}

// WithState gives tools that are called with the context a state to read.
// Agents call it with the state of their graph.
func WithState(ctx context.Context, state any) context.Context {
	return context.WithValue(ctx, stateKey{}, state)
}

// StateFrom is the state of the agent that calls the tool. The second result is
// false if there is none or it is of another type.
func StateFrom[S any](ctx context.Context) (S, bool) {
	s, ok := ctx.Value(stateKey{}).(S)
	return s, ok
}
