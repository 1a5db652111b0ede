package a2a_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/client/a2a"
	"github.com/treadle-go/treadle/llm"
)

// peer is a scripted agent. In its card, {host} stands for its address.
type peer struct {
	card    string
	respond func(w http.ResponseWriter, r *http.Request, method string) // writes the response
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		card := p.card
		if card == "" {
			card = `{"name":"peer","supportedInterfaces":[{"url":"{host}/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`
		}
		fmt.Fprint(w, strings.ReplaceAll(card, "{host}", "http://"+r.Host))
		return
	}
	var m struct{ Method string }
	_ = json.NewDecoder(r.Body).Decode(&m)
	p.respond(w, r, m.Method)
}

func (p *peer) serve(t *testing.T) string {
	t.Helper()
	hs := httptest.NewServer(p)
	t.Cleanup(hs.Close)
	return hs.URL
}

func (p *peer) connect(t *testing.T) *a2a.Agent {
	t.Helper()
	agent, err := a2a.Connect(t.Context(), p.serve(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

// answers responds to methods with results.
func answers(results map[string]string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, _ *http.Request, method string) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, results[method])
	}
}

func TestConnectRejectsUnusableCards(t *testing.T) {
	for name, test := range map[string]struct{ card, want string }{
		"no JSON":         {`<html>`, "card of agent"},
		"nothing":         {`{}`, "lacks a JSON-RPC address"},
		"gRPC only":       {`{"url":"{host}","preferredTransport":"GRPC"}`, "lacks a JSON-RPC address"},
		"other host":      {`{"url":"https://evil.example/rpc"}`, "https://evil.example"},
		"other host, 1.0": {`{"supportedInterfaces":[{"url":"http://169.254.169.254/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`, "another host"},
		"other scheme":    {`{"url":"file:///etc/passwd"}`, "another host"},
		"huge":            {strings.Repeat(" ", 33<<20), "exceeds"},
		"wrong types":     {`{"name":5}`, "card of agent"},
	} {
		if _, err := a2a.Connect(t.Context(), (&peer{card: test.card}).serve(t), nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, address := range []string{"", "example.com", "ftp://example.com", "https://user:pass@example.com", "http://"} {
		if _, err := a2a.Connect(t.Context(), address, nil); err == nil || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%q: %v", address, err)
		}
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	if _, err := a2a.Connect(t.Context(), gone.URL, nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%v", err)
	}
}

func TestCredentialsStayWithHost(t *testing.T) {
	var leaked atomic.Bool
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked.Store(r.Header.Get("X-Api-Key") != "") }))
	defer thief.Close()
	from := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer from.Close()
	if _, err := a2a.Connect(t.Context(), from.URL, &a2a.Options{Header: http.Header{"X-Api-Key": {"secret"}}}); err == nil || leaked.Load() {
		t.Errorf("err = %v, leaked %t", err, leaked.Load())
	}
}

func TestSendRejectsLies(t *testing.T) {
	const sent = `{"task":{"id":"1","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`
	for name, test := range map[string]struct {
		results map[string]string
		want    string
	}{
		"nothing":         {map[string]string{"SendMessage": `{}`}, "want a task or a message"},
		"null":            {map[string]string{"SendMessage": `null`}, "want a task or a message"},
		"a number":        {map[string]string{"SendMessage": `7`}, "invalid result"},
		"no JSON":         {map[string]string{"SendMessage": `<`}, "invalid response"},
		"task without ID": {map[string]string{"SendMessage": `{"task":{}}`}, "task without an ID"},
		"unknown state":   {map[string]string{"SendMessage": `{"task":{"id":"1","status":{"state":"TASK_STATE_DANCING"}}}`}, "unknown state"},
		"another task":    {map[string]string{"SendMessage": sent, "GetTask": `{"id":"2","status":{"state":"TASK_STATE_COMPLETED"}}`}, "got 2"},
		"login":           {map[string]string{"SendMessage": sent, "GetTask": `{"id":"1","status":{"state":"TASK_STATE_AUTH_REQUIRED"}}`}, "auth-required"},
		"no base64":       {map[string]string{"SendMessage": `{"message":{"parts":[{"raw":"%%%"}]}}`}, "invalid result"},
	} {
		reply, err := (&peer{respond: answers(test.results)}).connect(t).Send(t.Context(), "", llm.User("hi"))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: reply %+v, %v, want %q", name, reply, err, test.want)
		}
	}
	refuse := func(w http.ResponseWriter, _ *http.Request, _ string) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":%q}}`, strings.Repeat("no ", 10_000))
	}
	_, err := (&peer{respond: refuse}).connect(t).Send(t.Context(), "", llm.User("hi"))
	if refused, ok := errors.AsType[*a2a.Error](err); !ok || refused.Code != -32005 || len(err.Error()) > 1000 {
		t.Errorf("%.200v", err)
	}
}

// A link that an agent names is text unless it is public, as with mcptool, so that nothing in this
// network fetches it.
func TestAddressesInRepliesAreText(t *testing.T) {
	for link, public := range map[string]bool{
		"https://example.com/owl.png":           true,
		"http://169.254.169.254/owl.png":        false,
		"http://localhost/owl.png":              false,
		"https://user:pass@example.com/owl.png": false,
		"file:///etc/passwd":                    false,
	} {
		for name, reply := range map[string]string{
			"1.0": `{"message":{"parts":[{"url":%q,"mediaType":"image/png","filename":"owl"}]}}`,
			"0.3": `{"kind":"message","parts":[{"kind":"file","file":{"uri":%q,"mimeType":"image/png","name":"owl"}}]}`,
		} {
			p := &peer{respond: answers(map[string]string{"SendMessage": fmt.Sprintf(reply, link)})}
			got, err := p.connect(t).Send(t.Context(), "", llm.User("hi"))
			if err != nil {
				t.Fatal(err)
			}
			blocks := got.Message.Blocks
			if public && (len(blocks) != 1 || blocks[0].Type != llm.BlockImage || blocks[0].URL != link) || !public && (got.Message.Content != "owl "+link || len(blocks) != 0) {
				t.Errorf("%s: %s: %+v", name, link, got.Message)
			}
		}
	}
}

// A restart of the remote server takes a minute, or fails.
func TestTaskSurvivesOutage(t *testing.T) {
	for outage, survives := range map[time.Duration]bool{time.Second: true, time.Minute: true, time.Hour: false} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			working := start.Add(10 * time.Second) // before the outage
			p := &peer{respond: func(w http.ResponseWriter, r *http.Request, method string) {
				state := "TASK_STATE_COMPLETED"
				switch now := time.Now(); {
				case now.Before(working):
					state = "TASK_STATE_WORKING"
				case now.Before(working.Add(outage)):
					http.Error(w, "down", http.StatusServiceUnavailable)
					return
				}
				answers(map[string]string{
					"SendMessage": `{"task":{"id":"1","contextId":"c","status":{"state":"TASK_STATE_SUBMITTED"}}}`,
					"GetTask":     `{"id":"1","contextId":"c","status":{"state":"` + state + `","message":{"parts":[{"text":"done"}]}}}`,
				})(w, r, method)
			}}
			agent, err := a2a.Connect(t.Context(), "http://peer.test", &a2a.Options{HTTPClient: &http.Client{Transport: directly{p}}})
			if err != nil {
				t.Fatal(err)
			}
			reply, err := agent.Send(t.Context(), "", llm.User("hi"))
			took := time.Since(start)
			if survives {
				if err != nil || reply.Message.Text() != "done" || reply.Conversation != "c" || reply.Task != "1" || took > 20*time.Second+outage {
					t.Errorf("outage of %s: reply %+v, %v after %s", outage, reply, err, took)
				}
			} else if err == nil || !strings.Contains(err.Error(), "did not report task 1 for 1m30s") || !strings.Contains(err.Error(), "503") || took > 2*time.Minute {
				t.Errorf("outage of %s: reply %+v, %v after %s", outage, reply, err, took)
			}
		})
	}
}

// directly passes requests to a handler without a network, whose goroutines would use real time.
type directly struct{ http.Handler }

func (d directly) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

func TestEndlessTaskEndsWithContext(t *testing.T) {
	canceled := make(chan struct{})
	p := &peer{respond: func(w http.ResponseWriter, r *http.Request, method string) {
		if method == "CancelTask" {
			close(canceled)
		}
		answers(map[string]string{
			"SendMessage": `{"task":{"id":"1","status":{"state":"TASK_STATE_WORKING"}}}`,
			"GetTask":     `{"id":"1","status":{"state":"TASK_STATE_WORKING"}}`,
			"CancelTask":  `{"id":"1","status":{"state":"TASK_STATE_CANCELED"}}`,
		})(w, r, method)
	}}
	agent := p.connect(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := agent.Send(ctx, "", llm.User("hi")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
	<-canceled
}

func TestEndlessQuestionsFailRun(t *testing.T) {
	agent := (&peer{respond: answers(map[string]string{
		"SendMessage": `{"task":{"id":"1","status":{"state":"TASK_STATE_INPUT_REQUIRED"}}}`,
		"GetTask":     `{"id":"1","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"parts":[{"text":"More?"}]}}}`,
	})}).connect(t)
	g, err := treadle.NewWorkflow("calling", func(ctx context.Context, in string) (string, error) {
		reply, err := agent.Send(ctx, "", llm.User(in))
		if err != nil {
			return "", err
		}
		return reply.Message.Text(), nil
	}, &treadle.Options{Saver: checkpoint.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	thread := g.Thread("1")
	_, err = thread.Run(t.Context(), "hi")
	asked := 0
	for ; asked < 200; asked++ {
		if _, stopped := errors.AsType[*treadle.InterruptError](err); !stopped {
			break
		}
		_, err = thread.Resume(t.Context(), map[string]any{"more": true})
	}
	if asked != 100 || err == nil || !strings.Contains(err.Error(), "more than 100 questions") {
		t.Errorf("after %d questions: %v", asked, err)
	}
}

// silent is a peer that accepts some requests and never responds, or sends a byte now and then.
type silent struct {
	peer   directly
	method string // of requests without a response; empty means the card
	drip   bool
}

func (s *silent) RoundTrip(r *http.Request) (*http.Response, error) {
	var m struct{ Method string }
	if r.Method == http.MethodPost {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		_ = json.Unmarshal(raw, &m)
		r.Body = io.NopCloser(bytes.NewReader(raw))
	}
	switch {
	case m.Method != s.method:
		return s.peer.RoundTrip(r)
	case s.drip:
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(&dripping{r.Context()})}, nil
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// dripping is an endless response.
type dripping struct{ ctx context.Context }

func (d *dripping) Read(p []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-time.After(time.Second):
		p[0] = ' '
		return 1, nil
	}
}

func TestSilentAgentFails(t *testing.T) {
	for _, test := range []struct {
		method, want string
		most         time.Duration
	}{
		{"", "no response within 30s", 31 * time.Second},
		{"SendMessage", "no response within 5m", 6 * time.Minute},
		{"GetTask", "did not report task 1 for 1m30s", 2 * time.Minute},
	} {
		for _, drip := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				p := &peer{respond: answers(map[string]string{"SendMessage": `{"task":{"id":"1","status":{"state":"TASK_STATE_WORKING"}}}`})}
				start := time.Now()
				agent, err := a2a.Connect(t.Context(), "http://peer.test", &a2a.Options{HTTPClient: &http.Client{Transport: &silent{directly{p}, test.method, drip}}})
				if err == nil {
					_, err = agent.Send(t.Context(), "", llm.User("hi"))
				}
				if took := time.Since(start); err == nil || !strings.Contains(err.Error(), test.want) || took > test.most {
					t.Errorf("%q (drip %t): %v after %s", test.method, drip, err, took)
				}
			})
		}
	}
}

// Send retries what may succeed later, and nothing else.
func TestFollowRetriesTemporaryErrors(t *testing.T) {
	for failure, retried := range map[string]bool{
		`200 {"error":{"code":-32603,"message":"database unavailable"}}`: true,
		`200 {"error":{"code":-32001,"message":"no such task"}}`:         false,
		"401 who?": false, "403 no": false, "404 gone": false,
		"429 slow down": true, "500 oops": true, "503 down": true,
	} {
		synctest.Test(t, func(t *testing.T) {
			status, body, _ := strings.Cut(failure, " ")
			code, err := strconv.Atoi(status)
			if err != nil {
				t.Fatal(err)
			}
			start, failed := time.Now(), 0
			p := &peer{respond: func(w http.ResponseWriter, r *http.Request, method string) {
				if method == "GetTask" && time.Since(start) < 10*time.Second {
					failed++
					w.WriteHeader(code)
					fmt.Fprint(w, body)
					return
				}
				answers(map[string]string{
					"SendMessage": `{"task":{"id":"1","status":{"state":"TASK_STATE_WORKING"}}}`,
					"GetTask":     `{"id":"1","status":{"state":"TASK_STATE_COMPLETED"}}`,
				})(w, r, method)
			}}
			agent, err := a2a.Connect(t.Context(), "http://peer.test", &a2a.Options{HTTPClient: &http.Client{Transport: directly{p}}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err = agent.Send(t.Context(), "", llm.User("hi")); (err == nil) != retried || (failed > 1) != retried {
				t.Errorf("%s: %v after %d requests", failure, err, failed)
			}
		})
	}
}

func TestCanceledSendSendsNothing(t *testing.T) {
	sent := 0
	p := &peer{respond: func(http.ResponseWriter, *http.Request, string) { sent++ }}
	agent := p.connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := agent.Send(ctx, "", llm.User("hi")); !errors.Is(err, context.Canceled) || sent != 0 {
		t.Errorf("%v after %d messages", err, sent)
	}
}

func TestSendRejectsQuestionsForSecrets(t *testing.T) {
	for question, want := range map[string]string{
		`{"text":"Which owl?"}`: "",
		`{"data":{"interrupts":[{"id":"1","value":"owl?","response_schema":{"properties":{"owl":{"type":"string"}}}}]}}`:      "",
		`{"data":{"interrupts":[{"id":"1","value":"owl?","response_schema":{"properties":{"Password":{"type":"string"}}}}]}}`: `"Password" asks for a secret`,
		`{"data":{"schema":{"properties":{"owl":{"properties":{"x":{"format":"password"}}}}}}}`:                               `"x" asks for a secret`,
		`{"text":"` + strings.Repeat("x", 100<<10) + `"}`:                                                                     "limit 65536",
	} {
		agent := (&peer{respond: answers(map[string]string{
			"SendMessage": `{"task":{"id":"1","status":{"state":"TASK_STATE_WORKING"}}}`,
			"GetTask":     `{"id":"1","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"parts":[` + question + `]}}}`,
		})}).connect(t)
		g, err := treadle.NewWorkflow("calling", func(ctx context.Context, in string) (string, error) {
			_, err := agent.Send(ctx, "", llm.User(in))
			return "", err
		}, &treadle.Options{Saver: checkpoint.NewMemory()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Thread("1").Run(t.Context(), "hi")
		if _, asks := errors.AsType[*treadle.InterruptError](err); asks != (want == "") || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: %v", question, err)
		}
	}
}
