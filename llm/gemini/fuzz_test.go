package gemini_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/gemini"
)

// constant is a transport that answers everything with the same body.
type constant string

func (c constant) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(c)))}, nil
}

// Whatever a server sends, the caller gets an answer that has an end, or an error
// of the provider's, and never a panic.
func FuzzAnswerHasAnEndOrIsAnError(f *testing.F) {
	whole := string(marshal(event("STOP", text("ok"), fn("", "a", object{"x": 1}, "c2ln"), object{"text": "hm", "thought": true})))
	for _, body := range []string{"", whole, "data: " + whole + "\r\n\r\n", `{"error": {"code": 500}}`, "data: {\"candidates\": [{}]}\n\n", `{"promptFeedback": {"blockReason": "OTHER"}}`,
		`{"candidates": [{"content": {"parts": [null, {"inlineData": {"data": "cA=="}}, {"fileData": {}}, {"functionCall": {}}, {"toolCall": {"id": "1"}}]}, "finishReason": "MAX_TOKENS"}]}`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		model, err := gemini.New("gemini-3-test", &gemini.Options{Key: "k", HTTPClient: &http.Client{Transport: constant(body)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []llm.Model{model, llm.With(model, llm.NoStream())} {
			answer, err := llm.Generate(t.Context(), m, llm.User("Hi"))
			if err == nil {
				if answer.Stop == "" {
					t.Errorf("an answer without an end: %+v", answer)
				}
				continue
			}
			if _, ok := errors.AsType[*llm.Error](err); !ok {
				t.Errorf("the error is %v (%T)", err, err)
			}
		}
	})
}
