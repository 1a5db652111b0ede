package bedrock_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/bedrock"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// server sends the same response to every request and keeps the requests.
type server struct {
	status int
	header map[string]string
	body   []byte // a stream if it starts with a frame
	paths  []string
	sent   []byte
}

// ServeHTTP implements [http.Handler].
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.paths = append(s.paths, r.URL.EscapedPath())
	s.sent, _ = io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "-stream") && s.status == 0 {
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	}
	for name, v := range s.header {
		w.Header().Set(name, v)
	}
	if s.status != 0 {
		w.WriteHeader(s.status)
	}
	_, _ = w.Write(s.body)
}

func (s *server) start(t *testing.T) string {
	t.Helper()
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h.URL
}

func (s *server) request(t *testing.T) (req wireRequest) {
	t.Helper()
	if err := json.Unmarshal(s.sent, &req); err != nil {
		t.Fatalf("%s: %v", s.sent, err)
	}
	if err := errors.Join(req.check(), matches("ConverseRequest", s.sent)); err != nil {
		t.Errorf("%v: %s", err, s.sent)
	}
	return req
}

func streamOf(events ...[]byte) []byte { return slices.Concat(events...) }

var hello = streamOf(writeStream(llmtest.Reply{Text: []string{"Hello."}, Stop: llm.StopEnd})...)

// send returns the request for a conversation with a model.
func send(t *testing.T, name string, opts []llm.Option, history ...llm.Message) wireRequest {
	t.Helper()
	s := &server{body: hello}
	if _, err := llm.Generate(t.Context(), llm.With(open(t, name, s.start(t)), opts...), history...); err != nil {
		t.Fatal(err)
	}
	return s.request(t)
}

// rejected returns the reason why a conversation is not sent.
func rejected(t *testing.T, name string, history ...llm.Message) string {
	t.Helper()
	s := &server{body: hello}
	_, err := llm.Generate(t.Context(), open(t, name, s.start(t)), history...)
	if e, ok := errors.AsType[*llm.HistoryError](err); ok && len(s.paths) == 0 {
		return e.Reason
	}
	t.Errorf("%v after %d requests, want an *llm.HistoryError before", err, len(s.paths))
	return ""
}

// respond returns the message that a response becomes.
func respond(t *testing.T, body []byte, opts ...llm.Option) (llm.Message, error) {
	t.Helper()
	s := &server{body: body, header: map[string]string{"X-Amzn-Requestid": "r-1"}}
	return llm.Generate(t.Context(), llm.With(open(t, claude, s.start(t)), opts...), llm.User("Hi"))
}

// kinds lists the members of content blocks.
func kinds(t *testing.T, blocks []wireBlock) (out []string) {
	t.Helper()
	for _, b := range blocks {
		kind, err := b.kind()
		if err != nil {
			t.Error(err)
		}
		out = append(out, kind)
	}
	return out
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestModelIDs(t *testing.T) {
	s := &server{body: hello}
	url := s.start(t)
	for id, path := range map[string]string{
		"anthropic.claude-sonnet-5-5":                                       "/model/anthropic.claude-sonnet-5-5/converse-stream",
		"arn:aws:bedrock:eu-west-1:1234:application-inference-profile/a1b2": "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1234%3Aapplication-inference-profile%2Fa1b2/converse-stream",
	} {
		if _, err := llm.Generate(t.Context(), open(t, id, url), llm.User("Hi")); err != nil {
			t.Fatal(err)
		}
		if got := s.paths[len(s.paths)-1]; got != path {
			t.Errorf("path %s, want %s", got, path)
		}
	}
}

func TestBearerKey(t *testing.T) {
	var auth string
	s := &server{body: hello}
	h := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth = r.Header.Get("Authorization")
		s.ServeHTTP(w, r)
	}))
	defer h.Close()
	opts := options(h.URL)
	opts.Key, opts.HTTPClient = "secret", h.Client()
	m, err := bedrock.New(claude, opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := llm.Generate(t.Context(), m, llm.User("Hi")); err != nil || auth != "Bearer secret" {
		t.Errorf("authorization %q: %v", auth, err)
	}
}

func TestOpenErrors(t *testing.T) {
	t.Setenv("AWS_BEARER_TOKEN_BEDROCK", "")
	for name, test := range map[string]struct {
		model string
		opts  *bedrock.Options
		want  string
	}{
		"no name":        {"", options("http://localhost"), "empty model ID"},
		"no region":      {claude, &bedrock.Options{Config: &aws.Config{}}, "AWS_REGION"},
		"no credentials": {claude, &bedrock.Options{Config: &aws.Config{Region: "us-east-1"}}, "missing credentials"},
		"no host":        {claude, options("localhost"), "invalid base URL"},
	} {
		if _, err := bedrock.New(test.model, test.opts); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if _, err := bedrock.New("arn:aws:bedrock:eu-west-1:1234:inference-profile/eu.amazon.nova-pro-v1:0", &bedrock.Options{Config: &aws.Config{}, Key: "secret"}); err != nil {
		t.Errorf("region in the ARN: %v", err)
	}
}

func TestCredentialsAreMissing(t *testing.T) {
	s := &server{}
	opts := options(s.start(t))
	opts.Config.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("no EC2 IMDS role found")
	})
	m, err := bedrock.New(claude, opts)
	if err != nil {
		t.Fatal(err)
	}
	_, err = llm.Generate(t.Context(), m, llm.User("Hi"))
	if err == nil || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") || len(s.paths) != 0 {
		t.Errorf("%v", err)
	}
	if _, ok := errors.AsType[*llm.Error](err); ok {
		t.Errorf("missing credentials would be retried: %v", err)
	}
}

// Interleaved reasoning and calls keep their order, in both directions.
func TestBlockOrder(t *testing.T) {
	reasoning := func(i int, text, signature string) []byte {
		return streamOf(
			event("contentBlockDelta", object{"contentBlockIndex": i, "delta": object{"reasoningContent": object{"text": text}}}),
			event("contentBlockDelta", object{"contentBlockIndex": i, "delta": object{"reasoningContent": object{"signature": signature}}}),
			event("contentBlockStop", object{"contentBlockIndex": i}))
	}
	call := func(i int, id string) []byte {
		return streamOf(
			event("contentBlockStart", object{"contentBlockIndex": i, "start": object{"toolUse": object{"toolUseId": id, "name": "look"}}}),
			event("contentBlockDelta", object{"contentBlockIndex": i, "delta": object{"toolUse": object{"input": `{"n":` + id + `}`}}}),
			event("contentBlockStop", object{"contentBlockIndex": i}))
	}
	streamed, err := respond(t, streamOf(event("messageStart", object{"role": "assistant"}),
		reasoning(0, "First", "czE="), call(1, "1"), reasoning(2, "Then", "czI="), call(3, "2"),
		event("contentBlockDelta", object{"contentBlockIndex": 4, "delta": object{"text": "Wa"}}),
		event("contentBlockDelta", object{"contentBlockIndex": 4, "delta": object{"text": "it."}}),
		event("contentBlockStop", object{"contentBlockIndex": 4}), call(5, "3"),
		event("messageStop", object{"stopReason": "tool_use"}), event("metadata", object{"usage": object{}})))
	if err != nil {
		t.Fatal(err)
	}
	use := func(id string) object {
		return object{"toolUse": object{"toolUseId": id, "name": "look", "input": object{"n": json.Number(id)}}}
	}
	thought := func(text, signature string) object {
		return object{"reasoningContent": object{"reasoningText": object{"text": text, "signature": signature}}}
	}
	whole, err := respond(t, marshal(object{"stopReason": "tool_use", "usage": object{}, "output": object{"message": object{"role": "assistant",
		"content": []object{thought("First", "czE="), use("1"), thought("Then", "czI="), use("2"), {"text": "Wait."}, use("3")}}}}), llm.NoStream())
	if err != nil {
		t.Fatal(err)
	}
	tool := &llm.Tool{Name: "look", Run: runTool}
	for name, m := range map[string]llm.Message{"streamed": streamed, "whole": whole} {
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var saved llm.Message
		if err := json.Unmarshal(raw, &saved); err != nil {
			t.Fatal(err)
		}
		if saved.Text() != "Wait." || saved.Reasoning() != "FirstThen" || len(saved.ToolCalls) != 3 {
			t.Errorf("%s: %+v", name, saved)
		}
		saved.ToolCalls[0].Args = json.RawMessage(`{"n":9}`)
		got := send(t, claude, []llm.Option{llm.Tools(tool)}, llm.User("Look"), saved)
		content := got.Messages[1].Content
		same(t, name, []string{"reasoningContent", "toolUse", "reasoningContent", "toolUse", "text", "toolUse"}, kinds(t, content))
		if string(content[1].ToolUse.Input) != `{"n":9}` || content[2].ReasoningContent.ReasoningText.Signature != "czI=" {
			t.Errorf("%s: edited arguments %s, signature %+v", name, content[1].ToolUse.Input, content[2].ReasoningContent)
		}
		saved.ToolCalls = saved.ToolCalls[1:]
		got = send(t, claude, []llm.Option{llm.Tools(tool)}, llm.User("Look"), saved)
		same(t, name+" without the first call", []string{"reasoningContent", "toolUse", "text", "toolUse"}, kinds(t, got.Messages[1].Content))
	}
}
