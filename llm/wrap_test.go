package llm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/treadletype"
)

var (
	busy   = &llm.Error{Provider: "p", Status: 503}
	later  = &llm.Error{Provider: "p", Status: 429, RetryAfter: 20 * time.Second}
	denied = &llm.Error{Provider: "p", Status: 401, Message: "no"}
)

func TestRetry(t *testing.T) {
	for _, test := range []struct {
		name     string
		turns    []llmtest.Turn
		opts     *treadletype.RetryPolicy
		want     string
		wantErr  error
		min, max time.Duration
		left     int
	}{
		{"at once", []llmtest.Turn{llmtest.Say("ok")}, nil, "ok", nil, 0, 0, 0},
		{"after a failure", []llmtest.Turn{llmtest.Fail(busy), llmtest.Say("ok")}, nil, "ok", nil, 500 * time.Millisecond, 1500 * time.Millisecond, 0},
		{"longer and longer", []llmtest.Turn{llmtest.Fail(busy), llmtest.Fail(busy), llmtest.Say("ok")}, nil, "ok", nil, 1500 * time.Millisecond, 3500 * time.Millisecond, 0},
		{"up to three times", []llmtest.Turn{llmtest.Fail(busy), llmtest.Fail(busy), llmtest.Fail(busy), llmtest.Say("late")}, nil, "", busy, 1500 * time.Millisecond, 3500 * time.Millisecond, 1},
		{"when the provider says", []llmtest.Turn{llmtest.Fail(later), llmtest.Say("ok")}, nil, "ok", nil, 20 * time.Second, 20 * time.Second, 0},
		{"not if that is too late", []llmtest.Turn{llmtest.Fail(later), llmtest.Say("late")}, &treadletype.RetryPolicy{Max: time.Second}, "", later, 0, 0, 1},
		{"not what will not pass", []llmtest.Turn{llmtest.Fail(denied), llmtest.Say("late")}, nil, "", denied, 0, 0, 1},
		{"a custom On", []llmtest.Turn{llmtest.Fail(denied), llmtest.Say("ok")}, &treadletype.RetryPolicy{On: func(error) bool { return true }, Initial: time.Second, NoJitter: true}, "ok", nil, time.Second, time.Second, 0},
		{"not once the answer has begun", []llmtest.Turn{{Message: llm.Assistant("half"), Err: busy}, llmtest.Say("late")}, nil, "half", busy, 0, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script := llmtest.NewScript(test.turns...)
				start := time.Now()
				m, err := llm.Generate(t.Context(), llm.Retry(script, test.opts), llm.User("hi"))
				if !errors.Is(err, test.wantErr) || m.Text() != test.want {
					t.Errorf("got %q, %v; want %q, %v", m.Text(), err, test.want, test.wantErr)
				}
				if took := time.Since(start); took < test.min || took > test.max {
					t.Errorf("it took %v, want %v to %v", took, test.min, test.max)
				}
				if script.Left() != test.left {
					t.Errorf("%d turns are left, want %d", script.Left(), test.left)
				}
			})
		})
	}
}

func TestRetryStopsWaitingWhenCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := llm.Generate(ctx, llm.Retry(llmtest.NewScript(llmtest.Fail(later), llmtest.Say("late")), nil), llm.User("hi"))
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, later) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v; want both errors after 1s", time.Since(start), err)
		}
	})
}

func TestFallback(t *testing.T) {
	for _, test := range []struct {
		name    string
		a, b    llmtest.Turn
		want    string
		wantErr []error
	}{
		{"the first answers", llmtest.Say("a"), llmtest.Say("b"), "a", nil},
		{"the first fails", llmtest.Fail(denied), llmtest.Say("b"), "b", nil},
		{"both fail", llmtest.Fail(denied), llmtest.Fail(busy), "", []error{denied, busy}},
		{"the first fails in the middle", llmtest.Turn{Message: llm.Assistant("half"), Err: busy}, llmtest.Say("b"), "half", []error{busy}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, err := llm.Generate(t.Context(), llm.Fallback(llmtest.NewScript(test.a), llmtest.NewScript(test.b)), llm.User("hi"))
			if m.Text() != test.want || (err == nil) != (test.wantErr == nil) {
				t.Errorf("got %q, %v; want %q", m.Text(), err, test.want)
			}
			for _, want := range test.wantErr {
				if !errors.Is(err, want) {
					t.Errorf("the error is %v, want %v in it", err, want)
				}
			}
		})
	}
	a, b := llmtest.NewScript(), llmtest.NewScript()
	a.NativeOutput, b.NoTools = true, true
	if info := llm.Describe(llm.Fallback(a, b)); info.NativeOutput || !info.NoTools {
		t.Errorf("together they are %+v, want what both can", info)
	}
}

func TestFallbackStopsAtCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	second := llmtest.NewScript(llmtest.Say("b"))
	_, err := llm.Generate(ctx, llm.Fallback(llmtest.NewScript(llmtest.Say("a")), second), llm.User("hi"))
	if !errors.Is(err, context.Canceled) || second.Left() != 1 {
		t.Errorf("the error is %v and %d turns are left, want a cancel and 1", err, second.Left())
	}
}

// gate is a limiter that lets a fixed number through.
type gate struct{ left int }

var errGate = errors.New("enough")

func (g *gate) Wait(context.Context) error {
	if g.left--; g.left < 0 {
		return errGate
	}
	return nil
}

func TestRateLimitWaitsForLimiter(t *testing.T) {
	script := llmtest.NewScript(llmtest.Say("a"), llmtest.Say("b"))
	model := llm.RateLimit(llm.With(script, llm.Tags("x")), &gate{1})
	if m, err := llm.Generate(t.Context(), model, llm.User("hi")); err != nil || m.Text() != "a" {
		t.Errorf("got %q, %v", m.Text(), err)
	}
	if _, err := llm.Generate(t.Context(), model, llm.User("hi")); !errors.Is(err, errGate) || script.Left() != 1 {
		t.Errorf("the error is %v with %d turns left, want the limiter's and 1", err, script.Left())
	}
	if got := script.Requests()[0].Tags; len(got) != 1 || llm.Describe(model).Model != "script" {
		t.Errorf("the wrapped model's settings are lost: tags %v", got)
	}
}

func TestCacheReplaysSameRequest(t *testing.T) {
	used := llm.Assistant("a")
	used.Usage, used.ID = &llm.Usage{Total: 9}, "m1"
	script := llmtest.Scripted(t, llmtest.Turn{Message: used}, llmtest.Say("b"), llmtest.Ask(llmtest.ToolCall("f", `{"x":1}`)), llmtest.Turn{Message: llm.Message{Role: llm.RoleAI, Content: "cut", Stop: llm.StopLength}}, llmtest.Say("whole"))
	model := llm.Cache(script, checkpoint.NewMemoryCache(), 0)
	ask := func(text string, opts ...llm.Option) llm.Message {
		t.Helper()
		m, err := llm.Generate(t.Context(), llm.With(model, opts...), human(text+"-id", text))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := ask("q")
	second, err := llm.Generate(t.Context(), llm.With(model, llm.Tags("t"), llm.NoStream()), human("another id", "q"))
	if err != nil || first.Text() != "a" || second.Text() != "a" || second.ID == first.ID || second.Usage != nil || second.Metadata["cached"] != true {
		t.Errorf("the answers are %+v and %+v (%v), want the second from the cache, as a message of its own without usage", first, second, err)
	}
	if got := ask("q", llm.Temperature(1)); got.Text() != "b" {
		t.Errorf("with another temperature the answer is %q, want b", got.Text())
	}
	called := ask("call")
	again := ask("call")
	same(t, "the calls from the cache", called.ToolCalls, again.ToolCalls)
	if ask("long").Text() != "cut" || ask("long").Text() != "whole" {
		t.Error("an answer that was cut off was kept")
	}
}

// shelf is a cache that notes how long things are kept, and may fail.
type shelf struct {
	getErr, setErr error
	ttl            time.Duration
}

func (s *shelf) Get(context.Context, string, string) ([]byte, bool, error) {
	return nil, false, s.getErr
}

func (s *shelf) Set(_ context.Context, _, _ string, _ []byte, ttl time.Duration) error {
	s.ttl = ttl
	return s.setErr
}

// A cache failure is reported, with the response if there is one.
func TestFailingCacheIsError(t *testing.T) {
	full := errors.New("disk full")
	for _, test := range []struct {
		name string
		shelf
		want string
		err  string
	}{
		{"works", shelf{}, "a", ""},
		{"cannot be read", shelf{getErr: full}, "", "llm: reading the cache of answers: disk full"},
		{"cannot be written", shelf{setErr: full}, "a", "llm: writing an answer to the cache: disk full"},
	} {
		m, err := llm.Generate(t.Context(), llm.Cache(llmtest.NewScript(llmtest.Say("a")), &test.shelf, time.Hour), llm.User("q"))
		if m.Text() != test.want || test.err == "" && err != nil || test.err != "" && (!errors.Is(err, full) || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: got %q, %v", test.name, m.Text(), err)
		}
		if test.getErr == nil && test.ttl != time.Hour {
			t.Errorf("%s: kept for %v", test.name, test.ttl)
		}
	}
}

// A model may be of any type, also of one whose values cannot be compared.
func TestWrappersTakeAnyModel(t *testing.T) {
	fn := speaker(llm.Chunk{Content: "x"})
	for _, model := range []llm.Model{
		llm.Retry(fn, nil), llm.RateLimit(llm.Fallback(fn, fn), &gate{1}), llm.Cache(llm.Retry(fn, nil), checkpoint.NewMemoryCache(), 0), llm.With(llm.Retry(llm.With(fn), nil)),
	} {
		if m, err := llm.Generate(t.Context(), model, llm.User("hi")); err != nil || m.Text() != "x" {
			t.Errorf("got %q, %v", m.Text(), err)
		}
	}
}

func TestErrorReportsTemporary(t *testing.T) {
	for _, test := range []struct {
		err  *llm.Error
		want bool
		text string
	}{
		{busy, true, "p: 503 Service Unavailable"},
		{later, true, "p: 429 Too Many Requests (retry after 20s)"},
		{denied, false, "p: 401 Unauthorized: no"},
		{&llm.Error{Provider: "p", Status: 400, Code: "invalid_request"}, false, "p: 400 Bad Request: invalid_request"},
		{&llm.Error{Provider: "p", Err: errors.New("connection refused")}, true, "p: connection refused"},
		{&llm.Error{Provider: "p", Status: 200, Cut: true, Message: "cut"}, true, "p: 200 OK: cut"},
	} {
		if got := test.err.Temporary(); got != test.want || test.err.Error() != test.text {
			t.Errorf("%v is temporary: %v; want %v and %q", test.err, got, test.want, test.text)
		}
	}
}

func TestOpenUsesGivenProviders(t *testing.T) {
	opened := ""
	p := llm.Provider{Name: "one", Model: func(name string) (llm.Model, error) {
		if name == "bad" {
			return nil, denied
		}
		opened = name
		return llmtest.NewScript(), nil
	}}
	embedOnly := llm.Provider{Name: "two", Embedder: func(string) (store.Embedder, error) { return nil, nil }}
	if m, err := llm.Open("one:model:8b", p, embedOnly); err != nil || m == nil || opened != "model:8b" {
		t.Errorf("opened %q: %v", opened, err)
	}
	if _, err := llm.OpenEmbedder("two:e", p, embedOnly); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{
		"three:x": `unknown provider "three"; the providers are: one, two`,
		"gpt-4":   "want provider:name; the providers are: one, two",
		"one:":    "missing name after one",
		"one:bad": "401",
		"two:x":   "two has no models",
	} {
		if _, err := llm.Open(name, p, embedOnly); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, want)
		}
	}
	for name, want := range map[string]string{"one:x": "one has no embedders", "x": "want provider:name"} {
		if _, err := llm.OpenEmbedder(name, p, embedOnly); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, want)
		}
	}
	if _, err := llm.Open("one:x"); err == nil || !strings.Contains(err.Error(), "none: pass some") {
		t.Errorf("without providers the error is %v", err)
	}
}

func TestOnlyToolsReplacesBoundTools(t *testing.T) {
	tool := func(name string) *llm.Tool {
		return llm.NewTool(name, "", func(context.Context, nothing) (string, error) { return "", nil })
	}
	model := llmtest.Scripted(t, llmtest.Say("ok", llmtest.Offered("b")))
	bound := llm.With(llm.Retry(llm.With(model, llm.Tools(tool("a"))), nil), llm.OnlyTools(tool("b")))
	if _, err := llm.Generate(t.Context(), bound, llm.User("hi")); err != nil {
		t.Error(err)
	}
}

func TestWithInfoLeavesOutTemperature(t *testing.T) {
	for _, test := range []struct {
		info llm.Info
		opts []llm.Option
		want bool
	}{
		{llm.Info{}, nil, true},
		{llm.Info{NoTemperature: true}, nil, false},
		{llm.Info{NoTemperature: true}, []llm.Option{llm.ModelName("another")}, true},
	} {
		var got *llm.Request
		model := llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
			got = req
			return llm.Assistant("ok"), nil
		})
		if _, err := llm.Generate(t.Context(), llm.With(llm.WithInfo(model, test.info), append(test.opts, llm.Temperature(0.5))...), llm.User("Hi")); err != nil {
			t.Fatal(err)
		}
		if (got.Temperature != nil) != test.want {
			t.Errorf("%+v: the temperature is %v", test.info, got.Temperature)
		}
	}
}
