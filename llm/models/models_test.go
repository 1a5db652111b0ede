package models

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/llm"
)

// OpenCensus, which the SDK of package gemini links, starts a goroutine for the whole process.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// clean is an environment without keys and addresses.
func clean(t *testing.T) {
	t.Helper()
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "GEMINI_API_KEY", "GOOGLE_API_KEY"} {
		t.Setenv(name, "")
	}
	for _, p := range presets {
		t.Setenv(p.key, "")
		t.Setenv(p.base, "")
	}
}

// server answers "pong" by OpenAI's protocol, and keeps the last request.
func server(t *testing.T, status int) (url string, last func() *http.Request) {
	t.Helper()
	var got *http.Request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if status != http.StatusOK {
			_, _ = w.Write([]byte(`{"error":{"message":"the key is wrong","type":"invalid_request_error"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"pong"},"finish_reason":"stop"}]}`))
	}))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		s.Close()
	})
	return s.URL, func() *http.Request { return got }
}

func TestModelsOfAllServersAreOpenedByName(t *testing.T) {
	for _, p := range presets {
		t.Run(p.name, func(t *testing.T) {
			clean(t)
			url, last := server(t, http.StatusOK)
			t.Setenv("OPENAI_API_KEY", "the key of OpenAI")
			t.Setenv(p.key, "own key")
			t.Setenv(p.base, url)
			m, err := Open(p.name+":some/model:tag", llm.NoStream())
			if err != nil {
				t.Fatal(err)
			}
			answer, err := llm.Generate(t.Context(), m, llm.User("ping"))
			if err != nil || answer.Text() != "pong" {
				t.Fatalf("%q, %v", answer.Text(), err)
			}
			r := last()
			if want := p.path + "/chat/completions"; r.URL.Path != want {
				t.Errorf("the path is %s, want %s", r.URL.Path, want)
			}
			if p.name == "azure" {
				if r.Header.Get("Api-Key") != "own key" || r.Header.Get("Authorization") != "" {
					t.Errorf("the headers are %v", r.Header)
				}
			} else if got := r.Header.Get("Authorization"); got != "Bearer own key" {
				t.Errorf("the key is sent as %q", got)
			}
			if d := llm.Describe(m); d.String() != p.name+":some/model:tag" {
				t.Errorf("it is described as %s", d)
			}
		})
	}
}

func TestAServerWithoutAKeyGetsNone(t *testing.T) {
	clean(t)
	url, last := server(t, http.StatusOK)
	t.Setenv("OPENAI_API_KEY", "the key of OpenAI")
	t.Setenv("OLLAMA_HOST", strings.TrimPrefix(url, "http://")+"/v1/")
	m, err := Open("ollama:qwen3", llm.NoStream())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := llm.Generate(t.Context(), m, llm.User("ping")); err != nil {
		t.Fatal(err)
	}
	if r := last(); r.URL.Path != "/v1/chat/completions" || len(r.Header.Values("Authorization")) > 0 {
		t.Errorf("%s %v", r.URL.Path, r.Header)
	}
}

func TestErrorsNameTheProvider(t *testing.T) {
	clean(t)
	url, _ := server(t, http.StatusUnauthorized)
	t.Setenv("GROQ_BASE_URL", url)
	t.Setenv("GROQ_API_KEY", "wrong")
	m, err := Open("groq:llama-4", llm.NoStream())
	if err != nil {
		t.Fatal(err)
	}
	_, err = llm.Generate(t.Context(), m, llm.User("ping"))
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Provider != "groq" || e.Status != http.StatusUnauthorized {
		t.Errorf("%v", err)
	}
}

func TestWhatIsWrongWithANameIsSaid(t *testing.T) {
	clean(t)
	for name, want := range map[string]string{
		"":                          "provider cannot be told",
		"llama-4":                   "write provider:llama-4",
		"acme:model":                `unknown provider "acme"; the providers are: openai, anthropic, gemini, azure,`,
		"groq:":                     "the name after groq is missing",
		"groq:llama-4":              "GROQ_API_KEY",
		"azure:gpt-5":               "AZURE_OPENAI_ENDPOINT",
		"anthropic:claude-opus-5-5": "ANTHROPIC_API_KEY",
		"claude-opus-5-5":           "ANTHROPIC_API_KEY",
		"gemini-3.8-flash":          "GEMINI_API_KEY",
		"google_genai:gemini-3":     "GEMINI_API_KEY",
		"grok-5":                    "XAI_API_KEY",
		"gpt-5-mini":                "OPENAI_API_KEY",
		"ft:gpt-4o:acme::1":         `unknown provider "ft"`,
	} {
		if m, err := Open(name); m != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	t.Setenv("VLLM_BASE_URL", "ftp://host")
	if _, err := Open("vllm:m"); err == nil || !strings.Contains(err.Error(), "base URL") {
		t.Errorf("an address that is none: %v", err)
	}
	if _, err := OpenEmbedder("anthropic:voyage"); err == nil || !strings.Contains(err.Error(), "no embedders") {
		t.Errorf("an embedder of a provider without: %v", err)
	}
	if _, err := OpenEmbedder("text-embedding-3-small"); err == nil || !strings.Contains(err.Error(), "OPENAI_API_KEY") {
		t.Errorf("an embedder without a key: %v", err)
	}
}

func TestDocumentationListsEveryProviderWithItsVariables(t *testing.T) {
	page, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(page)) {
		if _, rest, ok := strings.Cut(line, "| `"); ok {
			name, _, _ := strings.Cut(rest, "`")
			rows[name] = line
		}
	}
	for _, p := range Providers() {
		if rows[p.Name] == "" {
			t.Errorf("docs/providers.md has no row for %s", p.Name)
		}
	}
	for _, p := range presets {
		for _, name := range []string{p.key, p.base} {
			if !strings.Contains(rows[p.name], "`"+name+"`") {
				t.Errorf("the row of %s in docs/providers.md has no %s: %s", p.name, name, rows[p.name])
			}
		}
	}
}

func TestAModelIsChosenAtEachCall(t *testing.T) {
	clean(t)
	one, lastOne := server(t, http.StatusOK)
	two, lastTwo := server(t, http.StatusOK)
	t.Setenv("VLLM_BASE_URL", one)
	t.Setenv("LMSTUDIO_BASE_URL", two)
	type key struct{}
	m := Choose(func(ctx context.Context) string { return ctx.Value(key{}).(string) }, llm.NoStream())
	call := func(name string) error {
		_, err := llm.Generate(context.WithValue(t.Context(), key{}, name), m, llm.User("ping"))
		return err
	}
	if err := errors.Join(call("vllm:a"), call("lmstudio:b"), call("vllm:a")); err != nil || lastOne() == nil || lastTwo() == nil {
		t.Errorf("%v", err)
	}
	if err := call("nobody:a"); err == nil || !strings.Contains(err.Error(), "unknown provider") {
		t.Errorf("an unknown name: %v", err)
	}
	if c := m.(*chosen); len(c.open) != 2 {
		t.Errorf("%d models are open", len(c.open))
	}
}
