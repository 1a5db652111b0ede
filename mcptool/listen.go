package mcptool

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/internal/delay"
)

// The pauses before a broken stream of the server is opened again.
const (
	listenPause    = time.Second
	maxListenPause = 30 * time.Second
)

// listen answers the SDK's request for the stream on which the server sends requests
// apart from calls. A server that sends one, such as an elicitation, waits for the
// response before it answers the call, so the stream must be read: the SDK then tells
// the server that the client does not support the request.
//
// The stream is optional. The SDK would wait for its headers, and end the session when it
// breaks too often, so it gets a stream that neither delays nor ends.
func (g *guarded) listen(r *http.Request) *http.Response {
	ctx, cancel := context.WithCancel(r.Context())
	body, to := io.Pipe()
	g.spawn(func() {
		defer cancel()
		defer context.AfterFunc(ctx, func() { _ = to.CloseWithError(io.ErrUnexpectedEOF) })()
		for pause := listenPause; ; pause = min(2*pause, maxListenPause) {
			began := time.Now()
			if !g.relay(r.Clone(ctx), to) {
				break
			}
			if time.Since(began) > maxListenPause {
				pause = listenPause
			}
			if delay.For(ctx, pause) != nil {
				break
			}
		}
		<-ctx.Done()
	})
	return &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1, Body: &listened{body, cancel}, Request: r}
}

// relay copies the complete events of one stream. It reports whether the server may offer
// the stream again.
func (g *guarded) relay(r *http.Request, to io.Writer) (again bool) {
	resp, err := g.base.RoundTrip(r)
	if err != nil {
		return true
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp.StatusCode >= http.StatusInternalServerError
	}
	in := bufio.NewReader(resp.Body)
	var event bytes.Buffer
	line := 0 // where the current line starts in event
	for {
		part, err := in.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return true // an incomplete event is dropped
		}
		if event.Write(part); event.Len() > mcp.DefaultMaxLineLength {
			return false // the SDK would give up, too
		}
		if err != nil {
			continue // in the middle of a long line
		}
		if len(bytes.TrimRight(event.Bytes()[line:], "\r\n")) > 0 {
			line = event.Len()
			continue
		}
		if line > 0 { // otherwise the line is between events
			if _, err := to.Write(event.Bytes()); err != nil {
				return false
			}
		}
		event.Reset()
		line = 0
	}
}

// listened is the body of the SDK's stream.
type listened struct {
	*io.PipeReader
	stop context.CancelFunc
}

// Close also ends the server's stream.
func (l *listened) Close() error {
	l.stop()
	return l.PipeReader.Close()
}
