package adapter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAuthorized(t *testing.T) {
	for _, test := range []struct {
		tokens string // in turn; "" is an error
		want   string
		status int
	}{
		{"new", "new:Hi", 200},
		{"old new", "old:Hi new:Hi", 200},
		{"old old", "old:Hi", 401},
		{"old older new", "old:Hi older:Hi", 401},
		{"old", "old:Hi", 401}, // the second token is missing
		{"", "", 0},
	} {
		var got []string
		left := strings.Fields(test.tokens)
		client := &http.Client{Transport: Authorized(roundTrip(func(r *http.Request) (*http.Response, error) {
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			body, err := io.ReadAll(r.Body)
			got = append(got, token+":"+string(body))
			status := http.StatusUnauthorized
			if token == "new" {
				status = http.StatusOK
			}
			return &http.Response{StatusCode: status, Body: http.NoBody, Request: r}, err
		}), func(context.Context) (string, error) {
			if len(left) == 0 {
				return "", errors.New("no token")
			}
			token := left[0]
			left = left[1:]
			return token, nil
		})}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.com", strings.NewReader("Hi"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		status := 0
		if err == nil {
			status = resp.StatusCode
			_ = resp.Body.Close()
		} else if !strings.Contains(err.Error(), "access token: no token") {
			t.Errorf("%q: %v", test.tokens, err)
		}
		if strings.Join(got, " ") != test.want || status != test.status {
			t.Errorf("%q: sent %q and got %d, want %q and %d", test.tokens, got, status, test.want, test.status)
		}
	}
}

func TestRemedy(t *testing.T) {
	for message, want := range map[string]string{
		"No tool call found for function call output with call_id c1.":                                       "llm.Repair",
		"Invalid parameter: 'tool_call_id' of 'c1' not found in 'tool_calls' of previous message.":           "llm.Repair",
		"messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: c1.":                  "llm.Repair",
		"messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: c1.":          "llm.Repair",
		"Please ensure that function response turn comes immediately after a function call turn.":            "llm.Repair",
		"Expected toolResult blocks at messages.2.content for the following Ids: c1":                         "llm.Repair",
		"This model doesn't support tool use.":                                                               "remove the tools",
		"Function calling is not enabled for models/gemma":                                                   "remove the tools",
		"The toolConfig field must be defined when using toolUse and toolResult content blocks.":             "",
		"temperature is deprecated for this model":                                                           "",
		"tools.0.function.parameters: Invalid schema for function 'f': 'string' is not valid under any type": "",
	} {
		if got := Remedy(message); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
}

func TestIsUnknownHost(t *testing.T) {
	unknown := fmt.Errorf("post: %w", &net.DNSError{Err: "no such host", IsNotFound: true})
	if !IsUnknownHost(unknown) || IsUnknownHost(&net.DNSError{Err: "timeout", IsTimeout: true}) || IsUnknownHost(nil) {
		t.Error("wrong errors are unknown hosts")
	}
}
