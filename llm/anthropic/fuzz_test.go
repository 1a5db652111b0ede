package anthropic_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
)

// Whatever comes over the connection, an answer is complete, with the reason for
// its end, or there is an error.
func FuzzAnswersAreCompleteOrErrors(f *testing.F) {
	names, err := filepath.Glob("testdata/*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(raw), filepath.Ext(name) == ".sse")
	}
	f.Add(begun+"event: content_block_stop\ndata: {\"index\":-1}\n\n", true)
	f.Fuzz(func(t *testing.T, body string, stream bool) {
		kind := "application/json"
		if stream {
			kind = "text/event-stream"
		}
		client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})}
		model, err := anthropic.New("claude-opus-5-5", &anthropic.Options{Key: "key", BaseURL: "http://localhost", HTTPClient: client})
		if err != nil {
			t.Fatal(err)
		}
		req := &llm.Request{Messages: llm.Messages{llm.User("Hi")}, NoStream: !stream}
		m, err := llm.Collect(model.Stream(t.Context(), req))
		_, known := errors.AsType[*llm.Error](err)
		switch {
		case err == nil && m.Stop == "":
			t.Errorf("the answer %+v has no end and no error", m)
		case err != nil && m.Stop != "":
			t.Errorf("the answer stopped for %q, and then failed: %v", m.Stop, err)
		case err != nil && !known && !strings.HasPrefix(err.Error(), "llm: joining"):
			t.Errorf("the error is %v (%T), want an *llm.Error", err, err)
		}
	})
}
