package openai_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

func TestServerErrorFormats(t *testing.T) {
	for _, test := range []struct {
		name string
		wire wire
		want llm.Error
		temp bool
	}{
		{"OpenAI", wire{status: 401, body: `{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`},
			llm.Error{Status: 401, Code: "invalid_api_key", Message: "Incorrect API key provided. (check the API key)"}, false},
		{"a wait in milliseconds", wire{status: 429, header: map[string]string{"Retry-After-Ms": "1500", "Retry-After": "2"}, body: `{"error":{"message":"Slow down.","type":"requests","code":"rate_limit_exceeded"}}`},
			llm.Error{Status: 429, Code: "rate_limit_exceeded", Message: "Slow down.", RetryAfter: 1500 * time.Millisecond}, true},
		{"a date in the past", wire{status: 503, header: map[string]string{"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, body: `{"error":{"message":"Busy."}}`},
			llm.Error{Status: 503, Message: "Busy."}, true},
		{"a status as the code", wire{status: 402, body: `{"error":{"code":402,"message":"No credits.","metadata":{}}}`},
			llm.Error{Status: 402, Code: "402", Message: "No credits."}, false},
		{"no envelope", wire{status: 400, body: `{"object":"error","message":"Too long.","type":"BadRequestError","param":null,"code":400}`},
			llm.Error{Status: 400, Code: "BadRequestError", Message: "Too long."}, false},
		{"a text", wire{status: 404, body: `{"error":"model 'x' not found"}`}, llm.Error{Status: 404, Message: "model 'x' not found"}, false},
		{"a detail", wire{status: 404, body: `{"detail":"Not Found"}`}, llm.Error{Status: 404, Message: "Not Found"}, false},
		{"a list of details", wire{status: 422, body: `{"detail":[{"loc":["body"]}]}`}, llm.Error{Status: 422, Message: `[{"loc":["body"]}]`}, false},
		{"a page", wire{status: 502, header: map[string]string{"Content-Type": "text/html"}, body: "<html>Bad gateway</html>\n"},
			llm.Error{Status: 502, Message: "<html>Bad gateway</html>"}, true},
		{"nothing", wire{status: 500}, llm.Error{Status: 500}, true},
		{"an event before the answer", wire{body: `data: {"error":{"message":"Overloaded.","type":"server_error","code":null}}` + "\n\n"},
			llm.Error{Status: 500, Code: "server_error", Message: "Overloaded."}, true},
		{"an event that rejects the request", wire{body: `data: {"error":{"message":"Too long.","type":"invalid_request_error","code":"context_length_exceeded"}}` + "\n\n"},
			llm.Error{Status: 200, Code: "context_length_exceeded", Message: "Too long."}, false},
		{"an event in the answer", wire{body: `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n" + `data: {"error":{"code":429,"message":"Enough."},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}` + "\n\n"},
			llm.Error{Status: 429, Code: "429", Message: "Enough.", Cut: true}, true},
		{"a limit, told by an event", wire{body: `data: {"error":{"message":"Slow down.","type":"tokens","code":"rate_limit_exceeded"}}` + "\n\n"},
			llm.Error{Status: 429, Code: "rate_limit_exceeded", Message: "Slow down."}, true},
		{"a long page", wire{status: 502, body: strings.Repeat("é", 300)}, llm.Error{Status: 502, Message: strings.Repeat("é", 250) + "…"}, true},
		{"invalid content", wire{body: `data: {"choices":[{"delta":{"content":[1]}}]}` + "\n\n"}, llm.Error{Status: 200, Cut: true}, true},
		{"invalid audio", wire{body: `data: {"choices":[{"delta":{"audio":{"data":"%%"}}}]}` + "\n\n"},
			llm.Error{Status: 200, Cut: true}, true},
		{"no stream", wire{body: okBody}, llm.Error{Status: 200, Message: `streamed response has content type "application/json": use llm.NoStream`}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := llm.Generate(t.Context(), modelAt(t, another, &test.wire), llm.User("Hi"))
			got, ok := errors.AsType[*llm.Error](err)
			if !ok {
				t.Fatalf("the error is %v (%T)", err, err)
			}
			test.want.Provider = "openai"
			if d := cmp.Diff(test.want, *got, cmpopts.IgnoreFields(llm.Error{}, "Err")); d != "" {
				t.Errorf("the error (-want +got):\n%s", d)
			}
			if got.Temporary() != test.temp {
				t.Errorf("temporary is %v, want %v", got.Temporary(), test.temp)
			}
		})
	}
}

func TestErrorsNameRemedy(t *testing.T) {
	const azure = "https://owls.openai.azure.com"
	report := func(status int, code, message string) http.RoundTripper {
		return &wire{status: status, body: `{"error":{"code":"` + code + `","message":"` + message + `"}}`}
	}
	unknown := roundTrip(func(r *http.Request) (*http.Response, error) {
		return nil, &net.DNSError{Err: "no such host", Name: r.URL.Host, IsNotFound: true}
	})
	for _, test := range []struct {
		name string
		url  string
		wire http.RoundTripper
		want string
	}{
		{"wrong key", own, report(401, "invalid_api_key", "Incorrect API key provided."), "check Options.Key or the environment variable OPENAI_API_KEY"},
		{"wrong key without a reason", own, &wire{status: 401}, "401 Unauthorized: (check Options.Key"},
		{"wrong key of a resource", azure, report(401, "401", "Access denied due to invalid subscription key or wrong API endpoint."), "check that Options.Key is a key of the resource in Options.BaseURL"},
		{"wrong key of another server", another, report(401, "", "Unauthorized"), "check the API key"},
		{"wrong region", own, report(403, "unsupported_country_region_territory", "Country, region, or territory not supported"), "or use Azure"},
		{"wrong resource", azure, unknown, "check Options.BaseURL: unknown host owls.openai.azure.com"},
		{"unknown deployment", azure, report(404, "DeploymentNotFound", "The API deployment for this resource does not exist."), "must be the name of a deployment"},
		{"unknown model", own, report(404, "model_not_found", "The model gpt-0 does not exist or you do not have access to it."), "check the model name, and whether the project"},
		{"unknown model of another server", another, report(404, "model_not_found", "No such model."), "check the model name"},
		{"model without tools", another, report(400, "400", "gemma does not support tools"), "remove the tools, or use another model"},
		{"unknown call", own, report(400, "", "No tool call found for function call output with call_id call_1."), "use llm.Repair"},
		{"unknown call in a chat", another, report(400, "", "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."), "use llm.Repair"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := llm.Generate(t.Context(), modelAt(t, test.url, test.wire), llm.User("Hi"))
			if _, ok := errors.AsType[*llm.Error](err); !ok || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
	model, err := openai.New("m", &openai.Options{BaseURL: another, Token: token("old"), HTTPClient: &http.Client{Transport: &wire{status: 401}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := llm.Generate(t.Context(), model, llm.User("Hi")); err == nil || !strings.Contains(err.Error(), "check that Options.Token returns a current token") {
		t.Errorf("expired token: %v", err)
	}
}

// A success status does not make a response valid.
func TestInvalidWholeResponses(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"code":503,"message":"No provider."}}`: "openai: 503 Service Unavailable: 503: No provider.",
		`{"choices":[]}`:                `openai: 200 OK: response without choices: {"choices":[]}`,
		`{"choices":[{"message":{"cont`: "openai: 200 OK: error parsing response json: unexpected EOF",
		`<html>`:                        "openai: 200 OK: error parsing response json: invalid character '<' looking for beginning of value",
		`{"error":null,"choices":[]}`:   `openai: 200 OK: response without choices: {"error":null,"choices":[]}`,
	} {
		_, err := llm.Generate(t.Context(), llm.With(modelAt(t, another, &wire{body: body}), llm.NoStream()), llm.User("Hi"))
		if err == nil || err.Error() != want {
			t.Errorf("%s: the error is %v, want %s", body, err, want)
		}
	}
}

func TestUnreachableServer(t *testing.T) {
	down := errors.New("down")
	model := modelAt(t, another, roundTrip(func(*http.Request) (*http.Response, error) { return nil, down }))
	for _, m := range []llm.Model{model, llm.With(model, llm.NoStream())} {
		_, err := llm.Generate(t.Context(), m, llm.User("Hi"))
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Status != 0 || e.Cut || !e.Temporary() || !errors.Is(err, down) {
			t.Errorf("the error is %#v, want a temporary one with its cause", err)
		}
	}
}

func TestCanceledCallReturnsCause(t *testing.T) {
	why := errors.New("the user has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	model := modelAt(t, another, roundTrip(func(r *http.Request) (*http.Response, error) {
		cancel(why)
		<-r.Context().Done()
		return nil, r.Context().Err()
	}))
	for _, asked := range []string{"while it was asked", "before it was asked"} {
		_, err := llm.Generate(ctx, model, llm.User("Hi"))
		if !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
			t.Errorf("%s: the error is %v, want context.Canceled and its cause", asked, err)
		}
		if _, ok := errors.AsType[*llm.Error](err); ok {
			t.Errorf("%s: %v is an error of the provider, which would be retried", asked, err)
		}
	}
}

// After the stop reason, only an error from the server invalidates a response.
func TestResponseIsCompleteAfterStopReason(t *testing.T) {
	const said = `data: {"choices":[{"index":0,"delta":{"content":"Hoot."},"finish_reason":"stop"}]}` + "\n\n"
	for _, rest := range []io.Reader{iotest.ErrReader(io.ErrUnexpectedEOF), strings.NewReader(""), strings.NewReader("data: <html>\n\n")} {
		model := modelAt(t, another, roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(io.MultiReader(strings.NewReader(said), rest))}, nil
		}))
		if m, err := llm.Generate(t.Context(), model, llm.User("Hi")); err != nil || m.Text() != "Hoot." || m.Stop != llm.StopEnd {
			t.Errorf("the answer is %q (%s), %v; want all of it", m.Text(), m.Stop, err)
		}
	}
	_, err := llm.Generate(t.Context(), modelAt(t, another, &wire{body: said + `data: {"error":{"message":"Wrong.","type":"server_error"}}` + "\n\n"}), llm.User("Hi"))
	if e, ok := errors.AsType[*llm.Error](err); !ok || !e.Cut || e.Message != "Wrong." {
		t.Errorf("the error is %v, want the server's", err)
	}
}
