package editor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	acp "github.com/coder/acp-go-sdk"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves graphs from a database file. stop ends the server, and leaves its runs unfinished.
func serve(t testing.TB, file string, graphs ...treadle.AnyGraph) (url string, stop func()) {
	t.Helper()
	db, err := sqlite.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := server.New(db, graphs, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(h)
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		cancel() // do not wait for the runs
		_ = h.Drain(ctx)
		site.CloseClientConnections()
		site.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return site.URL, stop
}

// helper returns an agent with the tools delete, which needs permission, and look.
func helper(t testing.TB, model llm.Model, more ...*agent.Middleware) treadle.AnyGraph {
	t.Helper()
	run := func(_ context.Context, in struct{ File string }) (string, error) { return "done: " + in.File, nil }
	g, err := agent.New(model, &agent.Options{Name: "helper", Middleware: append(more, agent.Gates(agent.Gate{Tool: "delete"})),
		Tools: []*llm.Tool{llm.NewTool("delete", "Deletes a file.", run), llm.NewTool("look", "Looks at a file.", run)}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// desk is an editor.
type desk struct {
	t    testing.TB
	conn *acp.ClientSideConnection
	raw  io.Writer // to the agent
	can  acp.ClientCapabilities
	// leave closes the editor.
	leave     func()
	assistant string

	mu     sync.Mutex
	lines  []string // updates
	asked  []string // requests, which the SDK handles beside updates
	files  map[string]string
	permit func(context.Context, acp.RequestPermissionRequest) acp.RequestPermissionResponse
	seen   chan string // receives each update, if not nil
}

func open(t testing.TB, url string, configure ...func(*desk)) *desk {
	t.Helper()
	c, err := client.New(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	in, toAgent := io.Pipe()
	fromAgent, out := io.Pipe()
	d := &desk{t: t, raw: toAgent, files: map[string]string{}}
	for _, f := range configure {
		f(d)
	}
	done := make(chan error, 1)
	log := slog.New(slog.DiscardHandler)
	go func() {
		done <- Serve(t.Context(), in, out, &Options{Client: c, Assistant: d.assistant, Version: "test", Logger: log})
		_ = out.Close()
		_ = in.Close() // like a process that ends
	}()
	first := &gate{r: fromAgent, open: make(chan struct{})}
	d.conn = acp.NewClientSideConnection(d, toAgent, first)
	d.conn.SetLogger(log)
	close(first.open)
	d.leave = sync.OnceFunc(func() {
		_ = toAgent.Close()
		if err := <-done; err != nil && t.Context().Err() == nil {
			t.Errorf("Serve: %v", err)
		}
		<-d.conn.Done()
	})
	t.Cleanup(d.leave)
	got, err := d.conn.Initialize(t.Context(), acp.InitializeRequest{ProtocolVersion: 1, ClientCapabilities: d.can})
	if err != nil || got.ProtocolVersion != 1 || !got.AgentCapabilities.LoadSession {
		t.Fatalf("initialize: %+v, %v", got, err)
	}
	return d
}

func (d *desk) create() acp.SessionId {
	d.t.Helper()
	got, err := d.conn.NewSession(d.t.Context(), acp.NewSessionRequest{Cwd: "/src", McpServers: []acp.McpServer{}})
	if err != nil {
		d.t.Fatal(err)
	}
	return got.SessionId
}

func (d *desk) load(id acp.SessionId) {
	d.t.Helper()
	if _, err := d.conn.LoadSession(d.t.Context(), acp.LoadSessionRequest{SessionId: id, Cwd: "/src", McpServers: []acp.McpServer{}}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) prompt(id acp.SessionId, text string) (acp.StopReason, error) {
	got, err := d.conn.Prompt(d.t.Context(), acp.PromptRequest{SessionId: id, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
	return got.StopReason, err
}

// say sends a prompt, and checks the updates and the reason why the turn ended.
func (d *desk) say(id acp.SessionId, text string, reason acp.StopReason, want ...string) {
	d.t.Helper()
	got, err := d.prompt(id, text)
	if err != nil || got != reason {
		d.t.Fatalf("prompt %q ended with %q and %v, want %q", text, got, err, reason)
	}
	d.saw(want...)
}

// saw checks the updates since the last call.
func (d *desk) saw(want ...string) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if diff := cmp.Diff(want, d.lines); diff != "" {
		d.t.Fatalf("updates (-want +got):\n%s", diff)
	}
	d.lines = nil
}

// SessionUpdate records an update as a line. Pieces of a message are joined.
func (d *desk) SessionUpdate(_ context.Context, n acp.SessionNotification) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := n.Update
	line := ""
	add := func(kind string, b acp.ContentBlock) {
		if last := len(d.lines) - 1; last >= 0 && strings.HasPrefix(d.lines[last], kind+": ") {
			d.lines[last] += b.Text.Text
			return
		}
		line = kind + ": " + b.Text.Text
	}
	switch {
	case u.UserMessageChunk != nil:
		add("user", u.UserMessageChunk.Content)
	case u.AgentMessageChunk != nil:
		add("agent", u.AgentMessageChunk.Content)
	case u.AgentThoughtChunk != nil:
		add("thought", u.AgentThoughtChunk.Content)
	case u.ToolCall != nil:
		line = fmt.Sprintf("call %s: %s, %s, %s", u.ToolCall.ToolCallId, u.ToolCall.Title, u.ToolCall.Kind, u.ToolCall.Status)
	case u.ToolCallUpdate != nil:
		line = fmt.Sprintf("call %s: %s%s", u.ToolCallUpdate.ToolCallId, *u.ToolCallUpdate.Status, shown(u.ToolCallUpdate))
	case u.Plan != nil:
		line = fmt.Sprintf("plan: %d entries, first %s", len(u.Plan.Entries), u.Plan.Entries[0].Status)
	}
	if line != "" {
		d.lines = append(d.lines, line)
	}
	if d.seen != nil {
		d.seen <- line
	}
	return nil
}

func shown(u *acp.SessionToolCallUpdate) string {
	var b strings.Builder
	if u.RawInput != nil {
		raw, err := json.Marshal(u.RawInput)
		if err != nil {
			raw = []byte(err.Error())
		}
		fmt.Fprintf(&b, " %s", raw)
	}
	for _, c := range u.Content {
		switch {
		case c.Content != nil:
			fmt.Fprintf(&b, " %q", c.Content.Content.Text.Text)
		case c.Diff != nil && c.Diff.OldText != nil:
			fmt.Fprintf(&b, " diff of %s: %q to %q", c.Diff.Path, *c.Diff.OldText, c.Diff.NewText)
		case c.Diff != nil:
			fmt.Fprintf(&b, " diff of %s: %q", c.Diff.Path, c.Diff.NewText)
		case c.Terminal != nil:
			fmt.Fprintf(&b, " terminal %s", c.Terminal.TerminalId)
		}
	}
	return b.String()
}

// choose answers permission requests with an option.
func choose(option acp.PermissionOptionId) acp.RequestPermissionResponse {
	return acp.RequestPermissionResponse{Outcome: acp.RequestPermissionOutcome{Selected: &acp.RequestPermissionOutcomeSelected{Outcome: "selected", OptionId: option}}}
}

func always(option acp.PermissionOptionId) func(context.Context, acp.RequestPermissionRequest) acp.RequestPermissionResponse {
	return func(context.Context, acp.RequestPermissionRequest) acp.RequestPermissionResponse {
		return choose(option)
	}
}

func (d *desk) RequestPermission(ctx context.Context, p acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	d.mu.Lock()
	permit := d.permit
	d.asked = append(d.asked, fmt.Sprintf("permission for %s: %s, %d options", p.ToolCall.ToolCallId, *p.ToolCall.Title, len(p.Options)))
	d.mu.Unlock()
	return permit(ctx, p), nil
}

func (d *desk) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, fmt.Sprintf(format, args...))
}

// got checks the requests since the last call.
func (d *desk) got(want ...string) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if diff := cmp.Diff(want, d.asked); diff != "" {
		d.t.Fatalf("requests (-want +got):\n%s", diff)
	}
	d.asked = nil
}

func (d *desk) ReadTextFile(_ context.Context, p acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	d.note("read %s", p.Path)
	return acp.ReadTextFileResponse{Content: d.files[p.Path]}, nil
}

func (d *desk) WriteTextFile(_ context.Context, p acp.WriteTextFileRequest) (acp.WriteTextFileResponse, error) {
	d.note("write %s: %s", p.Path, p.Content)
	return acp.WriteTextFileResponse{}, nil
}

func (d *desk) CreateTerminal(_ context.Context, p acp.CreateTerminalRequest) (acp.CreateTerminalResponse, error) {
	d.note("run %s %q in %s", p.Command, p.Args, *p.Cwd)
	return acp.CreateTerminalResponse{TerminalId: "t1"}, nil
}

func (d *desk) WaitForTerminalExit(context.Context, acp.WaitForTerminalExitRequest) (acp.WaitForTerminalExitResponse, error) {
	return acp.WaitForTerminalExitResponse{ExitCode: new(1)}, nil
}

func (d *desk) TerminalOutput(context.Context, acp.TerminalOutputRequest) (acp.TerminalOutputResponse, error) {
	return acp.TerminalOutputResponse{Output: "FAIL"}, nil
}

func (d *desk) ReleaseTerminal(context.Context, acp.ReleaseTerminalRequest) (acp.ReleaseTerminalResponse, error) {
	d.note("release")
	return acp.ReleaseTerminalResponse{}, nil
}

func (d *desk) KillTerminal(context.Context, acp.KillTerminalRequest) (acp.KillTerminalResponse, error) {
	return acp.KillTerminalResponse{}, nil
}

func TestPromptStreamsUpdates(t *testing.T) {
	model := llmtest.Scripted(t,
		llmtest.Turn{Message: llm.Message{Role: llm.RoleAI, Blocks: []llm.Block{{Type: llm.BlockReasoning, Reasoning: "hm"}, {Type: llm.BlockText, Text: "I look."}},
			ToolCalls: []llm.ToolCall{{ID: "c1", Name: "look", Args: json.RawMessage(`{"File":"a"}`)}}}},
		llmtest.Say("It is fine."), llmtest.Say("Bye."))
	url, _ := serve(t, ":memory:", helper(t, model))
	d := open(t, url)
	id := d.create()
	d.say(id, "Look at a.", acp.StopReasonEndTurn,
		"thought: hm", "agent: I look.", "call c1: look, other, pending", `call c1: in_progress {"File":"a"}`, `call c1: completed "done: a"`, "agent: It is fine.")
	d.say(id, "Bye", acp.StopReasonEndTurn, "agent: Bye.")
	d.load(id)
	d.saw("user: Look at a.", "thought: hm", "agent: I look.", "call c1: look, other, pending", `call c1: in_progress {"File":"a"}`,
		`call c1: completed "done: a"`, "agent: It is fine.", "user: Bye", "agent: Bye.")
	all, err := d.conn.ListSessions(t.Context(), acp.ListSessionsRequest{Cwd: new("/src")})
	if err != nil || len(all.Sessions) != 1 || *all.Sessions[0].Title != "Look at a." || all.Sessions[0].Cwd != "/src" {
		t.Errorf("sessions: %+v, %v", all, err)
	}
}

func TestPermissionDecidesCalls(t *testing.T) {
	del := func(id, file string) llm.ToolCall {
		return llm.ToolCall{ID: id, Name: "delete", Args: json.RawMessage(`{"File":"` + file + `"}`)}
	}
	model := llmtest.Scripted(t, llmtest.Ask(del("c1", "a"), del("c2", "b")), llmtest.Say("One is gone."))
	url, _ := serve(t, ":memory:", helper(t, model))
	d := open(t, url)
	d.permit = func(_ context.Context, p acp.RequestPermissionRequest) acp.RequestPermissionResponse {
		if p.ToolCall.ToolCallId == "c1" {
			return choose(allowOption)
		}
		return choose(rejectOption)
	}
	id := d.create()
	got, err := d.prompt(id, "Delete a and b.")
	if err != nil || got != acp.StopReasonEndTurn {
		t.Fatal(got, err)
	}
	d.got("permission for c1: delete, 2 options", "permission for c2: delete, 2 options")
	all := strings.Join(d.lines, "\n")
	for _, want := range []string{`call c1: completed "done: a"`,
		`call c2: failed "User rejected`, "agent: One is gone."} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
}

// The editor and the server end while the user has not answered. Other processes continue.
func TestPermissionSurvivesRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db")
	call := llm.ToolCall{ID: "c1", Name: "delete", Args: json.RawMessage(`{"File":"a"}`)}
	url, stop := serve(t, file, helper(t, llmtest.Scripted(t, llmtest.Ask(call))))
	d := open(t, url)
	asked := make(chan struct{})
	d.permit = func(ctx context.Context, _ acp.RequestPermissionRequest) acp.RequestPermissionResponse {
		close(asked)
		<-ctx.Done()
		return acp.RequestPermissionResponse{Outcome: acp.RequestPermissionOutcome{Cancelled: &acp.RequestPermissionOutcomeCancelled{}}}
	}
	id := d.create()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = d.prompt(id, "Delete a.") // fails, because the connection is lost
	}()
	<-asked
	d.leave()
	<-ended
	stop()

	url, _ = serve(t, file, helper(t, llmtest.Scripted(t, llmtest.Say("It is gone."), llmtest.Say("You are welcome."))))
	d = open(t, url)
	d.permit = always(allowOption)
	d.load(id)
	d.saw("user: Delete a.", "call c1: delete, other, pending", `call c1: in_progress {"File":"a"}`)
	d.say(id, "Thanks.", acp.StopReasonEndTurn, "call c1: in_progress", `call c1: completed "done: a"`, "agent: It is gone.You are welcome.")
	d.got("permission for c1: delete, 2 options")
}

func TestCancelEndsPrompt(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Turn{Message: llm.Assistant("Well"), Hang: true}, llmtest.Say("Hello."))
	url, _ := serve(t, ":memory:", helper(t, model))
	d := open(t, url, func(d *desk) { d.seen = make(chan string, 100) })
	id := d.create()
	go func() {
		<-d.seen
		_ = d.conn.Cancel(t.Context(), acp.CancelNotification{SessionId: id})
	}()
	d.say(id, "Hi", acp.StopReasonCancelled, "agent: Well")
	d.say(id, "Hi again", acp.StopReasonEndTurn, "agent: Hello.")
}

func TestCancelDropsPendingPermission(t *testing.T) {
	call := llm.ToolCall{ID: "c1", Name: "delete", Args: json.RawMessage(`{"File":"a"}`)}
	model := llmtest.Scripted(t, llmtest.Ask(call), llmtest.Say("Fine, I keep it.", llmtest.Asked("Keep it.")))
	url, _ := serve(t, ":memory:", helper(t, model))
	d := open(t, url)
	id := d.create()
	d.permit = func(ctx context.Context, _ acp.RequestPermissionRequest) acp.RequestPermissionResponse {
		_ = d.conn.Cancel(ctx, acp.CancelNotification{SessionId: id})
		return acp.RequestPermissionResponse{Outcome: acp.RequestPermissionOutcome{Cancelled: &acp.RequestPermissionOutcomeCancelled{Outcome: "cancelled"}}}
	}
	if got, err := d.prompt(id, "Delete a."); err != nil || got != acp.StopReasonCancelled {
		t.Fatal(got, err)
	}
	d.mu.Lock()
	d.lines = nil
	d.mu.Unlock()
	if got, err := d.prompt(id, "Keep it."); err != nil || got != acp.StopReasonEndTurn {
		t.Fatal(got, err)
	}
	if all := strings.Join(d.lines, "\n"); strings.Contains(all, "done: a") || !strings.Contains(all, "agent: Fine, I keep it.") {
		t.Errorf("updates:\n%s", all)
	}
}

func TestUnknownOptionIsNoConsent(t *testing.T) {
	call := llm.ToolCall{ID: "c1", Name: "delete", Args: json.RawMessage(`{"File":"a"}`)}
	url, _ := serve(t, ":memory:", helper(t, llmtest.Scripted(t, llmtest.Ask(call), llmtest.Say("Kept."), llmtest.Say("Yes."))))
	d := open(t, url)
	d.permit = always("yes, everything")
	id := d.create()
	if _, err := d.prompt(id, "Delete a."); err == nil || !strings.Contains(err.Error(), "unknown option") {
		t.Fatalf("error %v", err)
	}
	d.permit = always(rejectOption)
	if got, err := d.prompt(id, "Is it there?"); err != nil || got != acp.StopReasonEndTurn {
		t.Fatal(got, err)
	}
	if all := strings.Join(d.lines, "\n"); strings.Contains(all, "done: a") || !strings.Contains(all, "agent: Kept.Yes.") {
		t.Errorf("updates:\n%s", all)
	}
}

// asker asks for a name, and then whether to go.
func asker(t testing.TB) treadle.AnyGraph {
	type state struct {
		Messages llm.Messages `json:"messages"`
	}
	type update struct {
		Messages llm.Messages `json:"messages"`
	}
	b := treadle.New[state]("asker")
	treadle.AddNode(b, "ask", func(ctx context.Context, _ state) (update, error) {
		name, err := treadle.Interrupt[string](ctx, "Who are you?")
		if err != nil {
			return update{}, err
		}
		ok, err := treadle.Interrupt[bool](ctx, "Shall we go?")
		return update{llm.Messages{llm.Assistant(fmt.Sprintf("%s: %v", name, ok))}}, err
	})
	b.Edge(treadle.Start, "ask")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestQuestionTakesNextPrompt(t *testing.T) {
	url, _ := serve(t, ":memory:", asker(t))
	d := open(t, url)
	d.permit = always(allowOption)
	id := d.create()
	d.say(id, "Hi", acp.StopReasonEndTurn, "agent: Who are you?")
	got, err := d.prompt(id, "Ada")
	if err != nil || got != acp.StopReasonEndTurn {
		t.Fatal(got, err)
	}
	d.saw("agent: Ada: true")
	if len(d.asked) != 1 || !strings.HasSuffix(d.asked[0], ": Shall we go?, 2 options") {
		t.Errorf("requests %q", d.asked)
	}
}

func TestEditorRunsItsTools(t *testing.T) {
	model := llmtest.Scripted(t,
		llmtest.Ask(llmtest.ToolCall("editor_read_file", `{"path":"a.txt"}`)),
		llmtest.Ask(llmtest.ToolCall("editor_read_file", `{"path":"../secret"}`)),
		llmtest.Ask(llmtest.ToolCall("editor_write_file", `{"path":"/src/b.txt","content":"new"}`)),
		llmtest.Ask(llmtest.ToolCall("editor_run_command", `{"command":"go","args":["test"]}`)),
		llmtest.Say("Done.", llmtest.Asked("FAIL\n[exit code 1]")))
	url, _ := serve(t, ":memory:", helper(t, model, agent.ClientTools()))
	d := open(t, url, func(d *desk) {
		d.can = acp.ClientCapabilities{Fs: acp.FileSystemCapabilities{ReadTextFile: true, WriteTextFile: true}, Terminal: true}
		d.permit = always(allowOption)
		d.files["/src/a.txt"] = "old"
	})
	d.say(d.create(), "Test it.", acp.StopReasonEndTurn,
		"call call_1: editor_read_file, read, pending", `call call_1: in_progress {"path":"a.txt"}`, `call call_1: completed "old"`,
		"call call_2: editor_read_file, read, pending", `call call_2: in_progress {"path":"../secret"}`,
		`call call_2: failed "path \"../secret\" is outside of the folder /src"`,
		"call call_3: editor_write_file, edit, pending", `call call_3: in_progress {"content":"new","path":"/src/b.txt"} diff of /src/b.txt: "new"`,
		"call call_3: in_progress", "call call_3: completed",
		"call call_4: editor_run_command, execute, pending", `call call_4: in_progress {"args":["test"],"command":"go"}`,
		"call call_4: in_progress terminal t1", `call call_4: completed "FAIL\n[exit code 1]"`, "agent: Done.")
	d.got("read /src/a.txt", "permission for call_3: editor_write_file /src/b.txt, 2 options", "write /src/b.txt: new",
		"permission for call_4: go test, 2 options", `run go ["test"] in /src`, "release")
}

func TestToolsAreOfferedByCapability(t *testing.T) {
	url, _ := serve(t, ":memory:", helper(t, llmtest.Scripted(t,
		llmtest.Turn{Message: llm.Assistant("Hi."), Expect: []func(*llm.Request) error{llmtest.Offered("delete", "look", "editor_read_file")}}), agent.ClientTools()))
	d := open(t, url, func(d *desk) { d.can.Fs.ReadTextFile = true })
	d.say(d.create(), "Hi", acp.StopReasonEndTurn, "agent: Hi.")
}

func TestPlanAndDiffs(t *testing.T) {
	edit := llm.NewTool("edit_file", "Edits a file.", func(context.Context, struct {
		FilePath  string `json:"file_path"`
		OldString string `json:"old_string"`
		NewString string `json:"new_string"`
	}) (string, error) {
		return "edited", nil
	})
	g, err := agent.New(llmtest.Scripted(t,
		llmtest.Ask(llmtest.ToolCall("write_todos", `{"todos":[{"content":"edit","status":"in_progress"}]}`)),
		llmtest.Ask(llmtest.ToolCall("edit_file", `{"file_path":"a.go","old_string":"x","new_string":"y"}`)),
		llmtest.Say("Done.")), &agent.Options{Tools: []*llm.Tool{edit}, Middleware: []*agent.Middleware{agent.Todos()}})
	if err != nil {
		t.Fatal(err)
	}
	url, _ := serve(t, ":memory:", g)
	d := open(t, url)
	d.say(d.create(), "Edit.", acp.StopReasonEndTurn,
		"call call_1: write_todos, think, pending", `call call_1: in_progress {"todos":[{"content":"edit","status":"in_progress"}]}`, "plan: 1 entries, first in_progress",
		`call call_1: completed "Updated the to-do list:\n- [in_progress] edit"`,
		"call call_2: edit_file, edit, pending", `call call_2: in_progress {"file_path":"a.go","new_string":"y","old_string":"x"} diff of /src/a.go: "x" to "y"`,
		"call call_2: completed", "agent: Done.")
}

func TestFailedRunFailsPrompt(t *testing.T) {
	url, _ := serve(t, ":memory:", helper(t, llmtest.NewScript()))
	d := open(t, url)
	if _, err := d.prompt(d.create(), "Hi"); err == nil || !strings.Contains(err.Error(), "run") {
		t.Errorf("error %v", err)
	}
}

func TestForgedSessionsAreRejected(t *testing.T) {
	url, _ := serve(t, ":memory:", helper(t, llmtest.NewScript()), asker(t))
	c, err := client.New(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := c.Threads.Create(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := c.Threads.Create(t.Context(), &client.ThreadCreate{Metadata: map[string]any{assistantKey: "another"}})
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, url, func(d *desk) { d.assistant = "helper" })
	for _, id := range []string{foreign.ID, other.ID, "x", "", "../threads", strings.Repeat("a", 1<<20), "00000000-0000-0000-0000-000000000000"} {
		_, err := d.conn.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: acp.SessionId(id), Cwd: "/", McpServers: []acp.McpServer{}})
		rejected(t, err)
		_, err = d.conn.ResumeSession(t.Context(), acp.ResumeSessionRequest{SessionId: acp.SessionId(id), Cwd: "/"})
		rejected(t, err)
		_, err = d.prompt(acp.SessionId(id), "Hi")
		rejected(t, err)
	}
	_, err = d.conn.NewSession(t.Context(), acp.NewSessionRequest{Cwd: "work", McpServers: []acp.McpServer{}})
	rejected(t, err)
	_, err = d.conn.ListSessions(t.Context(), acp.ListSessionsRequest{Cursor: new("-1")})
	rejected(t, err)
	_, err = d.conn.Prompt(t.Context(), acp.PromptRequest{SessionId: d.create(), Prompt: []acp.ContentBlock{acp.AudioBlock("AAAA", "audio/wav")}})
	rejected(t, err)
}

func rejected(t *testing.T, err error) {
	t.Helper()
	if e, ok := errors.AsType[*acp.RequestError](err); !ok || e.Code != -32602 && e.Code != -32002 || len(e.Error()) > 1000 {
		t.Errorf("error %.200v, want a short one about invalid parameters or an unknown session", err)
	}
}

func TestGarbageLeavesSessionIntact(t *testing.T) {
	url, _ := serve(t, ":memory:", helper(t, llmtest.Scripted(t, llmtest.Say("Hello."))))
	d := open(t, url)
	id := d.create()
	for _, line := range []string{"garbage", "null", "[]", "{}", `{"id":{},"method":"session/prompt"}`, `{"jsonrpc":"2.0","id":"r","method":"session/prompt","params":[1]}`,
		`{"jsonrpc":"2.0","id":9999,"result":{"outcome":{"outcome":"selected","optionId":"allow"}}}`, `{"method":"session/cancel","params":{"sessionId":"x"}}`,
		`{"jsonrpc":"2.0","id":1e999999,"method":"initialize"}`, strings.Repeat("[", 100_000), "\x00\xff"} {
		if _, err := io.WriteString(d.raw, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	d.say(id, "Hi", acp.StopReasonEndTurn, "agent: Hello.")
}

func TestHugePromptEndsConnectionOnly(t *testing.T) {
	url, _ := serve(t, ":memory:", helper(t, llmtest.Scripted(t, llmtest.Say("Hello."))))
	d := open(t, url)
	id := d.create()
	if _, err := d.prompt(id, strings.Repeat("a", 11<<20)); err == nil {
		t.Fatal("huge prompt accepted")
	}
	d.leave()
	d = open(t, url)
	d.load(id)
	d.saw()
	d.say(id, "Hi", acp.StopReasonEndTurn, "agent: Hello.")
}
