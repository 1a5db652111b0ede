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

	"github.com/treadle-go/treadle/internal/origin"
)

// client sends requests to a server.
type client struct {
	http   *http.Client
	base   *url.URL
	header http.Header
	own    bool // the server is OpenAI
	// provider is the server's name in errors and descriptions.
	provider string
}

func connect(model string, opts *Options) (*client, error) {
	if opts == nil {
		opts = &Options{}
	}
	if model == "" {
		return nil, errors.New("it has no name")
	}
	base := cmp.Or(opts.BaseURL, os.Getenv(urlName), ownURL)
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("the base URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the base URL %q does not have the form https://host/path", base)
	}
	c := &client{http: origin.Only(opts.HTTPClient, base), base: u, own: strings.EqualFold(u.Hostname(), ownHost), provider: cmp.Or(opts.Provider, provider)}
	key := cmp.Or(opts.Key, os.Getenv(keyName))
	if key == "" && c.own {
		return nil, fmt.Errorf("there is no API key: set Options.Key or the environment variable %s", keyName)
	}
	c.header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {"treadle"}}
	if key != "" {
		c.header.Set("Authorization", "Bearer "+key)
	}
	if opts.BaseURL == "" || c.own {
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

func (e *toldError) Error() string { return "the server reports a failure: " + abridge(string(e.body)) }

// maxReport is the maximum number of bytes read of an error response.
const maxReport = 1 << 20

// post sends a request. It returns a *toldError if the server reports a failure.
// The response may be non-nil with other errors too. Its body is closed if there is
// an error.
func (c *client) post(ctx context.Context, path string, body []byte) (*http.Response, error) {
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
	raw, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, resp, fmt.Errorf("error reading response body: %w", err)
	}
	return raw, resp, nil
}
