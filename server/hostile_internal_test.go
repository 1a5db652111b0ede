package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/server/internal/agui"
)

// goodBodies are requests that are right, by the types of their bodies. A field of
// them is replaced by something wrong.
var goodBodies = map[reflect.Type]string{
	reflect.TypeFor[assistantBody]():   `{"graph_id":"hitl"}`,
	reflect.TypeFor[searchBody]():      `{}`,
	reflect.TypeFor[latestBody]():      `{"version":1}`,
	reflect.TypeFor[threadBody]():      `{"metadata":{"graph_id":"hitl"}}`,
	reflect.TypeFor[threadSearch]():    `{}`,
	reflect.TypeFor[textSearch]():      `{}`,
	reflect.TypeFor[runSearch]():       `{}`,
	reflect.TypeFor[pruneBody]():       `{"thread_ids":[]}`,
	reflect.TypeFor[signalBody]():      `{"value":1}`,
	reflect.TypeFor[updateBody]():      `{"values":{"topic":"x"}}`,
	reflect.TypeFor[stateAtBody]():     `{}`,
	reflect.TypeFor[historyBody]():     `{}`,
	reflect.TypeFor[subgraphsBody]():   `{"checkpoint_ns":["a"]}`,
	reflect.TypeFor[runBody]():         `{"assistant_id":"router","input":{}}`,
	reflect.TypeFor[cancelBody]():      `{"thread_id":"{thread_id}","run_ids":["{run_id}"]}`,
	reflect.TypeFor[cronRequest]():     `{"assistant_id":"router","input":{},"schedule":"0 0 1 1 *"}`,
	reflect.TypeFor[cronSearch]():      `{}`,
	reflect.TypeFor[itemBody]():        `{"namespace":["hostile"],"key":"k","value":{}}`,
	reflect.TypeFor[itemSearch]():      `{}`,
	reflect.TypeFor[namespaceSearch](): `{}`,
	reflect.TypeFor[command]():         `{"id":1,"method":"state.get","params":{"namespace":[]}}`,
	reflect.TypeFor[subscription]():    `{"channels":["values"]}`,
	reflect.TypeFor[rpcRequest]():      `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
	reflect.TypeFor[agui.Input]():      `{"threadId":"{thread_id}","runId":"1","messages":[],"state":{}}`,
	reflect.TypeFor[command]():         `{"id":1,"method":"no.such"}`,
	reflect.TypeFor[subscription]():    `{"channels":["values"]}`,
}

// wrongValues returns values that a field cannot have. It returns none for fields that
// accept any JSON.
func wrongValues(field string, t reflect.Type) []string {
	switch t {
	case reflect.TypeFor[nodeList]():
		return []string{`5`, `true`, `{}`, `[5]`, `[{}]`}
	case reflect.TypeFor[ttlBody](), reflect.TypeFor[*ttlBody]():
		return []string{`"x"`, `true`, `[]`, `{"ttl":"x"}`, `{"ttl":-1}`, `0`, `{"ttl":1,"strategy":"eat"}`, `{"ttl":1,"strategy":7}`}
	case reflect.TypeFor[before]():
		return []string{`5`, `true`, `[]`, `{"checkpoint_id":5}`}
	case reflect.TypeFor[json.RawMessage]():
		return map[string][]string{
			"command":    {`5`, `"x"`, `[]`, `true`},
			"supersteps": {`5`, `"x"`, `{}`, `[5]`, `[{"updates":5}]`, `[{"updates":[{"values":{"topic":5}}]}]`, `[{"updates":[{"values":{},"as_node":"nope"}]}]`},
			"value":      {`5`, `"x"`, `[]`, `null`},
			"index":      {`5`, `"x"`, `{}`, `[5]`},
			"end_time":   {`5`, `true`, `{}`, `"tomorrow"`},
			"filter":     {`5`, `"x"`, `[]`, `{"a":{"$what":1}}`},
			"id":         {`{}`, `[]`, `true`},
			"values":     {`5`, `"x"`, `{"topic":5}`},
		}[field]
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wrongValues(field, t.Elem())
	case reflect.String:
		return []string{`5`, `true`, `{}`, `[]`}
	case reflect.Bool:
		return []string{`"x"`, `5`, `{}`, `[]`}
	case reflect.Int, reflect.Uint64:
		return []string{`"x"`, `true`, `{}`, `[]`, `1.5`, `1e99`, `-1`}
	case reflect.Float64:
		return []string{`"x"`, `true`, `{}`, `[]`, `1e999`, `-1`}
	case reflect.Slice:
		return []string{`5`, `"x"`, `{}`, `true`, `[5]`, `[{}]`}
	case reflect.Map:
		out := []string{`5`, `"x"`, `[]`, `true`}
		if t.Elem().Kind() == reflect.String {
			out = append(out, `{"a":5}`)
		}
		return out
	case reflect.Struct:
		out := []string{`5`, `"x"`, `[]`, `true`}
		eachField(t, func(name string, f reflect.Type) {
			for _, v := range wrongValues(name, f) {
				out = append(out, fmt.Sprintf(`{%q:%s}`, name, v))
			}
		})
		return out
	}
	return nil
}

// eachField calls fn with the JSON fields of a struct and of nested structs.
func eachField(t reflect.Type, fn func(name string, t reflect.Type)) {
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" && f.IsExported() {
			fn(name, f.Type)
		}
	}
}

// freeWords reports whether a route accepts any value of a field.
func freeWords(key, field string) bool {
	return field == "params" || // of other requests
		key == "POST /threads/{thread_id}/signals/{name}" || // a signal has any value
		key == "PATCH /threads/{thread_id}" && field == "supersteps" || // of new threads only
		key == "DELETE /store/items" && slices.Contains([]string{"value", "index", "ttl"}, field)
}

// counts returns the number of stored rows.
func (s *testServer) counts() string {
	s.t.Helper()
	var out []string
	for _, path := range []string{"/assistants/count", "/threads/count", "/runs/crons/count", "/store/items/search"} {
		out = append(out, s.made("", "POST", path, "{}", ""))
	}
	runs := 0
	for _, err := range s.ledger.OpenRuns(s.t.Context(), nil) {
		if err != nil {
			s.t.Fatal(err)
		}
		runs++
	}
	return fmt.Sprint(out, runs)
}

// refused checks that a request is rejected with a detail that names the field, and that
// nothing is stored.
func (s *testServer) refused(key, path, body, field string) {
	s.t.Helper()
	method, _, _ := strings.Cut(key, " ")
	before := s.counts()
	status, answer := s.send("", method, path, strings.NewReader(body))
	shown := body[:min(len(body), 200)]
	// The other protocols have their own errors, some with status 200.
	own := strings.Contains(answer, `"error":{"code"`) || strings.Contains(answer, `"type":"error"`)
	if status >= 500 || status < 400 && !own {
		s.t.Errorf("%s %s: %d %.300s", key, shown, status, answer)
		return
	}
	if !strings.Contains(answer, `"detail":`) && !own {
		s.t.Errorf("%s %s: no detail: %d %.300s", key, shown, status, answer)
	}
	if !strings.Contains(answer, field) {
		s.t.Errorf("%s %s: %s is not named: %d %.300s", key, shown, field, status, answer)
	}
	if after := s.counts(); after != before {
		s.t.Errorf("%s %s: something is stored: %s, before %s", key, shown, after, before)
	}
}

func newHostileServer(t *testing.T) (*testServer, property) {
	t.Helper()
	s := newTestServer(t, &Options{MaxBody: 1 << 20, MaxRunTime: 10 * time.Minute})
	return s, newProperty(s, "")
}

// withBody calls fn for each route that has a body.
func withBody(s *testServer, p property, fn func(key, path string, t reflect.Type)) {
	for _, rt := range s.table() {
		key := rt.method + " " + rt.path
		d := descriptions[key]
		if d.body == nil {
			if rt.method == "POST" && !strings.HasSuffix(rt.path, "/cancel") && !strings.HasSuffix(rt.path, "/copy") {
				s.t.Errorf("%s has no body in its description", key)
			}
			continue
		}
		fn(key, p.at(rt.path), reflect.TypeOf(d.body))
	}
}

func TestErrorsNameFieldsOfWrongType(t *testing.T) {
	s, p := newHostileServer(t)
	n := 0
	withBody(s, p, func(key, path string, body reflect.Type) {
		wrap := "%s"
		if body.Kind() == reflect.Slice {
			body, wrap = body.Elem(), "[%s]"
		}
		good, ok := goodBodies[body]
		if !ok {
			t.Errorf("%s: no valid body of %s: add one to goodBodies", key, body)
			return
		}
		eachField(body, func(name string, f reflect.Type) {
			for _, v := range wrongValues(name, f) {
				if freeWords(key, name) {
					continue
				}
				var fields map[string]json.RawMessage
				if err := json.Unmarshal([]byte(p.at(good)), &fields); err != nil {
					t.Fatal(err)
				}
				fields[name] = json.RawMessage(v)
				raw, err := json.Marshal(fields)
				if err != nil {
					t.Fatal(err)
				}
				n++
				s.refused(key, path, fmt.Sprintf(wrap, raw), name)
			}
		})
	})
	if n < 1000 {
		t.Errorf("only %d bodies were tested", n)
	}
}

func TestInvalidBodiesAreRejected(t *testing.T) {
	s, p := newHostileServer(t)
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	deepObject := strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)
	withBody(s, p, func(key, path string, body reflect.Type) {
		wrong := []string{"{", "nul", `{"a":}`, `{"metadata":{"a":"` + "\x00" + `"}}`, "{} {}", "5", `"x"`, "true", deep, deepObject, `{"metadata":` + deep + `}`,
			`{"anything":` + deepObject + `}`, `{"x":"` + strings.Repeat("a", 1<<20) + `"}`, "\xff\xfe"}
		if body.Kind() == reflect.Slice {
			wrong = append(wrong, "{}", "[]", "[5]", "["+strings.Repeat(`{"assistant_id":"router"},`, 1000)+`{"assistant_id":"router"}]`)
		} else {
			wrong = append(wrong, "[]", "[{}]")
		}
		for _, b := range wrong {
			if body == reflect.TypeFor[rpcRequest]() && strings.HasPrefix(b, "[") && key == "POST /mcp" {
				continue // batches; see below
			}
			s.refused(key, path, b, "")
		}
	})
	for _, b := range []string{"[]", "[5]", "[{}]", deep} {
		if status, answer := s.send("", "POST", "/mcp", strings.NewReader(b)); status < 400 || status >= 500 {
			t.Errorf("a batch %.20s: %d %s", b, status, answer)
		}
	}
}

// Deeply nested values that JSON still accepts do no harm.
func TestDeepValuesDoNoHarm(t *testing.T) {
	s, p := newHostileServer(t)
	deep := strings.Repeat(`{"a":[`, 1000) + "1" + strings.Repeat("]}", 1000)
	withBody(s, p, func(key, path string, body reflect.Type) {
		method, _, _ := strings.Cut(key, " ")
		wrap := "%s"
		if body.Kind() == reflect.Slice {
			body, wrap = body.Elem(), "[%s]"
		}
		eachField(body, func(name string, f reflect.Type) {
			if f.Kind() != reflect.Map && f.Kind() != reflect.Interface && f != reflect.TypeFor[json.RawMessage]() {
				return
			}
			var fields map[string]json.RawMessage
			if err := json.Unmarshal([]byte(p.at(goodBodies[body])), &fields); err != nil {
				t.Fatal(err)
			}
			fields[name] = json.RawMessage(deep)
			raw, _ := json.Marshal(fields)
			if status, answer := s.send("", method, path, strings.NewReader(fmt.Sprintf(wrap, raw))); status >= 500 {
				t.Errorf("%s %s: %d %.300s", key, name, status, answer)
			}
		})
	})
	s.counts()
}

func TestErrorsNameInvalidWords(t *testing.T) {
	s, p := newHostileServer(t)
	unknown := "00000000-0000-4000-8000-000000000000"
	for _, x := range []struct{ key, path, body, field string }{
		{"POST /runs/crons", "", `{"assistant_id":"router","schedule":"every day"}`, "schedule"},
		{"POST /runs/crons", "", `{"assistant_id":"router","schedule":"* * * *"}`, "schedule"},
		{"POST /runs/crons", "", `{"assistant_id":"router","schedule":"61 * * * *"}`, "schedule"},
		{"POST /runs/crons", "", `{"assistant_id":"router","schedule":"* * * * * * * *"}`, "schedule"},
		{"POST /runs/crons", "", `{"assistant_id":"router","schedule":""}`, "schedule"},
		{"POST /runs/crons", "", `{"assistant_id":"router","schedule":"0 0 30 2 *"}`, "schedule"},
		{"POST /runs/crons", "", `{"assistant_id":"router","schedule":"` + strings.Repeat("1,", 10000) + `1 * * * *"}`, "schedule"},
		{"POST /runs/crons", "", `{"assistant_id":"router"}`, "schedule"},
		{"POST /runs/crons", "", `{"assistant_id":"router","schedule":"* * * * *","timezone":"Mars/Olympus"}`, "timezone"},
		{"POST /runs/crons", "", `{"assistant_id":"router","schedule":"* * * * *","timezone":"../../etc/passwd"}`, "timezone"},
		{"POST /runs/crons", "", `{"assistant_id":"router","schedule":"* * * * *","webhook":"ftp://x"}`, "webhook"},
		{"POST /runs/crons", "", `{"assistant_id":"` + unknown + `","schedule":"* * * * *"}`, unknown},
		{"POST /threads/{thread_id}/runs/crons", "/threads/" + unknown + "/runs/crons", `{"assistant_id":"router","schedule":"* * * * *"}`, unknown},
		{"PATCH /runs/crons/{cron_id}", "", `{"schedule":"never"}`, "schedule"},
		{"PATCH /runs/crons/{cron_id}", "", `{"timezone":"nowhere"}`, "timezone"},
		{"POST /threads/search", "", `{"extract":{"a":""}}`, "extract.a"},
		{"POST /threads/search", "", `{"extract":{"a":"values..b"}}`, "extract.a"},
		{"POST /threads/search", "", `{"extract":{"a":"status"}}`, "extract.a"},
		{"POST /threads/search", "", `{"extract":{"a":"thread_id"}}`, "extract.a"},
		{"POST /threads/search", "", `{"extract":{"a":"valuesx.b"}}`, "extract.a"},
		{"GET /threads/{thread_id}/stream", "/threads/{thread_id}/stream?stream_modes=nope", "", "stream_modes"},
		{"GET /threads/{thread_id}/stream", "/threads/{thread_id}/stream?stream_modes=lifecycle,nope", "", "stream_modes"},
		{"POST /threads/search", "", `{"extract":{"a":"values[x]"}}`, "extract.a"},
		{"POST /threads/search", "", `{"extract":{"a":"values[0"}}`, "extract.a"},
		{"POST /threads/search", "", `{"extract":{"a":"values[0]b"}}`, "extract.a"},
		{"POST /threads/search", "", `{"extract":{"a":"values[99999999999999999999]"}}`, "extract.a"},
		{"POST /threads/search", "", `{"ids":["x"]}`, "ids"},
		{"POST /threads/search", "", `{"sort_by":"mood"}`, "sort_by"},
		{"POST /threads/search", "", `{"sort_order":"up"}`, "sort_order"},
		{"POST /threads/search", "", `{"limit":0}`, "limit"},
		{"POST /threads/search", "", `{"limit":100000}`, "limit"},
		{"POST /threads", "", `{"thread_id":"x"}`, "thread_id"},
		{"POST /threads", "", `{"if_exists":"maybe"}`, "if_exists"},
		{"POST /threads/prune", "", `{"thread_ids":["x"]}`, "thread_ids"},
		{"POST /threads/prune", "", `{"thread_ids":[],"strategy":"burn"}`, "strategy"},
		{"POST /assistants", "", `{}`, "graph_id"},
		{"POST /assistants", "", `{"graph_id":"nope"}`, "graph_id"},
		{"POST /assistants", "", `{"graph_id":"hitl","assistant_id":"x"}`, "assistant_id"},
		{"POST /assistants", "", `{"graph_id":"hitl","if_exists":"maybe"}`, "if_exists"},
		{"POST /assistants/{assistant_id}/latest", "", `{"version":99}`, "version"},
		{"POST /runs/wait", "", `{"assistant_id":"nope"}`, "nope"},
		{"POST /runs/wait", "", `{}`, "assistant_id"},
		{"POST /runs/wait", "", `{"assistant_id":"router","stream_mode":["smoke"]}`, "stream_mode"},
		{"POST /runs/wait", "", `{"assistant_id":"router","multitask_strategy":"fight"}`, "multitask_strategy"},
		{"POST /runs/wait", "", `{"assistant_id":"router","durability":"forever"}`, "durability"},
		{"POST /runs/wait", "", `{"assistant_id":"router","webhook":"nowhere"}`, "webhook"},
		{"POST /runs/wait", "", `{"assistant_id":"router","webhook":"http://127.0.0.1/"}`, "webhook"},
		{"POST /threads/{thread_id}/runs", "", `{"assistant_id":"hitl","input":{},"checkpoint_id":"x"}`, "checkpoint_id"},
		{"POST /threads/{thread_id}/runs", "/threads/x/runs", `{"assistant_id":"router"}`, "thread_id"},
		{"POST /threads/{thread_id}/runs", "/threads/" + unknown + "/runs", `{"assistant_id":"router"}`, "Thread"},
		{"POST /threads/{thread_id}/state", "", `{"values":{},"as_node":"nope"}`, "as_node"},
		{"POST /threads/{thread_id}/state", "", `{"values":{},"checkpoint_id":"x"}`, "checkpoint"},
		{"POST /threads/{thread_id}/state/checkpoint", "", `{"checkpoint":{"checkpoint_id":"x"}}`, "checkpoint"},
		{"POST /threads/{thread_id}/state/checkpoint", "", `{"checkpoint":{"checkpoint_ns":"a|b"}}`, "checkpoint"},
		{"POST /threads/{thread_id}/history", "", `{"before":"x"}`, "before"},
		{"POST /threads/{thread_id}/history", "", `{"checkpoint":{"checkpoint_ns":"a|b"}}`, "checkpoint"},
		{"GET /threads/{thread_id}/history", "/threads/{thread_id}/history?limit=x", "", "limit"},
		{"GET /threads/{thread_id}/history", "/threads/{thread_id}/history?before=x", "", "before"},
		{"GET /threads/{thread_id}/state", "/threads/{thread_id}/state?subgraphs=maybe", "", "subgraphs"},
		{"GET /threads/{thread_id}/state/{checkpoint_id}", "/threads/{thread_id}/state/x", "", "checkpoint"},
		{"GET /threads/{thread_id}/runs", "/threads/{thread_id}/runs?limit=-1", "", "limit"},
		{"GET /threads/{thread_id}/runs/{run_id}", "/threads/{thread_id}/runs/" + unknown, "", unknown},
		{"GET /threads/{thread_id}/runs/{run_id}/stream", "/threads/{thread_id}/runs/x/stream", "", "run_id"},
		{"POST /threads/{thread_id}/runs/{run_id}/cancel", "/threads/{thread_id}/runs/{run_id}/cancel?action=stop", "", "action"},
		{"POST /runs/cancel", "", `{"status":"some"}`, "status"},
		{"POST /runs/cancel", "", `{"thread_id":"x","run_ids":["y"]}`, "thread_id"},
		{"GET /assistants/{assistant_id}", "/assistants/" + unknown, "", unknown},
		{"GET /assistants/{assistant_id}/graph", "/assistants/{assistant_id}/graph?xray=maybe", "", "xray"},
		{"GET /runs/crons/{cron_id}", "/runs/crons/" + unknown, "", unknown},
		{"PUT /store/items", "", `{"namespace":[],"key":"k","value":{}}`, "namespace"},
		{"PUT /store/items", "", `{"namespace":["a.b"],"key":"k","value":{}}`, "namespace"},
		{"PUT /store/items", "", `{"namespace":["a",""],"key":"k","value":{}}`, "namespace"},
		{"PUT /store/items", "", `{"namespace":["a"],"value":{}}`, "key"},
		{"PUT /store/items", "", `{"namespace":["a"],"key":"k"}`, "value"},
		{"PUT /store/items", "", `{"namespace":["a"],"key":"k","value":{},"ttl":1e300}`, "ttl"},
		{"PUT /store/items", "", `{"namespace":["a"],"key":"k","value":{},"index":["a..b"]}`, "index"},
		{"PUT /store/items", "", `{"namespace":["a"],"key":"k","value":{},"index":["a[x]"]}`, "index"},
		{"POST /store/items/search", "", `{"namespace_prefix":["a.b"]}`, "namespace"},
		{"POST /store/items/search", "", `{"filter":{"a":{"$gt":{}}}}`, "filter"},
		{"POST /store/namespaces", "", `{"max_depth":-1}`, "max_depth"},
		{"GET /store/items", "/store/items?key=k&namespace=a..b", "", "namespace"},
		{"GET /metrics", "/metrics?format=xml", "", "format"},
	} {
		_, path, _ := strings.Cut(x.key, " ")
		if x.path != "" {
			path = x.path
		}
		s.refused(x.key, p.at(path), x.body, x.field)
	}
}

// FuzzRoutes sends arbitrary data to any route: no response is a server error, and errors
// have a detail.
func FuzzRoutes(f *testing.F) {
	routes := (&Server{}).table()
	for i := range routes {
		body := goodBodies[reflect.TypeOf(descriptions[routes[i].method+" "+routes[i].path].body)]
		f.Add(i, "router", "limit=1&subgraphs=true", body)
		f.Add(i, "00000000-0000-4000-8000-000000000000", "action=rollback&wait=1", intrusions[routes[i].method+" "+routes[i].path].body)
		f.Add(i, "%00/..", "before=%ff&namespace=a.b&key=k", `{"values":{"":null},"metadata":{"a":[{}]},"checkpoint":{"checkpoint_id":"x","checkpoint_ns":"|"},"limit":1e3}`)
	}
	s := newTestServer(f, &Options{MaxBody: 1 << 16, MaxRunTime: time.Second})
	f.Fuzz(func(t *testing.T, n int, id, query, body string) {
		rt := routes[uint(n)%uint(len(routes))]
		p := property{"namespace": id}
		for _, name := range []string{"assistant_id", "thread_id", "run_id", "cron_id", "checkpoint_id", "own_assistant"} {
			p[name] = id
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, rt.method, "http://x"+p.at(rt.path), bytes.NewReader([]byte(p.at(body))))
		if err != nil {
			return // not a request
		}
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("%s %s?%s %s: %d %s", rt.method, r.URL.Path, query, body, w.Code, w.Body)
		}
		if w.Code >= 400 && !json.Valid(w.Body.Bytes()) && rt.path != "/mcp" {
			t.Errorf("%s %s %s: %d %s", rt.method, r.URL.Path, body, w.Code, w.Body)
		}
	})
}
