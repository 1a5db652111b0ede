package openai_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

// Options override the environment. OpenAI requires a key; other servers may not.
func TestServerAndKeySelection(t *testing.T) {
	for _, test := range []struct {
		name            string
		env             map[string]string
		opts            *openai.Options
		host, auth, err string
	}{
		{"by the environment", map[string]string{"OPENAI_API_KEY": "env"}, nil, "https://api.openai.com/v1/", "Bearer env", ""},
		{"by options", map[string]string{"OPENAI_API_KEY": "env", "OPENAI_BASE_URL": "http://env/v1"}, &openai.Options{Key: "own", BaseURL: "http://own/v1/"}, "http://own/v1/", "Bearer own", ""},
		{"another server of the environment", map[string]string{"OPENAI_BASE_URL": "http://localhost:11434/v1"}, nil, "http://localhost:11434/v1/", "", ""},
		{"another server", nil, &openai.Options{BaseURL: "http://localhost:11434/v1"}, "http://localhost:11434/v1/", "", ""},
		{"without a key", nil, nil, "", "", `openai: model "gpt-test": no API key: set Options.Key or the environment variable OPENAI_API_KEY`},
		{"without a scheme", nil, &openai.Options{Key: "k", BaseURL: "localhost:11434"}, "", "", `openai: model "gpt-test": invalid base URL "localhost:11434": use the form https://host/path`},
		{"with an invalid address", nil, &openai.Options{Key: "k", BaseURL: "http://%zz"}, "", "", `openai: model "gpt-test": invalid base URL: parse "http://%zz": invalid URL escape "%zz"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, name := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"} {
				t.Setenv(name, test.env[name])
			}
			w := &wire{body: okBody}
			opts := openai.Options{}
			if test.opts != nil {
				opts = *test.opts
			}
			opts.HTTPClient, opts.API = &http.Client{Transport: w}, "chat"
			model, err := openai.New("gpt-test", &opts)
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Fatalf("the error is %v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := llm.Generate(t.Context(), llm.With(model, llm.NoStream()), llm.User("Hi")); err != nil {
				t.Fatal(err)
			}
			same(t, "the address", test.host+"chat/completions", w.request.URL.String())
			same(t, "the authorization", test.auth, w.request.Header.Get("Authorization"))
		})
	}
}

func TestHeadersOverrideDefaults(t *testing.T) {
	w := &wire{body: okBody}
	model, err := openai.New("gpt-test", &openai.Options{BaseURL: another, Key: "a key", HTTPClient: &http.Client{Transport: w},
		Header: http.Header{"X-Title": {"Owls"}, "Authorization": {"Custom token"}, "X-Tag": {"a", "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := llm.Generate(t.Context(), llm.With(model, llm.NoStream()), llm.User("Hi")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{"X-Title": {"Owls"}, "Authorization": {"Custom token"}, "X-Tag": {"a", "b"}} {
		same(t, name, want, w.request.Header.Values(name))
	}
}

func TestProviderOpensByName(t *testing.T) {
	t.Setenv("OPENAI_BASE_URL", "")
	t.Setenv("OPENAI_API_KEY", "")
	p := openai.Provider(&openai.Options{Key: "a key"})
	m, err := llm.Open("openai:gpt-5-mini", p)
	if err != nil {
		t.Fatal(err)
	}
	if got := llm.Describe(m); got.String() != "openai:gpt-5-mini" || !got.NativeOutput || got.Window != 272_000 {
		t.Errorf("the description is %+v", got)
	}
	e, err := llm.OpenEmbedder("openai:text-embedding-3-small", p)
	if err != nil {
		t.Fatal(err)
	}
	if e.Model() != "openai:text-embedding-3-small" || e.Dimension() != 1536 {
		t.Errorf("the embedder is %s with dimension %d", e.Model(), e.Dimension())
	}
	missing := openai.Provider(nil)
	for open, want := range map[string]func() (any, error){
		"model":    func() (any, error) { m, err := llm.Open("openai:x", missing); return m, err },
		"embedder": func() (any, error) { e, err := llm.OpenEmbedder("openai:x", missing); return e, err },
	} {
		if got, err := want(); got != nil || err == nil || !strings.Contains(err.Error(), "OPENAI_API_KEY") {
			t.Errorf("without a key the %s is %v, %v; want nil and an error that names OPENAI_API_KEY", open, got, err)
		}
	}
}
