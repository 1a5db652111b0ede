package demo

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

// Every provider receives its own key at its own endpoint.
func TestModelsSendKeysToProviders(t *testing.T) {
	var request *http.Request
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		request = r
		if status != http.StatusOK {
			http.Error(w, `{"error":{"message":"invalid key","type":"authentication_error"}}`, status)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hoot."},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	defer server.Close()
	for name, v := range map[string]string{
		"OPENAI_API_KEY": "key of OpenAI", "ANTHROPIC_API_KEY": "key of Anthropic", "GEMINI_API_KEY": "key of Gemini", "GOOGLE_API_KEY": "old key of Gemini",
		"OPENAI_BASE_URL": server.URL + "/v1", "ANTHROPIC_BASE_URL": server.URL, "GOOGLE_GEMINI_BASE_URL": server.URL + "/", "OPENAI_ORG_ID": "organization of OpenAI",
	} {
		t.Setenv(name, v)
	}
	for _, test := range []struct{ model, key, path, org string }{
		{"openai:a", "key of OpenAI", "/v1/chat/completions", "organization of OpenAI"},
		{"anthropic:a", "key of Anthropic", "/v1/chat/completions", ""},
		{"gemini:a", "key of Gemini", "/v1beta/openai/chat/completions", ""},
	} {
		t.Run(test.model, func(t *testing.T) {
			m, err := OpenModel(ModelOptions{Name: test.model})
			if err != nil {
				t.Fatal(err)
			}
			status = http.StatusOK
			answer, err := llm.Generate(t.Context(), m, llm.User("Hi"))
			if err != nil {
				t.Fatal(err)
			}
			diff(t, []string{answer.Text(), request.Header.Get("Authorization"), request.URL.Path, request.Header.Get("OpenAI-Organization"), llm.Describe(m).String()},
				[]string{"Hoot.", "Bearer " + test.key, test.path, test.org, test.model})
			status = http.StatusUnauthorized
			_, err = llm.Generate(t.Context(), m, llm.User("Hi"))
			provider, _, _ := strings.Cut(test.model, ":")
			if e, ok := errors.AsType[*llm.Error](err); !ok || e.Temporary() || e.Error() != provider+": 401 Unauthorized: authentication_error: invalid key (check the API key)" {
				t.Errorf("invalid key: %v", err)
			}
		})
	}
}

// A key is sent only to its provider.
func TestOpenModelRequiresKey(t *testing.T) {
	for _, c := range []*compatible{anthropic, gemini} {
		t.Setenv("OPENAI_API_KEY", "key of OpenAI")
		for _, name := range c.keys {
			t.Setenv(name, "")
		}
		if m, err := c.open("a"); err == nil || err.Error() != "missing API key: set the environment variable "+c.keys[0] {
			t.Errorf("%s without a key: %v, %v", c.info.Provider, m, err)
		}
	}
	t.Setenv("GOOGLE_API_KEY", "old key of Gemini")
	if _, err := gemini.open("a"); err != nil {
		t.Error(err)
	}
	diff(t, []string{anthropic.baseURL + anthropic.path, gemini.baseURL + gemini.path},
		[]string{"https://api.anthropic.com/v1", "https://generativelanguage.googleapis.com/v1beta/openai"})
}

func TestOpenModelChoosesModel(t *testing.T) {
	for _, test := range []struct {
		name  string
		flags ModelOptions
		keys  []string
		want  string
	}{
		{"no key", ModelOptions{}, nil, "offline:rules"},
		{"offline despite a key", ModelOptions{Name: "offline"}, []string{"OPENAI_API_KEY"}, "offline:rules"},
		{"OpenAI", ModelOptions{}, []string{"OPENAI_API_KEY", "GEMINI_API_KEY"}, "openai:gpt-5-mini"},
		{"Anthropic", ModelOptions{}, []string{"ANTHROPIC_API_KEY"}, "anthropic:claude-sonnet-5-5"},
		{"Gemini", ModelOptions{}, []string{"GEMINI_API_KEY"}, "gemini:gemini-3.8-flash"},
		{"a name", ModelOptions{Name: "anthropic:other"}, []string{"ANTHROPIC_API_KEY"}, "anthropic:other"},
		{"a server", ModelOptions{BaseURL: "http://localhost:1/v1", Name: "llama3.2:1b"}, nil, "openai:llama3.2:1b"},
		{"server without a model name", ModelOptions{BaseURL: "http://localhost:1/v1"}, nil, "--base-url requires --model, the model's name on that server"},
		{"unknown provider", ModelOptions{Name: "acme:x"}, nil, `llm: open model "acme:x": unknown provider "acme"; the providers are: openai, anthropic, gemini, offline`},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, m := range DefaultModels {
				t.Setenv(m.Key, "")
			}
			for _, key := range test.keys {
				t.Setenv(key, "a key")
			}
			m, err := OpenModel(test.flags)
			if err != nil {
				diff(t, err.Error(), test.want)
				return
			}
			diff(t, llm.Describe(m).String(), test.want)
		})
	}
}
