package server

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes, so that their deadlines follow the clock of synctest.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)
	return nil
}

func (*pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// A body may be slow, but not so slow that it only holds a connection.
func TestSlowBodiesAreCut(t *testing.T) {
	for _, tt := range []struct {
		name        string
		piece       int // bytes every second
		size        int
		status      int
		least, most time.Duration
	}{
		{"one byte per second", 1, 4096, http.StatusRequestTimeout, 25 * time.Second, 35 * time.Second},
		{"half the rate", minRate / 2, 1 << 20, http.StatusRequestTimeout, 30 * time.Second, 2 * time.Minute},
		{"twice the rate", 2 * minRate, 1 << 20, http.StatusOK, 8 * time.Minute, 9 * time.Minute},
		{"short", 1, 20, http.StatusOK, 10 * time.Second, 20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := serveGraphs(t, nil, whoami(t))
				l := &pipes{make(chan net.Conn), make(chan struct{})}
				hs := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
				ended := make(chan error, 1)
				go func() { ended <- hs.Serve(l) }()
				near, far := net.Pipe()
				l.conns <- far
				began := time.Now()
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					body := `{"metadata":{}` + strings.Repeat(" ", tt.size-15) + `}`
					_, err := fmt.Fprintf(near, "POST /threads HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", len(body))
					for err == nil && body != "" {
						n := min(tt.piece, len(body))
						_, err = near.Write([]byte(body[:n]))
						body = body[n:]
						time.Sleep(time.Second) //nolint:forbidigo // the time of synctest
					}
				}()
				resp, err := http.ReadResponse(bufio.NewReader(near), nil)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); resp.StatusCode != tt.status || took < tt.least || took > tt.most {
					t.Errorf("%s after %s", resp.Status, took)
				}
				_ = resp.Body.Close()
				_ = near.Close()
				<-sent
				_ = hs.Close()
				<-ended
			})
		})
	}
}
