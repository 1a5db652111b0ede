package gemini_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/internal/test/retrytest"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/gemini"
)

func openEmbedder(t *testing.T, name, url string, dimension int) *gemini.Embedder {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	e, err := gemini.NewEmbedder(name, &gemini.Options{BaseURL: url, Key: "a key", HTTPClient: client, Dimension: dimension})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

type embedRequest struct {
	Requests []struct {
		Model                string
		OutputDimensionality int
		TaskType             string
		Content              struct{ Parts []struct{ Text string } }
	}
}

// embeds answers each text, a number n, with the vector (n, -n).
func embeds(t *testing.T, s **server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req embedRequest
		if err := json.Unmarshal((*s).last().body, &req); err != nil {
			t.Error(err)
		}
		var vectors []object
		for _, one := range req.Requests {
			n, err := strconv.Atoi(one.Content.Parts[0].Text)
			if err != nil || one.Model != "models/gemini-embedding-001" || one.OutputDimensionality != 2 {
				t.Errorf("a request is %+v (%v)", one, err)
			}
			vectors = append(vectors, object{"values": []float64{float64(n), -float64(n)}})
		}
		says(http.StatusOK, string(marshal(object{"embeddings": vectors})))(w, r)
	}
}

func TestVectorsKeepOrderAcrossRequests(t *testing.T) {
	var s *server
	answer := embeds(t, &s)
	s = serve(t, answer, answer, answer)
	e := openEmbedder(t, "gemini-embedding-001", s.URL, 2)
	texts := make([]string, 201)
	want := make([][]float32, len(texts))
	for i := range texts {
		texts[i], want[i] = strconv.Itoa(i), []float32{float32(i), -float32(i)}
	}
	got, err := e.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the vectors (-want +got):\n%s", d)
	}
	var sizes []int
	for _, a := range s.asked {
		var req embedRequest
		if err := json.Unmarshal(a.body, &req); err != nil || a.path != "/v1beta/models/gemini-embedding-001:batchEmbedContents" {
			t.Errorf("%s: %v", a.path, err)
		}
		sizes = append(sizes, len(req.Requests))
	}
	if !slices.Equal(sizes, []int{100, 100, 1}) {
		t.Errorf("the requests have %v texts, want at most 100", sizes)
	}
	if got, err := e.Embed(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("no texts give %v, %v", got, err)
	}
}

func TestEmbedRequestBody(t *testing.T) {
	s := serve(t, says(http.StatusOK, `{"embeddings": [{"values": [0.5, -1, 2]}, {"values": [1, 0, 0]}]}`))
	got, err := openEmbedder(t, "text-owl-1", s.URL, 3).Embed(t.Context(), []string{"owls", "eggs"})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([][]float32{{0.5, -1, 2}, {1, 0, 0}}, got); d != "" {
		t.Errorf("the vectors (-want +got):\n%s", d)
	}
	golden(t, "embed", string(s.last().body))
}

func TestEmbedRequestNamesItsPurpose(t *testing.T) {
	const owl = "owl"
	for _, test := range []struct {
		model                        string
		documentTask, queryTask      string
		documentPrefix, searchPrefix string
	}{
		{"gemini-embedding-001", "RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY", "", ""},
		{"gemini-embedding-2", "", "", "title: none | text: ", "task: search result | query: "},
		{"text-owl-1", "", "", "", ""},
	} {
		answer := says(http.StatusOK, `{"embeddings": [{"values": [1, 2]}]}`)
		s := serve(t, answer, answer)
		e := openEmbedder(t, test.model, s.URL, 2)
		if _, err := e.Embed(t.Context(), []string{owl}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.EmbedQueries(t.Context(), []string{owl}); err != nil {
			t.Fatal(err)
		}
		var got [][2]string
		for _, a := range s.asked {
			var req embedRequest
			if err := json.Unmarshal(a.body, &req); err != nil {
				t.Fatal(err)
			}
			got = append(got, [2]string{req.Requests[0].TaskType, req.Requests[0].Content.Parts[0].Text})
		}
		want := [][2]string{{test.documentTask, test.documentPrefix + owl}, {test.queryTask, test.searchPrefix + owl}}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: task and text of a document and a query (-want +got):\n%s", test.model, d)
		}
		if _, err := e.Embed(t.Context(), []string{""}); err == nil || err.Error() != "gemini: text 1 of 1 is empty: remove it" {
			t.Errorf("an empty text: %v", err)
		}
	}
}

func TestWrongVectorsAreErrors(t *testing.T) {
	tests := []struct { // temporary errors request a wait that is too long to retry
		name   string
		answer http.HandlerFunc
		status int
		temp   bool
		wants  string
	}{
		{"too few", says(http.StatusOK, `{"embeddings": [{"values": [1, 2]}]}`), 200, false, "model gemini-embedding-001 returned 1 vectors for 2 texts"},
		{"too short", says(http.StatusOK, `{"embeddings": [{"values": [1, 2]}, {"values": [1]}]}`), 200, false, "have 1 numbers, not 2"},
		{"none", says(http.StatusOK, `{}`), 200, false, "returned 0 vectors"},
		{"another form", says(http.StatusOK, `{"embeddings": 1}`, "Retry-After", "90"), 200, true, ""},
		{"garbage", says(http.StatusOK, `{"embed`, "Retry-After", "90"), 200, true, ""},
		{"unknown model", says(http.StatusNotFound, `{"error": {"code": 404, "message": "models/x is not found", "status": "NOT_FOUND"}}`), 404, false, "NOT_FOUND: models/x is not found"},
		{"no key", says(http.StatusUnauthorized, `{"error": {"code": 401, "message": "the key is wrong", "status": "UNAUTHENTICATED"}}`), 401, false, "UNAUTHENTICATED: the key is wrong"},
		{"too many", says(http.StatusTooManyRequests, `{"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}`, "Retry-After", "90"), 429, true, "slow down (retry after 1m30s)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.answer)
			got, err := openEmbedder(t, "gemini-embedding-001", s.URL, 2).Embed(t.Context(), []string{"a", "b"})
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || got != nil || e.Provider != "gemini" || e.Status != tt.status || e.Temporary() != tt.temp || !strings.Contains(e.Error(), tt.wants) {
				t.Errorf("the vectors are %v, and the error %v", got, err)
			}
		})
	}
}

func TestDimensionDefaultsToModel(t *testing.T) {
	tests := []struct {
		model     string
		dimension int
		want      int
		wants     string
	}{
		{"gemini-embedding-001", 0, 3072, ""},
		{"gemini-embedding-001", 768, 768, ""},
		{"text-owl-1", 12, 12, ""},
		{"text-owl-1", 0, 0, "set Options.Dimension"},
		{"gemini-embedding-001", 4096, 0, "Options.Dimension is 4096, which"},
		{"gemini-embedding-001", -1, 0, "Options.Dimension is -1, which"},
		{"embedding-001", 256, 0, "dimension is 768 and cannot be 256"},
	}
	for _, tt := range tests {
		e, err := gemini.NewEmbedder(tt.model, &gemini.Options{Key: "k", Dimension: tt.dimension})
		if tt.wants != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("%s, %d: the error is %v, want %q", tt.model, tt.dimension, err, tt.wants)
			}
			continue
		}
		if err != nil || e.Dimension() != tt.want {
			t.Errorf("%s, %d: the embedder is %+v, %v; want dimension %d", tt.model, tt.dimension, e, err, tt.want)
		}
	}
}

func TestCanceledEmbeddingClosesConnection(t *testing.T) {
	arrived := make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	e := openEmbedder(t, "gemini-embedding-001", s.URL, 2)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := e.Embed(ctx, []string{"a"})
		done <- err
	}()
	<-arrived
	at := time.Now()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v, want context.Canceled", err)
	}
	<-s.closed
	if took := time.Since(at); took > 10*time.Second || s.open() != 0 {
		t.Errorf("after %v there are %d open connections", took, s.open())
	}
	if _, err := e.Embed(ctx, []string{"a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a canceled context the error is %v", err)
	}
}

func TestEmbedderRetries(t *testing.T) {
	retrytest.Run(t, retrytest.Subject{
		Open: func(t *testing.T, client *http.Client) func(context.Context) error {
			e, err := gemini.NewEmbedder("tiny", &gemini.Options{BaseURL: retrytest.URL, Key: "k", Dimension: 2, HTTPClient: client})
			if err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error {
				_, err := e.Embed(ctx, []string{"owl"})
				return err
			}
		},
		Answer: says(http.StatusOK, `{"embeddings":[{"values":[1,2]}]}`),
	})
}
