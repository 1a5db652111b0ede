package conformance

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// A dialogue is the traffic of a WebSocket: "-->" to the server and "<--" from it.
type dialogue struct {
	path  string
	lines []string
}

var socketLine = regexp.MustCompile(`^>>> GET (/\S*)`)

// readSocket reads the capture of a WebSocket.
func readSocket(t *testing.T, file string) *dialogue {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := &dialogue{}
	for line := range strings.SplitSeq(string(raw), "\n") {
		if m := socketLine.FindStringSubmatch(line); m != nil {
			d.path = m[1]
		} else if strings.HasPrefix(line, "-->") || strings.HasPrefix(line, "<--") {
			d.lines = append(d.lines, line)
		} else if line != "" {
			t.Fatalf("%s: not a line of a dialogue: %q", file, line)
		}
	}
	return d
}

// socket sends the captured messages to the server, each after the messages that preceded
// it, and compares the responses.
func (r *replay) socket(d *dialogue) {
	r.t.Helper()
	r.thread(d.path)
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(r.url, "http")+d.path, nil) //nolint:bodyclose // the connection has it
	if err != nil {
		r.t.Fatal(err)
	}
	messages := make(chan string)
	go func() {
		defer close(messages)
		for {
			_, raw, err := conn.Read(ctx)
			if err != nil {
				return
			}
			messages <- string(raw)
		}
	}()
	defer func() {
		_ = conn.CloseNow()
		for range messages { // its goroutine ends
		}
	}()
	var want []captured
	var ends int
	for i, line := range d.lines {
		text, said := strings.CutPrefix(line, "--> ")
		if said {
			if err := conn.Write(ctx, websocket.MessageText, []byte(r.ids.translate(text))); err != nil {
				r.t.Fatal(err)
			}
			continue
		}
		f := messageOf(r.t, strings.TrimPrefix(line, "<-- "))
		want = append(want, f)
		if runEnd.MatchString(line) {
			ends++
		}
		if i+1 == len(d.lines) || strings.HasPrefix(d.lines[i+1], "-->") {
			c := r.ids.clone()
			c.frames(r.heard(messages, ends), want)
			label := "GET " + changing.ReplaceAllString(d.path, "{id}")
			r.report(i+1, label, r.wrong(label, c))
			r.ids, want, ends = c, nil, 0
		}
	}
}

// heard receives messages until a number of runs have ended and no more messages arrive.
func (r *replay) heard(messages <-chan string, ends int) (all []captured) {
	r.t.Helper()
	quiet := time.NewTimer(6 * time.Second)
	for {
		select {
		case text, ok := <-messages:
			if !ok {
				r.t.Fatal("the server has closed the WebSocket")
			}
			all = append(all, messageOf(r.t, text))
			if runEnd.MatchString(text) {
				ends--
			}
			if ends <= 0 {
				quiet.Reset(300 * time.Millisecond)
			}
		case <-quiet.C:
			return all
		}
	}
}

// messageOf reads a message as a stream event. A response is named by the command's ID.
func messageOf(t *testing.T, text string) captured {
	t.Helper()
	v, err := decode(text)
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	m, _ := v.(map[string]any)
	name, ok := m["method"].(string)
	if !ok {
		name = "answer " + show(m["id"])
	}
	return captured{name: name, data: v}
}
