package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
	"github.com/treadle-go/treadle/llm/anthropic/vertex"
	"github.com/treadle-go/treadle/llm/llmtest"
)

const vertexPath = "/v1/projects/owls/locations/europe-west1/publishers/anthropic/models/"

func vertexOptions(url string) *vertex.Options {
	return &vertex.Options{Project: "owls", Location: "europe-west1", BaseURL: url, Token: func(context.Context) (string, error) { return "token", nil }}
}

func openVertex(t *testing.T, opts *vertex.Options) *anthropic.Model {
	t.Helper()
	m, err := vertex.New("claude-sonnet-4-6", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return m
}

func TestVertexProviderSuite(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "a key that must stay here")
	p := suite()
	p.Open = func(t *testing.T, url string) llm.Model { return openVertex(t, vertexOptions(url)) }
	p.Request = readVertexRequest
	llmtest.Run(t, p)
}

// readVertexRequest reads a request to Vertex AI as one to Anthropic's API.
func readVertexRequest(r *http.Request, body []byte) (llmtest.Received, error) {
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		return llmtest.Received{}, err
	}
	rest, ok := strings.CutPrefix(r.URL.Path, vertexPath)
	model, method, _ := strings.Cut(rest, ":")
	want := "rawPredict"
	if fields["stream"] == true {
		want = "streamRawPredict"
	}
	if !ok || method != want || fields["model"] != nil || fields["anthropic_version"] != "vertex-2023-10-16" ||
		r.Header.Get("Authorization") != "Bearer token" || r.Header.Get("X-Api-Key") != "" {
		return llmtest.Received{}, fmt.Errorf("%s %v %v", r.URL.Path, r.Header, fields)
	}
	fields["model"] = model
	same := r.Clone(r.Context())
	same.URL.Path = "/v1/messages"
	same.Header.Set("X-Api-Key", "key")
	same.Header.Set("Anthropic-Version", "2023-06-01")
	return readRequest(same, encode(fields))
}

func TestVertexErrors(t *testing.T) {
	t.Setenv("GOOGLE_CLOUD_PROJECT", "")
	if _, err := vertex.New("claude-sonnet-5-5", nil); err == nil || !strings.Contains(err.Error(), "GOOGLE_CLOUD_PROJECT") {
		t.Errorf("without a project: %v", err)
	}
	if _, err := vertex.New("claude-sonnet-5-5", &vertex.Options{Project: "owls", Location: "example.com/"}); err == nil || !strings.Contains(err.Error(), `invalid location "example.com/"`) {
		t.Errorf("with an invalid location: %v", err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/missing/key.json")
	if _, err := vertex.New("claude-sonnet-5-5", &vertex.Options{Project: "owls"}); err == nil || !strings.Contains(err.Error(), "gcloud auth") {
		t.Errorf("without credentials: %v", err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":{"code":404,"message":"Publisher Model was not found","status":"NOT_FOUND"}}`))
	}))
	defer s.Close()
	defer http.DefaultClient.CloseIdleConnections()
	m, err := vertex.New("claude-0", vertexOptions(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	_, err = llm.Generate(t.Context(), m, llm.User("Hi"))
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Status != http.StatusNotFound || !strings.Contains(e.Message, "Publisher Model") {
		t.Errorf("Google's error: %v", err)
	}
	opts := vertexOptions(s.URL)
	opts.Token = func(context.Context) (string, error) { return "", errors.New("login expired") }
	if m, err = vertex.New("claude-0", opts); err != nil {
		t.Fatal(err)
	}
	if _, err := llm.Generate(t.Context(), m, llm.User("Hi")); err == nil || !strings.Contains(err.Error(), "access token: login expired") {
		t.Errorf("failed token: %v", err)
	}
}

func TestVertexTokenIsRenewedOnce(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		if r.Header.Get("Authorization") != "Bearer new" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		file("thinking_tools.sse")(w, r)
	}))
	defer s.Close()
	opts, left := vertexOptions(s.URL), []string{"old", "new"}
	opts.Token = func(context.Context) (string, error) {
		token := left[0]
		left = left[1:]
		return token, nil
	}
	if _, err := llm.Generate(t.Context(), openVertex(t, opts), llm.User("Hi")); err != nil {
		t.Error(err)
	}
	if len(got) != 2 || got[0] != "Bearer old" || got[1] != "Bearer new" {
		t.Errorf("the tokens are %q", got)
	}
}

// The address depends on the location.
func TestVertexLocations(t *testing.T) {
	for location, want := range map[string]string{
		"":         "aiplatform.googleapis.com/v1/projects/owls/locations/global/publishers/anthropic/models/claude-opus-4-5@20251101:streamRawPredict",
		"eu":       "aiplatform.eu.rep.googleapis.com/v1/projects/owls/locations/eu/",
		"us-east5": "us-east5-aiplatform.googleapis.com/v1/projects/owls/locations/us-east5/",
	} {
		t.Setenv("GOOGLE_CLOUD_LOCATION", "")
		var got string
		opts := vertexOptions("")
		opts.Location = location
		opts.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			got = r.URL.Host + r.URL.Path
			return nil, errors.New("not sent")
		})}
		m, err := vertex.New("claude-opus-4-5@20251101", opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := llm.Generate(t.Context(), m, llm.User("Hi")); err == nil || !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s (%v)", location, got, want, err)
		}
	}
	opts := vertexOptions("")
	opts.Location, opts.HTTPClient = "europe-west99", &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return nil, &net.DNSError{Err: "no such host", Name: r.URL.Host, IsNotFound: true}
	})}
	if _, err := llm.Generate(t.Context(), openVertex(t, opts), llm.User("Hi")); err == nil || !strings.Contains(err.Error(), `check the location "europe-west99"`) {
		t.Errorf("unknown region: %v", err)
	}
}
