package openai_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

// Headers from the environment are for OpenAI, or for the server in the environment.
func TestEnvironmentHeaders(t *testing.T) {
	for name, v := range map[string]string{"OPENAI_API_KEY": "env", "OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "proj-1", "OPENAI_CUSTOM_HEADERS": "X-Team: owls\nnone\n X-Other :  a:b "} {
		t.Setenv(name, v)
	}
	sent := map[string]string{"Openai-Organization": "org-1", "Openai-Project": "proj-1", "X-Team": "owls", "X-Other": "a:b"}
	for _, test := range []struct {
		name, env, url string
		want           map[string]string
	}{
		{"OpenAI", "", "", sent},
		{"OpenAI by options", "", "https://api.openai.com/v1", sent},
		{"a server of the environment", another, "", sent},
		{"a server of options", "", another, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("OPENAI_BASE_URL", test.env)
			w := &wire{body: okBody}
			model, err := openai.New("gpt-test", &openai.Options{BaseURL: test.url, API: "chat", HTTPClient: &http.Client{Transport: w}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := llm.Generate(t.Context(), llm.With(model, llm.NoStream()), llm.User("Hi")); err != nil {
				t.Fatal(err)
			}
			for name := range sent {
				same(t, name, test.want[name], w.request.Header.Get(name))
			}
			for name, want := range map[string]string{"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "treadle"} {
				same(t, name, want, w.request.Header.Get(name))
			}
		})
	}
}

// Gateways expect keys or versions in the query of the base URL.
func TestBaseURLKeepsItsQuery(t *testing.T) {
	w := &wire{body: okBody}
	if _, err := llm.Generate(t.Context(), llm.With(modelAt(t, "https://llm.example.com/a%2Fb//v1/?api-version=2", w), llm.NoStream()), llm.User("Hi")); err != nil {
		t.Fatal(err)
	}
	same(t, "the address", "https://llm.example.com/a%2Fb//v1/chat/completions?api-version=2", w.request.URL.String())
	down := roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("down") })
	_, err := llm.Generate(t.Context(), modelAt(t, another+"?key=secret", down), llm.User("Hi"))
	if err == nil || err.Error() != `openai: Post "https://llm.example.com/v1/chat/completions": down` {
		t.Errorf("the error is %v, want it without the query", err)
	}
}

// The conversation and the keys go only to the server in the options.
func TestRedirects(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	var body []byte
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	redirect := func(path, to string) {
		mux.Handle(path+"/chat/completions", http.RedirectHandler(to, http.StatusTemporaryRedirect))
	}
	redirect("/away", other.URL+"/chat/completions")
	redirect("/here", server.URL+"/v1/chat/completions")
	redirect("/round", server.URL+"/round/chat/completions")
	mux.HandleFunc("/v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, okBody)
	})
	ask := func(path string, check func(*http.Request, []*http.Request) error) error {
		t.Helper()
		model, err := openai.New("gpt-test", &openai.Options{BaseURL: server.URL + path, Key: "a key", HTTPClient: &http.Client{CheckRedirect: check}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = llm.Generate(t.Context(), llm.With(model, llm.NoStream()), llm.User("Hi"))
		return err
	}
	if err := ask("/here", nil); err != nil || !bytes.Contains(body, []byte("Hi")) {
		t.Errorf("after a redirect on the same server: %v, the body %s", err, body)
	}
	err := ask("/away", nil)
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Status != http.StatusTemporaryRedirect || e.Temporary() ||
		!strings.Contains(err.Error(), "another host than "+server.URL) {
		t.Errorf("a redirect to another server is %v", err)
	}
	if asked != 0 {
		t.Error("the other server was asked")
	}
	if err := ask("/round", nil); err == nil || !strings.Contains(err.Error(), "stopped after 10 redirects") {
		t.Errorf("redirects without end are %v", err)
	}
	mine := errors.New("mine")
	if err := ask("/here", func(*http.Request, []*http.Request) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("the client's own rule for redirects was not asked: %v", err)
	}
}

// The type of an event alone can report a failure; a null error does not.
func TestFailureEvents(t *testing.T) {
	_, err := llm.Generate(t.Context(), modelAt(t, another, &wire{header: map[string]string{"Content-Type": "text/event-stream"},
		body: "event: error\ndata: {\"message\":\"Busy.\",\"type\":\"overloaded_error\"}\n\n"}), llm.User("Hi"))
	if err == nil || err.Error() != "openai: 500 Internal Server Error: overloaded_error: Busy." {
		t.Errorf("the error is %v", err)
	}
	m, err := llm.Generate(t.Context(), modelAt(t, another, &wire{
		body: `data: {"error":null,"choices":[{"delta":{"content":"Hoot."},"finish_reason":"stop"}]}` + "\n\n"}), llm.User("Hi"))
	if err != nil || m.Text() != "Hoot." {
		t.Errorf("the answer is %q, %v", m.Text(), err)
	}
	for _, data := range []string{`[]`, `"x"`, `1`} {
		if m, err := llm.Generate(t.Context(), modelAt(t, another, &wire{body: "data: " + data + "\n\n" + `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"}), llm.User("Hi")); err == nil {
			t.Errorf("%s is %q, want an error", data, m.Text())
		}
	}
}

// The index of a choice may follow its content.
func TestChoicesAreReadByIndex(t *testing.T) {
	m, err := llm.Generate(t.Context(), modelAt(t, another, &wire{body: `data: {"choices":[{"delta":{"content":"Not this."},"index":1},{"delta":{"content":"Ho"},"index":0},{"delta":{"content":"ot."},"finish_reason":"stop"}]}` + "\n\n"}), llm.User("Hi"))
	if err != nil || m.Text() != "Hoot." {
		t.Errorf("the answer is %q, %v", m.Text(), err)
	}
}

// A response of any other shape is an error, never a panic or an empty response.
func TestUnexpectedResponseShapes(t *testing.T) {
	for _, body := range []string{`null`, `[]`, `""`, `{"choices":{}}`, `{"choices":null}`, ``} {
		if m, err := llm.Generate(t.Context(), llm.With(modelAt(t, another, &wire{body: body}), llm.NoStream()), llm.User("Hi")); err == nil {
			t.Errorf("%q is the answer %q, want an error", body, m.Text())
		}
	}
	for _, body := range []string{`null`, `{"data":{}}`, `{"data":[1]}`, `{"data":[{"embedding":["x"]}]}`, `{"data":[{"embedding":"%"}]}`, `{"data":[{"embedding":[1e99]}]}`, `{"data":[{"embedding":[1`} {
		if v, err := embedderAt(t, "m", 1, &wire{body: body}).Embed(t.Context(), []string{"owl"}); err == nil {
			t.Errorf("%q is the vectors %v, want an error", body, v)
		}
	}
}

func TestTextsAreSentUnchanged(t *testing.T) {
	text := "a\"b\\c/d\b\f\n\r\t\x00\x1f\x7f<>&é\u2028😀"
	body, err := bodyOf(t, another, nil, llm.User(text))
	if err != nil {
		t.Fatal(err)
	}
	var sent wireRequest
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := json.Unmarshal(sent.Messages[0].Content, &got); err != nil || got != text {
		t.Errorf("sent was %q, %v; want %q", got, err, text)
	}
	body, err = bodyOf(t, another, nil, llm.User("a\xffb"))
	if err != nil || !json.Valid(body) || !strings.Contains(string(body), "a\uFFFDb") {
		t.Errorf("a text that is not UTF-8 is sent as %s, %v", body, err)
	}
}

func TestUnencodableRequestIsNotSent(t *testing.T) {
	c := call("call_1", `{}`)
	c.Extra = map[string]any{"extra_content": make(chan int)}
	sent, err := bodyOf(t, another, nil, llm.User("Hi"), llm.Assistant("", c), llm.ToolResult(c, "x"))
	if _, ok := errors.AsType[*llm.Error](err); ok || err == nil || sent != nil {
		t.Errorf("the error is %v, and %s was sent", err, sent)
	}
}

// Tokens are the hot path: each token takes one allocation, for its text.
func TestTokenAllocations(t *testing.T) {
	const n = 1000
	body := []byte(chunks(n, `"content":" token%d"`))
	model := modelAt(t, another, roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(body))}, nil
	}))
	req := &llm.Request{Messages: llm.Messages{llm.User("Hi")}}
	allocs := testing.AllocsPerRun(5, func() {
		for _, err := range model.Stream(context.Background(), req) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs > n+200 {
		t.Errorf("%d tokens take %v allocations, want one for each and at most 200 for the call", n, allocs)
	}
}

// Google's endpoint reports failures in a list of one, over several lines.
func TestFailureInList(t *testing.T) {
	body := "[{\n  \"error\": {\n    \"code\": 400,\n    \"message\": \"API key not valid.\",\n    \"status\": \"INVALID_ARGUMENT\"\n  }\n}\n]"
	_, err := llm.Generate(t.Context(), modelAt(t, another, &wire{status: 400, body: body}), llm.User("Hi"))
	if err == nil || err.Error() != "openai: 400 Bad Request: INVALID_ARGUMENT: API key not valid." {
		t.Errorf("the error is %v", err)
	}
	_, err = llm.Generate(t.Context(), modelAt(t, another, &wire{status: 400, body: `["no","way"]`}), llm.User("Hi"))
	if err == nil || err.Error() != `openai: 400 Bad Request: ["no","way"]` {
		t.Errorf("the error is %v", err)
	}
}
