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

// The delays before a broken server stream is reopened.
const (
	listenPause    = time.Second
	maxListenPause = 30 * time.Second
)

// listen responds to the SDK's request for the stream on which the server sends requests
// outside of calls. A server that sends one, such as an elicitation, waits for the response
// before it answers the call. Therefore, the stream must be read: the SDK then responds that
// the client does not support the request.
//
// The stream is optional. The SDK would wait for its headers and end the session if the stream
// broke too often, so listen returns a stream that neither delays nor ends.
func (g *guarded) listen(r *http.Request) *http.Response {
	ctx, cancel := context.WithCancel(r.Context())
	body, to := io.Pipe()
	g.spawn(func() {
		defer cancel()
		// AfterFunc unblocks a write to the SDK. It may be stopped before it runs.
		defer func() { _ = to.CloseWithError(io.ErrUnexpectedEOF) }()
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

// relay copies the complete events of one stream. It reports whether to open the stream again.
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
			return true // drop the incomplete event
		}
		event.Write(part)
		if event.Len() > mcp.DefaultMaxLineLength {
			return false // the SDK would also give up
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

// listened is the body of the stream passed to the SDK.
type listened struct {
	*io.PipeReader
	stop context.CancelFunc
}

// Close also ends the server's stream.
func (l *listened) Close() error {
	l.stop()
	return l.PipeReader.Close()
}
