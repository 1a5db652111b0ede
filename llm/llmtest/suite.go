package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/treadle-go/treadle/llm"
)

// Run runs the suite that every provider's package must pass. Each case uses a
// separate server. [Provider].Lacks excludes cases, and parts of cases, by name.
//
// The case ReasoningAfterKill starts the test binary again, for this test alone, and
// kills it.
func Run(t *testing.T, p Provider) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if why := p.Lacks[c.name]; why != "" {
				t.Logf("the provider lacks this: %s", why)
				return
			}
			c.run(t, newRig(t, p))
		})
	}
	for name := range p.Lacks {
		if !slices.Contains(caseParts, name) && !slices.ContainsFunc(cases, func(c suiteCase) bool { return c.name == name }) {
			t.Errorf("Lacks names %q, which is not a case of the suite", name)
		}
	}
}

// Parts of the cases Usage, Settings, Cancellation, OtherHistories, and UnknownEvents
// that some providers do not support.
const (
	reasoningUsage     = "ReasoningUsage"
	cacheReadUsage     = "CacheReadUsage"
	cacheCreationUsage = "CacheCreationUsage"
	stopWords          = "StopWords"
	streamCancellation = "StreamCancellation"
	historyImages      = "HistoryImages"
	unknownEventLog    = "UnknownEventLog"
)

var caseParts = []string{reasoningUsage, cacheReadUsage, cacheCreationUsage, stopWords, streamCancellation, historyImages, unknownEventLog}

type suiteCase struct {
	name string
	run  func(*testing.T, *rig)
}

var cases = []suiteCase{
	{"Text", testText},
	{"StreamedText", testStreamedText},
	{"Conversation", testConversation},
	{"Settings", testSettings},
	{"Usage", testUsage},
	{"ToolCalls", testToolCalls},
	{"StreamedToolCalls", testStreamedToolCalls},
	{"ParallelStreamedToolCalls", testParallelStreamedToolCalls},
	{"ToolResults", testToolResults},
	{"ToolChoice", testToolChoice},
	{"Images", testImages},
	{"StructuredOutput", testStructuredOutput},
	{"Reasoning", testReasoning},
	{"BlockOrder", testBlockOrder},
	{"ReasoningLoop", testReasoningLoop},
	{"ReasoningAfterKill", testReasoningAfterKill},
	{"ProviderTools", testProviderTools},
	{"OtherHistories", testOtherHistories},
	{"Refusal", testRefusal},
	{"LengthStop", testLengthStop},
	{"Unauthorized", testUnauthorized},
	{"Overflow", testOverflow},
	{"RateLimited", testRateLimited},
	{"RateLimitedWithoutWait", testRateLimitedWithoutWait},
	{"ServerError", testServerError},
	{"Redirect", testRedirect},
	{"IdleConnection", testIdleConnection},
	{"CutConnection", testCutConnection},
	{"CutAtEveryByte", testCutAtEveryByte},
	{"UnknownEvents", testUnknownEvents},
	{"Garbage", testGarbage},
	{"HTML", testHTML},
	{"Cancellation", testCancellation},
	{"LeavingTheLoop", testLeavingTheLoop},
	{"Concurrency", testConcurrency},
}

// rig is a fake provider and a model that calls it.
type rig struct {
	t     *testing.T
	p     Provider
	url   string
	model llm.Model

	mu       sync.Mutex
	answers  []answer
	received []Received
	body     []byte // of the last request
}

// answer writes the response to one request.
type answer func(w http.ResponseWriter, r *http.Request, got Received)

func newRig(t *testing.T, p Provider) *rig {
	r := &rig{t: t, p: p}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL
	r.model = p.Open(t, r.url)
	return r
}

// will queues the server's next responses.
func (r *rig) will(answers ...answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = append(r.answers, answers...)
}

// ServeHTTP sends the next queued response.
func (r *rig) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		r.t.Errorf("reading the request: %v", err)
	}
	got, err := r.p.Request(req, body)
	if err != nil {
		r.t.Errorf("%s %s: %v\n%s", req.Method, req.URL.Path, err, body)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.received, r.body = append(r.received, got), body
	if len(r.answers) == 0 {
		r.mu.Unlock()
		r.t.Errorf("an unexpected request: %s", body)
		http.Error(w, "unexpected", http.StatusTeapot)
		return
	}
	next := r.answers[0]
	r.answers = r.answers[1:]
	r.mu.Unlock()
	next(w, req, got)
}

// requests returns the requests received so far.
func (r *rig) requests() []Received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.received)
}

// last returns the last request.
func (r *rig) last() Received {
	got := r.requests()
	if len(got) == 0 {
		r.t.Fatal("the provider got no request")
	}
	return got[len(got)-1]
}

// lastBody returns the body of the last request.
func (r *rig) lastBody() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.body
}

// reply returns an answer that is streamed or whole, as requested.
func (r *rig) reply(reply Reply) answer {
	return func(w http.ResponseWriter, _ *http.Request, got Received) {
		if !got.Stream {
			w.Header().Set("Content-Type", "application/json")
			write(w, r.p.Whole(reply))
			return
		}
		r.startStream(w)
		for _, piece := range r.p.Stream(reply) {
			write(w, piece)
		}
	}
}

func (r *rig) startStream(w http.ResponseWriter) {
	kind := r.p.StreamType
	if kind == "" {
		kind = "text/event-stream"
	}
	w.Header().Set("Content-Type", kind)
}

// write sends a piece immediately. The client may have disconnected.
func write(w http.ResponseWriter, piece []byte) {
	if _, err := w.Write(piece); err == nil {
		_ = http.NewResponseController(w).Flush()
	}
}

// fail returns an answer with an error status.
func (r *rig) fail(f Failure, header ...string) answer {
	return func(w http.ResponseWriter, _ *http.Request, _ Received) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(f.Status)
		write(w, r.p.Failure(f))
	}
}

// ask requests a whole response.
func (r *rig) ask(history ...llm.Message) (llm.Message, error) {
	return llm.Generate(r.t.Context(), llm.With(r.model, llm.NoStream()), history...)
}

// must returns a function that fails the test on an error.
func must(t *testing.T) func(llm.Message, error) llm.Message {
	return func(m llm.Message, err error) llm.Message {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(plain(want), plain(got), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// plain decodes raw JSON, so that spaces and the order of fields do not matter.
func plain(v any) any {
	raw, ok := v.(json.RawMessage)
	if !ok {
		return v
	}
	var out any
	if json.Unmarshal(raw, &out) != nil {
		return string(raw)
	}
	return out
}

// said returns the roles and texts of messages, which all protocols have.
func said(ms []llm.Message) []llm.Message {
	out := make([]llm.Message, len(ms))
	for i, m := range ms {
		out[i] = llm.Message{Role: m.Role, Content: m.Text()}
	}
	return out
}

// providerError checks that err is an *llm.Error of the model's provider, and
// returns it.
func providerError(t *testing.T, r *rig, err error) *llm.Error {
	t.Helper()
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		t.Fatalf("the error is %v (%T), want an *llm.Error", err, err)
	}
	if want := llm.Describe(r.model).Provider; e.Provider != want || want == "" {
		t.Errorf("the error is of provider %q, and the model of %q; want both, and the same", e.Provider, want)
	}
	return e
}

// within fails the test if ch is not ready within d.
func within[T any](t *testing.T, d time.Duration, what string, ch <-chan T) T {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		t.Fatalf("%s did not happen within %v", what, d)
		panic("unreachable")
	}
}

// patience is the timeout for things that should happen immediately.
const patience = 10 * time.Second

// weather returns a tool for requests; the suite never runs it.
func weather() *llm.Tool {
	type query struct {
		City string `json:"city" jsonschema:"where to look"`
		Unit string `json:"unit,omitempty" enum:"celsius,fahrenheit"`
	}
	return llm.NewTool("get_weather", "Tells the weather.", func(context.Context, query) (string, error) { return "sunny", nil })
}

func clock() *llm.Tool {
	type query struct {
		Zone string `json:"zone"`
	}
	return llm.NewTool("get_time", "Tells the time.", func(context.Context, query) (string, error) { return "noon", nil })
}

func joinArgs(c Call) json.RawMessage { return json.RawMessage(strings.Join(c.Args, "")) }
