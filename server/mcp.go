package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/internal/schema"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/runs"
)

// mcpMethods lists the methods of /mcp. The SDK supports more, for prompts and resources, which
// assistants do not provide.
var mcpMethods = []string{"initialize", "ping", "tools/list", "tools/call", "server/discover"}

// serve serves a Model Context Protocol request. Every assistant that the caller may read is
// a tool. It keeps no state between requests.
func (s mcpAPI) serve(c *call) error {
	value := map[string]any{"metadata": map[string]any{}}
	f, err := c.allow(value)
	if err != nil {
		return err
	}
	filter := searchFilter(value, nil, f)
	raw, err := c.body()
	if err != nil {
		return err
	}
	asJSON, asEvents := accepts(c.r.Header.Values("Accept"))
	if !asJSON && !asEvents {
		return fail(http.StatusBadRequest, "Accept: want application/json or text/event-stream")
	}
	if s.refuse(c, raw) {
		return nil
	}
	tools := mcp.NewServer(&mcp.Implementation{Name: "Treadle", Version: version()},
		&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
	tools.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			switch r := req.(type) {
			case *mcp.ListToolsRequest:
				return s.list(c, &filter)
			case *mcp.CallToolRequest:
				return s.call(ctx, c.tracedMCP(r.Params.Meta), r, &filter)
			}
			return next(ctx, method, req)
		}
	})
	r := c.r.Clone(c.r.Context())
	r.Body = io.NopCloser(bytes.NewReader(raw))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream") // the SDK requires both
	// The SDK's protection against DNS rebinding stays on, except for a Host that guard accepts
	// and the SDK rejects: with Auth, or if the configuration lists it, a proxy on the same
	// machine may forward its clients' Host header.
	trusted := !isLoopbackHost(r.Host)
	o := &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: asJSON, MaxRequestBodyBytes: -1, DisableLocalhostProtection: trusted, PropagateRequestCancellation: true}
	mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, o).ServeHTTP(c.w, r)
	return nil
}

// accepts parses an Accept header. Without one, it accepts everything.
func accepts(values []string) (asJSON, asEvents bool) {
	all := strings.ToLower(strings.Join(values, ","))
	has := func(kinds ...string) bool {
		return slices.ContainsFunc(kinds, func(k string) bool { return strings.Contains(all, k) })
	}
	if strings.TrimSpace(all) == "" {
		return true, true
	}
	return has("application/json", "application/*", "*/*"), has("text/event-stream", "text/*", "*/*")
}

// refuse rejects a body that is not JSON-RPC or has an unknown method, and reports whether
// it did. The SDK would respond in plain text.
func (mcpAPI) refuse(c *call, raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	var batch []json.RawMessage
	if len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &batch) == nil {
		rpcErr := checkBatch(batch)
		if rpcErr != nil {
			_ = c.rpc(http.StatusBadRequest, nil, nil, rpcErr)
		}
		return rpcErr != nil
	}
	req, rpcErr := parseRPC(raw)
	switch {
	case rpcErr != nil:
		_ = c.rpc(http.StatusBadRequest, req.ID, nil, rpcErr)
	case req.ID != nil && !slices.Contains(mcpMethods, req.Method):
		_ = c.rpc(http.StatusOK, req.ID, nil, &rpcError{Code: codeNoMethod, Message: "Method not found: " + req.Method})
	default:
		if rpcErr = checkParams(req); rpcErr == nil {
			return false
		}
		_ = c.rpc(http.StatusOK, req.ID, nil, rpcErr)
	}
	return true
}

// checkParams returns an error for parameters that the SDK cannot decode. The SDK's own error
// would name its Go types.
func checkParams(req rpcRequest) *rpcError {
	var dst any
	switch req.Method {
	case "initialize":
		dst = &mcp.InitializeParams{}
	case "tools/list":
		dst = &mcp.ListToolsParams{}
	case "tools/call":
		dst = &mcp.CallToolParamsRaw{}
	default:
		dst = &mcp.PingParams{}
	}
	if len(req.Params) == 0 || req.ID == nil { // a notification gets no response
		return nil
	}
	if err := json.Unmarshal(req.Params, dst); err != nil {
		return &rpcError{Code: codeParams, Message: "Invalid params: " + runs.Text(err.Error())}
	}
	return nil
}

// checkBatch returns an error for a batch with an invalid request. The SDK would respond in
// plain text.
func checkBatch(batch []json.RawMessage) *rpcError {
	if len(batch) == 0 {
		return &rpcError{Code: codeInvalid, Message: "Invalid request: the batch is empty"}
	}
	for _, raw := range batch {
		req, err := parseRPC(raw)
		if err == nil {
			err = checkParams(req)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (mcpAPI) refuseGET(*call) error {
	return fail(http.StatusMethodNotAllowed, "server sends no messages of its own: use POST")
}

func (mcpAPI) refuseDELETE(*call) error {
	return fail(http.StatusNotFound, "sessions are not supported")
}

// toolOf is an assistant with its tool name.
type toolOf struct {
	name      string
	assistant *ledger.Assistant
}

// tools returns the assistants that the caller may read, oldest first, so that a new
// assistant does not take the tool name of another.
func (s mcpAPI) tools(c *call, f *ledger.Filter) ([]toolOf, error) {
	found, _, err := s.ledger.Assistants(c.r.Context(), &ledger.AssistantQuery{Filter: *f, Page: ledger.Page{Ascending: true}})
	if err != nil {
		return nil, err
	}
	var out []toolOf
	taken := map[string]bool{}
	for _, a := range found {
		if s.runner.Graph(a.Graph) == nil {
			continue // a graph of another release
		}
		name := toolName(a.Name)
		if name == "" || taken[name] {
			name = strings.TrimPrefix(name+"_"+a.ID.String(), "_")
		}
		taken[name] = true
		out = append(out, toolOf{name, a})
	}
	return out, nil
}

// toolName returns an assistant's name in the characters that models accept for a tool.
func toolName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name[:min(len(name), 64)])
}

func (s mcpAPI) list(c *call, f *ledger.Filter) (*mcp.ListToolsResult, error) {
	tools, err := s.tools(c, f)
	if err != nil {
		return nil, s.failure(c, err)
	}
	out := &mcp.ListToolsResult{Tools: []*mcp.Tool{}}
	no, yes := false, true
	for _, t := range tools {
		input, _, err := s.input(t.assistant)
		if err != nil {
			return nil, s.failure(c, err)
		}
		parameters, err := schema.Marshal(input)
		if err != nil {
			return nil, s.failure(c, err)
		}
		description := "Tool based on the " + t.assistant.Name + " assistant"
		if d := t.assistant.Description; d != nil && *d != "" {
			description = *d
		}
		out.Tools = append(out.Tools, &mcp.Tool{Name: t.name, Title: t.assistant.Name, Description: description, InputSchema: parameters,
			Annotations: &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &yes}})
	}
	return out, nil
}

// input returns the schema of a tool's arguments. An input that is not an object becomes
// the argument "input".
func (s mcpAPI) input(a *ledger.Assistant) (schema *jsonschema.Schema, wrapped bool, err error) {
	schemas, err := s.runner.Graph(a.Graph).Schemas()
	if err != nil {
		return nil, false, err
	}
	if schemas.Input != nil && schemas.Input.Type == "object" {
		return schemas.Input, false, nil
	}
	wrap := &jsonschema.Schema{Type: "object", Required: []string{"input"}, Properties: map[string]*jsonschema.Schema{"input": schemas.Input}}
	return wrap, true, nil
}

// call runs an assistant, without a thread unless the client can answer questions.
func (s mcpAPI) call(ctx context.Context, c *call, r *mcp.CallToolRequest, f *ledger.Filter) (*mcp.CallToolResult, error) {
	p := r.Params
	tools, err := s.tools(c, f)
	if err != nil {
		return nil, s.failure(c, err)
	}
	i := slices.IndexFunc(tools, func(t toolOf) bool { return t.name == p.Name || t.assistant.ID.String() == p.Name })
	if i < 0 {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "name: there is no tool " + p.Name}
	}
	args := bytesTrim(p.Arguments)
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	if args[0] != '{' {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "arguments: want an object"}
	}
	_, wrapped, err := s.input(tools[i].assistant)
	if err != nil {
		return nil, s.failure(c, err)
	}
	if wrapped {
		var in struct {
			Input json.RawMessage `json:"input"`
		}
		if err := json.Unmarshal(args, &in); err != nil || in.Input == nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "arguments.input: it is missing"}
		}
		args = in.Input
	}
	if canAnswer(r) {
		return s.converse(ctx, c, r, tools[i].assistant, args)
	}
	run, err := s.runs().createFrom(c, &runBody{Assistant: tools[i].assistant.ID.String(), Input: args}, nil)
	if err != nil {
		return s.notCreated(c, err)
	}
	end, values, err := s.runs().outcome(ctx, c, run)
	if err != nil {
		// The result of a run without a thread has no other reader.
		s.runs().left(run, true)
		return nil, s.failure(c, err)
	}
	return toolResult(end, values), nil
}

// outcome waits for the end of a newly created run.
func (s runAPI) outcome(ctx context.Context, c *call, run *ledger.Run) (end *runs.End, values json.RawMessage, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.r.Context(), cancel)()
	e, err := s.runner.End(ctx, run, true)
	if err != nil {
		return nil, nil, err
	}
	if e == nil {
		return nil, nil, errors.New("run ended without a result")
	}
	return e.End, e.Data(), nil
}

// toolResult returns the result of a run: its values as text and as structured content.
func toolResult(end *runs.End, values json.RawMessage) *mcp.CallToolResult {
	switch {
	case end.Lost:
		return toolFailed("the server is shutting down: call the tool again")
	case end.Failed:
		return toolFailed(end.Class + ": " + end.Message)
	case end.Status != string(ledger.Success):
		return toolFailed("the run ended as " + end.Status)
	}
	if len(values) == 0 {
		values = json.RawMessage("null")
	}
	out := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(values)}}, StructuredContent: values}
	if values[0] != '{' {
		out.StructuredContent = map[string]any{"result": values}
	}
	if end.Paused {
		out.IsError = true
		out.Content = append(out.Content, &mcp.TextContent{Text: "The assistant stopped to ask the question in __interrupt__, which this client cannot answer."})
	}
	return out
}

func toolFailed(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// notCreated returns the result of a call whose run was not created: the model may correct a
// rejected request.
func (s mcpAPI) notCreated(c *call, err error) (*mcp.CallToolResult, error) {
	if status, detail := statusOf(err); status < http.StatusInternalServerError {
		return toolFailed(detail), nil
	}
	return nil, s.failure(c, err)
}

// failure converts an error to the SDK's form. It hides internal errors from clients.
func (s mcpAPI) failure(c *call, err error) error {
	status, detail := statusOf(err)
	if status >= http.StatusInternalServerError && c.r.Context().Err() == nil {
		s.log.Error("request failed", "method", c.r.Method, "path", c.r.URL.Path, "error", err)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: detail}
}
