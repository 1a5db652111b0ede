package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/server/internal/runs"
)

// request is a request: its caller, and the parameters in its path, query, and body.
type request struct {
	s     *Server
	r     *http.Request
	rw    http.ResponseWriter // sets deadlines for reading the body
	route *route
	user  *User
	own   bool   // the server itself calls, for a cron that a caller was allowed to create
	cron  string // the ID of that cron
}

// decode decodes the body into dst, a pointer to a struct. Unknown keys are ignored, as in
// LangGraph Platform. An empty body means an empty object.
func (q *request) decode(dst any) error {
	raw, err := q.body()
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	return decodeJSON(raw, dst)
}

// body reads the whole body.
func (q *request) body() ([]byte, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(q.rw, &timedBody{ReadCloser: q.r.Body, q: q, began: time.Now()}, q.s.o.MaxBody))
	if err == nil {
		_ = http.NewResponseController(q.rw).SetReadDeadline(time.Time{}) // lets net/http detect a closed connection
		return raw, nil
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fail(http.StatusRequestTimeout, "request body too slow: no bytes for %s, or fewer than %d bytes per second", q.s.o.extras.ClientTime, minRate)
	}
	return nil, fail(http.StatusBadRequest, "incomplete body: %v", err)
}

// minRate is the minimum average rate of a request body after its first clientTime, in bytes
// per second. It is far below the rate of the slowest real connections. Without it, a client
// that sends an occasional byte could hold a connection indefinitely.
const minRate = 1 << 10

// timedBody is a request body that must arrive in time: no gap may exceed clientTime, and the
// average rate must not fall below minRate.
type timedBody struct {
	io.ReadCloser
	q     *request
	began time.Time
	read  int64 // bytes so far
}

func (b *timedBody) Read(p []byte) (int, error) {
	patience := b.q.s.o.extras.ClientTime
	deadline := time.Now().Add(patience)
	if least := b.began.Add(patience + time.Duration(b.read/minRate)*time.Second); least.Before(deadline) {
		deadline = least
	}
	_ = http.NewResponseController(b.q.rw).SetReadDeadline(deadline) // not all connections support it
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
			err = errors.New("unexpected data after the JSON value")
		}
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return invalid(fieldOf(dst, wrong.Field), "want %s, not %s", runs.JSONType(wrong.Type), wrong.Value)
	}
	if e, ok := errors.AsType[*httpError](err); ok {
		return e
	}
	if err != nil {
		return fail(http.StatusUnprocessableEntity, "invalid JSON in the body: %v", err)
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

// id parses the ID in the path parameter name.
func (q *request) id(name string) (uuid.UUID, error) { return parseID(name, q.r.PathValue(name)) }

// parseID parses a UUID in its standard form.
func parseID(name, text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return uuid.UUID{}, invalid(name, "%q is not a UUID", text)
	}
	return id, nil
}

// query holds the query parameters in the forms that clients use: a list is one JSON array or a
// repeated parameter, and true is "true" or "1".
type query struct{ url.Values }

func (q *request) query() query { return query{q.r.URL.Query()} }

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
