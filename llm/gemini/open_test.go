package gemini_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/gemini"
)

func TestKeyFromOptionsOrEnvironment(t *testing.T) {
	tests := []struct{ name, option, gemini, google, want string }{
		{"the option wins", "mine", "env", "old", "mine"},
		{"then GEMINI_API_KEY", "", "env", "old", "env"},
		{"then GOOGLE_API_KEY", "", "", "old", "old"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GEMINI_API_KEY", tt.gemini)
			t.Setenv("GOOGLE_API_KEY", tt.google)
			s := serve(t, ok(text("ok")))
			client := &http.Client{Transport: &http.Transport{}}
			t.Cleanup(client.CloseIdleConnections)
			m, err := gemini.New("gemini-3-test", &gemini.Options{Key: tt.option, BaseURL: s.URL, HTTPClient: client, Header: http.Header{"X-Team": {"owls"}}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := llm.Generate(t.Context(), llm.With(m, llm.NoStream()), llm.User("Hi")); err != nil {
				t.Fatal(err)
			}
			h := s.last().header
			if h.Get("X-Goog-Api-Key") != tt.want || h.Get("X-Team") != "owls" {
				t.Errorf("the header is %v, want the key %q and the team", h, tt.want)
			}
		})
	}
}

func TestOpenNamesMissingSettings(t *testing.T) {
	t.Setenv("GEMINI_API_KEY", "")
	t.Setenv("GOOGLE_API_KEY", "")
	t.Setenv("GOOGLE_GEMINI_BASE_URL", "")
	tests := []struct {
		name, model string
		opts        *gemini.Options
		wants       string
	}{
		{"no key", "gemini-3-test", nil, "set Options.Key or the environment variable GEMINI_API_KEY"},
		{"no name", "", &gemini.Options{Key: "k"}, "empty name"},
		{"no address", "gemini-3-test", &gemini.Options{Key: "k", BaseURL: "localhost:80"}, `invalid base URL "localhost:80": use the form`},
		{"a damaged address", "gemini-3-test", &gemini.Options{Key: "k", BaseURL: "http://[::1"}, "invalid base URL: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := gemini.New(tt.model, tt.opts)
			if m != nil || err == nil || !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("the model is %v, and the error %v; want %q", m, err, tt.wants)
			}
			e, err := gemini.NewEmbedder(tt.model, tt.opts)
			if e != nil || err == nil || !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("the embedder is %v, and the error %v; want %q", e, err, tt.wants)
			}
		})
	}
	if m, err := llm.Open("gemini:gemini-3-test", gemini.Provider(nil)); m != nil || err == nil {
		t.Errorf("opened without a key: %v, %v", m, err)
	}
	if e, err := llm.OpenEmbedder("gemini:gemini-embedding-001", gemini.Provider(nil)); e != nil || err == nil {
		t.Errorf("opened without a key: %v, %v", e, err)
	}
}

func TestOpenModelsAndEmbeddersByName(t *testing.T) {
	provider := gemini.Provider(&gemini.Options{Key: "k"})
	m, err := llm.Open("gemini:gemini-3-test", provider)
	if err != nil {
		t.Fatal(err)
	}
	if got := llm.Describe(m); got.String() != "gemini:gemini-3-test" || !got.NativeOutput {
		t.Errorf("the description is %+v", got)
	}
	e, err := llm.OpenEmbedder("gemini:gemini-embedding-001", provider)
	if err != nil {
		t.Fatal(err)
	}
	// A store's embedder also has these methods.
	forStore, ok := e.(interface {
		Model() string
		Dimension() int
	})
	if !ok || forStore.Model() != "gemini:gemini-embedding-001" || forStore.Dimension() != 3072 {
		t.Errorf("the embedder is %+v", e)
	}
}

// Reasoning in the words of each generation of models.
func TestReasoningLevelOrBudget(t *testing.T) {
	tests := []struct{ model, effort, want string }{
		{"gemini-3-test", "none", `{"thinkingLevel":"MINIMAL"}`},
		{"gemini-3-test", "medium", `{"includeThoughts":true,"thinkingLevel":"MEDIUM"}`},
		{"gemini-3-test", "512", `{"includeThoughts":true,"thinkingBudget":512}`},
		{"gemini-flash-latest", "high", `{"includeThoughts":true,"thinkingLevel":"HIGH"}`},
		{"gemini-2.5-flash", "none", `{"thinkingBudget":0}`},
		{"gemini-2.5-flash", "low", `{"includeThoughts":true,"thinkingBudget":1024}`},
		{"gemini-2.5-flash", "-1", `{"includeThoughts":true,"thinkingBudget":-1}`},
	}
	for _, tt := range tests {
		s := serve(t, ok(text("ok")))
		if _, err := llm.Generate(t.Context(), llm.With(open(t, tt.model, s.URL), llm.NoStream(), llm.Reasoning(tt.effort)), llm.User("Hi")); err != nil {
			t.Fatal(err)
		}
		if body := string(s.last().body); !strings.Contains(body, `"thinkingConfig":`+tt.want) {
			t.Errorf("%s, %s: the request is %s, want %s", tt.model, tt.effort, body, tt.want)
		}
	}
}
