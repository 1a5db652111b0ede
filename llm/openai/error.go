package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// failure returns the error of a call. begun reports whether part of the response
// had arrived.
func (c *client) failure(ctx context.Context, err error, resp *http.Response, begun bool) error {
	if ctx.Err() != nil {
		return adapter.Canceled(ctx)
	}
	e := &llm.Error{Provider: c.provider, Err: err, Cut: begun || resp != nil && errors.Is(err, io.ErrUnexpectedEOF)}
	if resp != nil {
		e.Status = resp.StatusCode
		e.RetryAfter = adapter.RetryAfter(resp.Header)
	}
	if told, ok := errors.AsType[*toldError](err); ok {
		e.Err = nil // it contains nothing else
		report(e, told.body)
		switch {
		case e.Status >= http.StatusBadRequest:
		case e.Code == "": // the server has failed
			e.Status = http.StatusInternalServerError
		default: // the server rejects the request
			e.Cut = false
		}
	} else if resp != nil && !begun {
		unexpected(e, resp)
	}
	if errors.Is(err, errNoEnd) && e.Message == "" {
		e.Cut = true
	}
	if r := c.remedy(e); r != "" {
		if e.Message == "" && e.Err != nil {
			e.Message = e.Err.Error()
		}
		e.Message = strings.TrimSpace(e.Message + " (" + r + ")")
	}
	return e
}

// remedy returns what to do about a failure, or "".
func (c *client) remedy(e *llm.Error) string {
	switch {
	case e.Status == http.StatusUnauthorized && c.azure && c.token != nil:
		return "check that Options.Token returns a current token for the scope https://cognitiveservices.azure.com/.default, and that its identity may use the resource"
	case e.Status == http.StatusUnauthorized && c.token != nil:
		return "check that Options.Token returns a current token"
	case e.Status == http.StatusUnauthorized && c.azure:
		return "check that Options.Key is a key of the resource in Options.BaseURL"
	case e.Status == http.StatusUnauthorized && c.own:
		return "check Options.Key or the environment variable " + keyName
	case e.Status == http.StatusUnauthorized:
		return "check the API key"
	case e.Code == codeNoDeployment:
		return "the model name must be the name of a deployment of this resource"
	case e.Code == codeNoModel && c.own:
		return "check the model name, and whether the project of the key may use the model"
	case e.Code == codeNoModel:
		return "check the model name"
	case e.Code == "unsupported_country_region_territory":
		return "OpenAI does not serve this region: send requests from another region, or use Azure"
	case e.Status == http.StatusBadRequest:
		return adapter.Remedy(e.Message)
	case adapter.IsUnknownHost(e.Err):
		return "check Options.BaseURL: unknown host " + c.base.Hostname()
	}
	return ""
}

// unexpected explains a successful response that is not from the API, or not a
// stream.
func unexpected(e *llm.Error, resp *http.Response) {
	kind := resp.Header.Get("Content-Type")
	switch {
	case resp.StatusCode >= http.StatusMultipleChoices:
	case strings.HasPrefix(kind, "text/html"):
		e.Message = "response is an HTML page, not from the API: check Options.BaseURL"
	case errors.Is(e.Err, errNoEnd) && !strings.HasPrefix(kind, "text/event-stream"):
		e.Message = fmt.Sprintf("streamed response has content type %q: use llm.NoStream", kind)
	}
}

// report sets the code and the message from a server's JSON: OpenAI's {"error":
// {…}}, the same in a list (Google), without an envelope, a string in its place, or
// a detail (FastAPI). Any other body becomes the message.
func report(e *llm.Error, body []byte) {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 && list[0][0] == '{' {
		body = list[0]
	}
	var outer struct {
		Error  json.RawMessage
		Detail json.RawMessage
	}
	var inner struct{ Code, Type, Status, Message any }
	_ = json.Unmarshal(body, &outer)
	switch {
	case len(outer.Error) > 0 && json.Unmarshal(outer.Error, &e.Message) == nil:
	case len(outer.Error) > 0:
		_ = json.Unmarshal(outer.Error, &inner)
	case len(outer.Detail) > 0 && json.Unmarshal(outer.Detail, &e.Message) != nil:
		e.Message = adapter.Excerpt(string(outer.Detail))
	default:
		_ = json.Unmarshal(body, &inner)
	}
	kind, _ := inner.Type.(string)
	if kind == "" || kind == "error" { // the type of an event
		kind, _ = inner.Status.(string) // Google's error code
	}
	e.Code = kind
	switch code := inner.Code.(type) {
	case string:
		e.Code = code
	case float64: // some servers put the status there
		if kind == "" {
			e.Code = strconv.Itoa(int(code))
		}
		if e.Status < http.StatusBadRequest && code >= 400 && code < 600 {
			e.Status = int(code)
		}
	}
	if text, ok := inner.Message.(string); ok {
		e.Message = text
	}
	if e.Status < http.StatusBadRequest {
		e.Status = statusOf(kind+" "+e.Code, e.Status)
	}
	if e.Message == "" {
		e.Message = adapter.Excerpt(string(body))
	}
}

// statusOf returns the status that an error would have had if it had been known
// before the response started.
func statusOf(words string, known int) int {
	switch {
	case strings.Contains(words, "rate_limit"):
		return http.StatusTooManyRequests
	case strings.Contains(words, "server_error"), strings.Contains(words, "overloaded"), strings.Contains(words, "timeout"):
		return http.StatusInternalServerError
	}
	return known
}
