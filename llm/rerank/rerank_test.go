package rerank_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/test/retrytest"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/llm/rerank"
	"github.com/treadle-go/treadle/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ store.Reranker = (*rerank.Reranker)(nil)
	_ store.Reranker = (*rerank.Model)(nil)
)

// request is a request as a server receives it.
type request struct {
	path, auth string
	body       map[string]any
}

// serve starts a server that returns status and answer, where "%d" texts have scores.
func serve(t *testing.T, status int, header http.Header, answer func(n int) string) (url string, got *[]request) {
	t.Helper()
	got = &[]request{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		req := request{path: r.Method + " " + r.URL.Path, auth: r.Header.Get("Authorization")}
		if err = errors.Join(err, json.Unmarshal(raw, &req.body)); err != nil {
			t.Error(err)
		}
		*got = append(*got, req)
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
		docs, _ := req.body["documents"].([]any)
		_, _ = io.WriteString(w, answer(len(docs)))
	}))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		s.Close()
	})
	return s.URL, got
}

func TestServers(t *testing.T) {
	// The response lists the best text first, not the first text.
	cohere := func(int) string {
		return `{"id":"1","results":[{"index":1,"relevance_score":0.98},{"index":0,"relevance_score":0.02}],"meta":{"billed_units":{"search_units":1}}}`
	}
	voyage := func(int) string {
		return `{"object":"list","data":[{"relevance_score":0.98,"index":1},{"relevance_score":0.02,"index":0}],"model":"m","usage":{"total_tokens":26}}`
	}
	for name, test := range map[string]struct {
		open   func(string, *rerank.Options) (*rerank.Reranker, error)
		answer func(int) string
	}{
		"cohere": {rerank.Cohere, cohere},
		"voyage": {rerank.Voyage, voyage},
		"server": {rerank.Server, cohere},
	} {
		t.Run(name, func(t *testing.T) {
			url, got := serve(t, http.StatusOK, nil, test.answer)
			r, err := test.open("m", &rerank.Options{BaseURL: url + "/v9/", Key: "secret"})
			if err != nil {
				t.Fatal(err)
			}
			scores, err := r.Rerank(t.Context(), "who?", []string{"a", "b"})
			if err != nil || !slices.Equal(scores, []float64{0.02, 0.98}) {
				t.Errorf("scores %v, %v", scores, err)
			}
			want := request{"POST /v9/rerank", "Bearer secret", map[string]any{"model": "m", "query": "who?", "documents": []any{"a", "b"}}}
			if len(*got) != 1 || fmt.Sprint((*got)[0]) != fmt.Sprint(want) {
				t.Errorf("requests %v, want %v", *got, want)
			}
		})
	}
}

func TestManyTextsTakeSeveralRequests(t *testing.T) {
	url, got := serve(t, http.StatusOK, nil, func(n int) string {
		var results []string
		for i := range n {
			results = append(results, fmt.Sprintf(`{"index":%d,"relevance_score":%d}`, i, i))
		}
		slices.Reverse(results)
		return `{"results":[` + strings.Join(results, ",") + `]}`
	})
	r, err := rerank.Server("m", &rerank.Options{BaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	scores, err := r.Rerank(t.Context(), "q", slices.Repeat([]string{"text"}, 1500))
	if err != nil || len(scores) != 1500 || len(*got) != 2 || scores[999] != 999 || scores[1000] != 0 || scores[1499] != 499 {
		t.Errorf("%d scores in %d requests, %v", len(scores), len(*got), err)
	}
	if scores, err = r.Rerank(t.Context(), "q", nil); err != nil || len(scores) != 0 || len(*got) != 2 {
		t.Errorf("no texts: %v, %v, %d requests", scores, err, len(*got))
	}
}

func TestServerErrors(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		answer string
		want   string
	}{
		"key":       {401, `{"message":"invalid api token"}`, "cohere: 401 Unauthorized: invalid api token (check Options.Key)"},
		"model":     {404, `{"detail":"no such model"}`, "cohere: 404 Not Found: no such model (check the model name and Options.BaseURL)"},
		"nested":    {400, `{"error":{"message":"too long"}}`, "cohere: 400 Bad Request: too long"},
		"text":      {400, `{"error":"too long"}`, "cohere: 400 Bad Request: too long"},
		"page":      {502, `<html>bad gateway</html>`, "cohere: 502 Bad Gateway: <html>bad gateway</html>"},
		"limit":     {429, `{"message":"slow down"}`, "cohere: 429 Too Many Requests: slow down (retry after 2m0s)"},
		"html":      {200, `<html>`, "invalid response"},
		"missing":   {200, `{"results":[{"index":0,"relevance_score":1}]}`, "1 scores for 2 texts"},
		"duplicate": {200, `{"results":[{"index":0,"relevance_score":1},{"index":0,"relevance_score":1}]}`, "duplicate index 0"},
		"outside":   {200, `{"results":[{"index":0,"relevance_score":1},{"index":2,"relevance_score":1}]}`, "duplicate index 2"},
		"negative":  {200, `{"results":[{"index":-1,"relevance_score":1},{"index":1,"relevance_score":1}]}`, "duplicate index -1"},
		"no score":  {200, `{"results":[{"index":0},{"index":1}]}`, "lacks index or relevance_score"},
		"no index":  {200, `{"results":[{"relevance_score":1},{"relevance_score":1}]}`, "lacks index or relevance_score"},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{}
			if test.status == http.StatusTooManyRequests || test.status == http.StatusBadGateway {
				header.Set("Retry-After", "120") // too long to retry
			}
			url, _ := serve(t, test.status, header, func(int) string { return test.answer })
			r, err := rerank.Cohere("m", &rerank.Options{BaseURL: url})
			if err != nil {
				t.Fatal(err)
			}
			scores, err := r.Rerank(t.Context(), "q", []string{"a", "b"})
			failure, ok := errors.AsType[*llm.Error](err)
			if !ok || scores != nil || !strings.Contains(err.Error(), test.want) || failure.Status != test.status {
				t.Errorf("scores %v, error %v; want %q", scores, err, test.want)
			}
			if test.status == http.StatusTooManyRequests && failure.RetryAfter != 2*time.Minute {
				t.Errorf("retry after %v", failure.RetryAfter)
			}
		})
	}
}

func TestOpenRejectsInvalidOptions(t *testing.T) {
	t.Setenv("COHERE_API_KEY", "")
	t.Setenv("VOYAGE_API_KEY", "")
	for name, test := range map[string]struct {
		open  func(string, *rerank.Options) (*rerank.Reranker, error)
		model string
		opts  *rerank.Options
		want  string
	}{
		"cohere key": {rerank.Cohere, "m", nil, "set Options.Key or the environment variable COHERE_API_KEY"},
		"voyage key": {rerank.Voyage, "m", nil, "VOYAGE_API_KEY"},
		"model":      {rerank.Voyage, "", &rerank.Options{Key: "k"}, "empty model name"},
		"address":    {rerank.Server, "m", nil, "set Options.BaseURL"},
		"scheme":     {rerank.Server, "m", &rerank.Options{BaseURL: "host/v1"}, "invalid Options.BaseURL"},
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := test.open(test.model, test.opts); r != nil || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, %v; want %q", r, err, test.want)
			}
		})
	}
}

func TestKeyStaysWithItsServer(t *testing.T) {
	t.Setenv("COHERE_API_KEY", "secret")
	url, got := serve(t, http.StatusOK, nil, func(int) string { return `{"results":[{"index":0,"relevance_score":1}]}` })
	r, err := rerank.Cohere("m", &rerank.Options{BaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Rerank(t.Context(), "q", []string{"a"}); err != nil || (*got)[0].auth != "" {
		t.Errorf("another server received %q, %v", (*got)[0].auth, err)
	}
}

func TestEmptyInputIsRejected(t *testing.T) {
	r, err := rerank.Server("m", &rerank.Options{BaseURL: "http://localhost:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Rerank(t.Context(), " ", []string{"a"}); err == nil || !strings.Contains(err.Error(), "empty query") {
		t.Errorf("empty query: %v", err)
	}
	if _, err := r.Rerank(t.Context(), "q", []string{"a", "\n"}); err == nil || !strings.Contains(err.Error(), "empty text") {
		t.Errorf("empty text: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("left"))
	if _, err := r.Rerank(ctx, "q", []string{"a"}); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "left") {
		t.Errorf("canceled: %v", err)
	}
}

func TestModel(t *testing.T) {
	var asked string
	best := "[3, 9, 1, 3, 0]"
	m, err := rerank.NewModel(llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
		asked = req.Messages[len(req.Messages)-1].Text()
		call := llmtest.ToolCall(req.Tools[0].Name, json.RawMessage(`{"best":`+best+`}`))
		return llm.Assistant("", call), nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	scores, err := m.Rerank(t.Context(), "who?", []string{"a", "b", strings.Repeat("ü", 2000), "d"})
	if err != nil || !slices.Equal(scores, []float64{0.75, 0, 1, 0}) {
		t.Errorf("scores %v, %v", scores, err)
	}
	if !strings.Contains(asked, `{"number":1,"text":"a"}`) || len(asked) > 2200 {
		t.Errorf("the model saw %d bytes: %.200s", len(asked), asked)
	}
	best = "[]"
	if scores, err = m.Rerank(t.Context(), "who?", []string{"a"}); err != nil || !slices.Equal(scores, []float64{0}) {
		t.Errorf("scores %v, %v", scores, err)
	}
	if _, err := rerank.NewModel(nil); err == nil {
		t.Error("a nil model was accepted")
	}
	if _, err := m.Rerank(t.Context(), "", []string{"a"}); err == nil {
		t.Error("an empty query was accepted")
	}
}

func TestServersRetry(t *testing.T) {
	for name, open := range map[string]func(string, *rerank.Options) (*rerank.Reranker, error){
		"cohere": rerank.Cohere, "voyage": rerank.Voyage, "server": rerank.Server,
	} {
		t.Run(name, func(t *testing.T) {
			retrytest.Run(t, retrytest.Subject{
				Open: func(t *testing.T, client *http.Client) func(context.Context) error {
					r, err := open("m", &rerank.Options{BaseURL: retrytest.URL, HTTPClient: client})
					if err != nil {
						t.Fatal(err)
					}
					return func(ctx context.Context) error {
						_, err := r.Rerank(ctx, "who?", []string{"owl"})
						return err
					}
				},
				Answer: func(w http.ResponseWriter, _ *http.Request) {
					_, _ = w.Write([]byte(`{"results":[{"index":0,"relevance_score":1}]}`))
				},
			})
		})
	}
}
