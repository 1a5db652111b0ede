package gemini_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/llm"
)

func TestFailuresKeepAPIMessage(t *testing.T) {
	quota := `{"error": {"code": 429, "message": "Quota exceeded.", "status": "RESOURCE_EXHAUSTED", "details": [
		{"@type": "type.googleapis.com/google.rpc.QuotaFailure"}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]}}`
	busy := object{"error": object{"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   llm.Error // but for its cause
		temp   bool
	}{
		{"a delay in the body", says(http.StatusTooManyRequests, quota), llm.Error{Status: 429, Code: "RESOURCE_EXHAUSTED", Message: "Quota exceeded.", RetryAfter: 34500 * time.Millisecond}, true},
		{"a delay in body and header", says(http.StatusTooManyRequests, quota, "Retry-After", "60"), llm.Error{Status: 429, Code: "RESOURCE_EXHAUSTED", Message: "Quota exceeded.", RetryAfter: time.Minute}, true},
		{"an error in the stream", streams(event("", text("So ")), busy), llm.Error{Status: 503, Code: "UNAVAILABLE", Message: "The model is overloaded."}, true},
		{"a page of a proxy", says(http.StatusBadGateway, "<html>bad gateway</html>"), llm.Error{Status: 502, Message: "<html>bad gateway</html>"}, true},
		{"nothing", says(http.StatusNotFound, ""), llm.Error{Status: 404}, false},
		{"a refused request", says(http.StatusBadRequest, `{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}`), llm.Error{Status: 400, Code: "INVALID_ARGUMENT", Message: "API key not valid. (check Options.Key or the environment variable GEMINI_API_KEY)"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.answer)
			_, err := llm.Generate(t.Context(), open(t, "gemini-3-test", s.URL), llm.User("Hi"))
			e, ok := errors.AsType[*llm.Error](err)
			if !ok {
				t.Fatalf("the error is %v", err)
			}
			got := *e
			got.Err = nil
			tt.want.Provider = "gemini"
			if got != tt.want || e.Temporary() != tt.temp {
				t.Errorf("the error is %+v (temporary %v), want %+v", got, e.Temporary(), tt.want)
			}
		})
	}
}

// The SDK panics at some of these.
func TestMalformedResponsesAreErrors(t *testing.T) {
	for _, body := range []string{`{}`, `{"candidates": []}`, `{"candidates": 5}`, `{"candidates": [7]}`, `{"candidates": [{"content": "no"}]}`,
		`{"candidates": [{"citationMetadata": 1}]}`, `{"candidates": [{"content": {"parts": [{"functionCall": 3}]}, "finishReason": "STOP"}]}`, `[]`, ``} {
		s := serve(t, says(http.StatusOK, body), says(http.StatusOK, "data: "+body+"\n\n"), says(http.StatusOK, body))
		model := open(t, "gemini-3-test", s.URL)
		for _, model := range []llm.Model{llm.With(model, llm.NoStream()), model, model} {
			m, err := llm.Generate(t.Context(), model, llm.User("Hi"))
			if e, ok := errors.AsType[*llm.Error](err); !ok || !e.Cut || e.Status != http.StatusOK {
				t.Errorf("%s: the answer is %+v, and the error %v", body, m, err)
			}
		}
	}
}

func TestPanicInCallersLoopPasses(t *testing.T) {
	s := serve(t, streams(event("", text("So ")), event("STOP", text("far"))))
	defer func() {
		if p := recover(); p != "mine" {
			t.Errorf("recovered %v, want the caller's own panic", p)
		}
	}()
	for range open(t, "gemini-3-test", s.URL).Stream(t.Context(), &llm.Request{Messages: llm.Messages{llm.User("Hi")}}) {
		panic("mine")
	}
}

// Errors that the caller receives are not logged.
func TestBrokenConnectionsAreNotLogged(t *testing.T) {
	var logged bytes.Buffer
	was := log.Writer()
	log.SetOutput(&logged)
	t.Cleanup(func() { log.SetOutput(was) })
	cut := func(w http.ResponseWriter, r *http.Request) {
		streams(event("", text("So ")))(w, r)
		panic(http.ErrAbortHandler)
	}
	s := serve(t, cut)
	_, err := llm.Generate(t.Context(), open(t, "gemini-3-test", s.URL), llm.User("Hi"))
	if e, ok := errors.AsType[*llm.Error](err); !ok || !e.Cut || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the error is %v, want a cut and its cause", err)
	}
	if logged.Len() > 0 {
		t.Errorf("it was logged: %s", &logged)
	}
}

func TestBreakAfterLastChunkIsIgnored(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		streams(event("STOP", text("All of it.")))(w, r)
		panic(http.ErrAbortHandler)
	})
	m, err := llm.Generate(t.Context(), open(t, "gemini-3-test", s.URL), llm.User("Hi"))
	if err != nil || m.Text() != "All of it." || m.Stop != llm.StopEnd {
		t.Errorf("the answer is %+v, %v", m, err)
	}
}

func TestCancelClosesConnection(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		streams(event("", text("Let me see.")), event("", fn("fc_1", "get_weather", object{"city": "Bonn"}, "c2ln")))(w, r)
		<-r.Context().Done()
	}, streams(event("STOP", text("Sunny."))))
	model := open(t, "gemini-3-test", s.URL)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	why := errors.New("the user pressed a key")
	history := llm.Messages{llm.User("Weather?")}
	var so llm.Chunk
	var ended error
	var at time.Time
	for chunk, err := range llm.Stream(ctx, model, history...) {
		ended = err
		if err != nil {
			break
		}
		if so, err = so.Add(chunk); err != nil {
			t.Fatal(err)
		}
		if len(so.ToolCalls) > 0 && at.IsZero() {
			at = time.Now()
			cancel(why)
		}
	}
	if !errors.Is(ended, context.Canceled) || !errors.Is(ended, why) {
		t.Errorf("it ended with %v, want context.Canceled and its cause", ended)
	}
	<-s.closed
	if took := time.Since(at); took > 10*time.Second || s.open() != 0 {
		t.Errorf("after %v there are %d open connections, want none", took, s.open())
	}
	// The call was never answered.
	m, err := llm.Generate(t.Context(), model, append(history, so.Message(), llm.User("And now?"))...)
	if err != nil || m.Text() != "Sunny." {
		t.Errorf("the next answer is %q, %v", m.Text(), err)
	}
	var sent struct {
		Contents []struct{ Parts []map[string]json.RawMessage }
	}
	if err := json.Unmarshal(s.last().body, &sent); err != nil || len(sent.Contents) != 4 || sent.Contents[2].Parts[0]["functionResponse"] == nil {
		t.Errorf("the request has no result of the call (%v): %s", err, s.last().body)
	}
}

func TestInexpressibleRequestsAreErrors(t *testing.T) {
	search := &llm.Tool{Name: "search", Extra: map[string]any{"type": "web_search"}}
	tests := []struct {
		name  string
		with  llm.Option
		ask   []llm.Message
		wants string
	}{
		{"a block of an unknown type", nil, []llm.Message{llm.User("", llm.Block{Type: "hologram"})}, `message 0: unsupported block type "hologram"`},
		{"data of no type", nil, []llm.Message{llm.User("Hi"), llm.Assistant("Ho"), llm.User("", llm.Image("", []byte("x")))}, "message 2: image block without MIMEType"},
		{"media of nothing", nil, []llm.Message{llm.User("", llm.Block{Type: llm.BlockAudio})}, "audio block without URL, Data, or FileID"},
		{"a damaged data URL", nil, []llm.Message{llm.User("", llm.ImageURL("data:image/png;base64,???"))}, "invalid data: URL in image block"},
		{"an empty message", nil, []llm.Message{llm.User("")}, "message 0: empty message"},
		{"a picture for the system", nil, []llm.Message{{Role: llm.RoleSystem, Blocks: []llm.Block{llm.ImageURL("https://example.com/a.png")}}, llm.User("Hi")}, `system message contains a block of type "image"`},
		{"nothing but system messages", nil, []llm.Message{llm.System("Be brief.")}, "only system messages: add a user message"},
		{"an unknown role", nil, []llm.Message{{Role: "chorus", Content: "Hi"}}, `unknown role "chorus"`},
		{"arguments that are no object", nil, []llm.Message{llm.User("Hi"), llm.Assistant("", call("1", "a", `[]`, nil))}, "arguments of the call to a"},
		{"a seed of 64 bits", llm.Seed(1 << 40), []llm.Message{llm.User("Hi")}, "seed 1099511627776"},
		{"too many tokens", llm.MaxTokens(1 << 40), []llm.Message{llm.User("Hi")}, "MaxTokens 1099511627776"},
		{"another provider's tool", llm.Tools(search), []llm.Message{llm.User("Hi")}, `tool search: no Run, and Extra {"type":"web_search"} is not a tool of the Gemini API`},
		{"an unknown effort", llm.Reasoning("much"), []llm.Message{llm.User("Hi")}, `reasoning "much": gemini-2.5-flash supports`},
		{"a setting that is no JSON", llm.Setting("x", func() {}), []llm.Message{llm.User("Hi")}, "settings: "},
	}
	s := serve(t) // and never asked
	model := open(t, "gemini-2.5-flash", s.URL)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := llm.Model(model)
			if tt.with != nil {
				m = llm.With(model, tt.with)
			}
			_, err := llm.Generate(t.Context(), m, tt.ask...)
			if err == nil || !strings.HasPrefix(err.Error(), "gemini: ") || !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("the error is %v, want %q", err, tt.wants)
			}
		})
	}
}
