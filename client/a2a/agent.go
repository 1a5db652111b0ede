package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/treadle-go/treadle/internal/origin"
)

// Options configures the connection to an agent. A nil *Options means the defaults.
type Options struct {
	// Header is sent with every request, such as Authorization.
	Header http.Header
	// HTTPClient sends the requests; nil means [http.DefaultClient]. Redirects to other hosts are
	// rejected.
	HTTPClient *http.Client
}

// An Agent is a remote agent. It is safe for concurrent use.
type Agent struct {
	name, description string

	endpoint string
	v1       bool // version 1.0
	http     *http.Client
	header   http.Header
}

// Timeouts of a request, including its response. An agent of another framework may do its work before
// it responds to a message.
const (
	fetchTime = 30 * time.Second
	sendTime  = 5 * time.Minute
)

// maxResponse limits the size of a response, in bytes.
const maxResponse = 32 << 20

// cardPath is where an agent's card is, below the agent's address.
const cardPath = "/.well-known/agent-card.json"

// card contains the parts of an agent's card that are used. Version 1.0 lists interfaces; version
// 0.3 has one, and may list others.
type card struct {
	Name, Description    string
	URL                  string
	PreferredTransport   string
	AdditionalInterfaces []struct{ Transport, URL string }
	SupportedInterfaces  []struct{ ProtocolBinding, ProtocolVersion, URL string }
}

const jsonRPC = "JSONRPC"

// Connect reads the card of the agent at an address, which may also be the address of the card. It
// returns an error if the agent does not support JSON-RPC, or if its card names another host:
// that host would get the conversation and the credentials.
func Connect(ctx context.Context, address string, opts *Options) (*Agent, error) {
	if ctx == nil {
		return nil, errors.New("a2a: nil context")
	}
	if opts == nil {
		opts = &Options{}
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("a2a: invalid address: want the form https://host/path, without a user")
	}
	a := &Agent{http: origin.Only(opts.HTTPClient, address), header: opts.Header.Clone()}
	at := strings.TrimRight(address, "/")
	if !strings.HasSuffix(u.Path, ".json") {
		at += cardPath
	}
	raw, err := a.fetch(ctx, fetchTime, http.MethodGet, at, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("a2a: card of agent at %s: %w", origin.Of(address), err)
	}
	var c card
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("a2a: card of agent at %s: %w", origin.Of(address), err)
	}
	if err := a.choose(&c, address); err != nil {
		return nil, fmt.Errorf("a2a: agent %q at %s: %w", shorten(c.Name), origin.Of(address), err)
	}
	a.name, a.description = c.Name, c.Description
	return a, nil
}

// Name returns the name on the agent's card.
func (a *Agent) Name() string { return a.name }

// choose chooses the newest interface with JSON-RPC.
func (a *Agent) choose(c *card, address string) error {
	for _, i := range c.SupportedInterfaces {
		switch {
		case !strings.EqualFold(i.ProtocolBinding, jsonRPC):
		case strings.HasPrefix(i.ProtocolVersion, "1."):
			a.endpoint, a.v1 = i.URL, true
		case a.endpoint == "":
			a.endpoint = i.URL
		}
	}
	if a.endpoint == "" && (c.PreferredTransport == "" || strings.EqualFold(c.PreferredTransport, jsonRPC)) {
		a.endpoint = c.URL
	}
	for _, i := range c.AdditionalInterfaces {
		if a.endpoint == "" && strings.EqualFold(i.Transport, jsonRPC) {
			a.endpoint = i.URL
		}
	}
	if a.endpoint == "" {
		return errors.New("agent card lacks a JSON-RPC address")
	}
	if to := origin.Of(a.endpoint); to != origin.Of(address) {
		return fmt.Errorf("its card names another host, %s: connect to that host if this is intended", to)
	}
	return nil
}

// statusError is a response with an unexpected HTTP status.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.code, shorten(e.text)) }

// fetch makes a request and returns the body of the response. The timeout also ends a response that
// arrives too slowly.
func (a *Agent) fetch(ctx context.Context, timeout time.Duration, method, address string, body []byte, header http.Header) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no response within %s", timeout))
	defer cancel()
	raw, err := a.read(ctx, method, address, body, header)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, context.Cause(ctx)
	}
	return raw, err
}

func (a *Agent) read(ctx context.Context, method, address string, body []byte, header http.Header) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range []http.Header{a.header, header} {
		for name, values := range h {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "treadle")
	resp, err := a.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	switch {
	case err != nil:
		return nil, err
	case len(raw) > maxResponse:
		return nil, fmt.Errorf("response exceeds %d bytes", maxResponse)
	case resp.StatusCode != http.StatusOK:
		return nil, &statusError{resp.StatusCode, string(raw)}
	}
	return raw, nil
}

// Error is an error response from an agent.
type Error struct {
	Agent   string
	Method  string
	Code    int // of JSON-RPC, such as -32001 for an unknown task
	Message string
}

func (e *Error) Error() string {
	return fmt.Sprintf("a2a: agent %q: %s: %s (code %d)", shorten(e.Agent), e.Method, shorten(e.Message), e.Code)
}

// internalError is the code of JSON-RPC for a failure of the agent, which may be temporary.
const internalError = -32603

// temporary reports whether a request may succeed later: it got no response, or a response that
// rejects neither the request nor its credentials.
func temporary(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Code == internalError
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		switch status.code {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
			return true
		}
		return status.code < 400 || status.code >= 500
	}
	return true
}

// call calls a method of the agent, by its names in both versions. The key identifies a message if
// it is sent again; Treadle's servers then do not execute it twice.
func (a *Agent) call(ctx context.Context, old, method, key string, params any, result any) error {
	header := http.Header{"Content-Type": {"application/json"}}
	if a.v1 {
		header.Set("A2A-Version", "1.0")
	} else {
		method = old
	}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("a2a: agent %q: %s: %w", shorten(a.name), method, err)
	}
	timeout := fetchTime
	if key != "" {
		timeout = sendTime
	}
	raw, err := a.fetch(ctx, timeout, http.MethodPost, a.endpoint, body, header)
	if err != nil {
		return fmt.Errorf("a2a: agent %q: %s: %w", shorten(a.name), method, err)
	}
	var answer struct {
		Result json.RawMessage
		Error  *struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("a2a: agent %q: %s: invalid response: %w", shorten(a.name), method, err)
	}
	if answer.Error != nil {
		return &Error{a.name, method, answer.Error.Code, answer.Error.Message}
	}
	if err := json.Unmarshal(answer.Result, result); err != nil {
		return fmt.Errorf("a2a: agent %q: %s: invalid result: %w", shorten(a.name), method, err)
	}
	return nil
}

// shorten returns the start of a text of the agent, for errors.
func shorten(text string) string {
	const most = 500
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}
