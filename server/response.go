package server

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// response writes the response to a request.
type response struct{ w http.ResponseWriter }

// json writes a JSON response.
func (p response) json(status int, v any) error {
	raw, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			return err
		}
	}
	p.w.Header().Set("Content-Type", "application/json")
	p.w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	p.w.WriteHeader(status)
	_, err := p.w.Write(raw)
	return ignored(err)
}

// ignored discards the error of a write to a disconnected client.
func ignored(error) error { return nil }

// none writes an empty response.
func (p response) none() error {
	p.w.WriteHeader(http.StatusNoContent)
	return nil
}
