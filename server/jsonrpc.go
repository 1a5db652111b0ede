package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/treadle-go/treadle/server/internal/runs"
)

// JSON-RPC error codes, and the codes that A2A adds.
const (
	codeParse         = -32700
	codeInvalid       = -32600
	codeNoMethod      = -32601
	codeParams        = -32602
	codeInternal      = -32603
	codeNoTask        = -32001
	codeNotCancelable = -32002
	codeNoPush        = -32003
	codeUnsupported   = -32004
	codeContentType   = -32005
	codeNoCard        = -32007
	codeVersion       = -32009
)

// rpcError is a JSON-RPC error.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return e.Message }

// rpcRequest is a JSON-RPC request, or a notification if it has no ID.
type rpcRequest struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// parseRPC parses a request.
func parseRPC(raw []byte) (req rpcRequest, e *rpcError) {
	err := json.Unmarshal(raw, &req)
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case ok && wrong.Field != "":
		return rpcRequest{}, &rpcError{Code: codeInvalid, Message: "Invalid request: " + wrong.Field + ": want a string"}
	case ok:
		return rpcRequest{}, &rpcError{Code: codeInvalid, Message: "Invalid request: want an object"}
	case err != nil:
		return rpcRequest{}, &rpcError{Code: codeParse, Message: "Parse error: the body is not JSON"}
	}
	if id := bytes.TrimSpace(req.ID); len(id) > 0 && (id[0] == '{' || id[0] == '[' || id[0] == 't' || id[0] == 'f') {
		return rpcRequest{}, &rpcError{Code: codeInvalid, Message: "Invalid request: id: want a string or a number"}
	}
	switch {
	case req.Version != "2.0":
		return req, &rpcError{Code: codeInvalid, Message: `Invalid request: jsonrpc: want "2.0"`}
	case req.Method == "":
		return req, &rpcError{Code: codeInvalid, Message: "Invalid request: method: it is missing"}
	}
	return req, nil
}

// rpcAnswer returns a JSON-RPC response.
func rpcAnswer(id json.RawMessage, result any, e *rpcError) map[string]any {
	out := map[string]any{"jsonrpc": "2.0", "id": id}
	if id == nil {
		out["id"] = nil
	}
	if e != nil {
		out["error"] = e
	} else {
		out["result"] = result
	}
	return out
}

// rpc writes a JSON-RPC response.
func (p response) rpc(status int, id json.RawMessage, result any, e *rpcError) error {
	return p.json(status, rpcAnswer(id, result, e))
}

// rpcErrorOf converts an error to a JSON-RPC error and returns the HTTP status of the response.
// Rejected requests keep their status; errors of the call itself get 200.
func (c *call) rpcErrorOf(err error) (int, *rpcError) {
	if e, ok := errors.AsType[*rpcError](err); ok {
		shown := *e
		shown.Message = runs.Text(e.Message)
		return http.StatusOK, &shown
	}
	status, detail := statusOf(err)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests, status == http.StatusTeapot:
		return status, &rpcError{Code: codeInvalid, Message: detail}
	case status == http.StatusNotFound, status == http.StatusConflict:
		return http.StatusOK, &rpcError{Code: codeNoTask, Message: detail}
	case status < http.StatusInternalServerError:
		return http.StatusOK, &rpcError{Code: codeParams, Message: detail}
	}
	if c.r.Context().Err() == nil {
		c.s.log.Error("request failed", "method", c.r.Method, "path", c.r.URL.Path, "error", err)
	}
	return http.StatusOK, &rpcError{Code: codeInternal, Message: detail}
}
