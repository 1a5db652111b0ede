package mcptool

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/internal/bounded"
	"github.com/treadle-go/treadle/internal/elicit"
	wire "github.com/treadle-go/treadle/internal/schema"
	"github.com/treadle-go/treadle/internal/sessions"
	"github.com/treadle-go/treadle/llm"
)

// Add offers tools to the clients of an MCP server. If a tool cannot be called by clients, Add
// returns an error and offers none.
//
// Invalid arguments, errors, and panics produce results with isError, whose text the client's
// model reads. A tool's artifact becomes the structuredContent, wrapped as {"result": …} if it is
// not an object. The interrupts of a [Graph] become elicitations. Any
// other tool that calls [treadle.Interrupt] fails. A tool that returns a [treadle.Command]
// fails, because only an agent's graph can apply it. When the client cancels a call, the tool's
// context is canceled.
func Add(server *mcp.Server, tools ...*llm.Tool) error { return AddWith(server, nil, tools...) }

// AddWith is like [Add], but describe edits the definition of each tool first: it can set a title, annotations,
// icons, and an output schema. A result whose structuredContent does not match the output schema becomes an
// error.
func AddWith(server *mcp.Server, describe func(*mcp.Tool), tools ...*llm.Tool) error {
	if server == nil {
		return errors.New("mcptool: nil server")
	}
	names := map[string]bool{}
	for _, t := range tools {
		switch {
		case t == nil:
			return errors.New("mcptool: nil tool")
		case t.Run == nil:
			return fmt.Errorf("mcptool: tool %q: nil Run", t.Name)
		case t.Name == "" || forbidden.MatchString(t.Name):
			return fmt.Errorf("mcptool: invalid tool name %q: want letters, digits, _, and -", t.Name)
		case names[t.Name]:
			return fmt.Errorf("mcptool: duplicate tool name %q", t.Name)
		case t.Parameters != nil && t.Parameters.Type != "object":
			return fmt.Errorf("mcptool: tool %q: parameters must be of type object", t.Name)
		}
		if err := t.Check(); err != nil {
			return fmt.Errorf("mcptool: %w", err)
		}
		names[t.Name] = true
	}
	for _, t := range tools {
		if err := add(server, describe, t); err != nil {
			return err
		}
	}
	return nil
}

func add(server *mcp.Server, describe func(*mcp.Tool), t *llm.Tool) (err error) {
	defer func() {
		if p := recover(); p != nil { // the SDK panics if a schema is invalid
			err = fmt.Errorf("mcptool: tool %q: %v", t.Name, p)
		}
	}()
	parameters := t.Parameters
	if parameters == nil {
		parameters = &jsonschema.Schema{Type: "object"}
	}
	raw, err := wire.Marshal(parameters)
	if err != nil {
		return fmt.Errorf("mcptool: tool %q: %w", t.Name, err)
	}
	tool := &mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: raw}
	var valid *bounded.Schema
	if describe != nil {
		describe(tool)
		tool.Name, tool.InputSchema = t.Name, raw // calls are checked against them
	}
	if tool.OutputSchema != nil {
		output, err := schema(tool.OutputSchema)
		if err == nil {
			valid, err = bounded.Resolve(output, nil)
		}
		if err != nil {
			return fmt.Errorf("mcptool: tool %q: output schema: %w", t.Name, err)
		}
	}
	server.AddTool(tool,
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			call := llm.ToolCall{ID: rand.Text(), Name: t.Name, Args: r.Params.Arguments}
			ctx = extract(ctx, r.Params.Meta)
			answer := func(ctx context.Context) (*mcp.CallToolResult, error) { return serve(ctx, t, valid, call) }
			if d := newDialog(r); d != nil {
				return d.converse(ctx, answer)
			}
			return answer(ctx)
		})
	return nil
}

// serve calls a tool. The structured content of its result must match the schema valid, if there is one.
func serve(ctx context.Context, t *llm.Tool, valid *bounded.Schema, call llm.ToolCall) (*mcp.CallToolResult, error) {
	out, err := t.Call(ctx, call)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx) // the client no longer waits
	}
	if _, ok := treadle.CommandOf(out); ok && err == nil {
		err = fmt.Errorf("tool %s returned a command, which only an agent's graph can apply", t.Name)
	}
	switch {
	case err == nil:
	case errors.Is(err, treadle.ErrNoThread) && dialogOf(ctx) == nil: // Graph runs on a thread only in a dialog
		out = fmt.Errorf("tool %s interrupted, which cannot be answered over MCP: client does not support elicitation", t.Name)
	case asks(err):
		out = fmt.Errorf("tool %s interrupted, which cannot be answered over MCP: %w", t.Name, err)
	default:
		out = err
	}
	result, err := answer(llm.ToolResult(call, out))
	if err != nil || valid == nil || result.IsError {
		return result, err
	}
	var content any
	if raw, ok := result.StructuredContent.(json.RawMessage); ok {
		err = json.Unmarshal(raw, &content)
	}
	if err == nil {
		err = checkOutput(valid, content)
	}
	if err != nil {
		return answer(llm.ToolResult(call, fmt.Errorf("tool %s: %w", t.Name, err)))
	}
	return result, nil
}

// asks reports whether err is an interrupt.
func asks(err error) bool {
	_, paused := errors.AsType[*treadle.InterruptError](err)
	return paused || treadle.IsPause(err) || errors.Is(err, treadle.ErrNoSaver) || errors.Is(err, treadle.ErrNoThread)
}

// HandlerOptions configures [Handler].
type HandlerOptions struct {
	// Sessions gives clients with protocols before 2026-07-28 a session, which they need to
	// answer questions, subscribe to resources, and cancel calls. All requests of a session
	// must reach the same process. Clients with newer protocols need no sessions.
	Sessions bool
	// MaxSessions limits the open sessions of all clients, and MaxUserSessions those of a user (see
	// [auth.TokenInfo]) or, without authentication, of an address; 0 means 1,000 and 100. Further clients
	// get status 503 or 429. A session ends an hour after its last request.
	MaxSessions, MaxUserSessions int
}

// Handler serves streamable HTTP without sessions, so that each request can go to a different
// replica of the server. A client cancels its call by closing its connection. For
// resumable streams, use the SDK's handler. Handler panics if server is nil.
func Handler(server *mcp.Server, opts *HandlerOptions) http.Handler {
	if server == nil {
		panic("mcptool: Handler: nil server")
	}
	pick := func(*http.Request) *mcp.Server { return server }
	plain := mcp.NewStreamableHTTPHandler(pick, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	if opts == nil || !opts.Sessions {
		return plain
	}
	stateful := mcp.NewStreamableHTTPHandler(pick, &mcp.StreamableHTTPOptions{SessionTimeout: sessionTimeout})
	limit := sessions.New(opts.MaxSessions, opts.MaxUserSessions, func() iter.Seq[string] {
		return func(yield func(string) bool) {
			for s := range server.Sessions() {
				if !yield(s.ID()) {
					return
				}
			}
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !inSession(r):
			plain.ServeHTTP(w, r)
		case r.Header.Get("Mcp-Session-Id") != "":
			stateful.ServeHTTP(w, r)
		default:
			started, err := limit.Start(callerOf(r))
			if full, ok := errors.AsType[*sessions.FullError](err); ok {
				w.Header().Set("Retry-After", "60")
				status := http.StatusServiceUnavailable
				if full.PerUser {
					status = http.StatusTooManyRequests
				}
				http.Error(w, full.Error(), status)
				return
			}
			defer func() { started(w.Header().Get("Mcp-Session-Id")) }()
			stateful.ServeHTTP(w, r)
		}
	})
}

// callerOf returns the user or, without authentication, the address that sent a request.
func callerOf(r *http.Request) string {
	if info := auth.TokenInfoFromContext(r.Context()); info != nil && info.UserID != "" {
		return "user " + info.UserID
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return "address " + host
}

// sessionTimeout ends a session whose client is gone.
const sessionTimeout = time.Hour

// inSession reports whether a request belongs to a session or starts one.
func inSession(r *http.Request) bool {
	if r.Header.Get("Mcp-Session-Id") != "" {
		return true
	}
	if r.Method != http.MethodPost || r.Header.Get("Mcp-Protocol-Version") >= elicit.Stateless {
		return false
	}
	start, err := io.ReadAll(io.LimitReader(r.Body, mcp.DefaultMaxRequestBodyBytes))
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), r.Body), r.Body}
	var message struct{ Method string }
	return err == nil && json.Unmarshal(start, &message) == nil && message.Method == "initialize"
}

// Graph returns a tool that runs a graph, with the graph's name. The arguments are the fields
// of the graph's input, or "input" if the input is not a struct. The result is the output as
// JSON, for the model and as the artifact.
//
// Each call is one run. If the graph has a saver and the client supports elicitation, the run
// has a thread whose ID starts with "mcp-", and an interrupt becomes an elicitation: the
// properties of the answer's schema become the fields of a form, and any other answer becomes
// the field "answer". A user who declines ends the call. With protocol 2026-07-28, the run
// waits in the saver, so the answer may reach another process. A run that sleeps or waits for a signal ends
// the call with an error that names the thread; [treadle.Wake] continues it. The threads remain in the saver.
func Graph(g treadle.AnyGraph, description string) (*llm.Tool, error) {
	if v := reflect.ValueOf(g); g == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("mcptool: nil graph")
	}
	schemas, err := g.Schemas()
	if err != nil {
		return nil, fmt.Errorf("mcptool: %w", err)
	}
	t := &llm.Tool{Name: g.Name(), Description: description, Parameters: schemas.Input}
	wrapped := t.Parameters.Type != "object" || t.Parameters.Properties == nil
	if wrapped {
		t.Parameters = &jsonschema.Schema{Type: "object", Required: []string{"input"},
			Properties: map[string]*jsonschema.Schema{"input": schemas.Input}}
	}
	t.Run = func(ctx context.Context, args json.RawMessage) (any, error) {
		d := dialogOf(ctx)
		if wrapped {
			var in struct{ Input json.RawMessage }
			if err := json.Unmarshal(args, &in); err != nil {
				return nil, &llm.ArgumentsError{Tool: t.Name, Args: args, Err: err}
			}
			args = in.Input
		}
		run := dynamic.Open(g, "").RunJSON
		if d != nil {
			run = func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) { return d.run(ctx, g, args) }
		}
		out, err := run(ctx, args)
		if err != nil {
			return nil, err
		}
		return llm.ToolOutput{Content: out, Artifact: out}, nil
	}
	return t, nil
}
