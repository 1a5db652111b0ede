package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/test/platform"
	"github.com/treadle-go/treadle/server"
)

// event is an event of protocol v2.
type event struct {
	ID     string `json:"event_id"`
	Seq    uint64 `json:"seq"`
	Method string `json:"method"`
	Params struct {
		NS   []string        `json:"namespace"`
		Node string          `json:"node"`
		Time int64           `json:"timestamp"`
		Data json.RawMessage `json:"data"`
	} `json:"params"`
}

func (e event) get(key string) any {
	var m map[string]any
	_ = json.Unmarshal(e.Params.Data, &m)
	return m[key]
}

// name returns a short form of the event: its method, and its kind if it has one.
func (e event) name() string {
	name := e.Method
	if kind, ok := e.get("event").(string); ok {
		name += ":" + kind
	}
	return strings.Join(append([]string{name}, nodes(e.Params.NS)...), "|")
}

// nodes returns a namespace without its tasks.
func nodes(ns []string) (out []string) {
	for _, part := range ns {
		node, _, _ := strings.Cut(part, ":")
		out = append(out, node)
	}
	return out
}

func names(es []event) (out []string) {
	for _, e := range es {
		out = append(out, e.name())
	}
	return out
}

// live is an open event stream.
type live struct {
	t      *testing.T
	status int
	close  context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	frames []frame
	more   chan struct{}
}

// open opens an event stream.
func (c *client) open(method, path, body string) *live {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header = c.head.Clone()
	resp, err := http.DefaultClient.Do(req) //nolint:bodyclose // the caller closes it
	if err != nil {
		c.t.Fatal(err)
	}
	l := &live{t: c.t, status: resp.StatusCode, close: cancel, done: make(chan struct{}), more: make(chan struct{}, 1)}
	go func() {
		defer close(l.done)
		defer cancel()
		defer func() { _ = resp.Body.Close() }()
		in := bufio.NewReader(resp.Body)
		var block bytes.Buffer
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			block.Write(line)
			if len(line) > 1 {
				continue
			}
			l.mu.Lock()
			l.frames = append(l.frames, frames(block.Bytes())...)
			l.mu.Unlock()
			block.Reset()
			select {
			case l.more <- struct{}{}:
			default:
			}
		}
	}()
	return l
}

// until waits for frames.
func (l *live) until(what string, enough func([]frame) bool) []frame {
	l.t.Helper()
	late := time.After(tooLong)
	for {
		l.mu.Lock()
		fs := slices.Clone(l.frames)
		l.mu.Unlock()
		if enough(fs) {
			return fs
		}
		select {
		case <-l.more:
		case <-late:
			l.t.Fatalf("waited in vain for %s; there are %v", what, fs)
		}
	}
}

// events waits for events until one with this name has come n times.
func (l *live) events(name string, n int) (out []event) {
	l.t.Helper()
	l.until(fmt.Sprintf("%s × %d", name, n), func(fs []frame) bool {
		out = out[:0]
		seen := 0
		for _, f := range fs {
			var e event
			if err := json.Unmarshal([]byte(f.data), &e); err != nil {
				l.t.Fatalf("%v in %s", err, f.data)
			}
			if f.event != e.Method || f.id != e.ID {
				l.t.Fatalf("frame %+v is not as its event", f)
			}
			out = append(out, e)
			if e.name() == name {
				if seen++; seen == n {
					return true
				}
			}
		}
		return false
	})
	return out
}

// answer is the answer to a command.
type answer struct {
	Type, Error, Message string
	ID                   *int
	Result               json.RawMessage
	Meta                 map[string]any
}

// command sends a command.
func (c *client) command(thread, method, params string) answer {
	c.t.Helper()
	var a answer
	c.ok("POST", "/threads/"+thread+"/commands", fmt.Sprintf(`{"id":7,"method":%q,"params":%s}`, method, params), &a)
	if a.ID == nil || *a.ID != 7 {
		c.t.Fatalf("answer %+v", a)
	}
	return a
}

// begin starts a run by protocol v2 on a new thread.
func (c *client) begin(graph, input string) (thread string) {
	c.t.Helper()
	thread = uuid.NewString()
	if a := c.command(thread, "run.start", fmt.Sprintf(`{"assistant_id":%q,"input":%s}`, graph, input)); a.Type != "success" {
		c.t.Fatalf("run.start: %+v", a)
	}
	return thread
}

func (c *client) subscribe(thread, body string) *live {
	c.t.Helper()
	return c.open("POST", "/threads/"+thread+"/stream/events", body)
}

const everything = `{"channels":["values","updates","messages","tools","lifecycle","input","checkpoints","tasks","custom"]}`

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), strings.Join(want, " "))
	}
}

func TestRunEventsAreOrdered(t *testing.T) {
	c := serve(t, nil)
	thread := c.begin("nested", `{"value":"s"}`)
	got := c.subscribe(thread, everything).events("lifecycle:completed", 1)
	step := []string{"checkpoints", "values", "tasks", "updates", "tasks"}
	inner := []string{"checkpoints|child", "values|child", "tasks|child", "updates|child", "tasks|child"}
	want := slices.Concat([]string{"lifecycle:running"}, step, []string{"checkpoints", "values", "tasks", "lifecycle:started|child"}, inner, inner,
		[]string{"checkpoints|child", "values|child", "lifecycle:completed|child", "updates", "tasks"}, step, []string{"checkpoints", "values", "lifecycle:completed"})
	equal(t, names(got), want)
	for i, e := range got {
		if i > 0 && e.Seq <= got[i-1].Seq || e.ID != fmt.Sprint(e.Seq) || e.Params.Time == 0 || e.Params.NS == nil {
			t.Errorf("envelope %+v", e)
		}
	}
	if update := got[4]; string(update.Params.Data) != `{"before":{"value":"s\u003ebefore"}}` || update.Params.Node != "" {
		t.Errorf("update %s of node %q", update.Params.Data, update.Params.Node)
	}
	if started := got[9]; started.get("graph_name") != "child" || started.get("trigger_call_id") != strings.TrimPrefix(started.Params.NS[0], "child:") {
		t.Errorf("started %s", started.Params.Data)
	}
}

func TestEndEventFollowsStoredEnd(t *testing.T) {
	c := serve(t, nil)
	for range 5 {
		thread := c.begin("router", `{"target":"left"}`)
		s := c.subscribe(thread, `{"channels":["lifecycle"]}`)
		s.events("lifecycle:completed", 1)
		var th struct{ Status string }
		c.ok("GET", "/threads/"+thread, "", &th)
		if th.Status != "idle" {
			t.Errorf("the thread is %s after the end", th.Status)
		}
		s.close()
	}
}

func TestCheckpointsPrecedeTheirValues(t *testing.T) {
	c := serve(t, nil)
	thread := c.begin("hitl", `{"topic":"cats"}`)
	s := c.subscribe(thread, `{"channels":["checkpoints","values","lifecycle","input"]}`)
	asked := s.events("lifecycle:interrupted", 1)
	id := asked[len(asked)-2].get("interrupt_id")
	if a := c.command(thread, "input.respond", fmt.Sprintf(`{"interrupt_id":%q,"response":1}`, id)); a.Type != "success" || string(a.Result) != "{}" {
		t.Fatalf("answer %+v", a)
	}
	got := s.events("lifecycle:completed", 1)
	if pairs := c.pairs(thread, got); pairs != 5 { // steps 0 and 1, 1 again as the second run continues from it, 2, and 3
		t.Errorf("%d checkpoints in %v", pairs, names(got))
	}
}

// Checkpoints that are saved later are shown with their values or not at all.
func TestLateCheckpointsKeepValues(t *testing.T) {
	c := serve(t, nil)
	for _, durability := range []string{"async", "exit"} {
		thread := c.thread()
		s := c.subscribe(thread, `{"channels":["checkpoints","values","lifecycle"]}`)
		for n := 1; n <= 5; n++ {
			c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"slow","input":{"count":5,"delay_ms":0},"durability":"`+durability+`"}`, nil)
			c.pairs(thread, s.events("lifecycle:completed", n))
		}
		s.close()
	}
}

// pairs checks that the values after each checkpoint belong to it, and returns the number
// of pairs.
func (c *client) pairs(thread string, got []event) (n int) {
	c.t.Helper()
	type ref struct {
		ID string `json:"checkpoint_id"`
	}
	type state struct {
		Values     json.RawMessage
		Metadata   struct{ Step int }
		Checkpoint ref
		Parent     ref `json:"parent_checkpoint"`
	}
	var states []state
	c.ok("GET", "/threads/"+thread+"/history?limit=100", "", &states)
	for i, e := range got {
		if e.Method != "checkpoints" {
			continue
		}
		n++
		next := got[i+1]
		at := slices.IndexFunc(states, func(s state) bool { return s.Checkpoint.ID == e.get("id") })
		if at < 0 || next.Method != "values" {
			c.t.Fatalf("checkpoint %s, then %s", e.Params.Data, next.name())
		}
		st := states[at]
		if string(st.Values) != string(next.Params.Data) || e.get("step") != float64(st.Metadata.Step) || e.get("parent_id") != nil && e.get("parent_id") != st.Parent.ID {
			c.t.Errorf("checkpoint %s is shown with %s; its state is %s at step %d", e.Params.Data, next.Params.Data, st.Values, st.Metadata.Step)
		}
	}
	return n
}

func TestMessagesAreBlocks(t *testing.T) {
	c := serve(t, nil)
	thread := c.begin("agent", `{"messages":[{"role":"user","content":"what is the weather"}]}`)
	got := c.subscribe(thread, `{"channels":["messages","tools","lifecycle"]}`).events("lifecycle:completed", 1)
	block := func(ns string, deltas int) []string {
		out := []string{"messages:message-start" + ns, "messages:content-block-start" + ns}
		for range deltas {
			out = append(out, "messages:content-block-delta"+ns)
		}
		return append(out, "messages:content-block-finish"+ns, "messages:message-finish"+ns)
	}
	equal(t, names(got), slices.Concat([]string{"lifecycle:running"}, block("", 2), []string{"tools:tool-started", "tools:tool-finished"}, block("|tools", 1), block("", 6),
		[]string{"lifecycle:completed"}))
	for _, want := range []struct {
		at   int
		has  string
		from string
	}{
		{1, `"role":"ai"`, "agent"},
		{2, `"content":{"args":"","id":"call_weather_1","index":0,"name":"get_weather","type":"tool_call_chunk"}`, "agent"},
		{3, `"delta":{"fields":{"args":"{\"city\":","id":"call_weather_1","index":0,"name":"get_weather","type":"tool_call_chunk"},"type":"block-delta"}`, "agent"},
		{5, `"content":{"name":"get_weather","args":{"city":"Paris"},"id":"call_weather_1","type":"tool_call"}`, "agent"},
		{7, `"input":{"city":"Paris"},"tool_call_id":"call_weather_1","tool_name":"get_weather"`, "tools"},
		{8, `"output":{"type":"tool","content":"sunny in Paris","name":"get_weather","tool_call_id":"call_weather_1","status":"success"}`, "tools"},
		{9, `"role":"tool"`, "tools"},
		{16, `"delta":{"text":"It ","type":"text-delta"}`, "agent"},
		{22, `"content":{"type":"text","text":"It is sunny in Paris today."}`, "agent"},
	} {
		if e := got[want.at]; !strings.Contains(string(e.Params.Data), want.has) || e.Params.Node != want.from {
			t.Errorf("event %d of %q is %s; want %s", want.at, e.Params.Node, e.Params.Data, want.has)
		}
	}
	id := got[1].get("id")
	for _, e := range got[2:7] {
		if e.get("message_id") != id || e.get("run_id") != id {
			t.Errorf("%s is not of message %s", e.Params.Data, id)
		}
	}
}

func TestInterruptsCanBeAnsweredImmediately(t *testing.T) {
	c := serve(t, nil)
	for _, tt := range []struct{ graph, input, ns string }{{"hitl", `{"topic":"cats"}`, ""}, {"nested", `{"value":"pause"}`, "|child"}} {
		thread := uuid.NewString()
		s := c.subscribe(thread, `{"channels":["input","lifecycle","values"],"depth":0}`)
		c.command(thread, "run.start", fmt.Sprintf(`{"assistant_id":%q,"input":%s}`, tt.graph, tt.input))
		got := s.events("input.requested"+tt.ns, 1)
		asked := got[len(got)-1]
		if string(jsonOf(asked.get("payload"))) != string(jsonOf(asked.get("value"))) {
			t.Errorf("question %s", asked.Params.Data)
		}
		a := c.command(thread, "input.respond", fmt.Sprintf(`{"responses":[{"namespace":[],"interrupt_id":%q,"response":"go"}]}`, asked.get("interrupt_id")))
		if a.Type != "success" {
			t.Fatalf("answer to %s: %+v", asked.Params.Data, a)
		}
		got = s.events("lifecycle:completed", 1)
		var tail []string
		for _, e := range got {
			if e.Seq >= asked.Seq && len(tail) < 4 {
				tail = append(tail, e.name())
			}
		}
		equal(t, tail, []string{"input.requested" + tt.ns, "lifecycle:interrupted", "values", "lifecycle:running"})
		for _, e := range got {
			if e.Method == "values" && strings.Contains(string(e.Params.Data), "__interrupt__") {
				t.Errorf("values %s", e.Params.Data)
			}
		}
		s.close()
	}
}

func jsonOf(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

func TestInputAnswersPendingInterrupt(t *testing.T) {
	c := serve(t, nil)
	thread := c.begin("hitl", `{"topic":"cats"}`)
	s := c.subscribe(thread, `{"channels":["lifecycle","values","checkpoints"]}`)
	asked := s.events("lifecycle:interrupted", 1)
	c.command(thread, "run.start", `{"assistant_id":"hitl","input":{"answer":1}}`)
	got := s.events("lifecycle:completed", 1)
	last := got[len(got)-2]
	if string(jsonOf(last.get("approval"))) != `{"answer":1}` {
		t.Errorf("values %s", last.Params.Data)
	}
	// A fork starts over with its input.
	first := asked[slices.Index(names(asked), "checkpoints")].get("id")
	c.command(thread, "run.start", fmt.Sprintf(`{"assistant_id":"hitl","input":{"topic":"dogs"},"config":{"configurable":{"checkpoint_id":%q}},"multitaskStrategy":"reject"}`, first))
	got = s.events("lifecycle:interrupted", 2)
	last = got[len(got)-2]
	if last.get("topic") != "dogs" || last.get("approval") != nil {
		t.Errorf("values of the fork %s", last.Params.Data)
	}
}

// The Python client reads the events after the number in the response to run.start. A
// short run may end before the response.
func TestRunEventsFollowStartResponse(t *testing.T) {
	c := serve(t, nil)
	for range 50 {
		thread := uuid.NewString()
		for range 2 {
			a := c.command(thread, "run.start", `{"assistant_id":"router","input":{"target":"left"}}`)
			since := c.subscribe(thread, fmt.Sprintf(`{"channels":["lifecycle"],"since":%v}`, a.Meta["applied_through_seq"]))
			equal(t, names(since.events("lifecycle:completed", 1)), []string{"lifecycle:running", "lifecycle:completed"})
		}
	}
}

func TestStreamOpensBeforeThreadExists(t *testing.T) {
	c := serve(t, nil)
	thread := uuid.NewString()
	s := c.subscribe(thread, `{"channels":["lifecycle","values"]}`)
	for n := 1; n <= 3; n++ {
		c.command(thread, "run.start", `{"assistant_id":"router","input":{"target":"left"}}`)
		s.events("lifecycle:completed", n)
	}
	got := s.events("lifecycle:completed", 3)
	run := []string{"lifecycle:running", "values", "values", "values", "lifecycle:completed"}
	equal(t, names(got), slices.Concat(run, run, run))
	select {
	case <-s.done:
		t.Error("the stream has ended")
	default:
	}
	again := c.subscribe(thread, `{"channels":["lifecycle","values"]}`)
	equal(t, names(again.events("lifecycle:completed", 3)), names(got))
	since := c.subscribe(thread, fmt.Sprintf(`{"channels":["lifecycle","values"],"since":%d}`, got[9].Seq))
	equal(t, names(since.events("lifecycle:completed", 1)), run)
}

func TestSubscriptionsFilterEvents(t *testing.T) {
	c := serve(t, nil)
	thread := c.begin("nested", `{"value":"s"}`)
	c.subscribe(thread, everything).events("lifecycle:completed", 1)
	for body, want := range map[string][]string{
		`{"channels":["updates"]}`:                                            {"updates", "updates|child", "updates|child", "updates", "updates"},
		`{"channels":["updates"],"namespaces":[[]],"depth":0}`:                {"updates", "updates", "updates"},
		`{"channels":["updates"],"namespaces":[["child"]]}`:                   {"updates|child", "updates|child"},
		`{"channels":["updates"],"namespaces":[["child"],["other"],[]]}`:      {"updates", "updates|child", "updates|child", "updates", "updates"},
		`{"channels":["lifecycle"],"namespaces":[["child"]],"depth":0}`:       {"lifecycle:started|child", "lifecycle:completed|child"},
		`{"channels":["input","custom","custom:x","messages"],"depth":3}`:     {},
		`{"channels":["lifecycle"],"namespaces":[["child","deeper"],["no"]]}`: {},
	} {
		s := c.subscribe(thread, body)
		got := s.until(body, func(fs []frame) bool { return len(fs) >= len(want) })
		var es []event
		for _, f := range got {
			var e event
			_ = json.Unmarshal([]byte(f.data), &e)
			es = append(es, e)
		}
		equal(t, names(es), want)
		s.close()
	}
	for _, body := range []string{`{"channels":["nope"]}`, `{}`, `{"channels":["custom:"]}`, `{"channels":["values"],"depth":-1}`, `{"channels":["values"],"namespaces":["a"]}`, `{"channels":"values"}`} {
		status, _, raw := c.do("POST", "/threads/"+thread+"/stream/events", body)
		if status != 400 && status != 422 || !strings.Contains(string(raw), `"detail"`) {
			t.Errorf("%s: %d %s", body, status, raw)
		}
	}
}

func TestInvalidCommandsReturnErrors(t *testing.T) {
	c := serve(t, nil)
	thread, none := c.begin("hitl", `{"topic":"cats"}`), uuid.NewString()
	c.subscribe(thread, everything).events("lifecycle:interrupted", 1)
	for _, tt := range []struct{ thread, method, params, code string }{
		{thread, "nope", `{}`, "unknown_command"},
		{none, "nope", `{}`, "unknown_command"},
		{thread, "input.inject", `{}`, "unknown_command"},
		{thread, "run.start", `{}`, "invalid_argument"},
		{thread, "run.start", `{"assistant_id":7}`, "invalid_argument"},
		{thread, "run.start", `{"assistant_id":"hitl","multitaskStrategy":"nope"}`, "invalid_argument"},
		{thread, "run.start", `{"assistant_id":"nope"}`, "unknown_error"},
		{thread, "input.respond", `{"response":1}`, "invalid_argument"},
		{thread, "input.respond", `{"responses":[]}`, "invalid_argument"},
		{thread, "input.respond", `{"interrupt_id":"00000000000000000000000000000000","response":1}`, "no_such_interrupt"},
		{none, "input.respond", `{"interrupt_id":"00000000000000000000000000000000","response":1}`, "no_such_run"},
		{none, "state.get", `{"namespace":[]}`, "no_such_run"},
		{thread, "state.get", `{"namespace":["nope:1"]}`, "no_such_namespace"},
		{none, "agent.getTree", `{}`, "no_such_run"},
		{thread, "subscription.subscribe", `{"channels":["values"]}`, "not_supported"},
		{thread, "subscription.reconnect", `{}`, "not_supported"},
	} {
		if a := c.command(tt.thread, tt.method, tt.params); a.Type != "error" || a.Error != tt.code || a.Message == "" {
			t.Errorf("%s %s: %+v; want %s", tt.method, tt.params, a, tt.code)
		}
	}
	for _, body := range []string{`{"method":"run.start"}`, `{"id":"1","method":"x"}`, `{"id":1}`, `{`, ``, `[]`} {
		status, _, raw := c.do("POST", "/threads/"+thread+"/commands", body)
		if status != 400 || !strings.Contains(string(raw), `"id":null,"error":"invalid_argument"`) {
			t.Errorf("%s: %d %s", body, status, raw)
		}
	}
	var list []any
	c.ok("GET", "/threads/"+thread+"/runs", "", &list)
	if status, _, _ := c.do("GET", "/threads/"+none, ""); len(list) != 1 || status != 404 {
		t.Errorf("commands that failed have made %d runs, and a thread with status %d", len(list)-1, status)
	}
}

func TestStateAndTreeByCommand(t *testing.T) {
	c := serve(t, nil)
	thread := c.begin("nested", `{"value":"pause"}`)
	got := c.subscribe(thread, everything).events("lifecycle:interrupted", 1)
	child := got[slices.Index(names(got), "lifecycle:started|child")].Params.NS[0]
	if a := c.command(thread, "state.get", `{"namespace":[],"keys":["value"]}`); !strings.Contains(string(a.Result), `"values":{"value":"pause\u003ebefore"}`) || a.Meta["thread_id"] != thread {
		t.Errorf("state %s %v", a.Result, a.Meta)
	}
	if a := c.command(thread, "state.get", fmt.Sprintf(`{"namespace":[%q],"keys":["steps"]}`, child)); !strings.Contains(string(a.Result), `"ns":"`+child+`"},"values":{"steps":["child_one"]}`) {
		t.Errorf("state of the child %s %s", a.Result, a.Message)
	}
	want := fmt.Sprintf(`{"tree":{"namespace":[],"status":"interrupted","graph_name":"nested","children":[{"namespace":[%q],"status":"interrupted","graph_name":"child"}]}}`, child)
	if a := c.command(thread, "agent.getTree", `{}`); string(a.Result) != want {
		t.Errorf("tree %s", a.Result)
	}
}

func TestSubscribedThreadRecordsClassicRuns(t *testing.T) {
	c := serve(t, nil)
	thread := c.thread()
	c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"router","input":{}}`, nil)
	s := c.subscribe(thread, `{"channels":["lifecycle","updates"]}`)
	s.close()
	<-s.done
	_, _, raw := c.do("POST", "/threads/"+thread+"/runs/stream", `{"assistant_id":"nested","input":{"value":"s"},"stream_mode":"updates"}`)
	var classic []string
	for _, f := range frames(raw) {
		classic = append(classic, f.event)
	}
	equal(t, classic, []string{"metadata", "updates", "updates", "updates"})
	got := c.subscribe(thread, `{"channels":["lifecycle","updates"]}`).events("lifecycle:completed", 1)
	equal(t, names(got), []string{"lifecycle:running", "updates", "lifecycle:started|child", "updates|child", "updates|child", "lifecycle:completed|child", "updates", "updates", "lifecycle:completed"})
}

func TestEndOfFailedAndCanceledRuns(t *testing.T) {
	c := serve(t, nil)
	thread := c.begin("failing", `{"message":"m"}`)
	got := c.subscribe(thread, `{"channels":["lifecycle"]}`).events("lifecycle:failed", 1)
	if last := got[len(got)-1]; last.get("error") != "boom: m" || last.get("graph_name") != "failing" {
		t.Errorf("end %s", last.Params.Data)
	}
	thread = uuid.NewString()
	s := c.subscribe(thread, `{"channels":["lifecycle","values"]}`)
	a := c.command(thread, "run.start", `{"assistant_id":"slow","input":{"count":100,"delay_ms":20}}`)
	var run struct {
		ID string `json:"run_id"`
	}
	if err := json.Unmarshal(a.Result, &run); err != nil {
		t.Fatal(err)
	}
	s.events("values", 3)
	c.ok("POST", "/threads/"+thread+"/runs/"+run.ID+"/cancel?wait=1", "", nil)
	s.events("lifecycle:interrupted", 1)
}

// owners lets each user see its own threads.
func owners() *server.Auth {
	return &server.Auth{
		Authenticate: func(r *http.Request) (*server.User, error) {
			if name := r.Header.Get("X-User"); name != "" {
				return &server.User{Identity: name}, nil
			}
			return nil, errors.New("no user")
		},
		On: server.Rules{
			"assistants": func(context.Context, *server.Access) (server.Decision, error) { return server.Allow(nil), nil },
			"threads": func(_ context.Context, a *server.Access) (server.Decision, error) {
				if md, ok := a.Value["metadata"].(map[string]any); ok {
					md["owner"] = a.User.Identity
				}
				return server.Allow(map[string]any{"owner": a.User.Identity}), nil
			},
		},
	}
}

// as returns the client with another user.
func (c *client) as(user string) *client {
	return &client{t: c.t, base: c.base, head: http.Header{"X-User": {user}}}
}

func TestProtocolV2HidesThreadsOfOtherUsers(t *testing.T) {
	all := serve(t, &server.Options{Auth: owners()})
	ann, bob := all.as("ann"), all.as("bob")
	thread := ann.begin("hitl", `{"topic":"cats"}`)
	ann.subscribe(thread, everything).events("lifecycle:interrupted", 1)
	if a := bob.command(thread, "run.start", `{"assistant_id":"hitl","input":{}}`); a.Error != "unknown_error" || !strings.HasPrefix(a.Message, "404: ") {
		t.Errorf("run.start on another user's thread: %+v", a)
	}
	for _, method := range []string{"input.respond", "state.get", "agent.getTree"} {
		if a := bob.command(thread, method, `{}`); a.Error != "no_such_run" {
			t.Errorf("%s on another user's thread: %+v", method, a)
		}
	}
	for _, path := range []string{"POST /stream/events", "GET /stream", "GET /stream/events"} {
		method, path, _ := strings.Cut(path, " ")
		bob.head.Set("Upgrade", "websocket")
		if status, _, raw := bob.do(method, "/threads/"+thread+path, everything); status != 404 {
			t.Errorf("%s %s: %d %s", method, path, status, raw)
		}
		bob.head.Del("Upgrade")
		if status, _, _ := all.do(method, "/threads/"+thread+path, everything); status != 401 {
			t.Errorf("%s %s without a user: %d", method, path, status)
		}
	}
}

func TestEarlyStreamHidesThreadOfOtherUser(t *testing.T) {
	all := serve(t, &server.Options{Auth: owners()})
	ann, bob := all.as("ann"), all.as("bob")
	thread := uuid.NewString()
	v2, classic := bob.subscribe(thread, everything), bob.open("GET", "/threads/"+thread+"/stream", "")
	ann.command(thread, "run.start", `{"assistant_id":"router","input":{}}`)
	ann.subscribe(thread, everything).events("lifecycle:completed", 1)
	for _, s := range []*live{v2, classic} {
		select {
		case <-s.done:
		case <-time.After(tooLong):
			t.Fatal("the stream is still open")
		}
		if len(s.frames) > 0 {
			t.Errorf("frames %v", s.frames)
		}
	}
}

func TestThreadStreamsShowAllRuns(t *testing.T) {
	c := serve(t, nil)
	thread := c.thread()
	ends := func(n int) func([]frame) bool {
		return func(fs []frame) bool {
			seen := 0
			for _, f := range fs {
				if strings.Contains(f.data, "run_done") {
					seen++
				}
			}
			return seen >= n
		}
	}
	show := func(fs []frame) (out []string) {
		for _, f := range fs {
			if f.id == "" {
				t.Errorf("frame %+v has no ID", f)
			}
			out = append(out, f.event)
		}
		return out
	}
	run := func(more string) {
		c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"router","input":{"target":"left"}`+more+`}`, nil)
	}
	run("")
	all := c.open("GET", "/threads/"+thread+"/stream", "")
	life := c.open("GET", "/threads/"+thread+"/stream?stream_mode=lifecycle", "")
	run(`,"stream_resumable":true`)
	run(`,"stream_mode":["updates"]`)
	values := []string{"metadata", "values", "values", "values", "metadata"}
	got := all.until("two runs", ends(2))
	equal(t, show(got), append(slices.Clone(values), "metadata", "updates", "updates", "metadata"))
	equal(t, show(life.until("two runs", ends(2))), []string{"metadata", "metadata", "metadata", "metadata"})
	c.head.Set("Last-Event-ID", got[2].id)
	equal(t, show(c.open("GET", "/threads/"+thread+"/stream?stream_modes=run_modes", "").until("the rest", ends(2))), show(got[3:]))
	c.head.Set("Last-Event-ID", "x")
	if status, _, raw := c.do("GET", "/threads/"+thread+"/stream", ""); status != 422 {
		t.Errorf("a bad Last-Event-ID: %d %s", status, raw)
	}
	c.head.Del("Last-Event-ID")
	if status, _, raw := c.do("GET", "/threads/"+thread+"/stream?stream_mode=nope", ""); status != 422 {
		t.Errorf("a bad mode: %d %s", status, raw)
	}
}

func TestStreamModesOverrideStreamMode(t *testing.T) {
	c := serve(t, nil)
	thread := c.thread()
	c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"router","input":{"target":"left"},"stream_resumable":true}`, nil)
	c.head.Set("Last-Event-ID", "0")
	done := func(fs []frame) bool { return len(fs) > 0 && strings.Contains(fs[len(fs)-1].data, "run_done") }
	for query, want := range map[string][]string{
		"stream_modes=lifecycle":                       {"metadata", "metadata"},
		"stream_modes=lifecycle&stream_mode=run_modes": {"metadata", "metadata"},
		"stream_modes=lifecycle&stream_mode=values":    {"metadata", "metadata"},
		"stream_modes=lifecycle,state_update":          {"metadata", "metadata"},
		"stream_modes=lifecycle,run_modes":             {"metadata", "values", "values", "values", "metadata"},
		"stream_modes=run_modes&stream_mode=lifecycle": {"metadata", "values", "values", "values", "metadata"},
		"stream_modes=&stream_mode=lifecycle":          {"metadata", "metadata"},
	} {
		var got []string
		for _, f := range c.open("GET", "/threads/"+thread+"/stream?"+query, "").until("the run", done) {
			got = append(got, f.event)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: frames %v, want %v", query, got, want)
		}
	}
}

func TestThreadStreamReplaysKeptEvents(t *testing.T) {
	c := serve(t, nil)
	thread := c.thread()
	c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"router","input":{"target":"left"},"stream_resumable":true}`, nil)
	for _, id := range []string{"-", "0", "-1"} {
		c.head.Set("Last-Event-ID", id)
		s := c.open("GET", "/threads/"+thread+"/stream", "")
		got := s.until("the run", func(fs []frame) bool { return len(fs) == 5 })
		if got[0].event != "metadata" || !strings.Contains(got[4].data, "run_done") {
			t.Errorf("frames after %s: %v", id, got)
		}
		s.close()
	}
}

func TestStreamsEndOnDrain(t *testing.T) {
	all, err := platform.All()
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(newMemory(), all, nil)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(srv)
	defer hs.Close()
	c := &client{t: t, base: hs.URL, head: http.Header{}}
	thread := c.begin("router", `{}`)
	v2, classic, w := c.subscribe(thread, everything), c.open("GET", "/threads/"+thread+"/stream", ""), c.dial(thread)
	v2.events("lifecycle:completed", 1)
	w.command(1, "subscription.subscribe", `{"channels":["lifecycle"]}`)
	w.until(is("lifecycle:completed"))
	if err := srv.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*live{v2, classic} {
		select {
		case <-s.done:
		case <-time.After(tooLong):
			t.Fatal("the stream is still open")
		}
	}
	if _, _, err := w.conn.Read(w.ctx); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the WebSocket ends with %v", err)
	}
}

// A client that waits for a run when the server stops gets 503, not values that look like
// the final ones.
func TestWaitReturns503WhenServerDrains(t *testing.T) {
	all, err := platform.All()
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(newMemory(), all, nil)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(srv)
	defer hs.Close()
	c := &client{t: t, base: hs.URL, head: http.Header{}}
	thread := c.thread()
	var run struct {
		ID string `json:"run_id"`
	}
	c.ok("POST", "/threads/"+thread+"/runs", `{"assistant_id":"slow","input":{"count":1000000,"delay_ms":1}}`, &run)
	type answer struct {
		status int
		body   string
	}
	answers := make(chan answer)
	for _, path := range []string{"/join", "/join?cancel_on_disconnect=1"} {
		go func() {
			status, _, raw := c.do("GET", "/threads/"+thread+"/runs/"+run.ID+path, "")
			answers <- answer{status, string(raw)}
		}()
	}
	if err := srv.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := <-answers; got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "shutting down") {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
}

// The run resumes after the restart. A stream that ended cleanly would indicate to its
// client that the run has ended.
func TestDrainBreaksStreamOfUnfinishedRun(t *testing.T) {
	srv, err := server.New(newMemory(), treadle.Must(platform.All()), nil)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(srv)
	defer hs.Close()
	c := &client{t: t, base: hs.URL, head: http.Header{}}
	body := `{"assistant_id":"slow","input":{"count":1000000,"delay_ms":1},"stream_mode":"updates","stream_resumable":true}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hs.URL+"/threads/"+c.thread()+"/runs/stream", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	drained := make(chan error)
	go func() { drained <- srv.Drain(context.WithoutCancel(t.Context())) }()
	if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the stream ends with %v, want %v", err, io.ErrUnexpectedEOF)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

func TestDeletedThreadHasNoEvents(t *testing.T) {
	c := serve(t, nil)
	for _, tt := range []struct{ graph, input, until string }{{"router", `{}`, "lifecycle:completed"}, {"slow", `{"count":1000,"delay_ms":10}`, "values"}} {
		thread := c.begin(tt.graph, tt.input)
		old := c.subscribe(thread, everything)
		old.events(tt.until, 1)
		c.ok("DELETE", "/threads/"+thread, "", nil)
		s := c.subscribe(thread, everything)
		c.command(thread, "run.start", `{"assistant_id":"router","input":{"target":"left"}}`)
		if got := s.events("lifecycle:completed", 1); names(got)[0] != "lifecycle:running" || strings.Count(strings.Join(names(got), " "), "running") != 1 {
			t.Errorf("events %v", names(got))
		}
		s.close()
		old.close()
	}
}

func TestIdleReaderDoesNotBlockRun(t *testing.T) {
	c := serve(t, nil)
	thread := uuid.NewString()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(c.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	body := `{"channels":["custom","lifecycle"]}`
	if _, err := fmt.Fprintf(conn, "POST /threads/%s/stream/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", thread, len(body), body); err != nil {
		t.Fatal(err)
	}
	var started struct {
		ID string `json:"run_id"`
	}
	if err := json.Unmarshal(c.command(thread, "run.start", `{"assistant_id":"custom","input":{"n":50000}}`).Result, &started); err != nil {
		t.Fatal(err)
	}
	run := "/threads/" + thread + "/runs/" + started.ID
	c.ok("GET", run+"/join", "", nil) // a reader of the events might be too slow itself, and be sent away
	var got struct{ Status string }
	c.ok("GET", run, "", &got)
	if got.Status != "success" {
		t.Errorf("the run is %s", got.Status)
	}
}
