package openai

import (
	"errors"
	"net/http"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// responses is the wire format of the Responses API.
type responses struct {
	*Model
	stateful bool
}

func (f responses) path() string { return "responses" }

func (f responses) reader(req *llm.Request) reader {
	r := &responseReader{model: f.Model}
	for _, t := range req.Tools {
		r.cites = r.cites || isProviderTool(t)
	}
	return r
}

// relax recovers from state that the server no longer accepts: reasoning that
// another organization's key encrypted, or a response that is no longer stored. It
// also recovers if a model cannot encrypt its reasoning.
func (f responses) relax(r *relaxed, req *llm.Request, err error) bool {
	told, ok := errors.AsType[*toldError](err)
	if !ok {
		return false
	}
	var e llm.Error
	report(&e, told.body)
	switch {
	case e.Code == "invalid_encrypted_content" && !r.noReasoning:
		r.noReasoning = true
		f.warn.Once("rejected reasoning", "server rejected encrypted reasoning, resending without it", "message", e.Message)
	case e.Code == "previous_response_not_found" && !r.noPrevious:
		r.noPrevious = true
		f.warn.Once("missing response", "stored response not found, resending the conversation", "message", e.Message)
	case strings.Contains(e.Message, "Encrypted content is not supported") && !r.noInclude:
		r.noInclude = true
		f.plain.Store(f.modelOf(req), true)
	default:
		return false
	}
	return true
}

// explain adds the remedy to an error of a server without the Responses API.
func (f responses) explain(e *llm.Error) {
	missing := e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed
	if missing && !f.own && e.Code != codeNoModel && e.Code != codeNoDeployment {
		e.Message += ` (if the server does not support the Responses API, set Options.API to "chat")`
	}
}
