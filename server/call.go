package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/runs"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/store"
)

// call is one request and its response.
type call struct {
	s     *Server
	w     http.ResponseWriter
	r     *http.Request
	route *route
	user  *User
	own   bool   // the server itself calls, for a cron that a caller was allowed to create
	cron  string // the ID of that cron
}

// httpError is an error with an HTTP status.
type httpError struct {
	status int
	detail string
}

func (e *httpError) Error() string { return e.detail }

func fail(status int, format string, args ...any) error {
	return &httpError{status, fmt.Sprintf(format, args...)}
}

// invalid returns an error about an invalid request field.
func invalid(field, format string, args ...any) error {
	return fail(http.StatusUnprocessableEntity, "%s: %s", field, fmt.Sprintf(format, args...))
}

// statusOf returns the HTTP status and text of an error for a client. The text contains no
// names of Go types.
func statusOf(err error) (int, string) {
	status, text := outcomeOf(err)
	return status, runs.Text(text)
}

func outcomeOf(err error) (int, string) {
	if e, ok := errors.AsType[*httpError](err); ok {
		return e.status, e.detail
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than %d bytes", e.Limit)
	}
	_, update := errors.AsType[*treadle.UpdateError](err)
	_, bad := errors.AsType[*store.InvalidError](err)
	switch {
	case errors.Is(err, ledger.ErrNotFound), errors.Is(err, checkpoint.ErrNotFound):
		return http.StatusNotFound, err.Error()
	case errors.Is(err, ledger.ErrExists), errors.Is(err, ledger.ErrBusy), errors.Is(err, checkpoint.ErrConflict), errors.Is(err, checkpoint.ErrFenced):
		return http.StatusConflict, err.Error()
	case errors.Is(err, syscall.ENOSPC):
		return http.StatusInsufficientStorage, "database disk full: free space and retry"
	case errors.Is(err, checkpoint.ErrUnavailable):
		return http.StatusServiceUnavailable, "database unavailable: retry"
	case errors.Is(err, runs.ErrStopped):
		return http.StatusServiceUnavailable, "server is shutting down: retry"
	case errors.Is(err, ledger.ErrFull):
		return http.StatusTooManyRequests, err.Error()
	case update, errors.Is(err, treadle.ErrNothingToContinue):
		return http.StatusBadRequest, err.Error()
	case bad:
		return http.StatusUnprocessableEntity, err.Error()
	}
	return http.StatusInternalServerError, "Internal Server Error"
}

// decode decodes the body into dst, a pointer to a struct. Unknown keys are ignored, as in
// LangGraph Platform. An empty body means an empty object.
func (c *call) decode(dst any) error {
	raw, err := c.body()
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	return decodeJSON(raw, dst)
}

// body reads the whole body.
func (c *call) body() ([]byte, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(c.w, &timedBody{ReadCloser: c.r.Body, c: c, began: time.Now()}, c.s.o.MaxBody))
	if err == nil {
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) // lets net/http detect a closed connection
		return raw, nil
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fail(http.StatusRequestTimeout, "request body too slow: no bytes for %s, or fewer than %d bytes per second", c.s.o.clientTime, minRate)
	}
	return nil, fail(http.StatusBadRequest, "the body ends too early: %v", err)
}

// minRate is the minimum average rate of a request body after its first clientTime, in bytes
// per second. It is far below the rate of the slowest real connections. Without it, a client
// that sends an occasional byte could hold a connection indefinitely.
const minRate = 1 << 10

// timedBody is a request body that must arrive in time: no gap may exceed clientTime, and the
// average rate must not fall below minRate.
type timedBody struct {
	io.ReadCloser
	c     *call
	began time.Time
	read  int64 // bytes so far
}

func (b *timedBody) Read(p []byte) (int, error) {
	patience := b.c.s.o.clientTime
	deadline := time.Now().Add(patience)
	if least := b.began.Add(patience + time.Duration(b.read/minRate)*time.Second); least.Before(deadline) {
		deadline = least
	}
	_ = http.NewResponseController(b.c.w).SetReadDeadline(deadline) // not all connections support it
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	return n, err
}

func decodeJSON(raw []byte, dst any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err := d.Decode(dst)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more behind the JSON")
		}
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return invalid(fieldOf(dst, wrong.Field), "want %s, not %s", jsonName(wrong.Type), wrong.Value)
	}
	if e, ok := errors.AsType[*httpError](err); ok {
		return e
	}
	if err != nil {
		return fail(http.StatusUnprocessableEntity, "the body is no JSON: %v", err)
	}
	return nil
}

// fieldOf returns the path of a request field from a path in an error of package json, which
// also contains the names of embedded Go structs.
func fieldOf(dst any, path string) string {
	var embedded func(t reflect.Type) []string
	embedded = func(t reflect.Type) (names []string) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return nil
		}
		for f := range t.Fields() {
			if f.Anonymous {
				names = append(append(names, f.Name), embedded(f.Type)...)
			}
		}
		return names
	}
	hidden := embedded(reflect.TypeOf(dst))
	parts := slices.DeleteFunc(strings.Split(path, "."), func(part string) bool { return slices.Contains(hidden, part) })
	return cmp.Or(strings.Join(parts, "."), "body")
}

// jsonName describes the JSON type that a Go type is decoded from.
func jsonName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name := runs.JSONName(t.String()); name != "" {
		return name
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	}
	return "a number"
}

// id parses the ID in the path parameter name.
func (c *call) id(name string) (uuid.UUID, error) { return parseID(name, c.r.PathValue(name)) }

// parseID parses a UUID in its standard form.
func parseID(name, text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return uuid.UUID{}, invalid(name, "%q is no UUID", text)
	}
	return id, nil
}

// query holds the query parameters in the forms that clients use: a list is one JSON array or a
// repeated parameter, and true is "true" or "1".
type query struct{ url.Values }

func (c *call) query() query { return query{c.r.URL.Query()} }

func (q query) list(name string) []string {
	vs := q.Values[name]
	if len(vs) == 1 && strings.HasPrefix(vs[0], "[") {
		var list []string
		if json.Unmarshal([]byte(vs[0]), &list) == nil {
			return list
		}
	}
	return slices.DeleteFunc(vs, func(v string) bool { return v == "" }) // some clients send an empty value for an empty list
}

func (q query) bool(name string) (bool, error) {
	switch v := strings.ToLower(q.Get(name)); v {
	case "", "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	default:
		return false, invalid(name, "want true or false, not %q", v)
	}
}

func (q query) int(name string, def, least, most int) (int, error) {
	v := q.Get(name)
	if v == "" {
		return def, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return 0, invalid(name, "want a number from %d to %d, not %q", least, most, v)
	}
	return n, nil
}

// json writes a JSON response.
func (c *call) json(status int, v any) error {
	raw, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			return err
		}
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	c.w.WriteHeader(status)
	_, err := c.w.Write(raw)
	return ignored(err)
}

// ignored discards the error of a write to a disconnected client.
func ignored(error) error { return nil }

// none writes an empty response.
func (c *call) none() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// answerError writes an error response.
func (c *call) answerError(err error) {
	status, detail := statusOf(err)
	if status >= 500 && c.r.Context().Err() == nil {
		c.s.log.Error("a request failed", "method", c.r.Method, "path", c.r.URL.Path, "error", err)
	}
	_ = c.json(status, map[string]string{"detail": detail})
}
