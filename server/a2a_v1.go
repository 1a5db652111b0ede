package server

import (
	"net/http"
	"strings"
)

// errorReasons are the names of A2A's errors in version 1.0.
var errorReasons = map[int]string{
	codeNoTask: "TASK_NOT_FOUND", codeNotCancelable: "TASK_NOT_CANCELABLE", codeNoPush: "PUSH_NOTIFICATION_NOT_SUPPORTED",
	codeUnsupported: "UNSUPPORTED_OPERATION", codeContentType: "CONTENT_TYPE_NOT_SUPPORTED", codeNoCard: "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
	codeVersion: "VERSION_NOT_SUPPORTED",
}

// errorInfo is the detail of an error in version 1.0.
type errorInfo struct {
	Type   string `json:"@type"`
	Reason string `json:"reason"`
	Domain string `json:"domain"`
}

// explained returns an error with its detail, if version 1.0 has one.
func explained(e *rpcError) *rpcError {
	reason := errorReasons[e.Code]
	if reason == "" {
		return e
	}
	shown := *e
	shown.Data = []errorInfo{{"type.googleapis.com/google.rpc.ErrorInfo", reason, "a2a-protocol.org"}}
	return &shown
}

// a2aVersion returns whether a request uses version 1.0: the header or the parameter
// A2A-Version says so, or else the name of its method.
func a2aVersion(r *http.Request, method string) (v1 bool, err error) {
	version := r.Header.Get("A2A-Version")
	if version == "" {
		version = r.URL.Query().Get("A2A-Version")
	}
	switch {
	case version == "":
		return method != "" && !strings.Contains(method, "/"), nil
	case version == "1.0" || strings.HasPrefix(version, "1.0."):
		return true, nil
	case version == "0.3" || strings.HasPrefix(version, "0.3."):
		return false, nil
	}
	return true, &rpcError{Code: codeVersion, Message: "A2A-Version: want 0.3 or 1.0, not " + version}
}

// v1Only returns a handler for clients that support only version 1.0 and send no version.
func v1Only(handle func(*call) error) func(*call) error {
	return func(c *call) error {
		if c.r.Header.Get("A2A-Version") == "" {
			c.r.Header.Set("A2A-Version", "1.0")
		}
		return handle(c)
	}
}
