package llmtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle/llm"
)

func contents(t *testing.T, model llm.Model, history ...llm.Message) (out []string, last llm.Chunk) {
	t.Helper()
	for c, err := range llm.Stream(t.Context(), model, history...) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c.Content)
		last = c
	}
	return out, last
}

func TestScriptStreamsItsTurns(t *testing.T) {
	used := llm.Assistant("and")
	used.Usage = &llm.Usage{Total: 3}
	script := Scripted(t, Say("one two  three"), Turn{Message: used}, Turn{Chunks: []llm.Chunk{{Content: "a b"}, {Content: "c"}}}, Say("whole thing"), Say(""))
	got, last := contents(t, script, llm.User("count"))
	diff(t, "the words", []string{"one ", "two  ", "three"}, got)
	if last.Stop != llm.StopEnd {
		t.Errorf("the last chunk stops for %q", last.Stop)
	}
	got, last = contents(t, script, llm.User("and?"))
	diff(t, "the words and the final chunk", []string{"and", ""}, got)
	if last.Usage == nil {
		t.Error("the usage is not at the end")
	}
	got, _ = contents(t, script, llm.User("pieces"))
	diff(t, "the test's own pieces", []string{"a b", "c"}, got)
	got, _ = contents(t, llm.With(script, llm.NoStream()), llm.User("at once"))
	diff(t, "the whole", []string{"whole thing"}, got)
	got, _ = contents(t, script, llm.User("nothing"))
	diff(t, "an empty answer", []string{""}, got)
	if n := len(script.Requests()); n != 5 || script.Requests()[0].Messages[0].Text() != "count" {
		t.Errorf("%d requests are kept", n)
	}
}

func TestScriptAsksForTools(t *testing.T) {
	thought := llm.Message{Role: llm.RoleAI, Blocks: []llm.Block{{Type: llm.BlockReasoning, Reasoning: "let me think", Extra: map[string]any{"signature": "s"}}, llm.Text("hm"), llm.ImageURL("u")}}
	script := Scripted(t, Ask(ToolCall("f", map[string]int{"a": 1}), llm.ToolCall{ID: "mine", Name: "g"}), Ask(ToolCall("f", `{}`)), Turn{Message: thought})
	m, err := llm.Generate(t.Context(), script, llm.User("u"))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "the calls", llm.Assistant("", llm.ToolCall{ID: "call_1", Name: "f", Args: []byte(`{"a":1}`)}, llm.ToolCall{ID: "mine", Name: "g", Args: []byte("{}")}).ToolCalls, m.ToolCalls)
	if m.Stop != llm.StopTools {
		t.Errorf("it stops for %q", m.Stop)
	}
	again, err := llm.Generate(t.Context(), script, llm.User("u"))
	if err != nil || again.ToolCalls[0].ID != "call_3" {
		t.Errorf("the next call is %+v, %v; want an id of its own", again.ToolCalls, err)
	}
	m, err = llm.Generate(t.Context(), script, llm.User("u"))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "the blocks", thought.Blocks, m.Blocks)
}

func TestScriptFails(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		name   string
		script *Script
		want   string
	}{
		{"when it is over", NewScript(), `request 1: script has no more turns; the last message is "hi"`},
		{"when the prompt is another", NewScript(Say("x", Asked("hello"))), `request 1: last message is "hi": want "hello" in it`},
		{"when the messages differ", NewScript(Say("x", Heard(llm.User("hello")))), "messages differ"},
		{"when the tools are others", NewScript(Say("x", Offered("f"))), `tools are [], want ["f"]`},
		{"when it should", NewScript(Fail(broken)), "broken"},
	} {
		if _, err := llm.Generate(t.Context(), test.script, llm.User("hi")); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, want one with %q", test.name, err, test.want)
		}
	}
	if err := Heard(llm.User("hi"))(&llm.Request{Messages: llm.Messages{{Role: llm.RoleHuman, ID: "1", Content: "hi"}}}); err != nil {
		t.Errorf("the same messages are not: %v", err)
	}
}

func TestScriptRejectsInvalidHistory(t *testing.T) {
	call := llm.Assistant("", llm.ToolCall{ID: "c", Name: "f"})
	answer := llm.ToolResult(call.ToolCalls[0], "x")
	twice := llm.Message{Role: llm.RoleHuman, ID: "1", Content: "x"}
	for want, history := range map[string][]llm.Message{
		"missing result":                      {llm.User("u"), call},
		"without a matching call":             {llm.User("u"), answer},
		"system message after other messages": {llm.User("u"), llm.System("s")},
		"starts with an AI message":           {llm.System("s"), llm.Assistant("a"), llm.User("u")},
		"empty message":                       {llm.User("u"), llm.Assistant("a"), llm.User("")},
		"another message has the same ID":     {twice, twice},
		"only system messages":                {llm.System("s")},
		"no messages":                         {},
		"call c are not a JSON object":        {llm.User("u"), llm.Assistant("", llm.ToolCall{ID: "c", Name: "f", Args: []byte("[1]")}), answer},
	} {
		// Past Generate, which would repair some of it.
		_, err := llm.Collect(NewScript(Say("x")).Stream(t.Context(), &llm.Request{Messages: history}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
	if _, err := llm.Collect(NewScript(Say("x")).Stream(t.Context(), &llm.Request{Messages: llm.Messages{llm.System("s"), llm.User("u"), call, answer, llm.User("u")}})); err != nil {
		t.Errorf("a good history is refused: %v", err)
	}
}

func TestScriptDelaysChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		turn := Say("one two")
		turn.Delay = time.Second
		if _, err := llm.Generate(t.Context(), Scripted(t, turn), llm.User("u")); err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("it took %v (%v), want 2s", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m, err := llm.Generate(ctx, Scripted(t, Turn{Message: llm.Assistant("one"), Hang: true}), llm.User("u"))
		if !errors.Is(err, context.DeadlineExceeded) || m.Text() != "one" || m.Stop != "" {
			t.Errorf("a model that hangs gave %+v, %v", m, err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		turn.Delay = time.Hour
		if _, err := llm.Generate(ctx, Scripted(t, turn), llm.User("u")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a slow model gave %v", err)
		}
	})
}

// witness is a test that notes its failures.
type witness struct {
	testing.TB
	errors  []string
	cleanup []func()
}

func (w *witness) Error(args ...any) { w.errors = append(w.errors, fmt.Sprint(args...)) }
func (w *witness) Errorf(format string, args ...any) {
	w.errors = append(w.errors, fmt.Sprintf(format, args...))
}
func (w *witness) Cleanup(f func()) { w.cleanup = append(w.cleanup, f) }
func (w *witness) Failed() bool     { return false }

func TestScriptedFailsItsTest(t *testing.T) {
	w := &witness{TB: t}
	script := Scripted(w, Say("x", Asked("something else")), Say("y"))
	if _, err := llm.Generate(t.Context(), script, llm.User("hi")); err == nil {
		t.Error("the request was answered")
	}
	for _, f := range w.cleanup {
		f()
	}
	if len(w.errors) != 2 || !strings.Contains(w.errors[0], `want "something else" in it`) || !strings.Contains(w.errors[1], "2 turns of the script were not used") {
		t.Errorf("the test failed with %q", w.errors)
	}
}

func TestCassetteReplaysRecording(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tapes")
	limited := &llm.Error{Provider: "llmtest", Status: 429, Message: "slow down", RetryAfter: time.Second}
	script := Scripted(t, Say("one two"), Say("three"), Ask(ToolCall("f", `{"a":1}`)), Fail(limited), Fail(errors.New("plain")))
	script.NativeOutput = true
	tool := llm.NewTool("f", "d", func(context.Context, struct{ A int }) (string, error) { return "", nil })
	play := func(model llm.Model) (out []string) {
		say := func(m llm.Message, err error) {
			line := m.Text()
			for _, c := range m.ToolCalls {
				line += fmt.Sprintf("%s(%s)=%s", c.Name, c.Args, c.ID)
			}
			if e, ok := errors.AsType[*llm.Error](err); ok {
				line += fmt.Sprint(e, e.Temporary())
			} else if err != nil {
				line += err.Error()
			}
			out = append(out, line)
		}
		for _, text := range []string{"count", "count"} { // the second call continues
			say(llm.Generate(t.Context(), model, llm.User(text)))
		}
		say(llm.Generate(t.Context(), llm.With(model, llm.Tools(tool), llm.Temperature(0)), llm.Message{Role: llm.RoleHuman, ID: fmt.Sprint(time.Now()), Content: "call"}))
		say(llm.Generate(t.Context(), model, llm.User("fail")))
		say(llm.Generate(t.Context(), model, llm.User("fail plainly")))
		return out
	}
	want := []string{"one two", "three", `f({"a":1})=call_1`, "llmtest: 429 Too Many Requests: slow down (retry after 1s) true", "plain"}
	diff(t, "while recording", want, play(NewCassette(dir, script)))
	replayed := NewCassette(dir, nil)
	diff(t, "replayed", want, play(replayed))
	if info := replayed.Describe(); !info.NativeOutput || info.Provider != "llmtest" {
		t.Errorf("the replayed model says it is %+v", info)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 5 {
		t.Errorf("%d files, %v; want 5", len(files), err)
	}
	if _, err := llm.Generate(t.Context(), replayed, llm.User("something new")); err == nil || !strings.Contains(err.Error(), `no call is recorded for the request that ends with "something new"`) {
		t.Errorf("a new request gave %v", err)
	}
}

func TestCassetteRejectsBrokenTape(t *testing.T) {
	dir := t.TempDir()
	if _, err := llm.Generate(t.Context(), NewCassette(dir, NewScript(Say("x"))), llm.User("u")); err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(dir + "/*.json")
	if err := os.WriteFile(names[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := llm.Generate(t.Context(), NewCassette(dir, NewScript(Say("x"))), llm.User("u")); err == nil || !strings.Contains(err.Error(), names[0]) {
		t.Errorf("a broken tape gave %v, want an error that names it", err)
	}
}
