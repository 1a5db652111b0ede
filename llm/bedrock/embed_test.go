package bedrock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/treadle-go/treadle/internal/test/retrytest"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/bedrock"
)

// vectorServer serves the embedding models. The first number of a vector is the
// text, and the second the number of texts in the request.
type vectorServer struct {
	mu       sync.Mutex
	requests []object
	size     int
}

// ServeHTTP implements [http.Handler].
func (s *vectorServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req object
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || !strings.HasSuffix(r.URL.Path, "/invoke") {
		http.Error(w, fmt.Sprint(err), http.StatusTeapot)
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, req)
	s.mu.Unlock()
	vector := func(text any, n int) []float32 {
		v := make([]float32, s.size)
		_, _ = fmt.Sscan(text.(string), &v[0])
		v[1] = float32(n)
		return v
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case req["inputText"] != nil:
		if req["inputText"] == "13" {
			w.Header().Set("X-Amzn-ErrorType", "ThrottlingException")
			w.Header().Set("Retry-After", "120") // too long to retry
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"message":"slow down"}`))
			return
		}
		_, _ = w.Write(marshal(object{"embedding": vector(req["inputText"], 1), "inputTextTokenCount": 1}))
	case req["singleEmbeddingParams"] != nil:
		text := req["singleEmbeddingParams"].(object)["text"].(object)["value"]
		_, _ = w.Write(marshal(object{"embeddings": []object{{"embeddingType": "TEXT", "embedding": vector(text, 1)}}}))
	default:
		var vectors [][]float32
		texts := req["texts"].([]any)
		for _, text := range texts {
			vectors = append(vectors, vector(text, len(texts)))
		}
		var out any = vectors
		if strings.Contains(r.URL.Path, "embed-v4") {
			out = object{"float": vectors}
		}
		_, _ = w.Write(marshal(object{"embeddings": out}))
	}
}

func TestEmbedders(t *testing.T) {
	texts := make([]string, 100)
	for i := range texts {
		texts[i] = fmt.Sprint(1000 + i)
	}
	for model, test := range map[string]struct {
		size, requests int
		opts           bedrock.Options
		field          string
		purposes       string // of documents and queries
	}{
		"amazon.titan-embed-text-v2:0":                 {1024, 100, bedrock.Options{}, "", ""},
		"amazon.titan-embed-text-v1":                   {1536, 100, bedrock.Options{}, "", ""},
		"us.cohere.embed-v4:0":                         {512, 2, bedrock.Options{Dimension: 512}, "output_dimension", "search_document search_query"},
		"cohere.embed-multilingual-v3":                 {1024, 2, bedrock.Options{}, "", "search_document search_query"},
		"amazon.nova-2-multimodal-embeddings-v1:0":     {3072, 100, bedrock.Options{}, "", "GENERIC_INDEX TEXT_RETRIEVAL"},
		"arn:aws:bedrock:us-east-1:1:provisioned/a1b2": {256, 100, bedrock.Options{Dimension: 256, BaseModel: "amazon.titan-embed-text-v2:0"}, "dimensions", ""},
	} {
		s := &vectorServer{size: test.size}
		h := httptest.NewServer(s)
		opts := options(h.URL)
		opts.Dimension, opts.BaseModel = test.opts.Dimension, test.opts.BaseModel
		e, err := bedrock.NewEmbedder(model, opts)
		if err != nil {
			t.Fatal(err)
		}
		if e.Model() != "bedrock:"+model || e.Dimension() != test.size {
			t.Errorf("%s with %d numbers", e.Model(), e.Dimension())
		}
		vectors, err := e.Embed(t.Context(), texts)
		if err != nil || len(vectors) != len(texts) {
			t.Fatalf("%s: %d vectors, %v", model, len(vectors), err)
		}
		for i, v := range vectors {
			if v[0] != float32(1000+i) {
				t.Fatalf("%s: vector %d belongs to text %v", model, i, v[0])
			}
		}
		if len(s.requests) != test.requests {
			t.Errorf("%s: %d requests, want %d", model, len(s.requests), test.requests)
		}
		if test.field != "" && s.requests[0][test.field] != float64(test.size) {
			t.Errorf("%s: request %v without %s", model, s.requests[0], test.field)
		}
		s.requests = s.requests[:1]
		if v, err := e.EmbedQueries(t.Context(), texts[:1]); err != nil || v[0][0] != 1000 {
			t.Errorf("%s: query %v: %v", model, texts[0], err)
		}
		if got := strings.TrimSpace(purposeOf(s.requests[0]) + " " + purposeOf(s.requests[1])); got != test.purposes {
			t.Errorf("%s: purposes are %q, want %q", model, got, test.purposes)
		}
		h.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}

// purposeOf returns the purpose in a request, or "".
func purposeOf(req object) string {
	if nova, ok := req["singleEmbeddingParams"].(object); ok {
		return nova["embeddingPurpose"].(string)
	}
	kind, _ := req["input_type"].(string)
	return kind
}

func TestEmbedderErrors(t *testing.T) {
	for model, opts := range map[string]bedrock.Options{
		"acme.embed-v1":                {},
		"amazon.titan-embed-text-v9":   {},
		"amazon.titan-embed-text-v2:0": {Dimension: 300},
	} {
		o := options("http://localhost")
		o.Dimension = opts.Dimension
		if _, err := bedrock.NewEmbedder(model, o); err == nil || !strings.Contains(err.Error(), model) {
			t.Errorf("%s: %v", model, err)
		}
	}
	h := httptest.NewServer(&vectorServer{size: 7})
	defer h.Close()
	defer http.DefaultClient.CloseIdleConnections()
	e, err := bedrock.NewEmbedder("amazon.titan-embed-text-v2:0", options(h.URL))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Embed(t.Context(), []string{"1"}); err == nil || !strings.Contains(err.Error(), "have 7 numbers, not 1024") {
		t.Errorf("vectors of another length: %v", err)
	}
	if _, err := e.Embed(t.Context(), []string{"1", ""}); err == nil || err.Error() != "bedrock: text 2 of 2 is empty: remove it" {
		t.Errorf("empty text: %v", err)
	}
	_, err = e.Embed(t.Context(), []string{"13", "13", "13"})
	if failed, ok := errors.AsType[*llm.Error](err); !ok || failed.Status != http.StatusTooManyRequests || !failed.Temporary() {
		t.Errorf("throttled: %v", err)
	}
}

func TestEmbeddersRetry(t *testing.T) {
	for _, model := range []string{"amazon.titan-embed-text-v2:0", "amazon.nova-2-multimodal-embeddings-v1:0", "cohere.embed-v4:0"} {
		t.Run(model, func(t *testing.T) {
			retrytest.Run(t, retrytest.Subject{
				Open: func(t *testing.T, client *http.Client) func(context.Context) error {
					opts := options(retrytest.URL)
					opts.HTTPClient, opts.Dimension = client, 256
					e, err := bedrock.NewEmbedder(model, opts)
					if err != nil {
						t.Fatal(err)
					}
					return func(ctx context.Context) error {
						_, err := e.Embed(ctx, []string{"1"})
						return err
					}
				},
				Answer: (&vectorServer{size: 256}).ServeHTTP,
			})
		})
	}
}
