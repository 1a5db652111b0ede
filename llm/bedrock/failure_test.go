package bedrock_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/bedrock"
)

func TestErrorsNameRemedy(t *testing.T) {
	const bare = "anthropic.claude-sonnet-5-5"
	for _, test := range []struct {
		status        int
		code, message string
		want          string
		temporary     bool
	}{
		{400, "ValidationException", "Invocation of model ID " + bare + " with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile that contains this model.", "for example us." + bare, false},
		{400, "ValidationException", "The provided model identifier is invalid.", "available in region us-east-1", false},
		{400, "ValidationException", "This model doesn't support tool use.", "remove the tools", false},
		{400, "ValidationException", "This model doesn't support the toolConfig.toolChoice.any field. Remove toolConfig.toolChoice.any and try again.", "remove llm.ToolChoice", false},
		{400, "ValidationException", "The number of toolResult blocks at messages.2.content exceeds the number of toolUse blocks of previous turn.", "use llm.Repair", false},
		{403, "AccessDeniedException", "Authentication failed: Please make sure your API Key is valid.", "check Options.Key or AWS_BEARER_TOKEN_BEDROCK", false},
		{403, "AccessDeniedException", "Bearer Token has expired", "create a new Bedrock API key", false},
		{400, "ValidationException", "prompt is too long: 210000 tokens > 200000 maximum", "too long", false},
		{400, "ServiceQuotaExceededException", "quota", "quota", false},
		{403, "AccessDeniedException", "You don't have access to the model with the specified model ID.", "bedrock:InvokeModel", false},
		{403, "ExpiredTokenException", "The security token included in the request is expired", "aws sso login", false},
		{403, "UnrecognizedClientException", "The security token included in the request is invalid.", "check the access key", false},
		{403, "InvalidSignatureException", "Signature expired", "clock", false},
		{404, "ResourceNotFoundException", "Could not find the model", "region us-east-1", false},
		{408, "ModelTimeoutException", "too slow", "too slow", true},
		{429, "ThrottlingException", "Too many requests, please wait before trying again.", "Too many", true},
		{429, "ModelNotReadyException", "loading", "loading", true},
		{500, "InternalServerException", "oops", "oops", true},
		{503, "ServiceUnavailableException", "busy", "busy", true},
	} {
		s := &server{status: test.status, header: map[string]string{"X-Amzn-ErrorType": test.code + ":http://internal.amazon.com/coral/"}, body: marshal(object{"message": test.message})}
		m := open(t, bare, s.start(t))
		for _, m := range []llm.Model{m, llm.With(m, llm.NoStream())} {
			_, err := llm.Generate(t.Context(), m, llm.User("Hi"))
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.Status != test.status || e.Code != test.code || e.Temporary() != test.temporary || e.Cut || !strings.Contains(e.Message, test.want) {
				t.Errorf("%s: %v (temporary %v), want %q", test.code, err, ok && e.Temporary(), test.want)
			}
		}
		if len(s.paths) != 2 {
			t.Errorf("%s: %d requests, want 2", test.code, len(s.paths))
		}
	}
}

func TestModelErrorHasOriginalStatus(t *testing.T) {
	s := &server{status: 424, header: map[string]string{"X-Amzn-ErrorType": "ModelErrorException"}, body: marshal(object{"message": "failed", "originalStatusCode": 503})}
	_, err := llm.Generate(t.Context(), open(t, claude, s.start(t)), llm.User("Hi"))
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Status != 503 || !e.Temporary() {
		t.Errorf("%v", err)
	}
}

func TestStreamExceptions(t *testing.T) {
	text := event("contentBlockDelta", object{"contentBlockIndex": 0, "delta": object{"text": "Hm"}})
	for name, test := range map[string]struct {
		frame  []byte
		status int
		code   string
	}{
		"throttling":   {exception("throttlingException", object{"message": "slow down"}), 429, "ThrottlingException"},
		"validation":   {exception("validationException", object{"message": "slow down"}), 400, "ValidationException"},
		"model stream": {exception("modelStreamErrorException", object{"message": "slow down", "originalStatusCode": 500}), 500, "ModelStreamErrorException"},
		"unknown":      {exception("brandNewException", object{"message": "slow down"}), 500, "BrandNewException"},
		"error frame":  {frame(map[string]string{":message-type": "error", ":error-code": "InternalFailure", ":error-message": "slow down"}, nil), 500, "InternalFailure"},
	} {
		_, err := respond(t, test.frame)
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Status != test.status || e.Code != test.code || e.Cut || e.Message != "slow down" {
			t.Errorf("%s: %v", name, err)
		}
		m, err := respond(t, streamOf(text, test.frame))
		if e, ok := errors.AsType[*llm.Error](err); !ok || !e.Cut || !e.Temporary() || m.Text() != "Hm" {
			t.Errorf("%s after text: %v", name, err)
		}
	}
}

func TestProxyResponses(t *testing.T) {
	page := []byte("<html><body>Blocked by proxy</body></html>")
	s := &server{status: http.StatusForbidden, header: map[string]string{"Content-Type": "text/html"}, body: page}
	_, err := llm.Generate(t.Context(), open(t, claude, s.start(t)), llm.User("Hi"))
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Status != http.StatusForbidden || !strings.Contains(e.Error(), "Blocked by proxy") {
		t.Errorf("status 403: %v", err)
	}
	s = &server{header: map[string]string{"Content-Type": "text/html"}, body: page}
	m := open(t, claude, s.start(t))
	for _, m := range []llm.Model{m, llm.With(m, llm.NoStream())} {
		_, err := llm.Generate(t.Context(), m, llm.User("Hi"))
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Temporary() || !strings.Contains(e.Error(), "Blocked by proxy") {
			t.Errorf("status 200: %v", err)
		}
	}
}

func TestUnknownRegion(t *testing.T) {
	opts := options("")
	opts.Region = "mars-north-1"
	opts.HTTPClient = &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	m, err := bedrock.New(claude, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer opts.HTTPClient.CloseIdleConnections()
	_, err = llm.Generate(t.Context(), m, llm.User("Hi"))
	if e, ok := errors.AsType[*llm.Error](err); !ok || !strings.Contains(e.Error(), "bedrock-runtime.mars-north-1") {
		t.Errorf("%v", err)
	}
}

// Some models cannot stream if a request has tools. The model remembers it.
func TestToolsWithoutStreaming(t *testing.T) {
	whole := marshal(object{"output": object{"message": object{"role": "assistant", "content": []object{{"toolUse": object{"toolUseId": "1", "name": "look", "input": object{}}}}}},
		"stopReason": "tool_use", "usage": object{}})
	var paths []string
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		paths = append(paths, operation)
		w.Header().Set("Content-Type", "application/json")
		if operation == "converse" {
			_, _ = w.Write(whole)
			return
		}
		w.Header().Set("X-Amzn-ErrorType", "ValidationException")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(marshal(object{"message": "This model doesn't support tool use in streaming mode."}))
	}))
	defer h.Close()
	m := llm.With(open(t, "meta.llama3-1-70b-instruct-v1:0", h.URL), lookTool())
	for range 2 {
		answer, err := llm.Generate(t.Context(), m, llm.User("Hi"))
		if err != nil || len(answer.ToolCalls) != 1 {
			t.Fatalf("%+v, %v", answer, err)
		}
	}
	same(t, "requests", []string{"converse-stream", "converse", "converse"}, paths)
}
