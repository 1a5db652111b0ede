package anthropic_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
)

// begun is the beginning of a stream.
const begun = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}

`

func TestFailuresKeepProviderMessage(t *testing.T) {
	page := "<html><body>" + strings.Repeat("Bad gateway. ", 100) + "</body></html>"
	for _, c := range []struct {
		name   string
		stream bool
		answer httpAnswer
		want   llm.Error // but for Err
		says   string    // if the message is not told
	}{
		{"overloaded in the middle", true, file("overloaded.sse"),
			llm.Error{Status: 529, Code: "overloaded_error", Message: "Overloaded"}, ""},
		{"overloaded at the beginning", true, text("sse", 200, `event: error
data: {"type":"error","error":{"type":"rate_limit_error","message":"Slow down"}}

`), llm.Error{Status: 429, Code: "rate_limit_error", Message: "Slow down"}, ""},
		{"an error of a type that is not known", true, text("sse", 200, begun+`event: error
data: {"type":"error","error":{"type":"tomorrow_error","message":"Not today"}}

`), llm.Error{Code: "tomorrow_error", Message: "Not today"}, ""},
		{"an error that is no JSON", true, text("sse", 200, begun+"event: error\ndata: gone\n\n"),
			llm.Error{Message: "gone"}, ""},
		{"a proxy's page", false, text("html", 502, page),
			llm.Error{Status: 502, Message: page[:500] + "…"}, ""},
		{"a status without a body", false, text("json", 503, ""),
			llm.Error{Status: 503, Message: "Service Unavailable"}, ""},
		{"a request that is wrong", false, text("json", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: too many"}}`),
			llm.Error{Status: 400, Code: "invalid_request_error", Message: "max_tokens: too many"}, ""},
		{"a wait of parts of a second", false, text("json", 429, `{}`, "Retry-After", "0.5"),
			llm.Error{Status: 429, Message: "{}", RetryAfter: time.Second / 2}, ""},
		{"JSON that is not a message", false, text("json", 200, `{"hello":"world"}`),
			llm.Error{Message: "response without stop_reason: check Options.BaseURL"}, ""},
		{"a page instead of a message", false, text("html", 200, page), llm.Error{}, "text/html"},
		{"a page instead of a stream", true, text("html", 200, page), llm.Error{}, "stream ended before the response was complete"},
		{"a stream without a reason to stop", true, text("sse", 200, begun+"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"),
			llm.Error{Cut: true}, "without stop_reason"},
		{"an event that is no JSON", true, text("sse", 200, begun+"event: content_block_delta\ndata: {{{\n\n"),
			llm.Error{Cut: true}, "invalid character"},
		{"a server tool's input that is no JSON", true, text("sse", 200, begun+`event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"x","name":"web_search","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"que"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

`), llm.Error{Cut: true}, "content_block_stop 0: tool input is not JSON"},
		{"a whole answer that breaks off", false, func(w http.ResponseWriter, r *http.Request) {
			text("json", 200, `{"id":"msg_1",`, "Content-Length", "1000")(w, r)
		}, llm.Error{Cut: true}, "unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, c.answer)
			var model llm.Model = open(t, s.URL)
			if !c.stream {
				model = llm.With(model, llm.NoStream())
			}
			_, err := llm.Generate(t.Context(), model, llm.User("Hi"))
			e, ok := errors.AsType[*llm.Error](err)
			if !ok {
				t.Fatalf("the error is %v (%T), want an *llm.Error", err, err)
			}
			got := *e
			got.Err = nil
			c.want.Provider = "anthropic"
			if got != c.want {
				t.Errorf("the error is %+v, want %+v", got, c.want)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error says %q, want %q in it", err, c.says)
			}
		})
	}
}

func TestRetryAfterAsDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			header := http.Header{"Retry-After": {time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)}}
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: header, Body: http.NoBody, Request: r}, nil
		})}
		model, err := anthropic.New("claude-opus-5-5", &anthropic.Options{Key: "key", BaseURL: "http://localhost", HTTPClient: client})
		if err != nil {
			t.Fatal(err)
		}
		_, err = llm.Generate(t.Context(), model, llm.User("Hi"))
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.RetryAfter != 90*time.Second {
			t.Errorf("the error is %v, want one to retry after 90s", err)
		}
	})
}

func TestUnreachableProviderIsTemporary(t *testing.T) {
	s := serve(t)
	model := open(t, s.URL)
	s.Close()
	_, err := llm.Generate(t.Context(), model, llm.User("Hi"))
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Status != 0 || e.Cut || !e.Temporary() {
		t.Errorf("the error is %v, want a temporary one without a status", err)
	}
}

func TestErrorsNameRemedy(t *testing.T) {
	report := func(status int, code, message string) httpAnswer {
		return text("json", status, string(encode(object{"type": "error", "error": object{"type": code, "message": message}})))
	}
	google := func(status int, code, message string) httpAnswer {
		return text("json", status, string(encode(object{"error": object{"code": status, "status": code, "message": message}})))
	}
	for _, test := range []struct {
		name   string
		vertex bool
		answer httpAnswer
		want   string
	}{
		{"wrong key", false, report(401, "authentication_error", "invalid x-api-key"), "check Options.Key or the environment variable ANTHROPIC_API_KEY"},
		{"unknown model", false, report(404, "not_found_error", "model: claude-0"), "check the model name"},
		{"model without tools", false, report(400, "invalid_request_error", "claude-2.1 does not support tools."), "remove the tools, or use another model"},
		{"unknown call", false, report(400, "invalid_request_error", "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1."), "use llm.Repair"},
		{"expired token", true, google(401, "UNAUTHENTICATED", "Request had invalid authentication credentials."), "check that Options.Token returns a current token"},
		{"wrong project", true, google(403, "PERMISSION_DENIED", "Permission denied on resource."), "roles/aiplatform.user"},
		{"wrong region", true, google(404, "NOT_FOUND", "Publisher Model was not found."), "whether the location serves the model"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, test.answer)
			m := open(t, s.URL)
			if test.vertex {
				m = openVertex(t, vertexOptions(s.URL))
			}
			_, err := llm.Generate(t.Context(), m, llm.User("Hi"))
			if e, ok := errors.AsType[*llm.Error](err); !ok || !strings.Contains(e.Message, test.want) || e.Temporary() {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}
