package server

import (
	"encoding/json"
	"net/http"
	"strings"
)

// A2A version 1.0 has other names of states, roles, and methods than version 0.3, and tells
// objects apart by their keys instead of "kind". The handlers create objects of version 0.3.

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

// camelKeys converts keys such as history_length to historyLength. Version 1.0 allows both, as the
// JSON form of protocol buffers does. It leaves the client's own data and anything that is not an
// object unchanged.
func camelKeys(raw json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && list != nil {
		for i := range list {
			list[i] = camelKeys(list[i])
		}
		return encoded(list, raw)
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return raw
	}
	out := make(map[string]json.RawMessage, len(object))
	for key, v := range object {
		if key != "data" && key != "metadata" {
			v = camelKeys(v)
		}
		words := strings.Split(key, "_")
		for i, w := range words[1:] {
			if w != "" {
				words[i+1] = strings.ToUpper(w[:1]) + w[1:]
			}
		}
		out[strings.Join(words, "")] = v
	}
	return encoded(out, raw)
}

// encoded returns the JSON of v, or otherwise if it cannot be encoded.
func encoded(v any, otherwise json.RawMessage) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return otherwise
	}
	return raw
}

// asV1 converts a task, a message, or an event of version 0.3 to version 1.0.
func asV1(v any) (map[string]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, err
	}
	delete(out, "kind")
	delete(out, "final") // the stream closes instead
	messageV1(out)
	statusV1(out["status"])
	history, _ := out["history"].([]any)
	for _, m := range history {
		messageV1(m)
	}
	artifacts, _ := out["artifacts"].([]any)
	for _, a := range append(artifacts, out["artifact"]) {
		partsV1(a)
	}
	return out, nil
}

func statusV1(v any) {
	if status, ok := v.(map[string]any); ok {
		messageV1(status["message"])
	}
}

func messageV1(v any) {
	if m, ok := v.(map[string]any); ok {
		delete(m, "kind")
		partsV1(m)
	}
}

// partsV1 converts the parts of a message or an artifact.
func partsV1(v any) {
	of, ok := v.(map[string]any)
	if !ok {
		return
	}
	parts, _ := of["parts"].([]any)
	for _, v := range parts {
		p, ok := v.(map[string]any)
		if !ok {
			continue
		}
		delete(p, "kind")
		file, ok := p["file"].(map[string]any)
		if !ok {
			continue
		}
		delete(p, "file")
		for old, name := range map[string]string{"bytes": "raw", "uri": "url", "mimeType": "mediaType", "name": "filename"} {
			if v, ok := file[old]; ok {
				p[name] = v
			}
		}
	}
}
