package openai

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/treadle-go/treadle/internal/adapter"
)

// client sends requests to a server.
type client struct {
	http   *http.Client
	base   *url.URL
	header http.Header
	token  func(context.Context) (string, error)
	own    bool // the server is OpenAI
	azure  bool // the server is Azure OpenAI
	// provider is the server's name in errors and descriptions.
	provider string
}

func connect(model string, opts *Options) (*client, error) {
	if opts == nil {
		opts = &Options{}
	}
	switch {
	case model == "":
		return nil, errors.New("empty name")
	case opts.API != "" && opts.API != apiResponses && opts.API != apiChat:
		return nil, fmt.Errorf("unknown API %q: use %q or %q", opts.API, apiResponses, apiChat)
	case opts.Key != "" && opts.Token != nil:
		return nil, errors.New("both Options.Key and Options.Token are set: use one of them")
	}
	c := &client{azure: opts.Azure, provider: cmp.Or(opts.Provider, provider), token: opts.Token,
		header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {"treadle"}}}
	if err := c.setAddress(opts.BaseURL); err != nil {
		return nil, err
	}
	c.http = adapter.HTTPClient(opts.HTTPClient, c.base.String())
	key := opts.Key
	if opts.BaseURL == "" && !opts.Azure {
		key = cmp.Or(key, os.Getenv(keyName)) // the key for the server in the environment, which may be Azure
	}
	if err := c.setKey(key); err != nil {
		return nil, err
	}
	if !c.azure && (opts.BaseURL == "" || c.own) {
		c.addEnvironment()
	}
	for name, values := range opts.Header {
		c.header.Del(name)
		for _, v := range values {
			c.header.Add(name, v)
		}
	}
	return c, nil
}

// setAddress sets the address of the API.
func (c *client) setAddress(base string) error {
	switch {
	case base != "":
	case c.azure:
		if base = os.Getenv(azureURLName); base == "" {
			return fmt.Errorf("no address: set Options.BaseURL or the environment variable %s", azureURLName)
		}
	default:
		base = cmp.Or(os.Getenv(urlName), ownURL)
	}
	u, err := url.Parse(base)
	if err != nil {
		return fmt.Errorf("invalid base URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("invalid base URL %q: use the form https://host/path", base)
	}
	c.base, c.own = u, strings.EqualFold(u.Hostname(), ownHost)
	c.azure = c.azure || isAzure(u.Hostname())
	if c.azure {
		return setAzurePath(u)
	}
	return nil
}

// setKey sets the header with the key. Azure expects either a key or a token.
func (c *client) setKey(key string) error {
	variable := keyName
	if c.azure {
		variable = azureKeyName
	}
	key = cmp.Or(key, os.Getenv(variable))
	if c.token != nil {
		return nil
	}
	token := os.Getenv(azureTokenName)
	switch {
	case key != "" && c.azure:
		c.header.Set("Api-Key", key)
	case key != "":
		c.header.Set("Authorization", "Bearer "+key)
	case c.azure && token != "":
		c.header.Set("Authorization", "Bearer "+token)
	case c.azure:
		return fmt.Errorf("no API key: set Options.Key, Options.Token, or the environment variable %s or %s", azureKeyName, azureTokenName)
	case c.own:
		return fmt.Errorf("no API key: set Options.Key or the environment variable %s", keyName)
	}
	return nil
}

// addEnvironment adds the headers set in the environment. They are meant for
// OpenAI, or for the server that the environment names instead.
func (c *client) addEnvironment() {
	for variable, name := range map[string]string{"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"} {
		if v := os.Getenv(variable); v != "" {
			c.header.Set(name, v)
		}
	}
	for line := range strings.Lines(os.Getenv("OPENAI_CUSTOM_HEADERS")) {
		if name, v, ok := strings.Cut(line, ":"); ok {
			c.header.Set(strings.TrimSpace(name), strings.TrimSpace(v))
		}
	}
}

// toldError is a failure reported by the server.
type toldError struct{ body []byte }

func (e *toldError) Error() string { return "server error: " + adapter.Excerpt(string(e.body)) }

// maxReport is the maximum number of bytes read of an error response.
const maxReport = 1 << 20

// post sends a request. It returns a *toldError if the server reports a failure.
// The response may be non-nil with other errors too. Its body is closed if there is
// an error. If the server rejects an access token, post sends the request once more
// with a new token.
func (c *client) post(ctx context.Context, path string, body []byte) (*http.Response, error) {
	if c.token == nil {
		return c.send(ctx, path, body, "")
	}
	token, err := c.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("access token: %w", err)
	}
	resp, err := c.send(ctx, path, body, token)
	if err == nil || resp == nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	if again, tokenErr := c.token(ctx); tokenErr == nil && again != token {
		return c.send(ctx, path, body, again)
	}
	return resp, err
}

// send sends a request with an access token, if it is not empty.
func (c *client) send(ctx context.Context, path string, body []byte, token string) (*http.Response, error) {
	u := *c.base
	u.Path = strings.TrimSuffix(u.Path, "/") + "/" + path
	if u.RawPath != "" {
		u.RawPath = strings.TrimSuffix(u.RawPath, "/") + "/" + path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = c.header.Clone()
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			e.URL, _, _ = strings.Cut(e.URL, "?") // it may contain a key
		}
		return resp, err
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxReport))
	_ = resp.Body.Close()
	if err != nil {
		return resp, err
	}
	return resp, &toldError{said}
}

// postWhole sends a request and reads the whole response.
func (c *client) postWhole(ctx context.Context, path string, body []byte) ([]byte, *http.Response, error) {
	resp, err := c.post(ctx, path, body)
	if err != nil {
		return nil, resp, err
	}
	raw, err := readAll(resp)
	return raw, resp, err
}

// readAll reads a response and closes it.
func readAll(resp *http.Response) ([]byte, error) {
	raw, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("error reading response body: %w", err)
	}
	return raw, nil
}
