// Package vertex opens Anthropic's Claude models on Google Cloud's Vertex AI.
//
//	model, err := vertex.New("claude-sonnet-5-5", nil) // the project is in GOOGLE_CLOUD_PROJECT
//
// The models behave like the models of package anthropic, which implements them:
// messages, settings, metadata, and errors are the same, and their provider is
// "anthropic". Only the address and the credentials differ.
package vertex

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"

	"golang.org/x/oauth2/google"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
)

// Options configures access to Vertex AI. A nil *Options means the defaults.
type Options struct {
	// Project is the ID of the Google Cloud project; empty means the environment
	// variable GOOGLE_CLOUD_PROJECT.
	Project string
	// Location is the region, such as europe-west1, or us, eu, or global; empty
	// means the environment variable GOOGLE_CLOUD_LOCATION, or global if that is
	// empty too.
	Location string
	// Token returns an access token. It is called for each request, so it should
	// cache the token. If the server rejects the token, Token is called again, and
	// the request is sent once more if the token is new. Nil means Google's
	// application default credentials.
	Token func(context.Context) (string, error)
	// BaseURL is the address of the API; empty means Google's address for the
	// location.
	BaseURL string
	// HTTPClient makes the requests; nil means [http.DefaultClient].
	HTTPClient *http.Client
	// Header is sent with every request, for example anthropic-beta.
	Header http.Header
	// Logger is like Logger in [anthropic.Options].
	Logger *slog.Logger
}

// Provider returns the provider "vertex_anthropic" for [llm.Open]. It has no
// embedders.
func Provider(opts *Options) llm.Provider {
	return adapter.Models("vertex_anthropic", opts, New)
}

// New opens a model by name. It fails if the project or the credentials are
// missing. It does not check whether the model exists.
func New(name string, opts *Options) (*anthropic.Model, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	t := &transport{
		project:  cmp.Or(o.Project, os.Getenv("GOOGLE_CLOUD_PROJECT")),
		location: cmp.Or(o.Location, os.Getenv("GOOGLE_CLOUD_LOCATION"), "global"),
	}
	switch {
	case t.project == "":
		return nil, errors.New("vertex: no project: set Options.Project or the environment variable GOOGLE_CLOUD_PROJECT")
	case !locationForm.MatchString(t.location):
		return nil, fmt.Errorf("vertex: invalid location %q: set Options.Location or the environment variable GOOGLE_CLOUD_LOCATION to a region such as europe-west1, or to global", t.location)
	}
	if o.Token == nil {
		var err error
		if o.Token, err = defaultToken(); err != nil {
			return nil, fmt.Errorf("vertex: %w", err)
		}
	}
	var client http.Client
	if o.HTTPClient != nil {
		client = *o.HTTPClient
	}
	t.next = adapter.Authorized(cmp.Or[http.RoundTripper](client.Transport, http.DefaultTransport), o.Token)
	client.Transport = t
	// The key is never sent. Without it, package anthropic would use its own key.
	m, err := anthropic.New(name, &anthropic.Options{Key: "vertex", BaseURL: cmp.Or(o.BaseURL, address(t.location)), HTTPClient: &client, Header: o.Header, Logger: o.Logger})
	if err != nil {
		return nil, fmt.Errorf("vertex: %w", err)
	}
	return m, nil
}

// defaultToken returns a function that returns the token of Google's default
// credentials.
func defaultToken() (func(context.Context) (string, error), error) {
	found, err := google.FindDefaultCredentials(context.Background(), "https://www.googleapis.com/auth/cloud-platform")
	if err != nil {
		return nil, fmt.Errorf("%w: run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS or Options.Token", err)
	}
	return func(context.Context) (string, error) {
		token, err := found.TokenSource.Token() // cached until it expires
		if err != nil {
			return "", err
		}
		return token.AccessToken, nil
	}, nil
}

// locationForm matches locations. They become part of the host that gets the tokens.
var locationForm = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// address returns Google's address for a location.
func address(location string) string {
	switch location {
	case "global":
		return "https://aiplatform.googleapis.com"
	case "us", "eu":
		return "https://aiplatform." + location + ".rep.googleapis.com"
	}
	return "https://" + location + "-aiplatform.googleapis.com"
}

// transport converts requests to Anthropic's API for Vertex AI: the model
// moves from the body to the path, the version from a header to the body, and a
// token replaces the key.
type transport struct {
	project, location string
	next              http.RoundTripper
}

const (
	messagesPath = "/v1/messages"
	version      = "vertex-2023-10-16"
)

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	base, ok := strings.CutSuffix(req.URL.Path, messagesPath)
	if !ok || req.Body == nil {
		return nil, fmt.Errorf("vertex: unexpected request %s %s", req.Method, req.URL.Path)
	}
	raw, err := io.ReadAll(req.Body)
	_ = req.Body.Close()
	if err != nil {
		return nil, err
	}
	model, stream, body, err := translate(raw)
	if err != nil {
		return nil, fmt.Errorf("vertex: %w", err)
	}
	method := "rawPredict"
	if stream {
		method = "streamRawPredict"
	}
	out := req.Clone(req.Context()) // a RoundTripper must not change the request
	out.URL = &url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host,
		Path: fmt.Sprintf("%s/v1/projects/%s/locations/%s/publishers/anthropic/models/%s:%s", base, t.project, t.location, model, method)}
	out.Header.Del("X-Api-Key")
	out.Header.Del("Anthropic-Version")
	out.ContentLength = int64(len(body))
	out.Body = io.NopCloser(bytes.NewReader(body))
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	resp, err := t.next.RoundTrip(out)
	if adapter.IsUnknownHost(err) {
		err = fmt.Errorf("%w (check the location %q in Options.Location or GOOGLE_CLOUD_LOCATION)", err, t.location)
	}
	return resp, err
}

// translate returns the model of a request, whether it requests a stream, and its
// body without the model.
func translate(raw []byte) (model string, stream bool, body []byte, err error) {
	var fields map[string]json.RawMessage
	if err = json.Unmarshal(raw, &fields); err != nil {
		return "", false, nil, err
	}
	if err = json.Unmarshal(fields["model"], &model); err != nil {
		return "", false, nil, fmt.Errorf("model of the request: %w", err)
	}
	if flag := fields["stream"]; flag != nil {
		if err = json.Unmarshal(flag, &stream); err != nil {
			return "", false, nil, fmt.Errorf("stream flag of the request: %w", err)
		}
	}
	delete(fields, "model")
	fields["anthropic_version"] = json.RawMessage(`"` + version + `"`)
	body, err = json.Marshal(fields)
	return model, stream, body, err
}
