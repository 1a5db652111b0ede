package conformance

import (
	"bufio"
	"cmp"
	"context"
	"errors"
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

	"github.com/treadle-go/treadle/internal/platform"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

// An allowance is a line of allowed.txt: a difference between our answers and those of LangGraph's
// Python server, with its reason.
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

func readAllowances(t *testing.T) *allowances {
	t.Helper()
	file, err := os.Open("testdata/captures/allowed.txt")
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
			t.Fatalf("allowed.txt:%d: want capture ; request ; path ; reason", n)
		}
		capture, varies := strings.CutPrefix(parts[0], "~")
		a.all = append(a.all, &allowance{line: n, varies: varies, capture: glob(capture), request: glob(parts[1]), path: glob(parts[2])})
	}
	return a
}

// glob is a pattern in which * stands for any text.
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
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "replay.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	graphs, err := platform.All()
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(db, graphs, &server.Options{Webhooks: &server.Webhooks{AllowPrivate: true}, CORS: &server.CORS{Origins: []string{"*"}}})
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(srv)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := srv.Drain(ctx); err != nil {
			t.Error(err)
		}
		hs.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return hs.URL
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

// TestAnswersAreThoseOfLangGraphsServer replays what LangGraph's Python server was asked, and
// compares the answers with those that it gave.
func TestAnswersAreThoseOfLangGraphsServer(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/captures/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	allowed := readAllowances(t)
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
				r.run(readCapture(t, file))
			})
		}
	})
	t.Cleanup(func() { // when the captures are done
		for _, l := range allowed.all {
			if !l.used && !l.varies && !t.Failed() {
				t.Errorf("allowed.txt:%d allows a difference that there is not", l.line)
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
	for i, x := range all {
		r.exchange(i+1, x)
	}
}

// setups are requests that were made before the captured ones.
var setups = map[string][]exchange{
	"threads-extras":  {{method: http.MethodPost, path: "/threads/01a1df60-9aba-71fd-9dec-02dfbf5a3a89/runs/wait", body: `{"assistant_id":"router","input":{"target":"left"}}`}},
	"cancel-rollback": {{method: http.MethodPost, path: "/threads/01a1df60-912a-749c-9d0d-f5b0621d6747/runs/wait", body: `{"assistant_id":"router","input":{"target":"left"}}`}},
}

var threadPath = regexp.MustCompile(`^/threads/([0-9a-f-]{36})\b`)

// thread makes the thread of a path. Captures leave this out.
func (r *replay) thread(path string) {
	m := threadPath.FindStringSubmatch(path)
	if m == nil || r.made[m[1]] || r.ids.ours[m[1]] != "" || strings.HasPrefix(m[1], "00000000-") {
		return
	}
	r.made[m[1]] = true
	r.ids.same(m[1], m[1])
	if a := r.send(http.MethodPost, "/threads", fmt.Sprintf(`{"thread_id":%q}`, m[1]), nil); a.status != http.StatusOK {
		r.t.Fatalf("a thread is not made: %d %s", a.status, a.body)
	}
}

var (
	placeholders = regexp.MustCompile(`\?.*|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	webhookURL   = regexp.MustCompile(`http://127\.0\.0\.1:\d+/hook`)
)

// exchange sends a request and compares the answer. What is only read is read again until it is
// as captured, because a run may not have come to its end yet.
func (r *replay) exchange(n int, x *exchange) {
	r.t.Helper()
	r.thread(x.path)
	label := x.method + " " + placeholders.ReplaceAllStringFunc(x.path, func(s string) string {
		if s[0] == '?' {
			return ""
		}
		return "{id}"
	})
	if strings.HasPrefix(r.name, "cancel") && strings.Contains(x.path, "/cancel") {
		r.ticked()
	}
	var wrong []difference
	for end := time.Now().Add(3 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c := r.ids.clone()
		var got *answer
		if x.path == "/hook" {
			got = r.received(x)
		} else {
			got = r.send(x.method, r.ids.translate(x.path), webhookURL.ReplaceAllString(r.ids.translate(x.body), r.hook), x.sent)
		}
		c.answer(got, &x.want, func(a *answer) []captured { return a.frames(r.t) })
		wrong = nil
		for _, d := range c.found {
			if !r.allowed.allows(r.name, label, d) {
				wrong = append(wrong, d)
			}
		}
		if len(wrong) == 0 || x.method != http.MethodGet || time.Now().After(end) {
			r.ids = c
			break
		}
	}
	for _, d := range wrong {
		r.t.Errorf("%d ; %s ; %s: got %.600s, want %.600s", n, label, d.path, d.got, d.want)
	}
}

// ticked waits until the run of the graph slow, in the capture's only thread, has begun.
func (r *replay) ticked() {
	r.t.Helper()
	for thread := range r.made {
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if strings.Contains(r.send(http.MethodGet, "/threads/"+thread+"/state", "", nil).body, `"t0"`) {
				break
			}
			if time.Now().After(end) {
				r.t.Fatal("the run does not begin")
			}
		}
	}
}

// received waits for what the webhook is sent.
func (r *replay) received(x *exchange) *answer {
	r.t.Helper()
	x.want.body = x.body
	select {
	case body := <-r.hooks:
		return &answer{status: x.want.status, header: http.Header{}, body: body}
	case <-time.After(20 * time.Second):
		r.t.Fatal("the webhook is not called")
		return nil
	}
}

// threadStream is the path of a stream that does not end by itself.
var threadStream = regexp.MustCompile(`^/threads/[0-9a-f-]{36}/stream$`)

// send sends a request.
func (r *replay) send(method, path, body string, header http.Header) *answer {
	r.t.Helper()
	timeout, endless := 30*time.Second, threadStream.MatchString(path)
	if endless {
		timeout = time.Second
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
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
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil && (!endless || !errors.Is(err, context.DeadlineExceeded)) {
		r.t.Fatalf("%s %s: %v after %s", method, path, err, raw)
	}
	return &answer{status: resp.StatusCode, header: resp.Header, body: string(raw)}
}
