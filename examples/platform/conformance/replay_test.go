package conformance

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/test/platform"
	"github.com/treadle-go/treadle/internal/test/system/servertest"
	"github.com/treadle-go/treadle/server"
)

// An allowance is a line of allowed.txt: a difference between our responses and those of
// one of LangGraph's servers, with its reason.
type allowance struct {
	line                   int
	varies                 bool
	capture, request, path *regexp.Regexp
	used                   bool
}

// allowances are the lines of allowed.txt.
type allowances struct {
	mu  sync.Mutex
	all []*allowance
}

func readAllowances(t *testing.T, name string) *allowances {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	a, lines := &allowances{}, bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		if lines.Text() == "" || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		parts := strings.Split(lines.Text(), " ; ")
		if len(parts) != 4 || strings.TrimSpace(parts[3]) == "" {
			t.Fatalf("%s:%d: want capture ; request ; path ; reason", name, n)
		}
		capture, varies := strings.CutPrefix(parts[0], "~")
		a.all = append(a.all, &allowance{line: n, varies: varies, capture: glob(capture), request: glob(parts[1]), path: glob(parts[2])})
	}
	return a
}

// glob returns a pattern in which * matches any text.
func glob(pattern string) *regexp.Regexp {
	quoted := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(pattern)), `\*`, ".*")
	return regexp.MustCompile("^" + quoted + "$")
}

// allows reports whether a difference has a line, or several.
func (a *allowances) allows(capture, request string, d difference) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	allowed := false
	for _, l := range a.all {
		if l.capture.MatchString(capture) && l.request.MatchString(request) && l.path.MatchString(d.path) {
			l.used, allowed = true, true
		}
	}
	return allowed
}

// serve starts a server in this process, as main.go does.
func serve(t *testing.T) string {
	t.Helper()
	o := &server.Options{Webhooks: &server.Webhooks{AllowPrivate: true}, CORS: &server.CORS{Origins: []string{"*"}}}
	return servertest.Start(t, o, treadle.Must(platform.All()))
}

// A replay sends the requests of a capture to a server.
type replay struct {
	t       *testing.T
	name    string
	url     string
	allowed *allowances
	ids     *comparison
	made    map[string]bool // threads
	hooks   chan string     // bodies that the webhook was sent
	hook    string
}

// captures are the requests to each of LangGraph's servers and their answers.
var captures = map[string]string{"python": "testdata/captures", "javascript": "testdata/captures-js"}

// TestResponsesMatchLangGraphServers replays requests to LangGraph's Python and JavaScript
// servers, and compares our responses with the captured ones.
func TestResponsesMatchLangGraphServers(t *testing.T) {
	t.Parallel()
	for name, dir := range captures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replayAll(t, dir)
		})
	}
}

func replayAll(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	list := dir + "/allowed.txt"
	allowed := readAllowances(t, list)
	t.Run("captures", func(t *testing.T) {
		t.Parallel()
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".txt")
			if name == "allowed" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := &replay{t: t, name: name, url: serve(t), allowed: allowed, ids: newComparison(), made: map[string]bool{}, hooks: make(chan string, 1)}
				if name == "protocol-websocket" {
					r.socket(readSocket(t, file))
				} else {
					r.run(readCapture(t, file))
				}
			})
		}
	})
	t.Cleanup(func() { // when the captures are done
		for _, l := range allowed.all {
			if !l.used && !l.varies && !t.Failed() {
				t.Errorf("%s:%d allows a difference that there is not", list, l.line)
			}
		}
	})
}

func (r *replay) run(all []*exchange) {
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, _ := io.ReadAll(req.Body)
		select {
		case r.hooks <- string(raw):
		default:
		}
		w.WriteHeader(http.StatusOK)
	}))
	defer hook.Close()
	r.hook = hook.URL + "/hook"
	for _, s := range setups[r.name] {
		r.thread(s.path)
		r.send(s.method, s.path, s.body, nil)
	}
	if r.name == "thread-stream" {
		all = r.streams(all)
	}
	for i, x := range all {
		r.exchange(i+1, x)
	}
}

// streams opens the streams of a thread that were open during the first request, and
// returns the exchanges with the streamed events instead of resending them.
func (r *replay) streams(all []*exchange) []*exchange {
	r.t.Helper()
	r.thread(all[0].path)
	for _, x := range all[1:] {
		if x.sent.Get("Last-Event-Id") == "" {
			x.read = r.begin(x.method, x.path, "", x.sent)
		}
	}
	return all
}

// setups lists requests made before the captured ones.
var setups = map[string][]exchange{
	"threads-extras":  {{method: http.MethodPost, path: "/threads/01a1df60-9aba-71fd-9dec-02dfbf5a3a89/runs/wait", body: `{"assistant_id":"router","input":{"target":"left"}}`}},
	"cancel-rollback": {{method: http.MethodPost, path: "/threads/01a1df60-912a-749c-9d0d-f5b0621d6747/runs/wait", body: `{"assistant_id":"router","input":{"target":"left"}}`}},
}

var (
	threadPath   = regexp.MustCompile(`^/threads/([0-9a-f-]{36})\b`)
	protocolPath = regexp.MustCompile(`/(commands|stream/events)$`)
	sinceField   = regexp.MustCompile(`"since":\d+`)
)

// thread creates the thread of a path. Captures omit this request.
func (r *replay) thread(path string) {
	m := threadPath.FindStringSubmatch(path)
	if m == nil || r.made[m[1]] || r.ids.ours[m[1]] != "" || strings.HasPrefix(m[1], "00000000-") {
		return
	}
	r.made[m[1]] = true
	r.ids.same(m[1], m[1])
	if protocolPath.MatchString(path) {
		return // its first command does
	}
	if a := r.send(http.MethodPost, "/threads", fmt.Sprintf(`{"thread_id":%q}`, m[1]), nil); a.status != http.StatusOK {
		r.t.Fatalf("a thread is not made: %d %s", a.status, a.body)
	}
}

var (
	changing   = regexp.MustCompile(`\?.*|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	webhookURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+/hook`)
)

// exchange sends a request and compares the answer. What is only read is read again until it is
// as captured, because a run may not have come to its end yet.
func (r *replay) exchange(n int, x *exchange) {
	r.t.Helper()
	r.thread(x.path)
	label := x.method + " " + changing.ReplaceAllStringFunc(x.path, func(s string) string {
		if s[0] == '?' {
			return ""
		}
		return "{id}"
	})
	if strings.HasPrefix(r.name, "cancel") && strings.Contains(x.path, "/cancel") {
		r.ticked()
	}
	if strings.HasSuffix(x.path, "/runs/stream") {
		r.ids.forget() // the JavaScript server numbers the frames of each run
	}
	var wrong []difference
	for end := time.Now().Add(2 * time.Minute); ; <-time.After(20 * time.Millisecond) {
		c := r.ids.clone()
		var got *answer
		switch {
		case x.path == "/hook":
			got = r.received(x)
		case x.read != nil:
			got = x.read()
		default:
			body := sinceField.ReplaceAllStringFunc(r.ids.translate(x.body), r.since)
			got = r.send(x.method, r.ids.translate(x.path), webhookURL.ReplaceAllString(body, r.hook), x.sent)
		}
		c.answer(got, &x.want, func(a *answer) []captured { return a.frames(r.t) })
		wrong = r.wrong(label, c)
		if len(wrong) == 0 || x.method != http.MethodGet || x.read != nil || time.Now().After(end) {
			r.ids = c
			break
		}
	}
	r.report(n, label, wrong)
}

// since translates the number of a captured event to the number of our event.
func (r *replay) since(field string) string {
	r.t.Helper()
	ours, ok := strings.CutPrefix(r.ids.ours["seq "+strings.TrimPrefix(field, `"since":`)], "seq ")
	if !ok {
		r.t.Fatalf("%s: unknown event", field)
	}
	return `"since":` + ours
}

// wrong returns the differences that are not allowed.
func (r *replay) wrong(label string, c *comparison) (out []difference) {
	for _, d := range c.found {
		if !r.allowed.allows(r.name, label, d) {
			out = append(out, d)
		}
	}
	return out
}

func (r *replay) report(n int, label string, wrong []difference) {
	r.t.Helper()
	for _, d := range wrong {
		r.t.Errorf("%d ; %s ; %s: got %.600s, want %.600s", n, label, d.path, d.got, d.want)
	}
}

// ticked waits until the run of the graph slow, in the capture's only thread, has started.
func (r *replay) ticked() {
	r.t.Helper()
	for thread := range r.made {
		for end := time.Now().Add(120 * time.Second); ; <-time.After(5 * time.Millisecond) {
			if strings.Contains(r.send(http.MethodGet, "/threads/"+thread+"/state", "", nil).body, `"t0"`) {
				break
			}
			if time.Now().After(end) {
				r.t.Fatal("the run did not start")
			}
		}
	}
}

// received waits for the webhook request.
func (r *replay) received(x *exchange) *answer {
	r.t.Helper()
	x.want.body = x.body
	select {
	case body := <-r.hooks:
		return &answer{status: x.want.status, header: http.Header{}, body: body}
	case <-time.After(120 * time.Second):
		r.t.Fatal("the webhook is not called")
		return nil
	}
}

// openStream is the path of a stream that does not end by itself.
var openStream = regexp.MustCompile(`^/threads/[0-9a-f-]{36}/stream(/events)?$`)

// send sends a request.
func (r *replay) send(method, path, body string, header http.Header) *answer {
	r.t.Helper()
	return r.begin(method, path, body, header)()
}

// begin sends a request and returns a function that reads the answer.
func (r *replay) begin(method, path, body string, header http.Header) func() *answer {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		cancel()
		r.t.Fatal(err)
	}
	req.Header.Set("User-Agent", "") // not Go's
	for name, values := range header {
		req.Header.Set(name, cmp.Or(r.ids.ours[values[0]], values[0]))
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req) //nolint:bodyclose // the returned function closes it
	if err != nil {
		cancel()
		r.t.Fatal(err)
	}
	return func() *answer {
		defer cancel()
		defer func() { _ = resp.Body.Close() }()
		a := &answer{status: resp.StatusCode, header: resp.Header}
		if a.isStream() && openStream.MatchString(req.URL.Path) {
			a.body = string(readOpen(resp.Body, cancel))
			return a
		}
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			r.t.Fatalf("%s %s: %v after %s", method, path, err, raw)
		}
		a.body = string(raw)
		return a
	}
}

// runEnd is the event of the end of a run.
var runEnd = regexp.MustCompile(`"event":"(completed|failed|interrupted)","graph_name"|"status":"run_done"`)

// readOpen reads a stream that does not end by itself: until a run has ended and nothing more comes.
func readOpen(body io.Reader, cancel func()) (all []byte) {
	pieces := make(chan []byte)
	go func() {
		defer close(pieces)
		for {
			piece := make([]byte, 1<<16)
			n, err := body.Read(piece)
			pieces <- piece[:n]
			if err != nil {
				return
			}
		}
	}()
	quiet := time.NewTimer(6 * time.Second)
	for {
		select {
		case piece, ok := <-pieces:
			if !ok {
				return all
			}
			if all = append(all, piece...); runEnd.Match(all) {
				quiet.Reset(300 * time.Millisecond)
			}
		case <-quiet.C:
			cancel()
			for range pieces { // its goroutine ends
			}
			return all
		}
	}
}
