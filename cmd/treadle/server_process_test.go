//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// enough is the timeout for a step of these tests on a busy machine: they build programs.
const enough = 3 * time.Minute

// process is a running command with its output so far.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	mu  sync.Mutex
	out bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// begin starts a program in a directory.
func begin(t *testing.T, dir, file string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{t: t, cmd: exec.CommandContext(ctx, file, args...)}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, p, p
	p.cmd.Env = append(os.Environ(), "OPENAI_API_KEY=", "PORT=", "HOST=", "DATABASE_URI=")
	p.cmd.WaitDelay = 10 * time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = p.cmd.Wait() // already ended unless the test failed
	})
	return p
}

// says waits until the output after an offset matches a pattern, and returns the
// group of the match and the offset of its end.
func (p *process) says(after int, pattern string) (group string, end int) {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(enough); ; time.Sleep(5 * time.Millisecond) { //nolint:forbidigo // polls an HTTP server
		out := p.output()
		if m := re.FindStringSubmatchIndex(out[after:]); m != nil {
			if len(m) > 2 {
				group = out[after+m[2] : after+m[3]]
			}
			return group, after + m[1]
		}
		if time.Now().After(deadline) || p.cmd.ProcessState != nil {
			p.t.Fatalf("output does not match %s:\n%s", pattern, out)
		}
	}
}

// end sends a signal, waits for the process, and returns the exit code.
func (p *process) end(s os.Signal) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%v\n%s", err, p.output())
	}
	return ended(p.t, p.cmd)
}

// request sends a request and decodes the response.
func request(t *testing.T, method, url, body string, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s %v", method, url, resp.Status, raw, err)
	}
	if into != nil {
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatalf("%s %s: %v in %s", method, url, err, raw)
		}
	}
}

type chatState struct {
	Messages  []struct{ Content string }
	Interrupt []struct {
		Value struct {
			Calls []struct{ Name string } `json:"action_requests"`
		}
	} `json:"__interrupt__"`
}

func (s chatState) last() string { return s.Messages[len(s.Messages)-1].Content }

// ask sends a message to the agent of a new module.
func ask(t *testing.T, url, thread, text string) (s chatState) {
	t.Helper()
	request(t, "POST", url+"/threads/"+thread+"/runs/wait", `{"assistant_id":"support","input":{"messages":[{"role":"user","content":"`+text+`"}]}}`, &s)
	return s
}

func newThread(t *testing.T, url string) string {
	t.Helper()
	var th struct {
		ID string `json:"thread_id"`
	}
	request(t, "POST", url+"/threads", "{}", &th)
	return th.ID
}

// newModule runs treadle new with this checkout.
func newModule(t *testing.T, name string, flags ...string) (dir string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	t.Setenv("GOSUMDB", "off")
	cmd := command(t, append([]string{"new", name, "--replace", root}, flags...)...)
	cmd.Dir = parent
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\nNext: cd shop && treadle dev\n") {
		t.Fatalf("treadle new: %v\n%s", err, out)
	}
	return filepath.Join(parent, "shop")
}

func goTool(t *testing.T, dir string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), enough)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
}

func TestNewModuleTestsBuildsAndServes(t *testing.T) {
	dir := newModule(t, "example.com/team/shop")
	goTool(t, dir, "vet", "./...")
	goTool(t, dir, "test", "./...")
	goTool(t, dir, "build", "-o", "shop", ".")

	p := begin(t, dir, filepath.Join(dir, "shop"), "--port", "0")
	url, at := p.says(0, `address=(http://\S+)`)
	request(t, "GET", url+"/ok", "", nil)
	thread := newThread(t, url)
	if s := ask(t, url, thread, "Please refund order 42."); len(s.Interrupt) != 1 || s.Interrupt[0].Value.Calls[0].Name != "refund" {
		t.Fatalf("no interrupt: %+v", s)
	}
	var s chatState
	request(t, "POST", url+"/threads/"+thread+"/runs/wait", `{"assistant_id":"support","command":{"resume":{"decisions":[{"type":"approve"}]}}}`, &s)
	if s.last() != "Done: order 42 is refunded." {
		t.Errorf("response: %q", s.last())
	}
	var about struct{ Description string }
	request(t, "GET", url+"/assistants/support", "", &about)
	if about.Description != "Helps customers and refunds orders." {
		t.Errorf("description: %q", about.Description)
	}
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.output())
	}
	p.says(at, "shutting down")
}

func TestNewDeepModuleTestsBuildsAndServes(t *testing.T) {
	dir := newModule(t, "example.com/team/shop", "--deep")
	goTool(t, dir, "vet", "./...")
	goTool(t, dir, "test", "./...")
	goTool(t, dir, "build", "-o", "shop", ".")

	p := begin(t, dir, filepath.Join(dir, "shop"), "--port", "0")
	url, _ := p.says(0, `address=(http://\S+)`)
	wait := url + "/threads/" + newThread(t, url) + "/runs/wait"
	var s struct {
		chatState
		Files map[string]struct{ Content string }
	}
	request(t, "POST", wait, `{"assistant_id":"researcher","input":{"messages":[{"role":"user","content":"Owls"}]}}`, &s)
	if len(s.Interrupt) != 1 || s.Interrupt[0].Value.Calls[0].Name != "write_file" {
		t.Fatalf("no interrupt: %+v", s)
	}
	request(t, "POST", wait, `{"assistant_id":"researcher","command":{"resume":{"decisions":[{"type":"approve"}]}}}`, &s)
	if s.last() != "Done: Updated /report.md." || !strings.Contains(s.Files["/report.md"].Content, "- Owls: ") {
		t.Errorf("response %q, files %v", s.last(), s.Files)
	}
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.output())
	}
}

func TestServeServesDemoGraphs(t *testing.T) {
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := begin(t, dir, file, "serve", "--port", "0", "--db", filepath.Join(dir, "x.db"), "--model", "offline", "--log", "json")
	url, _ := p.says(0, `"address":"(http://[^"]+)"`)
	var essay struct{ Draft string }
	request(t, "POST", url+"/runs/wait", `{"assistant_id":"essay","input":{"topic":"owls"}}`, &essay)
	if essay.Draft != "Published: On owls, with 4 notes, draft 2." {
		t.Errorf("essay: %+v", essay)
	}
	thread := newThread(t, url)
	var s chatState
	request(t, "POST", url+"/threads/"+thread+"/runs/wait", `{"assistant_id":"agent","input":{"messages":[{"role":"user","content":"What is 6 * 7?"}]}}`, &s)
	if !strings.Contains(s.last(), "42") {
		t.Errorf("agent response: %q", s.last())
	}
	for _, say := range []string{"Remember that my cat is called Mog.", "What do you remember?"} {
		request(t, "POST", url+"/threads/"+newThread(t, url)+"/runs/wait", `{"assistant_id":"agent","input":{"messages":[{"role":"user","content":"`+say+`"}]}}`, &s)
	}
	if !strings.Contains(s.last(), "Mog") {
		t.Errorf("agent recalls %q", s.last())
	}
	var jokes struct {
		Interrupt []struct{ Value struct{ Question string } } `json:"__interrupt__"`
	}
	request(t, "POST", url+"/threads/"+newThread(t, url)+"/runs/wait", `{"assistant_id":"jokes","input":{"topic":"owls"}}`, &jokes)
	if len(jokes.Interrupt) != 1 || jokes.Interrupt[0].Value.Question == "" {
		t.Errorf("no interrupt: %+v", jokes)
	}
	if code := p.end(syscall.SIGINT); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.output())
	}
}

// Without a program, dev serves the demo and its agent.
func TestDevServesDemoWithoutProgram(t *testing.T) {
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	p := begin(t, dir, file, "dev", "--port", "0")
	url, at := p.says(0, `serving at (http://\S+)`)
	if page, _ := p.says(at, `open (http://\S+)`); page != url+"/studio/" {
		t.Errorf("page: %q", page)
	}
	var s chatState
	request(t, "POST", url+"/runs/wait", `{"assistant_id":"agent","input":{"messages":[{"role":"user","content":"What is 2 + 2?"}]}}`, &s)
	if !strings.Contains(s.last(), "4") {
		t.Errorf("agent response: %q", s.last())
	}
	if code := p.end(syscall.SIGINT); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.output())
	}
}

// edit replaces a text in a file.
func edit(t *testing.T, file, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(raw), from) {
		t.Fatalf("%s does not contain %q", file, from)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(raw), from, to)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The command is a real process that builds and runs a real module.
func TestDevRestartsProgramAfterChange(t *testing.T) {
	dir := newModule(t, "shop")
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cache, err := goCommand(t.Context(), "env", "GOCACHE")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(cache))) // the cache of the tests, despite the HOME below
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	opened := filepath.Join(t.TempDir(), "opened")
	tools := t.TempDir() // with a browser that records the opened page
	for _, name := range []string{"xdg-open", "open"} {
		if err := os.WriteFile(filepath.Join(tools, name), []byte("#!/bin/sh\necho \"$1\" >"+opened+"\n"), 0o700); err != nil { //nolint:gosec // must be executable
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	p := begin(t, dir, file, "dev", "--port", "0", "--open", "--", "--db", filepath.Join(dir, "mine.db"))
	url, at := p.says(0, `serving at (http://\S+)`)
	thread := newThread(t, url)
	if s := ask(t, url, thread, "Hello."); s.last() != "I can refund orders. Which one?" {
		t.Fatalf("response: %q", s.last())
	}

	// A change to the program takes effect, and the thread is kept.
	model := filepath.Join(dir, "agents", "model.go")
	edit(t, model, "I can refund orders.", "We refund orders.")
	took, at := p.says(at, `restarted at \S+, (\S+) after the change`)
	t.Log("from the change to the response:", took)
	if s := ask(t, url, thread, "Hello again."); s.last() != "We refund orders. Which one?" || len(s.Messages) != 4 {
		t.Errorf("after the restart: %+v", s)
	}
	if page, err := os.ReadFile(opened); err != nil || string(page) != url+"/studio/\n" {
		t.Errorf("browser opened %q, %v", page, err)
	}

	// If the build fails, the previous program keeps running.
	edit(t, model, "package agents", "package agents\n\nnonsense")
	_, at = p.says(at, `(?s)model\.go:3:\d+: syntax error.*build failed; the previous program keeps running`)
	request(t, "GET", url+"/ok", "", nil)
	edit(t, model, "\n\nnonsense", "")
	_, at = p.says(at, "program unchanged")

	// A new directory is watched, and so are embedded files.
	words := filepath.Join(dir, "words")
	if err := os.Mkdir(words, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(words, "hello.txt"), []byte("Good day. "), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(words, "words.go"), []byte("// Package words has texts.\npackage words\n\nimport _ \"embed\"\n\n// Hello is a greeting.\n//\n//go:embed *.txt\nvar Hello string\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	edit(t, model, `"We refund orders.`, `words.Hello + "We refund orders.`)
	edit(t, model, `import (`, "import (\n\t\"shop/words\"")
	_, at = p.says(at, `restarted at`)
	if s := ask(t, url, thread, "Hello."); s.last() != "Good day. We refund orders. Which one?" {
		t.Errorf("with a new package: %q\n%s", s.last(), p.output())
	}
	if err := os.WriteFile(filepath.Join(words, "hello.txt"), []byte("Good evening. "), 0o600); err != nil {
		t.Fatal(err)
	}
	_, at = p.says(at, `hello\.txt changed(?s).*restarted at`)
	if s := ask(t, url, thread, "Hello."); s.last() != "Good evening. We refund orders. Which one?" {
		t.Errorf("with another text: %q\n%s", s.last(), p.output())
	}

	// A change to the environment file restarts the program without a build.
	if err := os.WriteFile(filepath.Join(dir, ".env"), []byte("LOG_FORMAT=json\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, at = p.says(at, `\.env changed(?s).*"msg":"serving"(?s).*restarted at`)
	if strings.Contains(p.output()[at-200:at], "built in") {
		t.Errorf("rebuilt:\n%s", p.output())
	}

	if code := p.end(syscall.SIGINT); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.output())
	}
	p.says(at, `treadle: stopping`)
	if req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/ok", nil); err != nil {
		t.Fatal(err)
	} else if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Error("program still running")
	}
	left, err := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "treadle", "dev", "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
}
