package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/mcptool"
)

// settings is what the kit passes to the client, besides the scenario.
type settings struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	ToolCalls    []call `json:"toolCalls"`
}

type call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// client connects to the kit's server and does what the scenario expects.
func client(scenario, address string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	var set settings
	if raw := os.Getenv("MCP_CONFORMANCE_CONTEXT"); raw != "" {
		if err := json.Unmarshal([]byte(raw), &set); err != nil {
			return err
		}
	}
	s := mcptool.Server{Name: "kit", URL: address, Elicit: strings.Contains(scenario, "elicitation") || scenario == "sep-2322-client-request-state"}
	if strings.HasPrefix(scenario, "auth/") {
		if s.OAuth, err = login(&set); err != nil {
			return err
		}
	}
	servers, err := mcptool.Connect(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	tools, err := servers.Tools(ctx)
	if err != nil {
		return err
	}
	content := map[string]any{}
	var calls []call
	lenient := false
	switch scenario {
	case "tools_call":
		calls = []call{{"add_numbers", json.RawMessage(`{"a":5,"b":3}`)}}
	case "elicitation-sep1034-client-defaults":
		calls = []call{{Name: "test_client_elicitation_defaults"}}
	case "sse-retry":
		calls = []call{{Name: "test_reconnection"}}
	case "sep-2322-client-request-state":
		content["confirmed"], lenient = true, true
		for _, name := range []string{"test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated", "test_mrtr_no_result_type"} {
			calls = append(calls, call{Name: name})
		}
	case "http-custom-headers":
		calls, lenient = set.ToolCalls, true
	case "http-standard-headers", "http-invalid-tool-headers":
		lenient = true
		for _, t := range tools {
			calls = append(calls, call{t.Name, json.RawMessage(`{"region":"us-west1"}`)})
		}
	default:
		if strings.HasPrefix(scenario, "auth/") {
			calls = []call{{Name: "test-tool"}}
		}
	}
	for _, c := range calls {
		if err := use(ctx, tools, c, content); err != nil && !lenient {
			return err
		}
	}
	return nil
}

// use calls a tool in a run and answers each question with content.
func use(ctx context.Context, tools []*llm.Tool, c call, content map[string]any) error {
	i := slices.IndexFunc(tools, func(t *llm.Tool) bool { return t.Name == strings.ReplaceAll(c.Name, ".", "_") })
	if i < 0 {
		return fmt.Errorf("missing tool %s", c.Name)
	}
	if c.Arguments == nil {
		c.Arguments = json.RawMessage("{}")
	}
	g, err := treadle.NewWorkflow("use", func(ctx context.Context, c call) (string, error) {
		out, err := tools[i].Call(ctx, llm.ToolCall{ID: "1", Name: c.Name, Args: c.Arguments})
		return fmt.Sprint(out), err
	}, &treadle.Options{Saver: checkpoint.NewMemory()})
	if err != nil {
		return err
	}
	thread := g.Thread("1")
	_, err = thread.Run(ctx, c)
	for range 20 {
		if _, asked := errors.AsType[*treadle.InterruptError](err); !asked {
			break
		}
		_, err = thread.Resume(ctx, mcptool.Answer{Action: "accept", Content: content})
	}
	return err
}

// login returns a handler whose user follows the redirect of the login page at once.
func login(set *settings) (auth.OAuthHandler, error) {
	const callback = "http://localhost:3000/callback"
	c := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL:                     callback,
		AuthorizationCodeFetcher:        visit,
		ClientIDMetadataDocumentConfig:  &auth.ClientIDMetadataDocumentConfig{URL: "https://conformance-test.local/client-metadata.json"},
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{RedirectURIs: []string{callback}}},
	}
	if set.ClientID != "" && set.ClientSecret != "" {
		c.PreregisteredClient = &oauthex.ClientCredentials{ClientID: set.ClientID, ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: set.ClientSecret}}
	}
	return auth.NewAuthorizationCodeHandler(c)
}

// visit opens the login page and reads the code from the redirect.
func visit(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, nil)
	if err != nil {
		return nil, err
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := browser.Do(req)
	if err != nil {
		return nil, err
	}
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	to, err := url.Parse(resp.Header.Get("Location"))
	if err != nil {
		return nil, err
	}
	q := to.Query()
	return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
}
