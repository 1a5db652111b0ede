package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/internal/test/retrytest"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

func embedderAt(t *testing.T, model string, dimension int, w http.RoundTripper) *openai.Embedder {
	t.Helper()
	e, err := openai.NewEmbedder(model, &openai.Options{BaseURL: another, Key: "a key", Dimension: dimension, HTTPClient: &http.Client{Transport: w}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEmbedderKeepsOrder(t *testing.T) {
	for name, body := range map[string]string{
		"by index":   `{"object":"list","model":"m","data":[{"object":"embedding","index":1,"embedding":[0.25,-4]},{"object":"embedding","index":0,"embedding":[1,0.5]}],"usage":{"prompt_tokens":2,"total_tokens":2}}`,
		"as it came": `{"data":[{"embedding":[1,0.5]},{"embedding":[0.25,-4]}]}`,
		"as base64":  `{"data":[{"index":0,"embedding":"AACAPwAAAD8="},{"index":1,"embedding":"AACAPgAAgMA="}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := &wire{body: body}
			got, err := embedderAt(t, "nomic-embed-text", 2, w).Embed(t.Context(), []string{"owl", "nest"})
			if err != nil {
				t.Fatal(err)
			}
			same(t, "the vectors", [][]float32{{1, 0.5}, {0.25, -4}}, got)
			golden(t, "request_embeddings.json", w.sent)
			same(t, "the address", another+"/embeddings", w.request.URL.String())
		})
	}
}

// Only models that can shorten their vectors receive a dimension.
func TestEmbedderDimension(t *testing.T) {
	for _, test := range []struct {
		model     string
		dimension int
		want      int
		sent      any
		err       string
	}{
		{"text-embedding-3-small", 0, 1536, nil, ""},
		{"text-embedding-3-large", 0, 3072, nil, ""},
		{"text-embedding-3-large", 256, 256, 256., ""},
		{"text-embedding-3-small", 1536, 1536, nil, ""},
		{"text-embedding-ada-002", 0, 1536, nil, ""},
		{"nomic-embed-text", 768, 768, nil, ""},
		{"nomic-embed-text", 0, 0, nil, `openai: embedder "nomic-embed-text": unknown dimension: set Options.Dimension`},
		{"text-embedding-ada-002", 256, 0, nil, `openai: embedder "text-embedding-ada-002": dimension is 1536 and cannot be 256`},
		{"text-embedding-3-small", 1537, 0, nil, `openai: embedder "text-embedding-3-small": Options.Dimension is 1537, which the model does not support`},
		{"x", -1, 0, nil, `openai: embedder "x": Options.Dimension is -1, which the model does not support`},
		{"", 5, 0, nil, `openai: embedder "": empty name`},
	} {
		w := &wire{}
		e, err := openai.NewEmbedder(test.model, &openai.Options{BaseURL: another, Dimension: test.dimension, HTTPClient: &http.Client{Transport: w}})
		if err != nil || test.err != "" {
			if err == nil || err.Error() != test.err {
				t.Errorf("%s of %d: the error is %v, want %s", test.model, test.dimension, err, test.err)
			}
			continue
		}
		w.body = string(marshal(object{"data": []object{{"embedding": make([]float32, test.want)}}}))
		if _, err := e.Embed(t.Context(), []string{"owl"}); err != nil {
			t.Error(err)
		}
		var sent object
		if err := json.Unmarshal(w.sent, &sent); err != nil {
			t.Error(err)
		}
		if e.Dimension() != test.want || sent["dimensions"] != test.sent {
			t.Errorf("%s of %d makes %d and sent %v, want %d and %v", test.model, test.dimension, e.Dimension(), sent["dimensions"], test.want, test.sent)
		}
	}
}

// More than the API takes at once goes in several requests.
func TestEmbedderSendsBatches(t *testing.T) {
	var sizes []int
	server := roundTrip(func(r *http.Request) (*http.Response, error) {
		var req struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			return nil, err
		}
		sizes = append(sizes, len(req.Input))
		data := make([]object, len(req.Input))
		for i, text := range req.Input {
			data[i] = object{"index": i, "embedding": []int{len(text)}}
		}
		rec := httptest.NewRecorder()
		rec.Header().Set("Content-Type", "application/json")
		_, _ = rec.Write(marshal(object{"data": data}))
		return rec.Result(), nil
	})
	texts := make([]string, 2050, 2055)
	for i := range texts {
		texts[i] = strings.Repeat("x", i%7+1)
	}
	for i := range 5 {
		texts = append(texts, strings.Repeat("x", 250_000+i))
	}
	got, err := embedderAt(t, "m", 1, server).Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the sizes of the requests", []int{2048, 3, 1, 1, 1, 1}, sizes)
	for i, text := range texts {
		if got[i][0] != float32(len(text)) {
			t.Fatalf("text %d has the vector %v, want that of its own length %d", i, got[i], len(text))
		}
	}
	if none, err := embedderAt(t, "m", 1, server).Embed(t.Context(), nil); err != nil || len(none) != 0 || len(sizes) != 6 {
		t.Errorf("no texts gave %v, %v and %d requests", none, err, len(sizes)-6)
	}
}

func TestEmbedderFailures(t *testing.T) {
	for _, test := range []struct {
		wire wire
		want string
	}{
		{wire{status: 429, header: map[string]string{"Retry-After": "90"}, body: `{"error":{"message":"Slow down.","code":"rate_limit_exceeded"}}`},
			"openai: 429 Too Many Requests: rate_limit_exceeded: Slow down. (retry after 1m30s)"},
		{wire{body: `{"data":[{"index":0,"embedding":[1]}]}`}, "openai: 200 OK: model m returned 1 vectors for 2 texts"},
		{wire{body: `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`},
			"openai: 200 OK: vectors of model m have 2 numbers, not 1: set Options.Dimension to the length that it returns"},
		{wire{body: `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`}, "openai: 200 OK: invalid or duplicate index 0 among 2 vectors"},
		{wire{body: `{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}`}, "openai: 200 OK: invalid or duplicate index 2 among 2 vectors"},
		{wire{body: `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":"AADAfw=="}]}`}, "openai: 200 OK: vector of text 2 from model m contains NaN"},
		{wire{body: `{"data":[{"index":0,"embedding":"AACAfw=="},{"index":1,"embedding":[1]}]}`}, "openai: 200 OK: vector of text 1 from model m contains +Inf"},
		{wire{status: 401, body: `{"error":{"message":"Incorrect API key provided.","code":"invalid_api_key"}}`}, "openai: 401 Unauthorized: invalid_api_key: Incorrect API key provided. (check the API key)"},
		{wire{status: 404, body: `{"error":{"message":"The model m does not exist.","code":"model_not_found"}}`}, "openai: 404 Not Found: model_not_found: The model m does not exist. (check the model name)"},
		{wire{status: 400, body: `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error"}}`},
			"openai: 400 Bad Request: invalid_request_error: This model's maximum context length is 8192 tokens."},
	} {
		_, err := embedderAt(t, "m", 1, &test.wire).Embed(t.Context(), []string{"owl", "nest"})
		if _, ok := errors.AsType[*llm.Error](err); !ok || err.Error() != test.want {
			t.Errorf("the error is %v, want %s", err, test.want)
		}
	}
	none := &wire{}
	if _, err := embedderAt(t, "m", 1, none).Embed(t.Context(), []string{"owl", ""}); err == nil || err.Error() != "openai: text 2 of 2 is empty: remove it" || none.sent != nil {
		t.Errorf("with an empty text the error is %v, and the request %s", err, none.sent)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("no more"))
	if _, err := embedderAt(t, "m", 1, &wire{}).Embed(ctx, []string{"owl"}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a canceled context the error is %v, want context.Canceled", err)
	}
}

func TestEmbeddersRetry(t *testing.T) {
	for name, opts := range map[string]openai.Options{
		"compatible": {},
		"azure":      {Azure: true, Provider: "azure"},
		"voyage":     {Provider: "voyage"},
	} {
		t.Run(name, func(t *testing.T) {
			retrytest.Run(t, retrytest.Subject{
				Open: func(t *testing.T, client *http.Client) func(context.Context) error {
					opts.BaseURL = retrytest.URL
					opts.Key = "k"
					opts.Dimension = 2
					opts.HTTPClient = client
					e, err := openai.NewEmbedder("m", &opts)
					if err != nil {
						t.Fatal(err)
					}
					return func(ctx context.Context) error {
						_, err := e.Embed(ctx, []string{"owl"})
						return err
					}
				},
				Answer: func(w http.ResponseWriter, _ *http.Request) {
					_, _ = w.Write([]byte(`{"data":[{"index":0,"embedding":[1,2]}]}`))
				},
			})
		})
	}
}
