package server

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/agui"
	"github.com/treadle-go/treadle/server/internal/config"
	"github.com/treadle-go/treadle/server/internal/runs"
)

// description describes a route in the OpenAPI document, in addition to the route table.
type description struct {
	summary string
	body    any      // a value of the request body's type, or nil
	without []string // fields of that type that do not apply to the route
	query   []string // parameters; "name:type"
	answer  any      // a value of the response's type, or nil
	status  int      // response status; 0 means 200
	media   string   // response media type; "" means JSON
}

// anything stands for any JSON value, and threadRow names the schema of threads.
type (
	anything  struct{}
	threadRow struct{ threadJSON }
)

const eventStream = "text/event-stream"

// Routes share body types. Some routes ignore the fields listed here, or LangGraph's routes do
// not have them.
var (
	notCounted     = []string{"limit", "offset", "sort_by", "sort_order", "select"}
	notOfThreads   = []string{"graph_id", "name"} // nor of crons
	notOfVersions  = []string{"graph_id", "name", "sort_by", "sort_order", "select"}
	notStateless   = []string{"checkpoint", "checkpoint_id", "multitask_strategy", "if_not_exists"}
	notInAThread   = []string{"on_completion"}
	notOfACron     = []string{"command", "checkpoint", "checkpoint_id", "on_disconnect", "on_completion", "after_seconds", "feedback_keys"}
	notPatched     = slices.Concat(notOfACron, []string{"if_not_exists", "checkpoint_during"})
	notOfItsThread = slices.Concat(notPatched, []string{"on_run_completed"})
)

// descriptions maps method and path, as in the route table, to descriptions.
var descriptions = map[string]description{
	"GET /ok":           {summary: "Whether the server works.", query: []string{"check_db:boolean"}, answer: map[string]any{}},
	"GET /info":         {summary: "What the server is.", answer: map[string]any{}},
	"GET /openapi.json": {summary: "This description.", answer: map[string]any{}},
	"GET /docs":         {summary: "This description as a page.", media: "text/html"},
	"GET /metrics":      {summary: "Metrics in Prometheus' text format, or as JSON.", query: []string{"format:string"}, media: "text/plain"},

	"POST /assistants":                                        {summary: "Create an assistant.", body: assistantBody{}, answer: ledger.Assistant{}},
	"POST /assistants/search":                                 {summary: "Search assistants.", body: searchBody{}, answer: []ledger.Assistant{}},
	"POST /assistants/count":                                  {summary: "Count assistants.", body: searchBody{}, without: notCounted, answer: 0},
	"GET /assistants/{assistant_id}":                          {summary: "Get an assistant.", answer: ledger.Assistant{}},
	"PATCH /assistants/{assistant_id}":                        {summary: "Change an assistant, as a new version.", body: assistantBody{}, without: []string{"assistant_id", "if_exists"}, answer: ledger.Assistant{}},
	"DELETE /assistants/{assistant_id}":                       {summary: "Delete an assistant.", query: []string{"delete_threads:boolean"}, status: http.StatusNoContent},
	"POST /assistants/{assistant_id}/versions":                {summary: "List the versions of an assistant, newest first.", body: searchBody{}, without: notOfVersions, answer: []ledger.Assistant{}},
	"POST /assistants/{assistant_id}/latest":                  {summary: "Go back to a version of an assistant.", body: latestBody{}, answer: ledger.Assistant{}},
	"GET /assistants/{assistant_id}/graph":                    {summary: "The drawing of an assistant's graph.", query: []string{"xray:string"}, answer: map[string]any{}},
	"GET /assistants/{assistant_id}/schemas":                  {summary: "The JSON schemas of an assistant's graph.", answer: map[string]any{}},
	"GET /assistants/{assistant_id}/subgraphs":                {summary: "The schemas of nested graphs.", query: []string{"recurse:boolean"}, answer: map[string]any{}},
	"GET /assistants/{assistant_id}/subgraphs/{namespace...}": {summary: "The schemas of one nested graph.", query: []string{"recurse:boolean"}, answer: map[string]any{}},

	"POST /threads":                                  {summary: "Create a thread.", body: threadBody{}, answer: threadRow{}},
	"POST /threads/search":                           {summary: "Search threads.", body: threadSearch{}, without: notOfThreads, answer: []threadRow{}},
	"POST /threads/count":                            {summary: "Count threads.", body: threadSearch{}, without: slices.Concat(notOfThreads, notCounted, []string{"extract", "questions"}), answer: 0},
	"POST /threads/prune":                            {summary: "Delete threads, or all but their present states.", body: pruneBody{}, answer: map[string]any{}},
	"GET /threads/{thread_id}":                       {summary: "Get a thread.", query: []string{"include:string"}, answer: threadRow{}},
	"PATCH /threads/{thread_id}":                     {summary: "Change the metadata of a thread.", body: threadBody{}, without: []string{"thread_id", "if_exists", "supersteps"}, answer: threadRow{}},
	"DELETE /threads/{thread_id}":                    {summary: "Delete a thread.", status: http.StatusNoContent},
	"POST /threads/{thread_id}/copy":                 {summary: "Copy a thread with its state.", answer: threadRow{}},
	"GET /threads/{thread_id}/storage":               {summary: "How much the state of a thread takes in the database.", answer: storageJSON{}},
	"GET /threads/{thread_id}/state":                 {summary: "The present state of a thread.", query: []string{"subgraphs:boolean"}, answer: map[string]any{}},
	"POST /threads/{thread_id}/state":                {summary: "Edit the state of a thread.", body: updateBody{}, answer: map[string]any{}},
	"GET /threads/{thread_id}/state/{checkpoint_id}": {summary: "The state of a thread at a checkpoint.", query: []string{"subgraphs:boolean"}, answer: map[string]any{}},
	"POST /threads/{thread_id}/state/checkpoint":     {summary: "The state of a thread, or of a nested graph, at a checkpoint.", body: stateAtBody{}, answer: map[string]any{}},
	"GET /threads/{thread_id}/history":               {summary: "The states of a thread, newest first.", query: []string{"limit:integer", "before:string"}, answer: []map[string]any{}},
	"POST /threads/{thread_id}/history":              {summary: "The states of a thread, newest first.", body: historyBody{}, answer: []map[string]any{}},
	"GET /threads/{thread_id}/overview":              {summary: "Get a thread with its newest run and states.", query: []string{"limit:integer", "kwargs:boolean"}, answer: overview{}},
	"POST /threads/{thread_id}/subgraphs":            {summary: "The states of subgraphs, and of the subgraphs in them, by namespace, newest first.", body: subgraphsBody{}, answer: subgraphStates{}},
	"POST /threads/{thread_id}/signals/{name}":       {summary: "Send a signal to a thread.", body: signalBody{}, status: http.StatusNoContent},
	"GET /threads/{thread_id}/stream":                {summary: "Stream the events of all runs of a thread.", query: []string{"stream_mode:string", "stream_modes:string"}, media: eventStream},
	"POST /threads/{thread_id}/commands":             {summary: "Carry out a command of protocol v2.", body: command{}, answer: reply{}},
	"POST /threads/{thread_id}/stream/events":        {summary: "Stream the events of a thread by protocol v2.", body: subscription{}, media: eventStream},
	"GET /threads/{thread_id}/stream/events":         {summary: "Commands and events of protocol v2 on a WebSocket.", status: http.StatusSwitchingProtocols},
	"POST /threads/{thread_id}/runs":                 {summary: "Create a run in the background.", body: runBody{}, without: notInAThread, answer: ledger.Run{}},
	"POST /threads/{thread_id}/runs/stream":          {summary: "Create a run and stream its events.", body: runBody{}, without: notInAThread, media: eventStream},
	"POST /threads/{thread_id}/runs/wait":            {summary: "Create a run and wait for its values.", body: runBody{}, without: notInAThread, answer: anything{}},
	"GET /threads/{thread_id}/runs":                  {summary: "List runs, newest first.", query: []string{"limit:integer", "offset:integer", "status:string", "select:string"}, answer: []ledger.Run{}},
	"GET /threads/{thread_id}/runs/{run_id}":         {summary: "Get a run.", answer: ledger.Run{}},
	"DELETE /threads/{thread_id}/runs/{run_id}":      {summary: "Delete a run with what it has stored.", status: http.StatusNoContent},
	"POST /threads/{thread_id}/runs/{run_id}/cancel": {summary: "Cancel a run.", query: []string{"wait:boolean", "action:string"}, answer: anything{}, status: http.StatusAccepted},
	"GET /threads/{thread_id}/runs/{run_id}/join":    {summary: "Wait for the values of a run.", query: []string{"cancel_on_disconnect:boolean"}, answer: anything{}},
	"GET /threads/{thread_id}/runs/{run_id}/stream":  {summary: "Stream the events of a run.", query: []string{"cancel_on_disconnect:boolean", "stream_mode:string"}, media: eventStream},
	"GET /threads/{thread_id}/runs/{run_id}/spans": {summary: "List the model and tool calls of a run, oldest first.",
		query: []string{"limit:integer", "cursor:string", "content:boolean"}, answer: spanPage{}},
	"GET /threads/{thread_id}/runs/{run_id}/spans/{span_id}": {summary: "Get a model or tool call with its input and output.", answer: ledger.Span{}},

	"POST /runs":                {summary: "Create a run without a thread in the background.", body: runBody{}, without: notStateless, answer: ledger.Run{}},
	"POST /runs/stream":         {summary: "Create a run without a thread and stream its events.", body: runBody{}, without: notStateless, media: eventStream},
	"POST /runs/wait":           {summary: "Create a run without a thread and wait for its values.", body: runBody{}, without: notStateless, answer: anything{}},
	"POST /runs/batch":          {summary: "Create several runs without threads.", body: []runBody{}, without: notStateless, answer: []ledger.Run{}},
	"POST /runs/cancel":         {summary: "Cancel several runs.", body: cancelBody{}, query: []string{"action:string"}, status: http.StatusNoContent},
	"GET /runs/{run_id}/stream": {summary: "Stream the events of a run without a thread.", query: []string{"cancel_on_disconnect:boolean", "stream_mode:string"}, media: eventStream},
	"GET /runs/{run_id}/join":   {summary: "Wait for the values of a run without a thread.", query: []string{"cancel_on_disconnect:boolean"}, answer: anything{}},

	"POST /search/threads": {summary: "Search threads by the words of their titles, inputs, and states, newest first.", body: textSearch{}, answer: textMatches{}},
	"POST /search/runs":    {summary: "Search the runs of all threads, newest first.", body: runSearch{}, answer: runPage{}},

	"POST /runs/crons":                     {summary: "Create a cron.", body: cronRequest{}, without: notOfACron, answer: ledger.Cron{}},
	"POST /threads/{thread_id}/runs/crons": {summary: "Create a cron of a thread.", body: cronRequest{}, without: notOfItsThread, answer: ledger.Cron{}},
	"POST /runs/crons/search":              {summary: "Search crons.", body: cronSearch{}, without: notOfThreads, answer: []ledger.Cron{}},
	"POST /runs/crons/count":               {summary: "Count crons.", body: cronSearch{}, without: slices.Concat(notOfThreads, notCounted), answer: 0},
	"GET /runs/crons/{cron_id}":            {summary: "Get a cron.", answer: ledger.Cron{}},
	"PATCH /runs/crons/{cron_id}":          {summary: "Change a cron.", body: cronRequest{}, without: notPatched, answer: ledger.Cron{}},
	"DELETE /runs/crons/{cron_id}":         {summary: "Delete a cron.", status: http.StatusNoContent},

	"PUT /store/items":         {summary: "Put an item.", body: itemBody{}, status: http.StatusNoContent},
	"GET /store/items":         {summary: "Get an item.", query: []string{"namespace:string", "key:string", "refresh_ttl:boolean"}, answer: (*itemJSON)(nil)},
	"DELETE /store/items":      {summary: "Delete an item.", body: itemBody{}, without: []string{"value", "index", "ttl", "meta"}, status: http.StatusNoContent},
	"GET /store/items/history": {summary: "The changes of an item, newest first, as far as the store keeps them.", query: []string{"namespace:string", "key:string"}, answer: map[string]any{}},
	"POST /store/items/search": {summary: "Search items.", body: itemSearch{}, answer: map[string]any{}},
	"POST /store/namespaces":   {summary: "List namespaces.", body: namespaceSearch{}, answer: map[string]any{}},

	"POST /mcp":                        {summary: "Call the Model Context Protocol: every assistant is a tool.", body: rpcRequest{}, answer: anything{}},
	"GET /mcp":                         {summary: "Refused: the server sends nothing by itself.", status: http.StatusMethodNotAllowed},
	"DELETE /mcp":                      {summary: "Refused: there are no sessions.", status: http.StatusNotFound},
	"GET /.well-known/agent-card.json": {summary: "An assistant's A2A agent card.", query: []string{"assistant_id:string"}, answer: map[string]any{}},
	"GET /a2a/{assistant_id}":          {summary: "An assistant's A2A agent card.", answer: map[string]any{}},
	"GET /a2a/{assistant_id}/.well-known/agent-card.json":    {summary: "An assistant's A2A agent card.", answer: map[string]any{}},
	"POST /a2a/{assistant_id}/v1":                            {summary: "Call a method of version 1.0 of the A2A protocol.", body: rpcRequest{}, answer: anything{}},
	"GET /a2a/{assistant_id}/v1/.well-known/agent-card.json": {summary: "An assistant's A2A agent card of version 1.0.", answer: map[string]any{}},
	"POST /a2a/{assistant_id}":                               {summary: "Call a method of the A2A protocol.", body: rpcRequest{}, answer: anything{}},

	"POST /agui/{assistant_id}":             {summary: "Run an assistant for a page that speaks AG-UI.", query: []string{"on_disconnect:string"}, body: agui.Input{}, media: eventStream},
	"GET /agui/{assistant_id}/capabilities": {summary: "What an assistant can do over AG-UI.", answer: map[string]any{}},
}

// openAPI returns the OpenAPI 3.1 document of the API.
func (s *Server) openAPI() map[string]any {
	paths := map[string]map[string]any{}
	schemas := map[string]any{
		"Error": map[string]any{"type": "object", "properties": map[string]any{"detail": map[string]any{"type": "string"}}, "required": []string{"detail"}},
		"RPCError": map[string]any{"type": "object", "required": []string{"jsonrpc", "error"}, "properties": map[string]any{
			"jsonrpc": map[string]any{"const": "2.0"}, "error": structOf(reflect.TypeFor[rpcError](), nil),
		}},
	}
	security := s.security()
	for _, rt := range s.routes() {
		path := strings.Replace(rt.path, "...}", "}", 1)
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		op := operation(rt, descriptions[rt.method+" "+rt.path], schemas)
		if needed, ok := security.Paths[path][strings.ToLower(rt.method)]; ok {
			op["security"] = needed
		} else if rt.resource == "" && len(security.Schemes) > 0 {
			op["security"] = []any{} // open to all
		}
		paths[path][strings.ToLower(rt.method)] = op
	}
	doc := map[string]any{
		"openapi":    "3.1.0",
		"servers":    []any{map[string]any{"url": cmp.Or(s.o.extras.Prefix, "/")}},
		"info":       map[string]any{"title": "Treadle", "version": version(), "description": "Threads, runs, assistants, crons and the store of a Treadle server, compatible with LangGraph Platform."},
		"paths":      paths,
		"components": map[string]any{"schemas": schemas},
	}
	if len(security.Schemes) > 0 {
		doc["components"] = map[string]any{"schemas": schemas, "securitySchemes": security.Schemes}
	}
	if len(security.Required) > 0 {
		doc["security"] = security.Required
	}
	return doc
}

// security describes the credentials that callers need: in the configuration file, or else in
// Options.Auth.
func (s *Server) security() *config.Security {
	switch out := &s.o.extras.Security; {
	case s.o.Auth == nil:
		return &config.Security{}
	case len(out.Schemes) > 0:
		return out
	}
	out := &config.Security{Schemes: map[string]map[string]any{}}
	for _, name := range slices.Sorted(maps.Keys(s.o.Auth.Schemes)) {
		out.Schemes[name] = s.o.Auth.Schemes[name].fields()
		out.Required = append(out.Required, map[string][]string{name: {}})
	}
	return out
}

// fields returns the fields of a security scheme that have a value, with their names in OpenAPI.
func (s SecurityScheme) fields() map[string]any {
	out := map[string]any{}
	for name, value := range map[string]string{"type": s.Type, "description": s.Description, "in": s.In, "name": s.Name, "scheme": s.Scheme, "bearerFormat": s.BearerFormat, "openIdConnectUrl": s.OpenIDConnectURL} {
		if value != "" {
			out[name] = value
		}
	}
	return out
}

func operation(rt route, d description, schemas map[string]any) map[string]any {
	var params []any
	for part := range strings.SplitSeq(rt.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "}"), "...")
			params = append(params, map[string]any{"name": name, "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
		}
	}
	for _, q := range d.query {
		name, kind, _ := strings.Cut(q, ":")
		params = append(params, map[string]any{"name": name, "in": "query", "schema": map[string]any{"type": kind}})
	}
	op := map[string]any{"summary": d.summary, "operationId": operationID(rt)}
	if rt.resource != "" {
		op["tags"] = []string{rt.resource}
	}
	if params != nil {
		op["parameters"] = params
	}
	if d.body != nil {
		op["requestBody"] = map[string]any{"content": media("application/json", bodySchema(reflect.TypeOf(d.body), d.without, schemas))}
	}
	answer := map[string]any{"description": "The answer."}
	switch {
	case d.media != "":
		answer["content"] = media(d.media, map[string]any{"type": "string"})
	case d.answer != nil:
		answer["content"] = media("application/json", schemaOf(reflect.TypeOf(d.answer), schemas))
	}
	status := d.status
	if status == 0 {
		status = http.StatusOK
	}
	responses := map[string]any{}
	responses[statusText(status)] = answer
	if status == http.StatusAccepted {
		responses["200"] = answer // if the request waited
	}
	if rt.method == "PATCH" {
		responses["204"] = map[string]any{"description": "There is nothing to say."}
	}
	failure := map[string]any{"$ref": "#/components/schemas/Error"}
	if _, ok := d.body.(rpcRequest); ok {
		failure = map[string]any{"anyOf": []any{failure, map[string]any{"$ref": "#/components/schemas/RPCError"}}}
	}
	problem := map[string]any{"description": "The request is refused.", "content": media("application/json", failure)}
	responses["4XX"], responses["503"] = problem, problem
	op["responses"] = responses
	return op
}

// bodySchema returns the schema of a request body without some of its fields.
func bodySchema(t reflect.Type, without []string, schemas map[string]any) map[string]any {
	switch {
	case without == nil:
		return schemaOf(t, schemas)
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": bodySchema(t.Elem(), without, schemas)}
	}
	s := structOf(t, schemas)
	props := s["properties"].(map[string]any)
	for _, name := range without {
		delete(props, name)
	}
	return s
}

func statusText(n int) string {
	return string(rune('0'+n/100)) + string(rune('0'+n/10%10)) + string(rune('0'+n%10))
}

func media(kind string, schema any) map[string]any {
	return map[string]any{kind: map[string]any{"schema": schema}}
}

// operationID returns an operation name that is a valid identifier.
func operationID(rt route) string {
	clean := strings.NewReplacer("/", "_", "{", "", "}", "", ".", "_", "-", "_").Replace(rt.path)
	return strings.ToLower(rt.method) + clean
}

// wordsOf lists the valid values of fields by name.
var wordsOf = map[string][]string{
	"multitask_strategy": {"reject", "enqueue", "interrupt", "rollback"},
	"if_not_exists":      {"reject", "create"},
	"if_exists":          {"raise", "do_nothing"},
	"on_disconnect":      {"cancel", "continue"},
	"on_completion":      {"delete", "keep"},
	"on_run_completed":   {"delete", "keep"},
	"durability":         {"sync", "async", "exit"},
	"sort_order":         {"asc", "desc"},
}

// schemaOf returns the JSON schema of a type of this package or of ledger. Named structs become
// components.
func schemaOf(t reflect.Type, schemas map[string]any) map[string]any {
	switch t {
	case reflect.TypeFor[uuid.UUID]():
		return map[string]any{"type": "string", "format": "uuid"}
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage](), reflect.TypeFor[anything](), reflect.TypeFor[before]():
		return map[string]any{}
	case reflect.TypeFor[ttlBody]():
		return map[string]any{"anyOf": []any{map[string]any{"type": "number", "exclusiveMinimum": 0}, structOf(t, schemas)}}
	case reflect.TypeFor[nodeList]():
		return map[string]any{"anyOf": []any{map[string]any{"type": "string"}, map[string]any{"type": "array", "items": map[string]any{"type": "string"}}}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		inner := schemaOf(t.Elem(), schemas)
		return map[string]any{"anyOf": []any{inner, map[string]any{"type": "null"}}}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), schemas)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": true}
	case reflect.Struct:
		name := componentNames[t]
		if name == "" {
			return structOf(t, schemas)
		}
		if schemas[name] == nil {
			schemas[name] = map[string]any{} // in case the type contains itself
			schemas[name] = structOf(t, schemas)
		}
		return map[string]any{"$ref": "#/components/schemas/" + name}
	}
	return map[string]any{}
}

// componentNames lists the types that are described once, as components.
var componentNames = map[reflect.Type]string{
	reflect.TypeFor[ledger.Assistant](): "Assistant", reflect.TypeFor[threadRow](): "Thread", reflect.TypeFor[ledger.Run](): "Run",
	reflect.TypeFor[ledger.Cron](): "Cron", reflect.TypeFor[itemJSON](): "Item",
	reflect.TypeFor[ledger.Failure](): "Failure", reflect.TypeFor[ledger.TTL](): "TTL", reflect.TypeFor[checkpointBody](): "Checkpoint",
}

func structOf(t reflect.Type, schemas map[string]any) map[string]any {
	props := map[string]any{}
	addFields(t, props, schemas)
	return map[string]any{"type": "object", "properties": props, "additionalProperties": true}
}

// addFields adds the fields of a struct and of its embedded structs.
func addFields(t reflect.Type, props, schemas map[string]any) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			addFields(inner, props, schemas)
		case name == "" || name == "-":
		default:
			props[name] = fieldSchema(name, f.Type, schemas)
		}
	}
}

func fieldSchema(name string, t reflect.Type, schemas map[string]any) map[string]any {
	s := schemaOf(t, schemas)
	switch {
	case name == "stream_mode" && t == reflect.TypeFor[nodeList]():
		words := map[string]any{"type": "string", "enum": runs.StreamModes}
		return map[string]any{"anyOf": []any{words, map[string]any{"type": "array", "items": words}}}
	case wordsOf[name] != nil && t.Kind() == reflect.String:
		s["enum"] = wordsOf[name]
	case name == "limit" && t.Kind() == reflect.Pointer:
		return map[string]any{"anyOf": []any{map[string]any{"type": "integer", "minimum": 1, "maximum": 1000}, map[string]any{"type": "null"}}}
	case name == "offset", name == "after_seconds", name == "max_depth":
		s["minimum"] = 0
	}
	return s
}

func (s systemAPI) openapi(c *call) error { return c.json(http.StatusOK, s.openAPI()) }

//go:embed docs.html
var docsPage []byte

func (systemAPI) docs(c *call) error {
	c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	c.w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'")
	_, err := c.w.Write(docsPage)
	return ignored(err)
}
