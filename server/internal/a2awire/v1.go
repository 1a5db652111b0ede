package a2awire

import (
	"encoding/json"
	"strings"
)

// CamelKeys converts keys such as history_length to historyLength. Version 1.0 allows both, as the
// JSON form of protocol buffers does. It leaves the client's own data and anything that is not an
// object unchanged.
func CamelKeys(raw json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && list != nil {
		for i := range list {
			list[i] = CamelKeys(list[i])
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
			v = CamelKeys(v)
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

// AsV1 converts a task, a message, or an event of version 0.3 to version 1.0.
func AsV1(v any) (map[string]any, error) {
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
