package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

// voyageRequest is the body of a request, as Voyage documents it.
type voyageRequest struct {
	Input      []string `json:"input"`
	Model      string   `json:"model"`
	InputType  string   `json:"input_type"`
	Truncation *bool    `json:"truncation"`
	Dimension  int      `json:"output_dimension"`
}

// voyageServer serves Voyage's embeddings. The first number of a vector is the length
// of the text.
type voyageServer struct {
	mu   sync.Mutex
	sent []voyageRequest
}

// voyageLimits lists the token limits of requests. A token is a byte here.
var voyageLimits = map[string]int{"voyage-4-large": 120_000, "voyage-4": 320_000, "voyage-3.5": 320_000, "voyage-4-lite": 1_000_000}

// ServeHTTP implements [http.Handler].
func (s *voyageServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fail := func(status int, format string, args ...any) {
		w.WriteHeader(status)
		_, _ = w.Write(marshal(object{"detail": fmt.Sprintf(format, args...)}))
	}
	var req voyageRequest
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&req); err != nil {
		fail(http.StatusBadRequest, "%v", err)
		return
	}
	limit, known := voyageLimits[req.Model]
	tokens := 0
	for _, text := range req.Input {
		tokens += len(text)
		if len(text) > 32_000 {
			fail(http.StatusBadRequest, "The example at index 0 in your batch has too many tokens and does not fit into the model's context window of 32000 tokens.")
			return
		}
	}
	switch {
	case r.URL.Path != "/v1/embeddings":
		fail(http.StatusNotFound, "Not Found")
	case r.Header.Get("Authorization") != "Bearer pa-key":
		fail(http.StatusUnauthorized, "Provided API key is invalid.")
	case !known:
		fail(http.StatusBadRequest, "Model %s is not supported.", req.Model)
	case req.Truncation == nil || *req.Truncation:
		fail(http.StatusBadRequest, "truncation must be false here")
	case len(req.Input) == 0 || len(req.Input) > 1000:
		fail(http.StatusBadRequest, "The batch size limit is 1000. Your batch size is %d.", len(req.Input))
	case tokens > limit:
		fail(http.StatusBadRequest, "The max allowed tokens per submitted batch is %d.", limit)
	default:
		size := max(req.Dimension, 1)
		if req.Dimension == 0 {
			size = 1024
		}
		data := make([]object, len(req.Input))
		for i, text := range req.Input {
			v := make([]float32, size)
			v[0] = float32(len(text))
			data[len(data)-1-i] = object{"object": "embedding", "embedding": v, "index": i}
		}
		s.mu.Lock()
		s.sent = append(s.sent, req)
		s.mu.Unlock()
		_, _ = w.Write(marshal(object{"object": "list", "data": data, "model": req.Model, "usage": object{"total_tokens": tokens}}))
	}
}

func voyageAt(t *testing.T, model, key string, dimension int) (*openai.Embedder, *voyageServer) {
	t.Helper()
	s := &voyageServer{}
	h := httptest.NewServer(s)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		h.Close()
	})
	e, err := openai.NewEmbedder(model, &openai.Options{Provider: "voyage", BaseURL: h.URL + "/v1", Key: key, Dimension: dimension, HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	return e, s
}

func TestVoyageEmbedder(t *testing.T) {
	e, s := voyageAt(t, "voyage-3.5", "pa-key", 256)
	same(t, "the name", "voyage:voyage-3.5", e.Model())
	same(t, "the dimension", 256, e.Dimension())
	documents, err := e.Embed(t.Context(), []string{"owl", "nest"})
	if err != nil {
		t.Fatal(err)
	}
	queries, err := e.EmbedQueries(t.Context(), []string{"birds"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the first numbers", []float32{3, 4, 5}, []float32{documents[0][0], documents[1][0], queries[0][0]})
	no := false
	same(t, "the requests", []voyageRequest{
		{[]string{"owl", "nest"}, "voyage-3.5", "document", &no, 256},
		{[]string{"birds"}, "voyage-3.5", "query", &no, 256},
	}, s.sent)
}

func TestVoyageBatches(t *testing.T) {
	long := make([]string, 45) // 45 texts of 20,000 bytes
	for i := range long {
		long[i] = strings.Repeat("x", 20_000+i)
	}
	short := make([]string, 2001)
	for i := range short {
		short[i] = fmt.Sprint(i)
	}
	for _, test := range []struct {
		model string
		texts []string
		want  []int
	}{
		{"voyage-4-large", long, []int{5, 5, 5, 5, 5, 5, 5, 5, 5}},
		{"voyage-4", long, []int{15, 15, 15}},
		{"voyage-4-lite", long, []int{45}},
		{"voyage-4-lite", short, []int{1000, 1000, 1}},
	} {
		e, s := voyageAt(t, test.model, "pa-key", 0)
		vectors, err := e.Embed(t.Context(), test.texts)
		if err != nil {
			t.Fatal(err)
		}
		var sizes []int
		for _, r := range s.sent {
			sizes = append(sizes, len(r.Input))
		}
		same(t, "the sizes of the requests of "+test.model, test.want, sizes)
		for i, text := range test.texts {
			if vectors[i][0] != float32(len(text)) {
				t.Fatalf("%s: vector %d belongs to a text of %v bytes, want %d", test.model, i, vectors[i][0], len(text))
			}
		}
	}
}

func TestVoyageErrors(t *testing.T) {
	for _, test := range []struct {
		model, key, text string
		dimension        int
		want             string
	}{
		{"voyage-4", "wrong", "owl", 0, "voyage: 401 Unauthorized: Provided API key is invalid."},
		{"voyage-9", "pa-key", "owl", 1024, "voyage: 400 Bad Request: Model voyage-9 is not supported."},
		{"voyage-4", "pa-key", strings.Repeat("x", 40_000), 0, "voyage: 400 Bad Request: The example at index 0 in your batch has too many tokens"},
	} {
		e, _ := voyageAt(t, test.model, test.key, test.dimension)
		_, err := e.Embed(t.Context(), []string{test.text})
		if _, ok := errors.AsType[*llm.Error](err); !ok || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("the error is %v, want %s", err, test.want)
		}
	}
	e, s := voyageAt(t, "voyage-4", "pa-key", 0)
	if _, err := e.EmbedQueries(t.Context(), []string{""}); err == nil || err.Error() != "voyage: text 1 of 1 is empty: remove it" || s.sent != nil {
		t.Errorf("an empty query: %v, and %d requests", err, len(s.sent))
	}
	for dimension, want := range map[int]string{
		4096: "Options.Dimension is 4096, which the model does not support",
		300:  "dimension is 1024 or one of [256 512 2048], and cannot be 300",
	} {
		_, err := openai.NewEmbedder("voyage-4", &openai.Options{BaseURL: "https://api.voyageai.com/v1", Key: "k", Dimension: dimension})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("dimension %d: the error is %v, want %s", dimension, err, want)
		}
	}
}

// Voyage's address is enough to select its format.
func TestVoyageByAddress(t *testing.T) {
	for _, address := range []string{"https://api.voyageai.com/v1", "https://ai.mongodb.com/v1"} {
		w := &wire{body: string(marshal(object{"data": []object{{"embedding": make([]float32, 1024)}}}))}
		e, err := openai.NewEmbedder("voyage-4", &openai.Options{BaseURL: address, Key: "k", HTTPClient: &http.Client{Transport: w}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.EmbedQueries(t.Context(), []string{"owl"}); err != nil || !strings.Contains(string(w.sent), `"input_type":"query"`) {
			t.Errorf("%s: %v, the request is %s", address, err, w.sent)
		}
	}
}
