package rerank

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// Options configures access to a server. A nil *Options means the defaults.
type Options struct {
	// Key is the API key; empty means the environment variable COHERE_API_KEY or
	// VOYAGE_API_KEY. Compatible servers may not require one.
	Key string
	// BaseURL is the address without /rerank; empty means Cohere's or Voyage's. [Server] requires it.
	BaseURL string
	// Header is sent with every request. It replaces headers with the same name.
	Header http.Header
	// HTTPClient makes the requests; nil means [http.DefaultClient]. Redirects to
	// another server are not followed.
	HTTPClient *http.Client
}

// Reranker scores texts with the rerank endpoint of a server. It implements
// store.Reranker and is safe for concurrent use.
type Reranker struct {
	provider, model string
	url             string
	header          http.Header
	http            *http.Client
}

// Cohere returns a reranker that uses Cohere's API.
func Cohere(model string, opts *Options) (*Reranker, error) {
	return open("cohere", "https://api.cohere.com/v2", "COHERE_API_KEY", model, opts)
}

// Voyage returns a reranker that uses Voyage's API. Voyage shortens texts that are too
// long for the model.
func Voyage(model string, opts *Options) (*Reranker, error) {
	return open("voyage", "https://api.voyageai.com/v1", "VOYAGE_API_KEY", model, opts)
}

// Server returns a reranker that uses a server with the endpoint of Cohere or Voyage, such
// as vLLM, llama.cpp, or Jina. [Options].BaseURL is its address, usually ending with /v1.
func Server(model string, opts *Options) (*Reranker, error) {
	return open("rerank", "", "", model, opts)
}

func open(provider, home, keyName, model string, opts *Options) (*Reranker, error) {
	if opts == nil {
		opts = &Options{}
	}
	fail := func(format string, args ...any) (*Reranker, error) {
		return nil, fmt.Errorf("rerank: %s model %q: %w", provider, model, fmt.Errorf(format, args...))
	}
	base := cmp.Or(opts.BaseURL, home)
	key := opts.Key
	if key == "" && keyName != "" && opts.BaseURL == "" {
		key = os.Getenv(keyName) // not for another server
	}
	switch u, err := url.Parse(base); {
	case model == "":
		return fail("empty model name: set one of the server's rerank models")
	case base == "":
		return fail("no address: set Options.BaseURL")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fail("invalid Options.BaseURL: want an address such as https://host/v1")
	case key == "" && base == home && opts.Header.Get("Authorization") == "":
		return fail("no API key: set Options.Key or the environment variable %s", keyName)
	}
	r := &Reranker{provider: provider, model: model, url: strings.TrimSuffix(base, "/") + "/rerank", header: http.Header{}}
	r.header.Set("Content-Type", "application/json")
	r.header.Set("Accept", "application/json")
	if key != "" {
		r.header.Set("Authorization", "Bearer "+key)
	}
	for name, values := range opts.Header {
		r.header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	r.http = adapter.HTTPClient(opts.HTTPClient, base)
	return r, nil
}

// maxTexts is the maximum number of texts per request that Cohere and Voyage accept.
const maxTexts = 1000

// Rerank returns one score per text, in order; a higher score is better. It splits texts into
// requests of the size that the server accepts, and retries temporary failures like [llm.Retry]
// with the default policy.
func (r *Reranker) Rerank(ctx context.Context, query string, texts []string) ([]float64, error) {
	switch {
	case strings.TrimSpace(query) == "":
		return nil, fmt.Errorf("%s: rerank: empty query", r.provider)
	case slices.ContainsFunc(texts, func(t string) bool { return strings.TrimSpace(t) == "" }):
		return nil, fmt.Errorf("%s: rerank: empty text: remove it", r.provider)
	}
	scores := make([]float64, 0, len(texts))
	for part := range slices.Chunk(texts, maxTexts) {
		some, err := adapter.Retry(ctx, r.model, func(ctx context.Context) ([]float64, error) { return r.post(ctx, query, part) })
		if err != nil {
			return nil, err
		}
		scores = append(scores, some...)
	}
	return scores, nil
}

// request is the body of a request. Servers return the scores of all texts unless a
// request limits them.
type request struct {
	Model     string   `json:"model"`
	Query     string   `json:"query"`
	Documents []string `json:"documents"`
}

// response is the body of a response: Cohere's has results, and Voyage's has data.
type response struct {
	Results []result `json:"results"`
	Data    []result `json:"data"`
}

type result struct {
	Index *int     `json:"index"`
	Score *float64 `json:"relevance_score"`
}

// maxBody is the maximum number of bytes read of a response.
const maxBody = 8 << 20

func (r *Reranker) post(ctx context.Context, query string, texts []string) ([]float64, error) {
	if ctx.Err() != nil {
		return nil, adapter.Canceled(ctx)
	}
	body, err := json.Marshal(request{r.model, query, texts})
	if err != nil {
		return nil, fmt.Errorf("%s: rerank: %w", r.provider, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: rerank: %w", r.provider, err)
	}
	req.Header = r.header.Clone()
	resp, err := r.http.Do(req)
	if err != nil {
		return nil, r.failed(ctx, &llm.Error{Err: err})
	}
	defer func() { _ = resp.Body.Close() }() // only read
	failure := &llm.Error{Status: resp.StatusCode, RetryAfter: adapter.RetryAfter(resp.Header)}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		failure.Err, failure.Cut = err, true
		return nil, r.failed(ctx, failure)
	case resp.StatusCode >= http.StatusBadRequest:
		failure.Message = reported(raw)
		return nil, r.failed(ctx, failure)
	case len(raw) > maxBody:
		failure.Message = fmt.Sprintf("response exceeds %d bytes", maxBody)
		return nil, r.failed(ctx, failure)
	}
	scores, err := readScores(raw, len(texts))
	if err != nil {
		failure.Message = err.Error()
		return nil, r.failed(ctx, failure)
	}
	return scores, nil
}

// failed completes an error with the provider and a remedy.
func (r *Reranker) failed(ctx context.Context, e *llm.Error) error {
	if ctx.Err() != nil {
		return adapter.Canceled(ctx)
	}
	e.Provider = r.provider
	remedy := ""
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		remedy = "check Options.Key"
	case http.StatusNotFound:
		remedy = "check the model name and Options.BaseURL"
	}
	if remedy != "" {
		e.Message = strings.TrimSpace(e.Message + " (" + remedy + ")")
	}
	return e
}

// reported returns the message of an error response: Cohere's "message", Voyage's "detail",
// or the "error" of compatible servers.
func reported(raw []byte) string {
	var body struct {
		Message string          `json:"message"`
		Detail  string          `json:"detail"`
		Error   json.RawMessage `json:"error"`
	}
	if json.Unmarshal(raw, &body) != nil {
		return adapter.Excerpt(string(raw))
	}
	var nested struct {
		Message string `json:"message"`
	}
	var text string
	if json.Unmarshal(body.Error, &nested) != nil {
		_ = json.Unmarshal(body.Error, &text) // otherwise the whole body is reported
	}
	return cmp.Or(body.Message, body.Detail, nested.Message, text, adapter.Excerpt(string(raw)))
}

// readScores returns the n scores of a response in the order of the texts.
func readScores(raw []byte, n int) ([]float64, error) {
	var body response
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, fmt.Errorf("invalid response: %w: %s", err, adapter.Excerpt(string(raw)))
	}
	results := body.Results
	if results == nil {
		results = body.Data
	}
	if len(results) != n {
		return nil, fmt.Errorf("response contains %d scores for %d texts", len(results), n)
	}
	scores := make([]float64, n)
	for i := range scores {
		scores[i] = math.NaN()
	}
	for _, res := range results {
		switch {
		case res.Index == nil || res.Score == nil:
			return nil, errors.New("response lacks index or relevance_score")
		case *res.Index < 0 || *res.Index >= n || !math.IsNaN(scores[*res.Index]):
			return nil, fmt.Errorf("invalid or duplicate index %d among %d scores", *res.Index, n)
		}
		scores[*res.Index] = *res.Score
	}
	return scores, nil
}
