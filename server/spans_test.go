package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// spansOf is the response of the list of spans.
type spansOf struct {
	Spans     []ledger.Span       `json:"spans"`
	Next      *string             `json:"next_cursor"`
	Recording bool                `json:"recording"`
	Redacted  bool                `json:"redacted"`
	Omitted   ledger.SpansOmitted `json:"omitted"`
}

// pause waits before another look.
func pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(5 * time.Millisecond):
	case <-t.Context().Done():
	}
}

// openFile opens a new SQLite database.
func openFile(t *testing.T) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "treadle.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// say runs an agent on a new thread to its end and returns the path of the run.
func (c *client) say(assistant, text string) (thread, run string) {
	c.t.Helper()
	thread = c.thread()
	head := c.ok("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"`+assistant+`","input":{"messages":[{"role":"user","content":`+asJSON(c.t, text)+`}]}}`, nil)
	return thread, head.Get("Content-Location")
}

// spans returns all spans of a run with their contents.
func (c *client) spans(run string) (s spansOf) {
	c.t.Helper()
	c.ok("GET", run+"/spans?content=true", "", &s)
	return s
}

type city struct {
	City string `json:"city"`
}

// weatherTool answers questions about the weather with the help of a model.
func weatherTool(model llm.Model) *llm.Tool {
	return llm.NewTool("weather", "Tell the weather.", func(ctx context.Context, in city) (string, error) {
		if model == nil {
			return "rain in " + in.City, nil
		}
		m, err := llm.Generate(ctx, model, llm.User("weather in "+in.City))
		return m.Text(), err
	})
}

// replies returns a model that takes turns by the length of the conversation.
func replies(turns map[int]llm.Message) llmtest.Func {
	return func(_ context.Context, r *llm.Request) (llm.Message, error) { return turns[len(r.Messages)], nil }
}

// weatherAgent asks its tool once. flaky fails the first request.
func weatherAgent(t *testing.T, name string, inner llm.Model, flaky bool) treadle.AnyGraph {
	t.Helper()
	failed := !flaky
	final := llm.Assistant("Take an umbrella.")
	final.Usage = &llm.Usage{Input: 120, Output: 20, Total: 140}
	turns := replies(map[int]llm.Message{2: llm.Assistant("", llmtest.ToolCall("weather", city{"Oslo"})), 4: final})
	model := llmtest.Func(func(ctx context.Context, r *llm.Request) (llm.Message, error) {
		if !failed {
			failed = true
			return llm.Message{}, &llm.Error{Provider: "llmtest", Status: 503, Message: "overloaded"}
		}
		return turns(ctx, r)
	})
	g, err := agent.New(model, &agent.Options{Name: name, Prompt: "You know the weather.", Tools: []*llm.Tool{weatherTool(inner)},
		Middleware: []*agent.Middleware{agent.RetryModel(&treadle.RetryPolicy{Initial: time.Millisecond})}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestSpansContainSentData(t *testing.T) {
	c := startGraphs(t, openFile(t), &server.Options{Spans: &server.SpanOptions{}}, weatherAgent(t, "weather", replies(map[int]llm.Message{1: llm.Assistant("rain")}), true))
	thread, run := c.say("weather", "Do I need an umbrella?")
	got := c.spans(run)
	if len(got.Spans) != 4 || got.Next != nil || !got.Recording || got.Omitted != (ledger.SpansOmitted{}) {
		t.Fatalf("got %d spans: %s", len(got.Spans), asJSON(t, got))
	}
	first := got.Spans[0]
	tool := got.Spans[1]
	nested := got.Spans[2]
	last := got.Spans[3]
	for i, want := range []string{"model func model", "tool weather tools", "model func tools", "model func model"} {
		s := got.Spans[i]
		if is := s.Kind + " " + s.Name + " " + s.Node; is != want || s.Status != ledger.SpanSuccess || s.Thread.String() != thread || s.Graph != "weather" || s.RunAttempt != 1 ||
			s.Checkpoint == nil || s.Task == "" || len(s.Path) != 1 || s.Path[0].Node != s.Node || s.Ended == nil || s.Ended.Before(s.Started) || !s.HasContent {
			t.Errorf("span %d is %s, want %s", i, asJSON(t, s), want)
		}
		if !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(s.SpanID) || !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(s.TraceID) {
			t.Errorf("span %d has the IDs %q and %q", i, s.SpanID, s.TraceID)
		}
	}
	if nested.Parent == nil || *nested.Parent != tool.SpanID || first.Parent != nil || tool.Parent != nil {
		t.Errorf("parents: %v, %v, %v", first.Parent, tool.Parent, nested.Parent)
	}
	if len(first.Attempts) != 2 || first.Attempts[0].Error == nil || !strings.Contains(*first.Attempts[0].Error, "overloaded") || first.Attempts[1].Error != nil || first.Attempts[1].Ended == nil {
		t.Errorf("attempts: %s", asJSON(t, first.Attempts))
	}
	var in struct {
		Messages []llm.Message
		Tools    []struct{ Name, Description string }
	}
	if err := json.Unmarshal(first.Input, &in); err != nil {
		t.Fatal(err)
	}
	if len(in.Messages) != 2 || in.Messages[0].Text() != "You know the weather." || in.Messages[1].Text() != "Do I need an umbrella?" || len(in.Tools) != 1 || in.Tools[0].Description != "Tell the weather." {
		t.Errorf("input: %s", first.Input)
	}
	if string(tool.Input) != `{"city":"Oslo"}` || string(tool.Output) != `"rain"` || tool.ToolCall == "" {
		t.Errorf("tool: %s, %s", tool.Input, tool.Output)
	}
	if !bytes.Contains(last.Output, []byte("Take an umbrella.")) || !bytes.Contains(last.Usage, []byte(`"input_tokens":120`)) || last.Step <= first.Step {
		t.Errorf("last span: %s", asJSON(t, last))
	}
	var one ledger.Span
	c.ok("GET", run+"/spans/"+last.SpanID, "", &one)
	if asJSON(t, one) != asJSON(t, last) {
		t.Errorf("single span: %s, want %s", asJSON(t, one), asJSON(t, last))
	}
	if status, _, raw := c.do("GET", run+"/spans/0000000000000000", ""); status != http.StatusNotFound {
		t.Errorf("unknown span: %d %s", status, raw)
	}
}

func TestSpansArePaged(t *testing.T) {
	c := startGraphs(t, openFile(t), &server.Options{Spans: &server.SpanOptions{}}, weatherAgent(t, "weather", nil, false))
	_, run := c.say("weather", "Do I need an umbrella?")
	var names []string
	for path, pages := run+"/spans?limit=1", 1; ; pages++ {
		var p spansOf
		c.ok("GET", path, "", &p)
		for _, s := range p.Spans {
			names = append(names, s.Name)
			if s.Input != nil || s.Output != nil {
				t.Errorf("unrequested content: %s", asJSON(t, s))
			}
		}
		if p.Next == nil {
			if pages != 3 {
				t.Errorf("got %d pages", pages)
			}
			break
		}
		path = run + "/spans?limit=1&cursor=" + *p.Next
	}
	if strings.Join(names, " ") != "func weather func" {
		t.Errorf("got %v", names)
	}
	for _, query := range []string{"limit=0", "limit=1001", "cursor=x", "content=maybe"} {
		if status, _, raw := c.do("GET", run+"/spans?"+query, ""); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", query, status, raw)
		}
	}
}

func TestSpansAreOffByDefault(t *testing.T) {
	db := newMemory()
	c := startGraphs(t, db, nil, weatherAgent(t, "weather", nil, false))
	_, run := c.say("weather", "Do I need an umbrella?")
	if got := c.spans(run); len(got.Spans) != 0 || got.Recording {
		t.Errorf("got %s", asJSON(t, got))
	}
	for r, err := range db.rows.Find(t.Context(), &ledger.Query{Kind: ledger.Spans}) {
		t.Errorf("stored %v, %v", r, err)
	}
}

func TestSpanLimits(t *testing.T) {
	long := strings.Repeat("word ", 10_000)
	c := startGraphs(t, openFile(t), &server.Options{Spans: &server.SpanOptions{MaxSpan: 4 << 10, MaxSpans: 2}}, weatherAgent(t, "weather", nil, false))
	_, run := c.say("weather", "start "+long)
	got := c.spans(run)
	if len(got.Spans) != 2 || got.Omitted.Spans != 1 {
		t.Fatalf("got %d spans, omitted %+v", len(got.Spans), got.Omitted)
	}
	s := got.Spans[0]
	if len(s.Cut) != 1 || s.Cut[0].Path != "input.messages[1].content" || s.Cut[0].Bytes < 45_000 || len(s.Input) > 4<<10 || !bytes.Contains(s.Input, []byte("start word")) || !bytes.Contains(s.Input, []byte("bytes cut]")) {
		t.Errorf("cut %v in %d bytes: %s", s.Cut, len(s.Input), s.Input)
	}
	c = startGraphs(t, openFile(t), &server.Options{Spans: &server.SpanOptions{MaxRun: 1 << 10}}, weatherAgent(t, "weather", nil, false))
	_, run = c.say("weather", "start "+long)
	got = c.spans(run)
	if len(got.Spans) != 3 || got.Omitted.Bytes < 100_000 || got.Spans[0].Input != nil || len(got.Spans[0].Cut) != 1 || got.Spans[0].Cut[0].Path != "input" || got.Spans[1].Output == nil {
		t.Errorf("got %s", asJSON(t, got))
	}
}

func TestSpansAreRedacted(t *testing.T) {
	card := regexp.MustCompile(`\d{4} \d{4}`)
	redact := func(s string) string {
		if strings.Contains(s, "umbrella") {
			panic("no umbrellas")
		}
		return card.ReplaceAllString(s, "[card]")
	}
	db := openFile(t)
	c := startGraphs(t, db, &server.Options{Spans: &server.SpanOptions{Redact: redact}}, weatherAgent(t, "weather", nil, false))
	_, run := c.say("weather", "My card is 1234 5678.")
	spans := c.spans(run)
	text := asJSON(t, spans)
	if !spans.Redacted {
		t.Error("the list does not say that texts are redacted")
	}
	if strings.Contains(text, "1234") || !strings.Contains(text, "My card is [card].") || strings.Contains(text, "Take an umbrella") || !strings.Contains(text, "Redact panicked") {
		t.Errorf("got %s", text)
	}
	var info struct {
		Treadle struct {
			Spans struct{ Recording, Content, Redacted bool }
		}
	}
	c.ok("GET", "/info", "", &info)
	if got := info.Treadle.Spans; !got.Recording || !got.Content || !got.Redacted {
		t.Errorf("info: got %+v", got)
	}
	c = startGraphs(t, openFile(t), &server.Options{Spans: &server.SpanOptions{NoContent: true}}, weatherAgent(t, "weather", nil, true))
	_, run = c.say("weather", "My card is 1234 5678.")
	got := c.spans(run)
	text = asJSON(t, got)
	if len(got.Spans) != 3 || strings.Contains(text, "card") || strings.Contains(text, "overloaded") || got.Spans[0].HasContent || len(got.Spans[0].Attempts) != 2 || got.Spans[2].Usage == nil {
		t.Errorf("without content: %s", text)
	}
}

// sealed is a database whose checkpoints are encrypted.
type sealed struct {
	whole
	db *sqlite.DB
}

// whole is what a server needs of a saver.
type whole interface {
	checkpoint.Saver
	checkpoint.Fencer
	checkpoint.RunDeleter
	checkpoint.Copier
	checkpoint.Pruner
	checkpoint.Sizer
}

func (s *sealed) Ledger() ledger.Backend { return s.db.Ledger() }

func (s *sealed) Store(o *store.Options) (*store.Store, error) { return s.db.Store(o) }

// seal returns a database around db that encrypts checkpoints.
func seal(t *testing.T, db *sqlite.DB) server.Database {
	t.Helper()
	saver, err := checkpoint.Encrypted(db, checkpoint.EncryptionKey{ID: 1, Secret: bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	w, ok := saver.(whole)
	if !ok {
		t.Fatalf("%T lacks methods that a server needs", saver)
	}
	return &sealed{w, db}
}

func TestEncryptedThreadsHaveNoSpanContent(t *testing.T) {
	c := startGraphs(t, seal(t, openFile(t)), &server.Options{Spans: &server.SpanOptions{}}, weatherAgent(t, "weather", nil, false))
	_, run := c.say("weather", "My card is 1234 5678.")
	got := c.spans(run)
	if text := asJSON(t, got); len(got.Spans) != 3 || got.Spans[0].HasContent || strings.Contains(text, "card") || strings.Contains(text, "Oslo") {
		t.Errorf("got %s", text)
	}
}

// decides is a database that decides whether it encrypts.
type decides struct {
	*sealed
	encrypts bool
}

func (d *decides) Encrypts() bool { return d.encrypts }

func TestSpanContentNeedsPlainDatabase(t *testing.T) {
	keys := []checkpoint.EncryptionKey{{ID: 1, Secret: bytes.Repeat([]byte{7}, 32)}}
	for name, test := range map[string]struct {
		db      server.Database
		store   *store.Options
		content bool
	}{
		"plain":     {openFile(t), nil, true},
		"items":     {openFile(t), &store.Options{Keys: keys}, false},
		"saver":     {seal(t, openFile(t)), nil, false},
		"encrypts":  {&decides{seal(t, openFile(t)).(*sealed), true}, nil, false},
		"decrypted": {&decides{seal(t, openFile(t)).(*sealed), false}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := startGraphs(t, test.db, &server.Options{Spans: &server.SpanOptions{}, Store: test.store}, weatherAgent(t, "weather", nil, false))
			_, run := c.say("weather", "My card is 1234 5678.")
			if got := c.spans(run); len(got.Spans) != 3 || got.Spans[0].HasContent != test.content {
				t.Errorf("got %s", asJSON(t, got))
			}
		})
	}
}

func TestSpansAreDeletedWithRunAndThread(t *testing.T) {
	db := openFile(t)
	c := startGraphs(t, db, &server.Options{Spans: &server.SpanOptions{}}, weatherAgent(t, "weather", nil, false))
	count := func() (n int) {
		for _, err := range db.Ledger().Find(t.Context(), &ledger.Query{Kind: ledger.Spans, DueBy: time.Now().AddDate(1, 0, 0), Order: ledger.DueFirst}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	_, first := c.say("weather", "Oslo?")
	thread, second := c.say("weather", "Oslo?")
	other, third := c.say("weather", "Oslo?")
	if n := count(); n != 9 {
		t.Fatalf("stored %d spans", n)
	}
	c.ok("DELETE", first, "", nil)
	c.ok("DELETE", "/threads/"+thread, "", nil)
	if n := count(); n != 3 {
		t.Errorf("%d spans are left, want those of %s", n, other)
	}
	if n := len(c.spans(third).Spans); n != 3 {
		t.Errorf("the other run has %d spans", n)
	}
	for _, run := range []string{first, second} {
		if status, _, raw := c.do("GET", run+"/spans", ""); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", run, status, raw)
		}
	}
}

func TestSpansOfOtherUsersAreHidden(t *testing.T) {
	auth := &server.Auth{Authenticate: func(r *http.Request) (*server.User, error) {
		return &server.User{Identity: r.Header.Get("X-User")}, nil
	}, On: server.OwnerRules()}
	c := startGraphs(t, openFile(t), &server.Options{Auth: auth, Spans: &server.SpanOptions{}}, weatherAgent(t, "weather", nil, false))
	c.head.Set("X-User", "ann")
	_, run := c.say("weather", "Oslo?")
	id := c.spans(run).Spans[0].SpanID
	c.head.Set("X-User", "bob")
	mine := c.thread()
	_, rest, _ := strings.Cut(strings.TrimPrefix(run, "/threads/"), "/")
	for _, path := range []string{run + "/spans", run + "/spans/" + id, "/threads/" + mine + "/" + rest + "/spans", "/threads/" + mine + "/" + rest + "/spans/" + id} {
		if status, _, raw := c.do("GET", path, ""); status != http.StatusNotFound || bytes.Contains(raw, []byte("Oslo")) {
			t.Errorf("%s: %d %s", path, status, raw)
		}
	}
}

func TestFailedCallsAreSpans(t *testing.T) {
	model := replies(map[int]llm.Message{1: llm.Assistant("", llmtest.ToolCall("broken", city{"Oslo"})), 3: llm.Assistant("sorry")})
	broken := llm.NewTool("broken", "Fail.", func(context.Context, city) (string, error) { return "", errors.New("no such city") })
	ask := llm.NewTool("ask", "Ask.", func(ctx context.Context, _ city) (string, error) { return treadle.Interrupt[string](ctx, "sure?") })
	asking := replies(map[int]llm.Message{1: llm.Assistant("", llmtest.ToolCall("ask", city{"Oslo"}))})
	var graphs []treadle.AnyGraph
	for name, a := range map[string]struct {
		model llm.Model
		tool  *llm.Tool
	}{"fails": {model, broken}, "asks": {asking, ask}} {
		g, err := agent.New(a.model, &agent.Options{Name: name, Tools: []*llm.Tool{a.tool}})
		if err != nil {
			t.Fatal(err)
		}
		graphs = append(graphs, g)
	}
	c := startGraphs(t, openFile(t), &server.Options{Spans: &server.SpanOptions{}}, graphs...)
	_, run := c.say("fails", "go")
	if s := c.spans(run).Spans[1]; s.Status != ledger.SpanError || s.Error == nil || !strings.Contains(s.Error.Message, "no such city") {
		t.Errorf("failed tool: %s", asJSON(t, s))
	}
	_, run = c.say("asks", "go")
	if s := c.spans(run).Spans[1]; s.Status != ledger.SpanInterrupted || s.Error != nil {
		t.Errorf("interrupted tool: %s", asJSON(t, s))
	}
}

// hangs returns an agent whose tool blocks in the first process that calls it.
func hangs(dir string) treadle.AnyGraph {
	tool := llm.NewTool("hang", "Hang.", func(ctx context.Context, _ city) (string, error) {
		mark := filepath.Join(dir, "hung")
		if _, err := os.Stat(mark); err == nil {
			return "done", nil
		}
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			return "", err
		}
		<-ctx.Done()
		return "", ctx.Err()
	})
	model := replies(map[int]llm.Message{1: llm.Assistant("", llmtest.ToolCall("hang", city{"Oslo"})), 3: llm.Assistant("bye")})
	return treadle.Must(agent.New(model, &agent.Options{Name: "hangs", Tools: []*llm.Tool{tool}}))
}

func TestSpanOfKilledProcessIsUnfinished(t *testing.T) {
	dir := t.TempDir()
	c, stop := startChild(t, dir, 0)
	thread := c.thread()
	head := c.ok("POST", "/threads/"+thread+"/runs", `{"assistant_id":"hangs","input":{"messages":[{"role":"user","content":"go"}]}}`, nil)
	run := head.Get("Content-Location")
	running := func() bool {
		s := c.spans(run).Spans
		return len(s) == 2 && s[0].Status == ledger.SpanSuccess && s[1].Status == ledger.SpanRunning
	}
	for began := time.Now(); !running(); pause(t) {
		if time.Since(began) > tooLong {
			t.Fatalf("the tool does not run: %s", asJSON(t, c.spans(run)))
		}
	}
	stop()
	c, stop = startChild(t, dir, 0)
	defer stop()
	c.ok("GET", run+"/join", "", nil)
	var got []string
	for _, s := range c.spans(run).Spans {
		got = append(got, fmt.Sprintf("%s %d %s", s.Name, s.RunAttempt, s.Status))
	}
	want := "func 1 success, hang 1 unfinished, hang 2 success, func 2 success"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %s\nwant %s", strings.Join(got, ", "), want)
	}
}
