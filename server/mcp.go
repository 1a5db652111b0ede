package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/internal/elicit"
	"github.com/treadle-go/treadle/internal/schema"
	"github.com/treadle-go/treadle/internal/sessions"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/runs"
)

// MCP configures the endpoint /mcp, which offers assistants as tools.
type MCP struct {
	// Server, if not nil, adds its tools, prompts, resources, and other features to the
	// assistants. All callers who may search assistants may use them: [UserFrom] returns the
	// caller, and so does the SDK, in RequestExtra.TokenInfo. A tool takes precedence over
	// an assistant of the same name, which then has its ID in its name. The server must not
	// be served elsewhere, because [Server.Drain] closes its sessions.
	Server *mcp.Server
	// Sessions gives clients with protocols before 2026-07-28 a session, which they need to
	// answer questions, subscribe to resources, and cancel calls. All requests of a session
	// must reach the same process. Clients with newer protocols need no sessions.
	Sessions bool
	// MaxSessions limits the open sessions of all clients, and MaxUserSessions those of a user or,
	// without Auth, of an address; 0 means 1,000 and 100. A session ends an hour after its last request.
	MaxSessions, MaxUserSessions int
}

// sessionTimeout ends an MCP session without requests.
const sessionTimeout = time.Hour

// mcpServer is the SDK's side of the endpoint.
type mcpServer struct {
	*mcp.Server
	own      bool         // offers only assistants
	sessions http.Handler // nil if there are none
	limit    *sessions.Limiter
}

func (s mcpAPI) open(o *MCP) *mcpServer {
	if o == nil {
		o = &MCP{}
	}
	out := &mcpServer{Server: o.Server}
	if out.Server == nil {
		out.own = true
		out.Server = mcp.NewServer(&mcp.Implementation{Name: "Treadle", Version: version()},
			&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
	}
	out.AddReceivingMiddleware(s.offer)
	if o.Sessions {
		out.limit = sessions.New(o.MaxSessions, o.MaxUserSessions, out.ids)
		out.sessions = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return out.Server },
			&mcp.StreamableHTTPOptions{SessionTimeout: sessionTimeout, MaxRequestBodyBytes: -1, DisableLocalhostProtection: true})
	}
	return out
}

// ids returns the IDs of the open sessions.
func (m *mcpServer) ids() iter.Seq[string] {
	return func(yield func(string) bool) {
		for session := range m.Sessions() {
			if !yield(session.ID()) {
				return
			}
		}
	}
}

// close ends the sessions and subscriptions of clients. Otherwise, the clients would decide when they end.
func (m *mcpServer) close() {
	for session := range m.Sessions() {
		_ = session.Close()
	}
}

// mcpMethods lists the methods of /mcp if it offers only assistants. The SDK supports more, for
// prompts and resources.
var mcpMethods = []string{"initialize", "ping", "tools/list", "tools/call", "server/discover"}

// mcpCall is the call that a request of MCP belongs to.
type mcpCall struct {
	*call
	filter ledger.Filter // of the assistants that the caller may read
}

// mcpCallKey is the key of an mcpCall in the SDK's information about a request.
const mcpCallKey = "treadle"

// callOf returns the call that a request belongs to, or nil if another endpoint received it.
func (s mcpAPI) callOf(req mcp.Request) *mcpCall {
	extra := req.GetExtra()
	if extra == nil || extra.TokenInfo == nil {
		return nil
	}
	c, _ := extra.TokenInfo.Extra[mcpCallKey].(*mcpCall)
	if c == nil || c.s != s.Server {
		return nil
	}
	return c
}

// offer adds the assistants to the features of a server.
func (s mcpAPI) offer(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		c := s.callOf(req)
		if c == nil {
			return next(ctx, method, req)
		}
		ctx = WithUser(ctx, c.user) // the context of a session has the user of its first request
		switch r := req.(type) {
		case *mcp.ListToolsRequest:
			own, err := s.added(ctx, r.Session, r.Extra, next)
			if err != nil {
				return nil, err
			}
			return s.list(c, own)
		case *mcp.CallToolRequest:
			own, err := s.added(ctx, r.Session, r.Extra, next)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(own, func(t *mcp.Tool) bool { return t.Name == r.Params.Name }) {
				return next(ctx, method, req)
			}
			out, err := s.call(ctx, c, c.tracedMCP(r.Params.Meta), r, own)
			if err == nil && asksInResults(r) {
				out = typed(out)
			}
			return out, err
		}
		result, err := next(ctx, method, req)
		switch r := result.(type) {
		case *mcp.InitializeResult:
			r.Capabilities = withTools(r.Capabilities)
		case *mcp.DiscoverResult:
			r.Capabilities = withTools(r.Capabilities)
		}
		return result, err
	}
}

// typed returns a copy of a result with its type, which protocol 2026-07-28 requires. The SDK sets it
// only in the results of its own tools, and when it decodes a result.
func typed(r *mcp.CallToolResult) *mcp.CallToolResult {
	out, kind := &mcp.CallToolResult{}, "complete"
	if r.InputRequests != nil {
		kind = "input_required"
	}
	_ = json.Unmarshal([]byte(`{"resultType":"`+kind+`","content":[]}`), out) // cannot fail
	if r.Content != nil {
		out.Content = r.Content
	}
	out.Meta, out.StructuredContent, out.IsError = r.Meta, r.StructuredContent, r.IsError
	out.InputRequests, out.RequestState = r.InputRequests, r.RequestState
	return out
}

// withTools returns capabilities that include tools.
func withTools(c *mcp.ServerCapabilities) *mcp.ServerCapabilities {
	if c == nil || c.Tools != nil {
		return c
	}
	out := *c
	out.Tools = &mcp.ToolCapabilities{}
	return &out
}

// added returns the tools that the program has added.
func (s mcpAPI) added(ctx context.Context, session *mcp.ServerSession, extra *mcp.RequestExtra, next mcp.MethodHandler) (out []*mcp.Tool, err error) {
	if s.endpoint.own {
		return nil, nil
	}
	for cursor := ""; ; {
		found, err := next(ctx, "tools/list", &mcp.ListToolsRequest{Session: session, Params: &mcp.ListToolsParams{Cursor: cursor}, Extra: extra})
		if err != nil {
			return nil, err
		}
		page, ok := found.(*mcp.ListToolsResult)
		if !ok {
			return out, nil
		}
		out = append(out, page.Tools...)
		if cursor = page.NextCursor; cursor == "" {
			return out, nil
		}
	}
}

// newMCPCall checks that the caller may use the endpoint.
func newMCPCall(c *call) (*mcpCall, error) {
	value := map[string]any{"metadata": map[string]any{}}
	f, err := c.allow(value)
	if err != nil {
		return nil, err
	}
	return &mcpCall{c, searchFilter(value, nil, f)}, nil
}

// pass lets the SDK handle a request. The SDK passes the information about a token, and only that, from an
// HTTP request to its messages, so it contains the call. If a handler around the server has verified the
// token, its information is kept.
func (c *mcpCall) pass(h http.Handler, r *http.Request) {
	info := &auth.TokenInfo{}
	if outer := auth.TokenInfoFromContext(r.Context()); outer != nil {
		*info = *outer
	}
	info.Extra = maps.Clone(info.Extra)
	if info.Extra == nil {
		info.Extra = map[string]any{}
	}
	info.Extra[mcpCallKey] = c
	if c.user != nil {
		info.UserID = c.user.Identity
	}
	authorization, given := r.Header["Authorization"]
	r.Header.Set("Authorization", "Bearer verified")
	verified := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) { return info, nil }
	auth.RequireBearerToken(verified, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true, ClockSkew: verifiedSkew})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		delete(r.Header, "Authorization")
		if given {
			r.Header["Authorization"] = authorization
		}
		h.ServeHTTP(w, r)
	})).ServeHTTP(c.w, r)
}

// verifiedSkew keeps the SDK from checking the expiration of a token again, with another tolerance than the
// handler that verified it.
const verifiedSkew = 100 * 365 * 24 * time.Hour

// serve serves a Model Context Protocol request. Every assistant that the caller may read is
// a tool. Without sessions, it keeps no state between requests.
func (s mcpAPI) serve(c *call) error {
	x, err := newMCPCall(c)
	if err != nil {
		return err
	}
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
	r := c.r.Clone(c.r.Context())
	r.Body = io.NopCloser(bytes.NewReader(raw))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream") // the SDK requires both
	if s.endpoint.sessions != nil && inSession(r, raw) {
		if r.Header.Get("Mcp-Session-Id") == "" {
			return s.start(x, r)
		}
		x.pass(s.endpoint.sessions, r)
		return nil
	}
	// A JSON response cannot contain notifications, which only the program's own tools send.
	// guard has checked the Host: with Auth, or if the configuration lists it, a proxy on the same
	// machine may forward its clients' Host header.
	o := &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: asJSON && (s.endpoint.own || !asEvents), MaxRequestBodyBytes: -1,
		DisableLocalhostProtection: true, PropagateRequestCancellation: true}
	x.pass(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.endpoint.Server }, o), r)
	return nil
}

// start starts a session, unless there are too many.
func (s mcpAPI) start(x *mcpCall, r *http.Request) error {
	owner := "address " + remote(r)
	if x.user != nil {
		owner = "user " + x.user.Identity
	}
	started, err := s.endpoint.limit.Start(owner)
	if full, ok := errors.AsType[*sessions.FullError](err); ok {
		x.w.Header().Set("Retry-After", "60")
		status := http.StatusServiceUnavailable
		if full.PerUser {
			status = http.StatusTooManyRequests
		}
		return x.json(status, map[string]string{"detail": full.Error()}) // not an error of the server, which would be logged
	}
	defer func() { started(x.w.Header().Get("Mcp-Session-Id")) }()
	x.pass(s.endpoint.sessions, r)
	return nil
}

// inSession reports whether a request belongs to a session or starts one.
func inSession(r *http.Request, raw []byte) bool {
	if r.Header.Get("Mcp-Session-Id") != "" {
		return true
	}
	req, err := parseRPC(raw)
	return err == nil && req.Method == "initialize" && !stateless(r)
}

// stateless reports whether a request uses a protocol without sessions.
func stateless(r *http.Request) bool { return r.Header.Get("Mcp-Protocol-Version") >= elicit.Stateless }

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
func (s mcpAPI) refuse(c *call, raw []byte) bool {
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
	case s.endpoint.sessions != nil && req.Method == "" && isResponse(raw):
		return false // to a question of the server
	case rpcErr != nil:
		_ = c.rpc(http.StatusBadRequest, req.ID, nil, rpcErr)
	case s.endpoint.own && req.ID != nil && !slices.Contains(mcpMethods, req.Method):
		status := http.StatusOK
		if stateless(c.r) {
			status = http.StatusNotFound
		}
		_ = c.rpc(status, req.ID, nil, &rpcError{Code: codeNoMethod, Message: "Method not found: " + req.Method})
	default:
		if rpcErr = checkParams(req); rpcErr == nil {
			return false
		}
		_ = c.rpc(http.StatusOK, req.ID, nil, rpcErr)
	}
	return true
}

// isResponse reports whether a message is a response.
func isResponse(raw []byte) bool {
	var m struct{ ID, Result, Error json.RawMessage }
	return json.Unmarshal(raw, &m) == nil && m.ID != nil && (m.Result != nil || m.Error != nil)
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

// listen serves the stream of a session's messages from the server.
func (s mcpAPI) listen(c *call) error {
	x, err := newMCPCall(c)
	if err != nil {
		return err
	}
	if s.endpoint.sessions == nil {
		return fail(http.StatusMethodNotAllowed, "server-initiated messages not supported: use POST")
	}
	x.pass(s.endpoint.sessions, c.r.Clone(c.r.Context()))
	return nil
}

// leave ends a session.
func (s mcpAPI) leave(c *call) error {
	x, err := newMCPCall(c)
	if err != nil {
		return err
	}
	if s.endpoint.sessions == nil {
		return fail(http.StatusNotFound, "sessions not supported")
	}
	x.pass(s.endpoint.sessions, c.r.Clone(c.r.Context()))
	return nil
}

// toolOf is an assistant with its tool name.
type toolOf struct {
	name      string
	assistant *ledger.Assistant
}

// tools returns the assistants that the caller may read, oldest first, so that a new
// assistant does not take the tool name of another. added lists the program's own tools.
func (s mcpAPI) tools(c *mcpCall, added []*mcp.Tool) ([]toolOf, error) {
	found, _, err := s.ledger.Assistants(c.r.Context(), &ledger.AssistantQuery{Filter: c.filter, Page: ledger.Page{Ascending: true}})
	if err != nil {
		return nil, err
	}
	var out []toolOf
	taken := map[string]bool{}
	for _, t := range added {
		taken[t.Name] = true
	}
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

func (s mcpAPI) list(x *mcpCall, added []*mcp.Tool) (*mcp.ListToolsResult, error) {
	c := x.call
	tools, err := s.tools(x, added)
	if err != nil {
		return nil, s.failure(c, err)
	}
	out := &mcp.ListToolsResult{Tools: append([]*mcp.Tool{}, added...), Cacheable: mcp.Cacheable{CacheScope: "private"}}
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
		// There are no annotations, because the server does not know what a graph does.
		out.Tools = append(out.Tools, &mcp.Tool{Name: t.name, Title: t.assistant.Name, Description: description, InputSchema: parameters})
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

// call runs an assistant.
func (s mcpAPI) call(ctx context.Context, x *mcpCall, c *call, r *mcp.CallToolRequest, added []*mcp.Tool) (*mcp.CallToolResult, error) {
	p := r.Params
	tools, err := s.tools(x, added)
	if err != nil {
		return nil, s.failure(c, err)
	}
	i := slices.IndexFunc(tools, func(t toolOf) bool { return t.name == p.Name || t.assistant.ID.String() == p.Name })
	if i < 0 {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "name: unknown tool " + p.Name}
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
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "arguments.input: missing"}
		}
		args = in.Input
	}
	return s.converse(ctx, c, r, tools[i].assistant, args)
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
		return toolFailed("server is shutting down: call the tool again")
	case end.Failed:
		return toolFailed(end.Class + ": " + end.Message)
	case end.Status != string(ledger.Success):
		return toolFailed("run ended with status " + end.Status)
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
		out.Content = append(out.Content, &mcp.TextContent{Text: "The assistant asked the question in __interrupt__, which this client cannot answer."})
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
