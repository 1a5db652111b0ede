package mcptool

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

type answering func(*http.Request) (*http.Response, error)

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An incomplete event must not run into the events of the next stream.
func TestRelayDropsIncompleteEvents(t *testing.T) {
	long := "data: " + strings.Repeat("x", 10_000) + "\r\n\r\n"
	for in, want := range map[string]string{
		"":                                      "",
		"\n\n: hi\n\n":                          ": hi\n\n",
		"id: 1\ndata: a\n\ndata: b\n":           "id: 1\ndata: a\n\n",
		"data: a\ndata: b\n\nevent: message\nd": "data: a\ndata: b\n\n",
		long + "data: c":                        long,
	} {
		for _, wrap := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.DataErrReader, iotest.HalfReader} {
			g := &guarded{base: answering(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(wrap(strings.NewReader(in)))}, nil
			})}
			var out bytes.Buffer
			if again := g.relay(nil, &out); !again || out.String() != want {
				t.Errorf("%.40q: %.40q, %t", in, out.String(), again)
			}
		}
	}
}
