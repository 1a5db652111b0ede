package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/mcptool"
)

func TestToolsListsAllPagesInOrder(t *testing.T) {
	overBoth(t, func(t *testing.T, s mcptool.Server, _ words) {
		all, _ := open(t, s)
		list, err := all.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range list {
			names = append(names, tool.Name+": "+tool.Description)
		}
		want := []string{"add: Adds two numbers.", "die: ", "env: ", "fail: ", "hang: ", "long_job: A long job", "meet: ", "pid: ", "release: ", "show: "}
		if d := cmp.Diff(want, names); d != "" {
			t.Errorf("tools (-want +got):\n%s", d)
		}
	})
}

func TestSchemasPassUnchanged(t *testing.T) {
	overBoth(t, func(t *testing.T, s mcptool.Server, _ words) {
		_, tools := open(t, s)
		raw, err := json.Marshal(tools["show"].Parameters)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := errors.Join(json.Unmarshal(raw, &got), json.Unmarshal([]byte(showSchema), &want)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("schema (-want +got):\n%s", d)
		}
	})
}

func TestToolsPrefixesAndRequiresUniqueNames(t *testing.T) {
	one, _ := overHTTP(t)
	two := one
	two.Name = "two"
	all, err := mcptool.Connect(t.Context(), one, two)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	if _, err := all.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), `servers "http" and "two" both have a tool add: set Prefix`) {
		t.Errorf("duplicate tool names: %v", err)
	}
	two.Prefix = true
	_, tools := open(t, one, two)
	if got := tools.says(t, "two_add", `{"a":1,"b":2}`) + tools.says(t, "add", `{"a":2,"b":2}`); got != "34" {
		t.Errorf("got %s", got)
	}
}

func TestContentBecomesBlocks(t *testing.T) {
	blocks := []llm.Block{
		llm.Text("hello"),
		llm.Image("image/png", []byte("png")),
		llm.Audio("audio/wav", []byte("wav")),
		{Type: llm.BlockImage, URL: "https://example.com/owl.png", MIMEType: "image/png"},
		{Type: llm.BlockFile, URL: "https://example.com/owl.pdf", MIMEType: "application/pdf", Extra: map[string]any{"filename": "owl.pdf"}},
		llm.Text("memo: memo://7\nAbout owls."),
		llm.Text("inside"),
		llm.File("b.pdf", "application/pdf", []byte("pdf")),
		llm.Image("image/png", []byte("png")),
	}
	of := func(name string, m llm.Message) llm.Message {
		m.Role, m.Name, m.ToolCallID = llm.RoleTool, name, "c1"
		return m
	}
	overBoth(t, func(t *testing.T, s mcptool.Server, _ words) {
		_, tools := open(t, s)
		for _, test := range []struct {
			tool, args string
			want       llm.Message
		}{
			{"show", `{"what":"all"}`, llm.Message{Blocks: blocks}},
			{"show", `{"what":"error"}`, llm.Message{Blocks: blocks, Status: llm.StatusError}},
			{"show", `{"what":"structured"}`, llm.Message{Content: `{"n":1}`, Artifact: map[string]any{"n": 1.0}}},
			{"add", `{"a":1,"b":2}`, llm.Message{Content: "3", Artifact: map[string]any{"sum": 3.0}}},
			{"add", `{"a":1}`, llm.Message{Content: "2", Artifact: map[string]any{"sum": 2.0}}},
			{"fail", ``, llm.Message{Content: "tool fail: out of owls", Status: llm.StatusError}},
		} {
			got, err := tools.call(t.Context(), test.tool, test.args)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(of(test.tool, test.want), got); d != "" {
				t.Errorf("%s %s (-want +got):\n%s", test.tool, test.args, d)
			}
		}
		if _, err := tools.call(t.Context(), "add", `{"a":"x"}`); !isA[*llm.ArgumentsError](err) {
			t.Errorf("invalid arguments: %v", err)
		}
	})
}

func isA[E error](err error) bool { _, ok := errors.AsType[E](err); return ok }

func TestServerSeesOnlyItsVariables(t *testing.T) {
	t.Setenv("SECRET", "s3cret")
	s, _ := process(t, "")
	t.Setenv("VISITOR", "v1sitor")
	s.Env["GREETING"] = "hello ${VISITOR} $SECRET"
	_, tools := open(t, s)
	for name, want := range map[string]string{"SECRET": "", "GREETING": "hello v1sitor $SECRET", "PATH": os.Getenv("PATH")} {
		if got := tools.says(t, "env", `{"Name":"`+name+`"}`); got != want {
			t.Errorf("server sees %s = %q, want %q", name, got, want)
		}
	}
}

func TestEveryRequestHasHeaders(t *testing.T) {
	t.Setenv("TOKEN", "t0ken")
	inner := mcptool.Handler(newServer(words(nil).say), nil)
	var mu sync.Mutex
	without := 0
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			mu.Lock()
			without++
			mu.Unlock()
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	_, tools := open(t, mcptool.Server{Name: "h", URL: h.URL, Header: http.Header{"authorization": {"Bearer ${TOKEN}"}}})
	tools.says(t, "pid", "")
	mu.Lock()
	defer mu.Unlock()
	if without > 0 {
		t.Errorf("%d requests without the header", without)
	}
}

func TestConnectRejectsInvalidServers(t *testing.T) {
	for _, test := range []struct {
		servers []mcptool.Server
		want    string
	}{
		{[]mcptool.Server{{}}, "mcptool: server without Name"},
		{[]mcptool.Server{{Name: "a"}}, `mcptool: server "a": set either Command or URL`},
		{[]mcptool.Server{{Name: "a", URL: "x", Command: []string{"y"}}}, `mcptool: server "a": set either Command or URL`},
		{[]mcptool.Server{{Name: "a", URL: "http://${NO_SUCH_VARIABLE}"}, {Name: "a", URL: "http://x"}},
			"mcptool: server \"a\": environment variable NO_SUCH_VARIABLE is not set\nmcptool: duplicate server name \"a\""},
		{[]mcptool.Server{{Name: "a", URL: "example.com/mcp"}}, `mcptool: server "a": invalid URL: want https:// or http://`},
		{[]mcptool.Server{{Name: "a", Command: []string{""}}}, `mcptool: server "a": empty program name in Command[0]`},
	} {
		if _, err := mcptool.Connect(t.Context(), test.servers...); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

func TestConnectReportsWhyServerFailed(t *testing.T) {
	good, _ := process(t, "")
	broken, _ := process(t, "broken")
	broken.Name = "broken"
	_, err := mcptool.Connect(t.Context(), good, broken)
	if !errors.Is(err, mcptool.ErrNoResponse) || !strings.Contains(err.Error(), `server "broken"`) ||
		!strings.Contains(err.Error(), "exit status 1; last output: no license for owls") {
		t.Errorf("got %v", err)
	}
	_, err = mcptool.Connect(t.Context(), mcptool.Server{Name: "absent", Command: []string{"/no/such/program"}})
	if !errors.Is(err, mcptool.ErrNoResponse) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	h := httptest.NewServer(http.NotFoundHandler())
	defer h.Close()
	_, err = mcptool.Connect(t.Context(), mcptool.Server{Name: "absent", URL: h.URL})
	if !errors.Is(err, mcptool.ErrNoResponse) || !strings.Contains(err.Error(), h.URL) {
		t.Errorf("got %v", err)
	}
}

func TestConnectEndsWithContext(t *testing.T) {
	s, said := process(t, "mute")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-said
		cancel()
	}()
	start := time.Now()
	_, err := mcptool.Connect(ctx, s)
	if !errors.Is(err, context.Canceled) || time.Since(start) > 20*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}

func TestGarbageOutputIsLoggedAndSkipped(t *testing.T) {
	s, said := process(t, "noisy")
	_, tools := open(t, s)
	if got := tools.says(t, "add", `{"a":20,"b":22}`); got != "42" {
		t.Errorf("got %q", got)
	}
	for _, line := range []string{"Welcome to the noisy server", "[info] answering", `{"level":"debug"}`, "42"} {
		said.await(t, line)
	}
}

func TestCanceledCallIsCanceledOnServer(t *testing.T) {
	overBoth(t, func(t *testing.T, s mcptool.Server, said words) {
		_, tools := open(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-said // hanging
			cancel()
		}()
		if _, err := tools.call(ctx, "hang", ""); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		said.await(t, "cancelled")
		if got := tools.says(t, "add", `{"a":1}`); got != "2" {
			t.Errorf("next call: %q", got)
		}
	})
}

func TestCallTimesOut(t *testing.T) {
	overBoth(t, func(t *testing.T, s mcptool.Server, said words) {
		// On a busy machine, a short timeout ends the call before the server has the request.
		s.Timeout = 50 * time.Millisecond
		for ; s.Timeout < time.Minute; s.Timeout *= 8 {
			all, err := mcptool.Connect(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			list, err := all.Tools(t.Context())
			if errors.Is(err, context.DeadlineExceeded) {
				_ = all.Close()
				continue
			}
			i := slices.IndexFunc(list, func(tool *llm.Tool) bool { return tool.Name == "hang" })
			if err != nil || i < 0 {
				t.Fatalf("tools %v, %v", list, err)
			}
			_, err = toolset{"hang": list[i]}.call(t.Context(), "hang", "")
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "tool hang: timed out after "+s.Timeout.String()) {
				t.Errorf("got %v", err)
			}
			canceled := said.within(5*time.Second, "cancelled")
			if err := all.Close(); err != nil {
				t.Error(err)
			}
			if canceled {
				return
			}
		}
		t.Error("the server has not canceled the call")
	})
}

func TestCallsRunConcurrently(t *testing.T) {
	overBoth(t, func(t *testing.T, s mcptool.Server, _ words) {
		_, tools := open(t, s)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if m, err := tools.call(t.Context(), "meet", ""); err != nil || m.Text() != "met" {
					t.Errorf("got %q, %v", m.Text(), err)
				}
			})
		}
		all.Wait()
	})
}

func pidOf(t *testing.T, tools toolset) int {
	pid, err := strconv.Atoi(tools.says(t, "pid", ""))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestServerKilledBetweenCallsIsRestarted(t *testing.T) {
	s, _ := process(t, "")
	all, tools := open(t, s)
	pid := pidOf(t, tools)
	lost := mcptool.Lost(all)
	if err := kill(pid); err != nil {
		t.Fatal(err)
	}
	<-lost
	if again := pidOf(t, tools); again == pid {
		t.Errorf("server is still process %d", pid)
	}
}

// A call right after the kill may use the server's pipes before their end is
// detected. It fails or is answered by a new server, and the next call succeeds.
func TestCallAfterKillDoesNotHang(t *testing.T) {
	s, _ := process(t, "")
	_, tools := open(t, s)
	for range 10 {
		if err := kill(pidOf(t, tools)); err != nil {
			t.Fatal(err)
		}
		if _, err := tools.call(t.Context(), "pid", ""); err != nil && !errors.Is(err, mcptool.ErrNoResponse) {
			t.Fatal(err)
		}
	}
}

func TestServerKilledDuringCallFailsCall(t *testing.T) {
	s, said := process(t, "")
	_, tools := open(t, s)
	pid := pidOf(t, tools)
	killed := func() {
		said.await(t, "hanging")
		if err := kill(pid); err != nil {
			t.Error(err)
		}
	}
	for name, during := range map[string]func(){"hang": killed, "die": func() {}} {
		var killing sync.WaitGroup
		killing.Go(during)
		_, err := tools.call(t.Context(), name, "")
		killing.Wait()
		if !errors.Is(err, mcptool.ErrNoResponse) || !isA[*llm.ToolError](err) || !strings.Contains(err.Error(), "signal: killed") {
			t.Errorf("%s: got %v", name, err)
		}
		again := pidOf(t, tools)
		if again == pid {
			t.Errorf("%s: server is still process %d", name, pid)
		}
		pid = again
	}
}

func TestConcurrentCallsShareRestartedServer(t *testing.T) {
	s, _ := process(t, "")
	all, tools := open(t, s)
	lost := mcptool.Lost(all)
	if err := kill(pidOf(t, tools)); err != nil {
		t.Fatal(err)
	}
	<-lost
	pids := make([]int, 20)
	var calls sync.WaitGroup
	for i := range pids {
		calls.Go(func() {
			m, err := tools.call(t.Context(), "pid", "")
			if err != nil {
				t.Error(err)
			}
			pids[i], _ = strconv.Atoi(m.Text())
		})
	}
	calls.Wait()
	for _, pid := range pids {
		if pid != pids[0] {
			t.Errorf("calls were answered by processes %v", pids)
			break
		}
	}
}

func TestConnectionCutDuringCallFailsCall(t *testing.T) {
	said := make(words, 100)
	h := httptest.NewServer(mcptool.Handler(newServer(said.say), nil))
	defer h.Close()
	_, tools := open(t, mcptool.Server{Name: "h", URL: h.URL})
	var cutting sync.WaitGroup
	cutting.Go(func() {
		said.await(t, "hanging")
		h.CloseClientConnections()
	})
	_, err := tools.call(t.Context(), "hang", "")
	cutting.Wait()
	if !errors.Is(err, mcptool.ErrNoResponse) {
		t.Errorf("got %v", err)
	}
	if got := tools.says(t, "add", `{"a":1}`); got != "2" {
		t.Errorf("next call: %q", got)
	}
}

func TestCloseEndsCallsAndPrograms(t *testing.T) {
	overBoth(t, func(t *testing.T, s mcptool.Server, said words) {
		all, tools := open(t, s)
		pid := pidOf(t, tools)
		var closing sync.WaitGroup
		closing.Go(func() {
			said.await(t, "hanging")
			if err := all.Close(); err != nil {
				t.Error(err)
			}
		})
		if _, err := tools.call(t.Context(), "hang", ""); !errors.Is(err, mcptool.ErrClosed) {
			t.Errorf("running call: %v", err)
		}
		closing.Wait()
		if _, err := tools.call(t.Context(), "add", `{"a":1}`); !errors.Is(err, mcptool.ErrClosed) {
			t.Errorf("later call: %v", err)
		}
		if _, err := all.Tools(t.Context()); !errors.Is(err, mcptool.ErrClosed) {
			t.Errorf("Tools: %v", err)
		}
		if s.URL != "" {
			return
		}
		if err := kill(pid); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("program is still running: %v", err)
		}
	})
}

// A program that ignores both the end of its input and SIGTERM is killed.
func TestStubbornProgramIsKilled(t *testing.T) {
	s, said := process(t, "stubborn")
	all, tools := open(t, s)
	pid := pidOf(t, tools)
	if err := all.Close(); err != nil {
		t.Error(err)
	}
	said.await(t, "staying")
	if err := kill(pid); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("program is still running: %v", err)
	}
}

// A server with an older protocol version keeps sessions and may have dropped ours.
func TestDroppedSessionIsReopened(t *testing.T) {
	server := newServer(words(nil).say)
	h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(h.Close)
	_, tools := open(t, mcptool.Server{Name: "h", URL: h.URL})
	forgotten := 0
	for session := range server.Sessions() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
		forgotten++
	}
	if got := tools.says(t, "add", `{"a":1}`); got != "2" || forgotten != 1 {
		t.Errorf("got %q after %d sessions were dropped", got, forgotten)
	}
}

// The SDK's session provides what this package does not wrap.
func TestSessionListsPromptsAndTemplates(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			all, _ := open(t, library(t, protocol))
			s, err := all.Session(t.Context(), "library")
			if err != nil {
				t.Fatal(err)
			}
			prompts, err := s.ListPrompts(t.Context(), nil)
			if err != nil || len(prompts.Prompts) != 1 || prompts.Prompts[0].Name != "review" {
				t.Errorf("prompts %+v, %v", prompts, err)
			}
			templates, err := s.ListResourceTemplates(t.Context(), nil)
			if err != nil || len(templates.ResourceTemplates) != 1 {
				t.Errorf("templates %+v, %v", templates, err)
			}
			if _, err := all.Session(t.Context(), "nobody"); err == nil {
				t.Error("a session with an unknown server")
			}
			if err := all.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := all.Session(t.Context(), "library"); !errors.Is(err, mcptool.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

// With Configure, a program follows a server's log messages and changed lists.
func TestConfigureAddsHandlers(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "chatty", Version: "v1"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Logging: &mcp.LoggingCapabilities{}, Tools: &mcp.ToolCapabilities{ListChanged: true}},
		SupportedProtocolVersions: []string{"2025-11-25"}})
	s.AddTool(&mcp.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "warning", Data: "out of owls"})
		s.AddTool(&mcp.Tool{Name: "u", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(r.Session.InitializeParams().Capabilities.Elicitation == nil)}}}, err
	})
	h := httptest.NewServer(mcptool.Handler(s, &mcptool.HandlerOptions{Sessions: true}))
	t.Cleanup(h.Close)
	logged, changed := make(chan any, 1), make(chan struct{}, 1)
	all, tools := open(t, mcptool.Server{Name: "chatty", URL: h.URL, Configure: func(o *mcp.ClientOptions) {
		o.LoggingMessageHandler = func(_ context.Context, r *mcp.LoggingMessageRequest) { logged <- r.Params.Data }
		o.ToolListChangedHandler = func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }
		o.ElicitationHandler = func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return nil, nil }
	}})
	session, err := all.Session(t.Context(), "chatty")
	if err != nil {
		t.Fatal(err)
	}
	if err := session.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
		t.Fatal(err)
	}
	if got := tools.says(t, "t", `{}`); got != "true" {
		t.Error("Configure allowed elicitation")
	}
	if got := <-logged; got != "out of owls" {
		t.Errorf("log message %v", got)
	}
	<-changed
	if list, err := all.Tools(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("%d tools after the change, %v", len(list), err)
	}
}
