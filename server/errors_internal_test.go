package server

import (
	"regexp"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/server/internal/runs"
)

// goName matches what looks like a type of Go: a qualified name, a type of package json's
// errors, or one of this package's types.
var goName = regexp.MustCompile(`\bGo (value|struct)|json: |\*[a-z]+\.|\[\][a-z]|map\[|interface \{|\bserver\.|\b(ledger|runs|treadletype|platform|llm|mcp|a2a|json|uuid|errors|fmt|reduce|store|checkpoint|pregel)\.[A-Z]|\b[a-z]+(Body|Request|Search|Params)\b|\b(answer|runState)\.`)

// Invalid requests are described in the terms of the API, in responses and in run errors.
func TestErrorsNameNoGoTypes(t *testing.T) {
	s := newTestServer(t, nil)
	thread := s.made("", "POST", "/threads", `{"metadata":{"graph_id":"hitl"}}`, "thread_id")
	s.made("", "POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"hitl","input":{"topic":"x"}}`, "")
	for _, x := range []struct{ method, path, body string }{
		{"POST", "/threads/{thread}/state", `{"values":{"topic":5}}`},
		{"POST", "/threads/{thread}/state", `{"values":{"topic":{"a":1}}}`},
		{"POST", "/threads/{thread}/state", `{"values":5}`},
		{"POST", "/threads/{thread}/state", `{"values":[1]}`},
		{"POST", "/threads/{thread}/state", `{"values":{"log":5}}`},
		{"POST", "/threads/{thread}/state", `{"values":{"topic":"x"},"as_node":"propose","checkpoint":{"checkpoint_ns":"x"}}`},
		{"POST", "/runs/wait", `{"assistant_id":"hitl","input":{"topic":5}}`},
		{"POST", "/runs/wait", `{"assistant_id":"hitl","input":5}`},
		{"POST", "/runs/wait", `{"assistant_id":"hitl","input":[1]}`},
		{"POST", "/runs/wait", `{"assistant_id":"hitl","input":{"log":[1]}}`},
		{"POST", "/runs/wait", `{"assistant_id":"configurable","input":{},"context":{"tier":5}}`},
		{"POST", "/runs/wait", `{"assistant_id":"agent","input":{"messages":5}}`},
		{"POST", "/runs/wait", `{"assistant_id":"agent","input":{"messages":[{"role":5}]}}`},
		{"POST", "/runs/wait", `{"assistant_id":"agent","input":{"messages":[{"role":"user","content":5}]}}`},
		{"POST", "/runs/wait", `{"assistant_id":"fanout","input":{"items":5}}`},
		{"POST", "/runs/wait", `{"assistant_id":"slow","input":{"count":"x"}}`},
		{"POST", "/runs/wait", `{"assistant_id":"slow","input":{"count":1.5}}`},
		{"POST", "/runs/wait", `{"assistant_id":"slow","input":{"count":1e99}}`},
		{"POST", "/threads/{thread}/runs/wait", `{"assistant_id":"hitl","command":{"resume":5}}`},
		{"POST", "/threads/{thread}/runs/wait", `{"assistant_id":"hitl","command":{"update":5}}`},
		{"POST", "/threads/{thread}/runs/wait", `{"assistant_id":"hitl","command":{"update":{"topic":5}}}`},
		{"POST", "/threads/{thread}/runs/wait", `{"assistant_id":"hitl","command":{"goto":5}}`},
		{"POST", "/threads/{thread}/runs/wait", `{"assistant_id":"hitl","command":{"goto":[{"node":5}]}}`},
		{"POST", "/threads/{thread}/runs/wait", `{"assistant_id":"hitl","command":{"zzz":5}}`},
		{"POST", "/threads", `{"metadata":{"graph_id":"hitl"},"supersteps":5}`},
		{"POST", "/threads", `{"metadata":{"graph_id":"hitl"},"supersteps":[5]}`},
		{"POST", "/threads", `{"metadata":{"graph_id":"hitl"},"supersteps":[{"updates":5}]}`},
		{"POST", "/threads", `{"metadata":{"graph_id":"hitl"},"supersteps":[{"updates":[{"values":{"topic":5},"as_node":5}]}]}`},
		{"POST", "/threads", `{"metadata":{"graph_id":"hitl"},"supersteps":[{"updates":[{"values":{"topic":5},"as_node":"propose"}]}]}`},
		{"POST", "/threads", `{"ttl":"x"}`},
		{"POST", "/threads", `{"ttl":{"ttl":"x"}}`},
		{"POST", "/threads", `{"metadata":5}`},
		{"POST", "/threads", `{"metadata":[{"a":1}]}`},
		{"POST", "/runs/crons", `{"assistant_id":5,"schedule":"* * * * *"}`},
		{"POST", "/runs/crons", `{"schedule":5}`},
		{"POST", "/runs/crons", `{"stream_mode":5,"assistant_id":"hitl","schedule":"* * * * *"}`},
		{"POST", "/runs/crons", `{"stream_mode":{"a":1}}`},
		{"POST", "/runs/crons", `{"checkpoint":5}`},
		{"POST", "/runs/crons", `{"checkpoint":{"checkpoint_id":5}}`},
		{"POST", "/threads/search", `{"limit":"x"}`},
		{"POST", "/threads/search", `{"ids":[5]}`},
		{"POST", "/threads/search", `{"extract":{"a":5}}`},
		{"POST", "/threads/{thread}/commands", `{"id":1,"method":"run.start","params":{"assistant_id":5}}`},
		{"POST", "/threads/{thread}/commands", `{"id":1,"method":"run.start","params":{"assistant_id":"hitl","multitaskStrategy":5}}`},
		{"POST", "/threads/{thread}/commands", `{"id":1,"method":"input.respond","params":{"interrupt_id":5}}`},
		{"POST", "/threads/{thread}/commands", `{"id":1,"method":"state.get","params":5}`},
		{"POST", "/threads/{thread}/commands", `{"id":1,"method":"run.start","params":5}`},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":5}`},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}`},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":5}`},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":{},"method":"ping"}`},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":5}}`},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"count":"x"}}}`},
		{"POST", "/a2a/hitl", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":5}`},
		{"POST", "/a2a/hitl", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":5}}`},
		{"POST", "/a2a/hitl", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":5}}}`},
		{"POST", "/a2a/hitl", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":5}}`},
		{"POST", "/a2a/hitl", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","role":5,"parts":[{"kind":"text","text":5}]}}}`},
		{"POST", "/agui/hitl", `{"messages":5}`},
		{"POST", "/agui/hitl", `{"messages":[{"role":5}]}`},
		{"POST", "/agui/hitl", `{"messages":[{"id":"1","role":"user","content":[5]}]}`},
		{"POST", "/agui/hitl", `{"state":5,"resume":[5]}`},
		{"PUT", "/store/items", `{"namespace":5,"key":"k","value":{}}`},
		{"PUT", "/store/items", `{"namespace":["a"],"key":5,"value":{}}`},
		{"PUT", "/store/items", `{"namespace":["a"],"key":"k","value":5}`},
		{"PUT", "/store/items", `{"namespace":["a"],"key":"k","value":{},"index":5}`},
		{"POST", "/store/items/search", `{"filter":5}`},
		{"POST", "/store/items/search", `{"filter":{"a":{"$zz":1}}}`},
		{"POST", "/store/namespaces", `{"prefix":[5]}`},
		{"POST", "/threads/{thread}/history", `{"before":[1]}`},
		{"POST", "/threads/{thread}/history", `{"before":{"configurable":5}}`},
		{"POST", "/threads/{thread}/signals/x", `5`},
		{"POST", "/runs/batch", `{}`},
		{"POST", "/runs/batch", `[5]`},
		{"POST", "/runs/batch", `[{"input":{},"stream_mode":[5]}]`},
	} {
		status, answer := s.send("", x.method, strings.ReplaceAll(x.path, "{thread}", thread), strings.NewReader(x.body))
		if found := goName.FindString(answer); found != "" || status >= 500 {
			t.Errorf("%s %s: %d %q in %s", x.path, x.body, status, found, answer)
		}
	}
}

// A field is named as in the request, and not after the struct that it is embedded in.
func TestFieldErrorsNameRequestFields(t *testing.T) {
	s := newTestServer(t, nil)
	for _, x := range []struct{ path, body, want string }{
		{"/runs/crons", `{"stream_resumable":5}`, "stream_resumable: want true or false, not number"},
		{"/runs/crons", `{"schedule":5}`, "schedule: want a string, not number"},
		{"/runs/crons", `{"checkpoint":{"checkpoint_id":5}}`, "checkpoint.checkpoint_id: want a string, not number"},
		{"/threads/search", `{"limit":"x"}`, "limit: want a number, not string"},
		{"/threads", `{"metadata":5}`, "metadata"},
		{"/threads", `[]`, "body: want an object, not array"},
		{"/runs/batch", `{}`, "body: want a list, not object"},
	} {
		if status, answer := s.send("", "POST", x.path, strings.NewReader(x.body)); status != 422 || !strings.Contains(answer, x.want) {
			t.Errorf("%s %s: %d %s", x.path, x.body, status, answer)
		}
	}
}

func TestErrorTextSpeaksJSON(t *testing.T) {
	for text, want := range map[string]string{
		"field topic: want string: json: cannot unmarshal number into Go value of type string":                                                              "field topic: want a string, not number",
		`context: want treadle_test.caller: json: cannot unmarshal string into Go struct field caller.age of type int`:                                      "context: age: want a number, not string",
		"json: cannot unmarshal array into Go value of type map[string]interface {}: more":                                                                  "want an object, not array: more",
		"json: cannot unmarshal number 1.5 into Go struct field T.a.b of type int64":                                                                        "a.b: want an integer, not 1.5",
		"field messages: want llm.Messages: llm: message: role: no":                                                                                         "field messages: llm: message: role: no",
		`supersteps: json: cannot unmarshal number into Go value of type []struct { Updates []struct { As string "json:\"as_node\"" } "json:\"updates\"" }`: "supersteps: want a list, not number",
		`command: json: unknown field "zzz"`:                                                                                                                `command: unknown field "zzz"`,
		"want platform.list: json: cannot unmarshal bool into Go value of type platform.list":                                                               "unexpected bool",
		"json: cannot unmarshal object into Go struct field .city of type []string, and json: cannot unmarshal string into Go value of type bool":           "city: want a list, not object, and want true or false, not string",
		"want a cup of coffee: none left": "want a cup of coffee: none left",
	} {
		if got := runs.Text(text); got != want {
			t.Errorf("%s:\n%s, not\n%s", text, got, want)
		}
	}
}
