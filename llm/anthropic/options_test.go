package anthropic_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
)

func named(t *testing.T, name string) *anthropic.Model {
	t.Helper()
	model, err := anthropic.New(name, &anthropic.Options{Key: "key"})
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func TestNewRejectsInvalidOptions(t *testing.T) {
	for _, c := range []struct {
		name, model string
		opts        *anthropic.Options
		want        string
	}{
		{"no key", "claude-opus-5-5", nil, "ANTHROPIC_API_KEY"},
		{"no name", "", &anthropic.Options{Key: "key"}, "empty name"},
		{"no address", "claude-opus-5-5", &anthropic.Options{Key: "key", BaseURL: "api.anthropic.com"}, `"api.anthropic.com"`},
		{"a broken address", "claude-opus-5-5", &anthropic.Options{Key: "key", BaseURL: "http://a b"}, `"http://a b"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("ANTHROPIC_API_KEY", "")
			t.Setenv("ANTHROPIC_BASE_URL", "")
			// What the SDK would take instead counts for nothing.
			t.Setenv("ANTHROPIC_AUTH_TOKEN", "token")
			if _, err := anthropic.New(c.model, c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
		})
	}
}

func TestKeyAndAddressFromEnvironment(t *testing.T) {
	s := serve(t, ok())
	t.Setenv("ANTHROPIC_API_KEY", "secret")
	t.Setenv("ANTHROPIC_BASE_URL", s.URL)
	model, err := llm.Open("anthropic:claude-opus-5-5", anthropic.Provider(nil))
	if err != nil {
		t.Fatal(err)
	}
	generate(t, llm.With(model, llm.NoStream()), llm.User("Hi"))
	if got := s.headers[0].Get("X-Api-Key"); got != "secret" {
		t.Errorf("the key is %q, want the key from the environment", got)
	}
	if got := llm.Describe(model); got.String() != "anthropic:claude-opus-5-5" || !got.NativeOutput || got.Window != 1_000_000 {
		t.Errorf("the description is %+v", got)
	}
}

// The SDK would take more from the environment, and send it along.
func TestOtherEnvironmentIsIgnored(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "token")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Owl: hoot")
	s := serve(t, ok())
	generate(t, llm.With(open(t, s.URL), llm.NoStream()), llm.User("Hi"))
	if h := s.headers[0]; h.Get("Authorization") != "" || h.Get("X-Owl") != "" || h.Get("X-Api-Key") != "key" {
		t.Errorf("the headers are %v, want the key of the options and no more", h)
	}
}

func TestHeadersCanContainKey(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "")
	s := serve(t, ok())
	model, err := anthropic.New("claude-opus-5-5", &anthropic.Options{BaseURL: s.URL + "/proxy", Header: http.Header{
		"Authorization": {"Bearer token"}, "Anthropic-Beta": {"a", "b"}, "User-Agent": {"owl"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	generate(t, llm.With(model, llm.NoStream()), llm.User("Hi"))
	h := s.headers[0]
	if h.Get("Authorization") != "Bearer token" || h.Get("X-Api-Key") != "" || strings.Join(h.Values("Anthropic-Beta"), ",") != "a,b" || strings.Join(h.Values("User-Agent"), ",") != "owl" {
		t.Errorf("the headers are %v", h)
	}
}

func TestHTTPClientIsUsed(t *testing.T) {
	s := serve(t, ok())
	var asked string
	client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		asked = r.URL.Path
		return http.DefaultTransport.RoundTrip(r)
	})}
	model, err := anthropic.New("claude-opus-5-5", &anthropic.Options{Key: "key", BaseURL: s.URL + "/proxy/", HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	generate(t, llm.With(model, llm.NoStream()), llm.User("Hi"))
	if asked != "/proxy/v1/messages" {
		t.Errorf("the client was asked for %q", asked)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOpenEmbedderFails(t *testing.T) {
	_, err := llm.OpenEmbedder("anthropic:claude-opus-5-5", anthropic.Provider(&anthropic.Options{Key: "key"}))
	if err == nil || !strings.Contains(err.Error(), "anthropic has no embedders") {
		t.Errorf("the error is %v, want that the provider has no embedders", err)
	}
}
