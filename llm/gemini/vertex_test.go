package gemini_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/gemini"
	"github.com/treadle-go/treadle/llm/llmtest"
)

const vertexPath = "/v1beta1/projects/owls/locations/europe-west1/publishers/google/models/"

// tokens returns a function that returns these tokens in turn, and then the last one.
func tokens(list ...string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		token := list[0]
		if len(list) > 1 {
			list = list[1:]
		}
		return token, nil
	}
}

// vertexOptions selects Vertex AI, served at url.
func vertexOptions(t *testing.T, url string) *gemini.Options {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	return &gemini.Options{Vertex: true, Project: "owls", Location: "europe-west1", BaseURL: url, Token: tokens("token"), HTTPClient: client}
}

func openVertex(t *testing.T, opts *gemini.Options) *gemini.Model {
	t.Helper()
	m, err := gemini.New("gemini-3-test", opts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestVertexProviderSuite(t *testing.T) {
	t.Setenv("GEMINI_API_KEY", "")
	t.Setenv("GOOGLE_API_KEY", "")
	p := geminiSuite
	p.Open = func(t *testing.T, url string) llm.Model { return openVertex(t, vertexOptions(t, url)) }
	p.Request = readVertexRequest
	llmtest.Run(t, p)
}

// readVertexRequest reads a request to Vertex AI as a request to the Gemini API.
func readVertexRequest(r *http.Request, body []byte) (llmtest.Received, error) {
	rest, ok := strings.CutPrefix(r.URL.Path, vertexPath)
	if !ok || r.Header.Get("Authorization") != "Bearer token" || r.Header.Get("X-Goog-Api-Key") != "" {
		return llmtest.Received{}, fmt.Errorf("%s %v", r.URL.Path, r.Header)
	}
	same := r.Clone(r.Context())
	same.URL.Path = "/v1beta/models/" + rest
	same.Header.Set("X-Goog-Api-Key", "a key")
	return readRequest(same, body)
}

func TestVertexNames(t *testing.T) {
	s := serve(t, ok(text("ok")))
	opts := vertexOptions(t, s.URL)
	m, err := llm.Open("vertex:gemini-2.5-pro", gemini.Provider(opts))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := llm.Generate(t.Context(), llm.With(m, llm.NoStream()), llm.User("Hi"))
	if err != nil || answer.Metadata["model_provider"] != "vertex" {
		t.Errorf("metadata %v, %v", answer.Metadata, err)
	}
	if d := llm.Describe(m); d.String() != "vertex:gemini-2.5-pro" || d.Window == 0 || d.Price == nil {
		t.Errorf("described as %+v", d)
	}
	if e, err := llm.OpenEmbedder("vertex:gemini-embedding-001", gemini.Provider(opts)); e != nil || err == nil {
		t.Errorf("opened an embedder: %v", err)
	}
	if e, err := gemini.NewEmbedder("gemini-embedding-001", opts); e != nil || err == nil {
		t.Errorf("opened an embedder: %v", err)
	}
}

// The address depends on the location.
func TestVertexLocations(t *testing.T) {
	for location, want := range map[string]string{
		"":         "aiplatform.googleapis.com/v1beta1/projects/owls/locations/global/publishers/google/models/gemini-3-test:streamGenerateContent",
		"global":   "aiplatform.googleapis.com/v1beta1/projects/owls/locations/global/",
		"eu":       "aiplatform.eu.rep.googleapis.com/v1beta1/projects/owls/locations/eu/",
		"us-east5": "us-east5-aiplatform.googleapis.com/v1beta1/projects/owls/locations/us-east5/",
	} {
		for _, option := range []bool{true, false} {
			env := map[bool]string{true: "asia-east1", false: location}[option && location != ""]
			t.Setenv("GOOGLE_CLOUD_LOCATION", env)
			t.Setenv("GOOGLE_VERTEX_BASE_URL", "")
			var got string
			opts := vertexOptions(t, "")
			opts.Location = ""
			if option {
				opts.Location = location
			}
			opts.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				got = r.URL.Host + r.URL.Path
				return nil, errors.New("not sent")
			})}
			if _, err := llm.Generate(t.Context(), openVertex(t, opts), llm.User("Hi")); err == nil || !strings.HasPrefix(got, want) {
				t.Errorf("%q: %s, want %s (%v)", location, got, want, err)
			}
		}
	}
}

func TestVertexTokenIsRenewedOnce(t *testing.T) {
	const expired = `{"error": {"code": 401, "message": "Request had invalid authentication credentials.", "status": "UNAUTHENTICATED"}}`
	rejects := says(http.StatusUnauthorized, expired)
	down := errors.New("identity provider is down")
	for _, test := range []struct {
		name    string
		answers []http.HandlerFunc
		token   func(context.Context) (string, error)
		want    []string
		err     string
	}{
		{"valid", []http.HandlerFunc{ok(text("ok"))}, tokens("new"), []string{"Bearer new"}, ""},
		{"expired", []http.HandlerFunc{rejects, ok(text("ok"))}, tokens("old", "new"), []string{"Bearer old", "Bearer new"}, ""},
		{"rejected", []http.HandlerFunc{rejects}, tokens("old"), []string{"Bearer old"}, "check that Options.Token returns a current token"},
		{"rejected twice", []http.HandlerFunc{rejects, rejects}, tokens("old", "older", "new"), []string{"Bearer old", "Bearer older"}, "401 Unauthorized"},
		{"missing", nil, func(context.Context) (string, error) { return "", down }, nil, "access token: identity provider is down"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, test.answers...)
			opts := vertexOptions(t, s.URL)
			opts.Token = test.token
			_, err := llm.Generate(t.Context(), llm.With(openVertex(t, opts), llm.NoStream()), llm.User("Hi"))
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("the error is %v, want %q", err, test.err)
			}
			var got []string
			for _, a := range s.asked {
				got = append(got, a.header.Get("Authorization"))
				if string(a.body) != string(s.asked[0].body) || len(a.body) == 0 {
					t.Errorf("the body is %s", a.body)
				}
			}
			if strings.Join(got, ",") != strings.Join(test.want, ",") {
				t.Errorf("the tokens are %q, want %q", got, test.want)
			}
		})
	}
}

func TestVertexDefaultCredentials(t *testing.T) {
	login := serve(t, says(http.StatusOK, `{"access_token": "fresh", "expires_in": 3600, "token_type": "Bearer"}`, "Content-Type", "application/json"))
	file := filepath.Join(t.TempDir(), "key.json")
	key := marshal(object{"type": "external_account", "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/p",
		"subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": login.URL, "quota_project_id": "billing",
		"credential_source": object{"file": filepath.Join(filepath.Dir(file), "subject")}})
	if err := errors.Join(os.WriteFile(file, key, 0o600), os.WriteFile(filepath.Join(filepath.Dir(file), "subject"), []byte("me"), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	s := serve(t, ok(text("ok")), ok(text("ok")))
	opts := vertexOptions(t, s.URL)
	opts.Token = nil
	m := llm.With(openVertex(t, opts), llm.NoStream())
	for range 2 { // the second call uses the same token
		if _, err := llm.Generate(t.Context(), m, llm.User("Hi")); err != nil {
			t.Fatal(err)
		}
		if h := s.last().header; h.Get("Authorization") != "Bearer fresh" || h.Get("X-Goog-User-Project") != "billing" {
			t.Errorf("the headers are %v", h)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestVertexOpeningErrors(t *testing.T) {
	t.Setenv("GOOGLE_CLOUD_PROJECT", "")
	t.Setenv("GOOGLE_CLOUD_LOCATION", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/missing/key.json")
	for name, test := range map[string]struct {
		change func(*gemini.Options)
		want   string
	}{
		"project":     {func(o *gemini.Options) { o.Project = "" }, "no project: set Options.Project or the environment variable GOOGLE_CLOUD_PROJECT"},
		"location":    {func(o *gemini.Options) { o.Location = "example.com/" }, `invalid location "example.com/": set Options.Location`},
		"key":         {func(o *gemini.Options) { o.Key = "k" }, "key for Vertex AI, which uses tokens: remove Options.Key"},
		"credentials": {func(o *gemini.Options) { o.Token = nil }, "run gcloud auth application-default login"},
		"switch":      {func(o *gemini.Options) { o.Vertex = false }, "set Options.Vertex too"},
	} {
		opts := vertexOptions(t, "")
		test.change(opts)
		if m, err := gemini.New("gemini-3-test", opts); m != nil || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestErrorsNameRemedy(t *testing.T) {
	report := func(status int, code, message string) http.HandlerFunc {
		return says(status, string(marshal(object{"error": object{"code": status, "message": message, "status": code}})))
	}
	for _, test := range []struct {
		name   string
		vertex bool
		answer http.HandlerFunc
		want   string
	}{
		{"wrong key", false, report(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."), "check Options.Key or the environment variable GEMINI_API_KEY"},
		{"expired key", false, report(400, "INVALID_ARGUMENT", "API key expired. Please renew the API key."), "check Options.Key"},
		{"wrong region", false, report(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), "use Options.Vertex"},
		{"unknown model", false, report(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1beta."), "check the model name"},
		{"model without tools", false, report(400, "INVALID_ARGUMENT", "Function calling is not enabled for models/gemma-3-27b-it"), "remove the tools, or use another model"},
		{"unknown call", false, report(400, "INVALID_ARGUMENT", "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."), "use llm.Repair"},
		{"expired token", true, report(401, "UNAUTHENTICATED", "Request had invalid authentication credentials."), "check that Options.Token returns a current token"},
		{"wrong project", true, report(403, "PERMISSION_DENIED", "Permission 'aiplatform.endpoints.predict' denied on resource."), "check that the project owls has enabled aiplatform.googleapis.com"},
		{"wrong region", true, report(404, "NOT_FOUND", "Publisher Model `projects/owls/locations/europe-west1/publishers/google/models/gemini-9` was not found or your project does not have access to it."), "whether the location europe-west1 serves the model"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serve(t, test.answer)
			m := open(t, "gemini-3-test", s.URL)
			if test.vertex {
				m = openVertex(t, vertexOptions(t, s.URL))
			}
			_, err := llm.Generate(t.Context(), m, llm.User("Hi"))
			if e, ok := errors.AsType[*llm.Error](err); !ok || !strings.Contains(e.Message, test.want) || e.Temporary() {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
	opts := vertexOptions(t, "")
	opts.Location, opts.HTTPClient = "europe-west99", &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return nil, &net.DNSError{Err: "no such host", Name: r.URL.Host, IsNotFound: true}
	})}
	if _, err := llm.Generate(t.Context(), openVertex(t, opts), llm.User("Hi")); err == nil || !strings.Contains(err.Error(), `check the location "europe-west99"`) {
		t.Errorf("unknown region: %v", err)
	}
}

// Vertex AI rejects some parts of the Gemini API, and signatures may be bound to it.
func TestHistoryOfGeminiOnVertex(t *testing.T) {
	call := llm.ToolCall{ID: "c1", Name: "look", Args: []byte(`{}`), Extra: map[string]any{"signature": "c2ln"}}
	history := func(from string) []llm.Message {
		return []llm.Message{llm.User("Hi"), {Role: llm.RoleAI, ToolCalls: []llm.ToolCall{call}, Metadata: map[string]any{"model_provider": from}, Blocks: []llm.Block{
			{Type: llm.BlockReasoning, Reasoning: "Look."},
			{Type: "gemini_part", Extra: map[string]any{"part": object{"toolCall": object{"id": "1", "toolType": "GOOGLE_SEARCH_WEB"}}}},
		}}, llm.ToolResult(call, "seen")}
	}
	for from, wants := range map[string]struct{ signature, lacks string }{
		"gemini":          {"skip_thought_signature_validator", "Look."},
		"google_genai":    {"skip_thought_signature_validator", "toolCall"},
		"google_vertexai": {"c2ln", "skip_thought"},
		"vertex":          {"c2ln", "skip_thought"},
	} {
		h := history(from)
		if strings.Contains(from, "vertex") {
			h[1].Blocks = h[1].Blocks[:1]
		}
		s := serve(t, ok(text("ok")))
		if _, err := llm.Generate(t.Context(), llm.With(openVertex(t, vertexOptions(t, s.URL)), llm.NoStream()), h...); err != nil {
			t.Fatal(err)
		}
		if body := string(s.last().body); !strings.Contains(body, `"thoughtSignature":"`+wants.signature+`"`) || strings.Contains(body, wants.lacks) {
			t.Errorf("%s: the request is %s", from, body)
		}
	}
	s := serve(t)
	m := openVertex(t, vertexOptions(t, s.URL))
	_, err := llm.Generate(t.Context(), m, llm.User("", llm.Block{Type: llm.BlockFile, FileID: "files/abc"}))
	if err == nil || !strings.Contains(err.Error(), "gs://bucket/file") {
		t.Errorf("an uploaded file: %v", err)
	}
	own := history("vertex")
	_, err = llm.Generate(t.Context(), m, own...)
	if _, reported := errors.AsType[*llm.Error](err); err == nil || reported || !strings.Contains(err.Error(), "gemini: request not sent: toolCall") {
		t.Errorf("a part that Vertex AI lacks: %v", err)
	}
}
