package openai_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

// setAzure clears the environment and sets the given variables.
func setAzure(t *testing.T, env map[string]string) {
	t.Helper()
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_AD_TOKEN"} {
		t.Setenv(name, env[name])
	}
}

func token(values ...string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		v := values[0]
		if len(values) > 1 {
			values = values[1:]
		}
		return v, nil
	}
}

func TestAzureAddressAndKey(t *testing.T) {
	const resource = "https://owls.openai.azure.com"
	for _, test := range []struct {
		name           string
		env            map[string]string
		opts           openai.Options
		url, key, auth string
		err            string
	}{
		{"resource", nil, openai.Options{BaseURL: resource, Key: "k"}, resource + "/openai/v1/responses", "k", "", ""},
		{"Foundry", nil, openai.Options{BaseURL: "https://owls.services.ai.azure.com/", Key: "k"}, "https://owls.services.ai.azure.com/openai/v1/responses", "k", "", ""},
		{"with the path", nil, openai.Options{BaseURL: resource + "/openai/v1/", Key: "k"}, resource + "/openai/v1/responses", "k", "", ""},
		{"with part of the path", nil, openai.Options{BaseURL: resource + "/openai", Key: "k"}, resource + "/openai/v1/responses", "k", "", ""},
		{"Chat Completions", nil, openai.Options{BaseURL: resource, Key: "k", API: "chat"}, resource + "/openai/v1/chat/completions", "k", "", ""},
		{"gateway", nil, openai.Options{BaseURL: "https://gateway.example.com/ai?api-version=preview", Key: "k", Azure: true}, "https://gateway.example.com/ai/openai/v1/responses?api-version=preview", "k", "", ""},
		{"token", nil, openai.Options{BaseURL: resource, Token: token("t")}, resource + "/openai/v1/responses", "", "Bearer t", ""},
		{"environment", map[string]string{"AZURE_OPENAI_ENDPOINT": resource, "AZURE_OPENAI_API_KEY": "k"}, openai.Options{Azure: true}, resource + "/openai/v1/responses", "k", "", ""},
		{"token in the environment", map[string]string{"AZURE_OPENAI_ENDPOINT": resource, "AZURE_OPENAI_AD_TOKEN": "t"}, openai.Options{Azure: true}, resource + "/openai/v1/responses", "", "Bearer t", ""},
		{"OpenAI's environment", map[string]string{"OPENAI_BASE_URL": resource, "OPENAI_API_KEY": "k", "OPENAI_ORG_ID": "org-1"}, openai.Options{}, resource + "/openai/v1/responses", "k", "", ""},
		{"key of OpenAI", map[string]string{"OPENAI_API_KEY": "k"}, openai.Options{BaseURL: resource}, "", "", "", "no API key: set Options.Key, Options.Token, or the environment variable AZURE_OPENAI_API_KEY or AZURE_OPENAI_AD_TOKEN"},
		{"no address", nil, openai.Options{Azure: true, Key: "k"}, "", "", "", "no address: set Options.BaseURL or the environment variable AZURE_OPENAI_ENDPOINT"},
		{"deployment in the path", nil, openai.Options{BaseURL: resource + "/openai/deployments/gpt", Key: "k"}, "", "", "", "use " + resource + "/openai/v1, and the deployment as the model name"},
		{"key and token", nil, openai.Options{BaseURL: resource, Key: "k", Token: token("t")}, "", "", "", "both Options.Key and Options.Token are set"},
	} {
		t.Run(test.name, func(t *testing.T) {
			setAzure(t, test.env)
			w := &wire{body: strings.Replace(okBody, `{`, `{"output":[],`, 1)}
			test.opts.HTTPClient = &http.Client{Transport: w}
			model, err := openai.New("my-deployment", &test.opts)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
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
			same(t, "the address", test.url, w.request.URL.String())
			same(t, "the key", test.key, w.request.Header.Get("Api-Key"))
			same(t, "the token", test.auth, w.request.Header.Get("Authorization"))
			same(t, "the organization", "", w.request.Header.Get("OpenAI-Organization"))
		})
	}
}

// guarded accepts one token.
type guarded struct {
	wire
	token string
	got   []string
}

// RoundTrip implements [http.RoundTripper].
func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	g.got = append(g.got, r.Header.Get("Authorization"))
	if r.Header.Get("Authorization") != "Bearer "+g.token {
		return (&wire{status: 401, body: `{"error":{"code":"401","message":"Unauthorized."}}`}).RoundTrip(r)
	}
	return g.wire.RoundTrip(r)
}

func TestTokenIsRenewedOnce(t *testing.T) {
	setAzure(t, nil)
	down := errors.New("identity provider is down")
	for _, test := range []struct {
		name  string
		token func(context.Context) (string, error)
		want  []string
		err   string
	}{
		{"valid", token("new"), []string{"Bearer new"}, ""},
		{"expired", token("old", "new"), []string{"Bearer old", "Bearer new"}, ""},
		{"rejected", token("old"), []string{"Bearer old"}, "check that Options.Token returns a current token for the scope"},
		{"rejected twice", token("old", "older", "new"), []string{"Bearer old", "Bearer older"}, "401 Unauthorized"},
		{"missing", func(context.Context) (string, error) { return "", down }, nil, "access token: identity provider is down"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := &guarded{wire: wire{body: okResponse}, token: "new"}
			model, err := openai.New("my-deployment", &openai.Options{BaseURL: "https://owls.openai.azure.com", Token: test.token, HTTPClient: &http.Client{Transport: g}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = llm.Generate(t.Context(), llm.With(model, llm.NoStream()), llm.User("Hi"))
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("the error is %v, want %q", err, test.err)
			}
			same(t, "the tokens", test.want, g.got)
		})
	}
}

func TestAzureErrors(t *testing.T) {
	setAzure(t, nil)
	for _, test := range []struct {
		wire wire
		want string
	}{
		{wire{status: 404, body: `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`},
			"azure: 404 Not Found: DeploymentNotFound: The API deployment for this resource does not exist. (the model name must be the name of a deployment of this resource)"},
		{wire{status: 401, body: `{"error":{"code":"401","message":"Access denied due to invalid subscription key or wrong API endpoint."}}`},
			"azure: 401 Unauthorized: 401: Access denied due to invalid subscription key or wrong API endpoint. (check that Options.Key is a key of the resource in Options.BaseURL)"},
		{wire{status: 400, body: `{"error":{"code":"content_filter","message":"The prompt was filtered.","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`},
			"azure: 400 Bad Request: content_filter: The prompt was filtered."},
		{wire{status: 429, header: map[string]string{"retry-after-ms": "1500", "retry-after": "2"}, body: `{"error":{"code":"429","message":"Slow down."}}`},
			"azure: 429 Too Many Requests: 429: Slow down. (retry after 1.5s)"},
		{wire{status: 307, header: map[string]string{"Location": "https://elsewhere.example.com/"}},
			`azure: 307 Temporary Redirect: Post "https://elsewhere.example.com/": redirect to https://elsewhere.example.com, another host than https://owls.openai.azure.com: if this is intended, set the URL to it`},
	} {
		model, err := openai.New("my-deployment", &openai.Options{Provider: "azure", BaseURL: "https://owls.openai.azure.com", Key: "k", HTTPClient: &http.Client{Transport: &test.wire}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := llm.Generate(t.Context(), model, llm.User("Hi")); err == nil || err.Error() != test.want {
			t.Errorf("the error is %v\nwant %s", err, test.want)
		}
	}
}
