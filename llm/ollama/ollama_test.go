package ollama_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/internal/test/retrytest"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/llm/ollama"
)

// server sends the same response to every request and keeps the last request.
type server struct {
	status int
	body   string
	sent   []byte
	path   string
}

// ServeHTTP implements [http.Handler].
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.path = r.URL.Path
	s.sent, _ = io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/x-ndjson")
	if s.status != 0 {
		w.WriteHeader(s.status)
	}
	_, _ = w.Write([]byte(s.body))
}

func (s *server) start(t *testing.T) string {
	t.Helper()
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		h.Close()
	})
	return h.URL
}

func (s *server) request(t *testing.T) (req wireRequest) {
	t.Helper()
	if err := json.Unmarshal(s.sent, &req); err != nil {
		t.Fatalf("%s: %v", s.sent, err)
	}
	return req
}

// open returns a model on the server.
func (s *server) open(t *testing.T, name string, opts ollama.Options) *ollama.Model {
	t.Helper()
	opts.BaseURL = s.start(t)
	m, err := ollama.New(name, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const hello = `{"model":"m","created_at":"2026-08-04T19:22:45Z","message":{"role":"assistant","content":"Hello."},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":2}` + "\n"

func generate(t *testing.T, m llm.Model, history ...llm.Message) llm.Message {
	t.Helper()
	answer, err := llm.Generate(t.Context(), m, history...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestUsage(t *testing.T) {
	s := &server{body: hello}
	m := s.open(t, "m", ollama.Options{})
	for _, m := range []llm.Model{m, llm.With(m, llm.NoStream())} {
		answer := generate(t, m, llm.User("Hi"))
		if want := (llm.Usage{Input: 3, Output: 2, Total: 5}); answer.Usage == nil || !cmp.Equal(*answer.Usage, want) {
			t.Errorf("usage %+v, want %+v", answer.Usage, want)
		}
		want := map[string]any{"model_provider": "ollama", "model_name": "m", "created_at": "2026-08-04T19:22:45Z", "done_reason": "stop"}
		if d := cmp.Diff(want, answer.Metadata); d != "" {
			t.Errorf("metadata (-want +got):\n%s", d)
		}
	}
}

func TestToolChoice(t *testing.T) {
	s := &server{body: hello}
	tool := llm.NewTool("clock", "Returns the time.", func(context.Context, struct{}) (string, error) { return "noon", nil })
	m := llm.With(s.open(t, "m", ollama.Options{}), llm.Tools(tool))
	generate(t, llm.With(m, llm.ToolChoice(llm.ToolChoiceNone)), llm.User("Hi"))
	if got := s.request(t); len(got.Tools) != 0 {
		t.Errorf("with choice none, the request has tools %+v", got.Tools)
	}
	generate(t, llm.With(m, llm.ToolChoice(llm.ToolChoiceAuto)), llm.User("Hi"))
	if got := s.request(t); len(got.Tools) != 1 {
		t.Errorf("with choice auto, the request has tools %+v", got.Tools)
	}
	for _, choice := range []string{llm.ToolChoiceAny, "clock"} {
		_, err := llm.Generate(t.Context(), llm.With(m, llm.ToolChoice(choice)), llm.User("Hi"))
		if err == nil || !strings.Contains(err.Error(), "cannot force") {
			t.Errorf("choice %s: %v", choice, err)
		}
	}
	search := &llm.Tool{Extra: map[string]any{"type": "web_search"}}
	_, err := llm.Generate(t.Context(), llm.With(s.open(t, "m", ollama.Options{}), llm.Tools(search)), llm.User("Hi"))
	if err == nil || !strings.Contains(err.Error(), "runs no tools") {
		t.Errorf("provider tool: %v", err)
	}
}

func TestImages(t *testing.T) {
	s := &server{body: hello}
	m := s.open(t, "m", ollama.Options{})
	picture := []byte("\x89PNG\r\n\x1a\n a picture")
	call := llm.ToolCall{ID: "1", Name: "camera", Args: json.RawMessage(`{}`)}
	generate(t, m,
		llm.User("Look", llm.Image("image/png", picture), llm.ImageURL("data:image/png;base64,YWJj"), llm.Text("closely")),
		llm.Assistant("", call), llm.ToolResult(call, llm.Image("image/png", picture)))
	got := s.request(t).Messages
	if len(got) != 4 {
		t.Fatalf("messages %+v", got)
	}
	if got[0].Content != "Look\nclosely" || !cmp.Equal(got[0].Images, [][]byte{picture, []byte("abc")}) {
		t.Errorf("user message %+v", got[0])
	}
	if got[2].Role != "tool" || got[2].Content == "" || got[2].Images != nil {
		t.Errorf("tool result %+v, want only text", got[2])
	}
	if got[3].Role != "user" || !strings.Contains(got[3].Content, "camera") || !cmp.Equal(got[3].Images, [][]byte{picture}) {
		t.Errorf("message after the tool result %+v, want the image", got[3])
	}
	for _, b := range []llm.Block{llm.ImageURL("https://example.com/owl.jpg"), llm.Audio("audio/wav", picture), llm.File("a.pdf", "application/pdf", picture)} {
		_, err := llm.Generate(t.Context(), m, llm.User("Look", b))
		if e, ok := errors.AsType[*llm.HistoryError](err); !ok || !strings.Contains(e.Reason, "accepts only") {
			t.Errorf("block of type %s: %v", b.Type, err)
		}
	}
}

func TestThinkingIsSentBackWithinTurn(t *testing.T) {
	s := &server{body: `{"message":{"role":"assistant","content":"","thinking":"One"},"done":false}
{"message":{"role":"assistant","content":"","thinking":" city."},"done":false}
{"message":{"role":"assistant","content":"I look."},"done":false}
{"message":{"role":"assistant","content":"","thinking":"Now call."},"done":false}
{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"weather","arguments":{"city":"Oslo"}}},{"function":{"name":"weather","arguments":{"city":"Rome"}}}]},"done":false}
{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}
`}
	var logged bytes.Buffer
	m := s.open(t, "m", ollama.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	answer := generate(t, m, llm.User("Weather?"))
	want := []llm.Block{{Type: llm.BlockReasoning, Reasoning: "One city."}, llm.Text("I look."), {Type: llm.BlockReasoning, Reasoning: "Now call."}}
	if d := cmp.Diff(want, answer.Blocks); d != "" {
		t.Errorf("blocks (-want +got):\n%s", d)
	}
	if answer.Stop != llm.StopTools || len(answer.ToolCalls) != 2 || answer.ToolCalls[0].ID == "" || answer.ToolCalls[0].ID == answer.ToolCalls[1].ID {
		t.Fatalf("stop %s, calls %+v", answer.Stop, answer.ToolCalls)
	}
	turn := []llm.Message{llm.User("Weather?"), answer, llm.ToolResult(answer.ToolCalls[0], "rain"), llm.ToolResult(answer.ToolCalls[1], "sun")}
	thoughts := func(history []llm.Message) string {
		generate(t, m, history...)
		return s.request(t).Messages[1].Thinking
	}
	if got := thoughts(turn); got != "One city.Now call." {
		t.Errorf("within the turn, the request contains thinking %q", got)
	}
	if got := thoughts(append(slices.Clip(turn), llm.Assistant("Rain and sun."), llm.User("Thanks"))); got != "" {
		t.Errorf("after the turn, the request contains thinking %q", got)
	}
	turn[1].Metadata = map[string]any{"model_provider": "anthropic"}
	for range 2 {
		if got := thoughts(turn); got != "" {
			t.Errorf("the request contains another provider's thinking %q", got)
		}
	}
	if n := strings.Count(logged.String(), "provider=anthropic"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &logged)
	}
}

func TestSettings(t *testing.T) {
	s := &server{body: hello}
	m := s.open(t, "gpt-oss:20b", ollama.Options{Context: 8192, KeepAlive: -1})
	generate(t, llm.With(m, llm.Reasoning("low"), llm.Setting("options", map[string]any{"top_k": 5})), llm.User("Hi"))
	got := s.request(t)
	if got.Options.NumCtx != 8192 || got.Options.TopK != 5 || got.KeepAlive != -1.0 || got.Think != "low" {
		t.Errorf("request %s", s.sent)
	}
	generate(t, llm.With(m, llm.ModelName("qwen3"), llm.Reasoning("high"), llm.Setting("keep_alive", "1h"), llm.Setting("truncate", true)), llm.User("Hi"))
	if got := s.request(t); got.Think != true || got.KeepAlive != "1h" || !*got.Truncate {
		t.Errorf("request %s", s.sent)
	}
	generate(t, llm.With(s.open(t, "m", ollama.Options{KeepAlive: time.Hour}), llm.Reasoning("none")), llm.User("Hi"))
	if got := s.request(t); got.Think != false || got.KeepAlive != "1h0m0s" {
		t.Errorf("request %s", s.sent)
	}
	for _, setting := range []llm.Option{llm.Setting("stream", false), llm.Setting("options", 3)} {
		if _, err := llm.Generate(t.Context(), llm.With(m, setting), llm.User("Hi")); err == nil || !strings.Contains(err.Error(), "setting") {
			t.Errorf("invalid setting: %v", err)
		}
	}
}

func TestErrorsNameRemedy(t *testing.T) {
	for _, test := range []struct {
		status int
		text   string
		want   string
	}{
		{http.StatusNotFound, `model 'qwen9' not found`, "ollama pull qwen9"},
		{http.StatusBadRequest, `registry.ollama.ai/library/qwen9:latest does not support tools`, "ollama show"},
		{http.StatusBadRequest, `"qwen9" does not support thinking`, "remove llm.Reasoning"},
		{http.StatusBadRequest, `the input length exceeds the context length`, "Options.Context"},
		{http.StatusUnauthorized, `unauthorized`, "OLLAMA_API_KEY"},
	} {
		s := &server{status: test.status, body: string(marshal(object{"error": test.text}))}
		_, err := llm.Generate(t.Context(), s.open(t, "qwen9", ollama.Options{}), llm.User("Hi"))
		e, ok := errors.AsType[*llm.Error](err)
		if _, over := errors.AsType[*llm.ContextError](err); over != strings.Contains(test.text, "context length") {
			t.Errorf("%s: %v", test.text, err)
		}
		if !ok || e.Status != test.status || e.Temporary() || !strings.Contains(e.Message, test.text) || !strings.Contains(e.Message, test.want) {
			t.Errorf("%d %s: %v", test.status, test.text, err)
		}
	}
	m, err := ollama.New("m", &ollama.Options{BaseURL: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = llm.Generate(t.Context(), m, llm.User("Hi")); err == nil || !strings.Contains(err.Error(), "ollama serve") {
		t.Errorf("without a server: %v", err)
	}
}

func TestErrorLineAfterSuccessStatus(t *testing.T) {
	s := &server{body: `{"error":"model runner has unexpectedly stopped"}` + "\n"}
	_, err := llm.Generate(t.Context(), s.open(t, "m", ollama.Options{}), llm.User("Hi"))
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Cut || e.Status != http.StatusInternalServerError || !e.Temporary() || !strings.Contains(e.Message, "unexpectedly stopped") {
		t.Errorf("first line: %v", err)
	}
	s = &server{body: `{"message":{"role":"assistant","content":"Hel"},"done":false}` + "\n" + s.body}
	answer, err := llm.Generate(t.Context(), s.open(t, "m", ollama.Options{}), llm.User("Hi"))
	if e, ok := errors.AsType[*llm.Error](err); !ok || !e.Cut || answer.Content != "Hel" {
		t.Errorf("second line: %q, %v", answer.Content, err)
	}
}

// A stream cut at any byte causes an error, and never a shorter response.
func TestStreamCutAtEveryByte(t *testing.T) {
	whole := ""
	for _, piece := range streamedAnswer(llmtest.Reply{Reasoning: []string{"Hm"}, Text: []string{"He", "llo"}, Calls: []llmtest.Call{{ID: "1", Name: "f", Args: []string{`{}`}}}, Stop: llm.StopTools}) {
		whole += string(piece)
	}
	s := &server{}
	m := s.open(t, "m", ollama.Options{})
	for n := range len(whole) - 1 { // without the last newline, the response is complete
		s.body = whole[:n]
		_, err := llm.Generate(t.Context(), m, llm.User("Hi"))
		if e, ok := errors.AsType[*llm.Error](err); !ok || !e.Cut {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
	s.body = whole[:len(whole)-1]
	generate(t, m, llm.User("Hi"))
}

func TestModelOnlyLoaded(t *testing.T) {
	s := &server{body: `{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"load"}`}
	_, err := llm.Generate(t.Context(), s.open(t, "m", ollama.Options{}), llm.User("Hi"))
	if e, ok := errors.AsType[*llm.Error](err); !ok || !e.Temporary() {
		t.Errorf("%v, want a temporary error", err)
	}
}

func TestHTMLResponse(t *testing.T) {
	s := &server{body: "<html><body>Sign in</body></html>"}
	_, err := llm.Generate(t.Context(), s.open(t, "m", ollama.Options{}), llm.User("Hi"))
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Temporary() || !strings.Contains(e.Error(), "Sign in") {
		t.Errorf("%v", err)
	}
}

func TestLongLines(t *testing.T) {
	text := strings.Repeat("owl ", 1<<18)
	s := &server{body: string(marshal(object{"message": object{"role": "assistant", "content": text}, "done": true, "done_reason": "stop"}))}
	if got := generate(t, s.open(t, "m", ollama.Options{}), llm.User("Hi")); got.Content != text {
		t.Errorf("got %d bytes of %d", len(got.Content), len(text))
	}
}

func TestAddresses(t *testing.T) {
	s := &server{body: hello}
	host := strings.TrimPrefix(s.start(t), "http://")
	for _, address := range []string{host, "http://" + host, host + "/v1/", "http://" + host + "/api", "  " + host, strings.Replace(host, "127.0.0.1", "0.0.0.0", 1)} {
		t.Setenv("OLLAMA_HOST", address)
		m, err := ollama.New("m", nil)
		if err != nil {
			t.Errorf("%q: %v", address, err)
			continue
		}
		generate(t, m, llm.User("Hi"))
		if s.path != "/api/chat" {
			t.Errorf("%q: path %s", address, s.path)
		}
	}
	t.Setenv("OLLAMA_HOST", "")
	for _, address := range []string{"ftp://host", "http://", "host:port:x"} {
		if _, err := ollama.New("m", &ollama.Options{BaseURL: address}); err == nil || !strings.Contains(err.Error(), "invalid address") {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := ollama.New("", nil); err == nil || !strings.Contains(err.Error(), "empty model name") {
		t.Errorf("without a name: %v", err)
	}
}

func TestPull(t *testing.T) {
	s := &server{body: `{"status":"pulling manifest"}
{"status":"pulling a1b2","digest":"sha256:a1b2","total":100,"completed":40}
{"status":"success"}
`}
	opts := &ollama.Options{BaseURL: s.start(t)}
	var got []ollama.Progress
	if err := ollama.Pull(t.Context(), "qwen3", opts, func(p ollama.Progress) { got = append(got, p) }); err != nil {
		t.Fatal(err)
	}
	want := []ollama.Progress{{Status: "pulling manifest"}, {"pulling a1b2", "sha256:a1b2", 100, 40}, {Status: "success"}}
	if d := cmp.Diff(want, got); d != "" || s.path != "/api/pull" || s.request(t).Model != "qwen3" {
		t.Errorf("%s %s (-want +got):\n%s", s.path, s.sent, d)
	}
	s.body = `{"status":"pulling manifest"}` + "\n" + `{"error":"pull model manifest: file does not exist"}` + "\n"
	if err := ollama.Pull(t.Context(), "qwen3", opts, nil); err == nil || !strings.Contains(err.Error(), "file does not exist") {
		t.Errorf("failed pull: %v", err)
	}
	s.body = `{"status":"pulling manifest"}` + "\n"
	if e, ok := errors.AsType[*llm.Error](ollama.Pull(t.Context(), "qwen3", opts, nil)); !ok || !e.Cut {
		t.Errorf("cut pull: %v", e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ollama.Pull(ctx, "qwen3", opts, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled pull: %v", err)
	}
}

func TestEmbedder(t *testing.T) {
	var requests []object
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req object
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || r.URL.Path != "/api/embed" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		requests = append(requests, req)
		var vectors [][]float32
		for _, text := range req["input"].([]any) {
			var n float32
			_, _ = fmt.Sscan(text.(string), &n)
			vectors = append(vectors, []float32{n, 1})
		}
		_, _ = w.Write(marshal(object{"model": req["model"], "embeddings": vectors}))
	}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	e, err := ollama.NewEmbedder("tiny", &ollama.Options{BaseURL: server.URL, Dimension: 2})
	if err != nil {
		t.Fatal(err)
	}
	if e.Model() != "ollama:tiny" || e.Dimension() != 2 {
		t.Errorf("%s with %d numbers", e.Model(), e.Dimension())
	}
	texts := make([]string, 600)
	for i := range texts {
		texts[i] = fmt.Sprint(i)
	}
	vectors, err := e.Embed(t.Context(), texts)
	if err != nil || len(vectors) != len(texts) {
		t.Fatalf("%d vectors: %v", len(vectors), err)
	}
	for i, v := range vectors {
		if v[0] != float32(i) {
			t.Fatalf("vector %d is %v", i, v)
		}
	}
	if len(requests) != 3 || requests[0]["truncate"] != false || requests[0]["dimensions"] != 2.0 {
		t.Errorf("%d requests, the first with truncate %v and dimensions %v", len(requests), requests[0]["truncate"], requests[0]["dimensions"])
	}
	e, err = ollama.NewEmbedder("nomic-embed-text:latest", &ollama.Options{BaseURL: server.URL})
	if err != nil || e.Dimension() != 768 {
		t.Fatal(err)
	}
	if _, err := e.Embed(t.Context(), texts[:1]); err == nil || !strings.Contains(err.Error(), "have 2 numbers, not 768") {
		t.Errorf("vectors of another length: %v", err)
	}
	for name, opts := range map[string]*ollama.Options{"acme": nil, "nomic-embed-text": {Dimension: 4096}} {
		if _, err := ollama.NewEmbedder(name, opts); err == nil || !strings.Contains(err.Error(), "imension") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEmbedderBadInput(t *testing.T) {
	for name, test := range map[string]struct {
		status     int
		body, want string
	}{
		"too few":       {http.StatusOK, `{"embeddings":[[1,2]]}`, "model m returned 1 vectors for 2 texts"},
		"too many":      {http.StatusOK, `{"embeddings":[[1,2],[1,2],[1,2]]}`, "model m returned 3 vectors for 2 texts"},
		"short":         {http.StatusOK, `{"embeddings":[[1,2],[1]]}`, "have 1 numbers, not 2"},
		"not a number":  {http.StatusOK, `{"embeddings":[[1,2],[NaN,1]]}`, "invalid response"},
		"too large":     {http.StatusOK, `{"embeddings":[[1,2],[1e99,1]]}`, "invalid response"},
		"unknown model": {http.StatusNotFound, `{"error":"model \"m\" not found, try pulling it first"}`, "not found"},
		"wrong key":     {http.StatusUnauthorized, `{"error":"unauthorized"}`, "401 Unauthorized"},
		"too long":      {http.StatusBadRequest, `{"error":"the input length exceeds the context length"}`, "the input length exceeds the context length"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			_, _ = w.Write([]byte(test.body))
		}))
		e, err := ollama.NewEmbedder("m", &ollama.Options{BaseURL: server.URL, Dimension: 2})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Embed(t.Context(), []string{"a", "b"})
		if _, ok := errors.AsType[*llm.Error](err); !ok || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
		if _, err := e.Embed(t.Context(), []string{"a", ""}); err == nil || err.Error() != "ollama: text 2 of 2 is empty: remove it" {
			t.Errorf("empty text: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	}
}

func TestEmbedderPrefixes(t *testing.T) {
	var sent []any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req object
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		sent = append(sent, req["input"].([]any)...)
		_, _ = w.Write([]byte(`{"embeddings":[[1]]}`))
	}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	for model, want := range map[string][2]string{
		"nomic-embed-text":       {"search_document: owl", "search_query: owl"},
		"nomic-embed-text:v1.5":  {"search_document: owl", "search_query: owl"},
		"embeddinggemma:latest":  {"title: none | text: owl", "task: search result | query: owl"},
		"mxbai-embed-large":      {"owl", "Represent this sentence for searching relevant passages: owl"},
		"qwen3-embedding:0.6b":   {"owl", "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:owl"},
		"all-minilm":             {"owl", "owl"},
		"snowflake-arctic-embed": {"owl", "Represent this sentence for searching relevant passages: owl"},
	} {
		sent = nil
		e, err := ollama.NewEmbedder(model, &ollama.Options{BaseURL: server.URL, Dimension: 1})
		if err != nil {
			t.Fatal(err)
		}
		texts := []string{"owl"}
		if _, err := e.Embed(t.Context(), texts); err != nil {
			t.Fatal(err)
		}
		if _, err := e.EmbedQueries(t.Context(), texts); err != nil {
			t.Fatal(err)
		}
		if len(sent) != 2 || sent[0] != want[0] || sent[1] != want[1] || texts[0] != "owl" {
			t.Errorf("%s: sent %q, want %q", model, sent, want)
		}
	}
}

func TestEmbedderRetries(t *testing.T) {
	retrytest.Run(t, retrytest.Subject{
		Open: func(t *testing.T, client *http.Client) func(context.Context) error {
			e, err := ollama.NewEmbedder("tiny", &ollama.Options{BaseURL: retrytest.URL, Dimension: 2, HTTPClient: client})
			if err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error {
				_, err := e.Embed(ctx, []string{"owl"})
				return err
			}
		},
		Answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"embeddings":[[1,2]]}`)) },
	})
}
