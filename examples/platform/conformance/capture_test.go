package conformance

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/internal/sse"
)

// An exchange is a request to one of LangGraph's servers and its answer.
type exchange struct {
	method, path string
	sent         http.Header
	body         string
	want         answer
	read         func() *answer // reads the answer, if the request has been sent before
}

// An answer is a server's response to a request.
type answer struct {
	status int
	header http.Header
	body   string
}

var (
	requestLine = regexp.MustCompile(`^>>> ([A-Z]+) (/\S*)$`)
	headerLine  = regexp.MustCompile(`^([a-z][a-z-]*): (.*)$`)
	statusLine  = regexp.MustCompile(`^<<< (\d{3})$`)
)

// readCapture reads the exchanges of a file in testdata/captures. The file contains the
// lines of a request after ">>>", the head of the response after "<<<", and then the
// response body.
func readCapture(t *testing.T, file string) (all []*exchange) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(raw), "\n") {
		if m := requestLine.FindStringSubmatch(line); m != nil {
			all = append(all, &exchange{method: m[1], path: m[2], sent: http.Header{}, want: answer{header: http.Header{}}})
			continue
		}
		if len(all) == 0 {
			t.Fatalf("%s does not start with a request: %q", file, line)
		}
		all[len(all)-1].add(t, line)
	}
	return all
}

// add adds a line of a capture.
func (x *exchange) add(t *testing.T, line string) {
	t.Helper()
	if text, ok := strings.CutPrefix(line, ">>> "); ok {
		if m := headerLine.FindStringSubmatch(text); m != nil {
			x.sent.Add(m[1], m[2])
		} else {
			x.body += text
		}
		return
	}
	if m := statusLine.FindStringSubmatch(line); m != nil {
		x.want.status, _ = strconv.Atoi(m[1])
		return
	}
	if text, ok := strings.CutPrefix(line, "<<< "); ok {
		m := headerLine.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no header of an answer: %q", line)
		}
		x.want.header.Add(m[1], m[2])
		return
	}
	x.want.body += line + "\n"
}

// shortened reports whether the capture has only the beginning of the body.
func (a *answer) shortened() bool { return strings.Contains(a.body, " characters in all>>") }

func (a *answer) isStream() bool {
	return strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream")
}

// value returns the body as a value to compare: JSON, or text.
func (a *answer) value() any {
	if v, err := decode(a.body); err == nil {
		return v
	}
	return strings.TrimSpace(a.body)
}

func decode(text string) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// A captured is an event of a stream.
type captured struct {
	name, id string
	data     any
}

// frames reads a stream of events.
func (a *answer) frames(t *testing.T) (all []captured) {
	t.Helper()
	r := sse.NewReader(strings.NewReader(a.body), 1<<20)
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in %s", err, a.body)
		}
		data, err := decode(string(e.Data))
		if err != nil {
			t.Fatalf("%v in the data of %s: %s", err, e.Type, e.Data)
		}
		all = append(all, captured{e.Type, e.ID, data})
	}
}
