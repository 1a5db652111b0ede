package mcptool_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treadle-go/treadle/mcptool"
)

const done = `{"content":[{"type":"text","text":"done"}]}`

// flood writes a line repeatedly until the reader closes the pipe.
func flood(f *os.File, line string) {
	chunk := bytes.Repeat([]byte(line+"\n"), 1000)
	for {
		if _, err := f.Write(chunk); err != nil {
			os.Exit(0)
		}
	}
}

// evils are programs that violate the protocol. A call of their tool returns an
// error or a result in bounded time.
var evils = map[string]*evil{
	"huge frame": {calls: func(e *evil, id string) {
		e.result(id, `{"content":[{"type":"text","text":"`+strings.Repeat("a", 20<<20)+`"}]}`)
	}},
	"endless frame": {calls: func(*evil, string) {
		fmt.Fprint(os.Stdout, `{"jsonrpc":"2.0","result":"`)
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("a", 1<<20)); err != nil {
				os.Exit(0)
			}
		}
	}},
	"deep JSON": {calls: func(e *evil, id string) {
		e.result(id, `{"content":[],"structuredContent":`+strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)+`}`)
	}},
	"exit within a frame": {calls: func(e *evil, id string) {
		fmt.Fprint(os.Stdout, `{"jsonrpc":"2.0","id":`+id+`,"res`)
		os.Exit(0)
	}},
	"closed output": {calls: func(*evil, string) { _ = os.Stdout.Close() }},
	"wrong IDs": {calls: func(e *evil, id string) {
		for _, wrong := range []string{"9999", `"x"`, "-1", "null", "[]"} {
			e.result(wrong, done)
		}
		e.result(id, done)
	}},
	"two results": {calls: func(e *evil, id string) { e.result(id, done); e.result(id, done); e.result(id, `{"content":"no"}`) }},
	"never":       {calls: func(*evil, string) {}},
	"late": {calls: func(e *evil, id string) {
		go func() { time.Sleep(1500 * time.Millisecond); e.result(id, done) }() //nolint:forbidigo // in a separate process
	}},
	"notifications": {calls: func(e *evil, id string) {
		for range 20_000 {
			e.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"call-1","progress":1}}`)
			e.say(`{"jsonrpc":"2.0","method":"notifications/nonsense","params":[1]}`)
		}
		e.result(id, done)
	}},
	"requests": {calls: func(e *evil, id string) {
		for i := range 100 {
			e.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"s%d","method":"sampling/createMessage","params":{}}`, i))
			e.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"r%d","method":"roots/list"}`, i))
		}
		e.result(id, done)
	}},
	"garbage":         {hello: func() { _, _ = fmt.Fprintln(os.Stdout, "\x00\xff\xfe{[\"\n}{\n{\"jsonrpc\":\"1.0\"}\n[[[[") }, calls: func(e *evil, id string) { e.say("\x80\x81"); e.result(id, done) }},
	"endless garbage": {calls: func(*evil, string) { flood(os.Stdout, "[info] still at it") }},
	"endless stderr":  {hello: func() { go flood(os.Stderr, "warning") }, calls: func(e *evil, id string) { e.result(id, done) }},
	"invalid UTF-8":   {calls: func(e *evil, id string) { e.result(id, `{"content":[{"type":"text","text":"a`+"\xff\xfe"+`b"}]}`) }},
	"controls":        {tools: `[{"name":"t","description":"a\u001b[2J\u202eb\u0000"}]`, calls: func(e *evil, id string) { e.result(id, `{"content":[{"type":"text","text":"\u001b[2J\u0000"}]}`) }},
	"no content":      {calls: func(e *evil, id string) { e.result(id, `{}`) }},
	"null content":    {calls: func(e *evil, id string) { e.result(id, `{"content":[null,{"type":"text"},null]}`) }},
	"unknown content": {calls: func(e *evil, id string) { e.result(id, `{"content":[{"type":"hologram","data":1}]}`) }},
	"null result":     {calls: func(e *evil, id string) { e.result(id, `null`) }},
	"number":          {calls: func(e *evil, id string) { e.result(id, `42`) }},
	"empty resource":  {calls: func(e *evil, id string) { e.result(id, `{"content":[{"type":"resource","resource":null}]}`) }},
	"empty error":     {calls: func(e *evil, id string) { e.say(`{"jsonrpc":"2.0","id":` + id + `,"error":{}}`) }},
	"long error": {calls: func(e *evil, id string) {
		e.say(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-1,"message":"` + strings.Repeat("x", 1<<20) + `"}}`)
	}},
	"does not end": {hello: func() { signal.Ignore(syscall.SIGTERM) }, calls: func(*evil, string) { select {} }},
}

// Whatever a program does, a call returns, the model reads one sentence about an
// error, and Close ends the program.
func TestHostilePrograms(t *testing.T) {
	t.Parallel()
	for name := range evils {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptool.Server{Name: "proc", Command: []string{os.Args[0]}, Timeout: 3 * time.Second,
				Env: map[string]string{serve: "evil", "EVIL": name, "API_KEY": "t0psecret", "GORACE": "atexit_sleep_ms=0"}}
			if name == "notifications" || name == "huge frame" || name == "requests" {
				s.Timeout = 30 * time.Second
			}
			all, tools := open(t, s)
			if d := tools["t"].Description; strings.ContainsAny(d, "\x1b\u202e\x00") {
				t.Errorf("description: %q", d)
			}
			m, err := tools.call(t.Context(), "t", `{}`)
			judge(t, m.Text(), err)
			if err := all.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// judge checks the outcome of a call.
func judge(t *testing.T, text string, err error) {
	t.Helper()
	if err == nil {
		t.Logf("answered %.60q", text)
		return
	}
	t.Logf("%.300v", err)
	leaks(t, "the error", err.Error())
	told, ok := errors.AsType[interface {
		error
		ForModel() string
	}](err)
	if !ok {
		t.Fatalf("no text for the model: %v", err)
	}
	if said := told.ForModel(); len(said) > 1200 || !strings.HasPrefix(said, "The tool t of the MCP server") {
		t.Errorf("model reads %.200q…", said)
	}
	leaks(t, "text for the model", told.ForModel())
}

func TestHostileToolLists(t *testing.T) {
	many := strings.Repeat(`{"name":"a b"},`, 12_000)
	for name, test := range map[string]struct{ tools, want string }{
		"no name":            {`[{"name":""}]`, "tool without a name"},
		"long name":          {`[{"name":"` + strings.Repeat("n", 100_000) + `"}]`, "invalid name: want 1 to 64 letters"},
		"duplicate name":     {`[{"name":"a.b"},{"name":"a-b"},{"name":"a b"}]`, `server "web": several tools would be named a_b`},
		"escape codes":       {`[{"name":"\u001b[2J","inputSchema":{"$ref":"#"}}]`, "endless reference"},
		"too many":           {`[` + strings.TrimSuffix(many, ",") + `]`, "more than 10000 tools"},
		"no list":            {`{"a":1}`, ""},
		"many invalid tools": {`[` + strings.TrimSuffix(strings.Repeat(`{"name":"x","inputSchema":{"$ref":"#"}},`, 500), ",") + `]`, "and 490 more"},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&hostile{tools: test.tools}).list(t)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("%.500v", err)
			}
			leaks(t, "the error", err.Error())
			if strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%q", err)
			}
		})
	}
}

// pages are without end.
func TestToolsRejectsEndlessList(t *testing.T) {
	n := 0
	err := (&hostile{answer: func(w http.ResponseWriter, _ *http.Request, method, id string) bool {
		if method == "tools/list" {
			n++
			result(w, id, fmt.Sprintf(`{"tools":[{"name":"t%d"}],"nextCursor":"%d"}`, n, n))
		}
		return method == "tools/list"
	}}).list(t)
	if err == nil || !strings.Contains(err.Error(), "more than 1000 pages") {
		t.Errorf("%v", err)
	}
}

func TestHostileHTTPServers(t *testing.T) {
	t.Parallel()
	stream := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
	}
	cut := func(w http.ResponseWriter) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}
	for name, call := range map[string]func(w http.ResponseWriter, r *http.Request, id string){
		"huge response": func(w http.ResponseWriter, _ *http.Request, id string) {
			result(w, id, `{"content":[{"type":"text","text":"`+strings.Repeat("a", 20<<20)+`"}]}`)
		},
		"huge event": func(w http.ResponseWriter, _ *http.Request, id string) {
			stream(w)
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":\"%s\"}\n\n", id, strings.Repeat("a", 20<<20))
		},
		"deep JSON": func(w http.ResponseWriter, _ *http.Request, id string) {
			result(w, id, strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000))
		},
		"never": func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() },
		"silent stream": func(w http.ResponseWriter, r *http.Request, _ string) {
			stream(w)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"drips": func(w http.ResponseWriter, r *http.Request, _ string) {
			w.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				fmt.Fprint(w, " ")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		},
		"ended stream": func(w http.ResponseWriter, _ *http.Request, _ string) { stream(w) },
		"half an event": func(w http.ResponseWriter, _ *http.Request, id string) {
			stream(w)
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,", id)
		},
		"cut": func(w http.ResponseWriter, _ *http.Request, _ string) { cut(w) },
		"cut in a stream": func(w http.ResponseWriter, _ *http.Request, _ string) {
			stream(w)
			_ = http.NewResponseController(w).Flush()
			cut(w)
		},
		"wrong id": func(w http.ResponseWriter, _ *http.Request, _ string) { result(w, `"other"`, done) },
		"a page":   func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, "<html>t0psecret") },
		"no JSON": func(w http.ResponseWriter, _ *http.Request, id string) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{")
		},
		"not found": func(w http.ResponseWriter, _ *http.Request, _ string) {
			http.Error(w, "t0psecret", http.StatusNotFound)
		},
		"redirect loop": func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
		},
		"a flood": func(w http.ResponseWriter, r *http.Request, _ string) {
			stream(w)
			for r.Context().Err() == nil {
				if _, err := fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n"); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := (&hostile{answer: func(w http.ResponseWriter, r *http.Request, method, id string) bool {
				if method == "tools/call" || r.URL.Path != "/" {
					call(w, r, id)
					return true
				}
				return false
			}}).serve(t)
			s.Timeout = time.Second
			if name == "huge response" || name == "huge event" {
				s.Timeout = 30 * time.Second
			}
			all, tools := open(t, s)
			m, err := tools.call(t.Context(), "t", `{}`)
			if err == nil {
				t.Errorf("answered %.60q", m.Text())
			} else {
				judge(t, "", err)
			}
			if err := all.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A late response to an abandoned call must not become the result of another call.
func TestLateResponseIsDropped(t *testing.T) {
	s := mcptool.Server{Name: "proc", Command: []string{os.Args[0]}, Env: map[string]string{serve: "evil", "EVIL": "late", "GORACE": "atexit_sleep_ms=0"}}
	_, tools := open(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := tools.call(ctx, "t", `{}`); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	for range 2 {
		if got := tools.says(t, "t", `{}`); got != "done" {
			t.Errorf("%q", got)
		}
	}
}

// evil is a program that writes MCP messages by hand. Calls of its tool t run calls.
type evil struct {
	tools string // the tool list, as JSON
	hello func() // runs before the first response
	calls func(e *evil, id string)
}

func (e *evil) say(line string) { fmt.Fprintln(os.Stdout, line) }

func (e *evil) result(id, result string) {
	e.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

// run responds to requests until the input ends.
func (e *evil) run() error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		id := string(m.ID)
		switch m.Method {
		case "initialize":
			if e.hello != nil {
				e.hello()
			}
			e.result(id, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"e","version":"1"}}`)
		case "tools/list":
			tools := e.tools
			if tools == "" {
				tools = `[{"name":"t","inputSchema":{"type":"object"}}]`
			}
			e.result(id, `{"tools":`+tools+`}`)
		case "tools/call":
			e.calls(e, id)
		default:
			e.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, id))
		}
	}
	return lines.Err()
}
