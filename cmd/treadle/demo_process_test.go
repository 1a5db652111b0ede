//go:build unix

package main

import (
	"bytes"
	"encoding/json"
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

	"github.com/treadle-go/treadle/cmd/treadle/internal/demo"
)

const (
	disclaimer = "I am not a language model: I follow a few rules."
	abilities  = `I can compute ("what is 12 * (3 + 4)?"), write notes ("note shopping: milk and eggs"), read them ("show my notes"), ` +
		`remember ("remember that I like green tea"), recall ("what do you know about me?"), and forget ("forget that I like green tea"). ` +
		`I also remember what you say about yourself ("my name is Ada").`
	nothingSaved = "The conversation is not saved: use --db FILE to keep it.\n"
)

// noKeys returns an environment without API keys, so that the demo uses the offline model.
func noKeys() []string {
	env := os.Environ()
	for _, m := range demo.DefaultModels {
		env = append(env, m.Key+"=")
	}
	return append(env, "OPENAI_BASE_URL=")
}

// talked runs the demo as a process with lines on its standard input, and returns its
// output after the first line.
func talked(t *testing.T, lines string, args ...string) result {
	t.Helper()
	cmd := command(t, append([]string{"demo"}, args...)...)
	cmd.Env = noKeys()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(lines), &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	code := ended(t, cmd)
	_, said, _ := strings.Cut(stdout.String(), "\n")
	said = memoryID.ReplaceAllString(said, "${1}ID")
	return result{said, stderr.String(), code}
}

// memoryID matches IDs, which differ each time.
var memoryID = regexp.MustCompile(`(created memory |Deleted memory |"id":")[-0-9a-f]+`)

// goodbye returns the end of the demo's output if the conversation is saved.
func goodbye(file string) string {
	return fmt.Sprintf("\nTo continue, or to inspect the saved thread\n\n  treadle demo --db %s --thread chat\n  treadle threads show chat --db %s\n", file, file)
}

func contents(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestDemoUsesAllTools(t *testing.T) {
	dir := t.TempDir()
	notes := filepath.Join(dir, "my notes")
	got := talked(t, `hello
what is 2^64?
remember that I like green tea
note shopping: milk and eggs
perhaps
yes
what do you know about tea? and show my notes and what is 1/0?
`, "--notes", notes)
	diff(t, got, result{Stdout: nothingSaved + `
> hello
I am not a language model: I follow a few rules.
Hello! ` + abilities + `

> what is 2^64?
  ✓ calculator {"expression":"2^64"}: 18446744073709551616
2^64 = 18446744073709551616

> remember that I like green tea
  ✓ manage_memory {"content":"I like green tea"}: created memory ID
I will remember until this run ends: I like green tea

> note shopping: milk and eggs

Write the note shopping.md?

     milk and eggs

yes, or no (and why) perhaps
Answer yes or no, or for example "no, not now".

yes, or no (and why) yes
  ✓ write_note {"file":"shopping.md","text":"milk and eggs"}: Written to shopping.md.
Written to shopping.md.

> what do you know about tea? and show my notes and what is 1/0?
  ✓ search_memory {"query":"tea"}: 1 result
  ✓ read_notes {}: shopping.md
  ✗ calculator {"expression":"1/0"}: tool calculator: cannot compute "1/0": division by zero
I know this: I like green tea
Your notes: shopping.md
That did not work: cannot compute "1/0": division by zero
`})
	diff(t, contents(t, filepath.Join(notes, "shopping.md")), "milk and eggs\n")
}

func TestDemoDoesNotWriteRejectedNote(t *testing.T) {
	notes := t.TempDir()
	got := talked(t, "note a: x and note b: y\nno, not now\ny\n", "--notes", notes)
	diff(t, got, result{Stdout: nothingSaved + `
> note a: x and note b: y
I am not a language model: I follow a few rules.

Write the note a.md?

     x

yes, or no (and why) no, not now
  ✗ write_note {"file":"a.md","text":"x"}: The user refused: not now

Write the note b.md?

     y

yes, or no (and why) y
  ✓ write_note {"file":"b.md","text":"y"}: Written to b.md.
I did not write a.md.
Written to b.md.
`})
	left, err := os.ReadDir(notes)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || left[0].Name() != "b.md" {
		t.Errorf("notes: %v", left)
	}
}

func TestDemoYesSkipsQuestions(t *testing.T) {
	notes := t.TempDir()
	got := talked(t, "note a: x\n", "--notes", notes, "--yes")
	if !strings.Contains(got.Stdout, "yes, or no (and why) yes (because of --yes)\n") || got.Code != 0 {
		t.Errorf("got %+v", got)
	}
	diff(t, contents(t, filepath.Join(notes, "a.md")), "x\n")
}

// The next run repeats an unanswered question.
func TestDemoRepeatsUnansweredQuestion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.db")
	const question = `
Write the note a.md?

     x
`
	const unanswered = "treadle: input ended before this question was answered: Write the note a.md? Answer yes or no in the next line, or use --yes\n"
	diff(t, talked(t, "note a: x\n", "--db", file), result{"\n> note a: x\nI am not a language model: I follow a few rules.\n" + question + goodbye(file), unanswered, 1})
	const resumed = "Continuing thread \"chat\", 2 messages so far.\n"
	diff(t, talked(t, "", "--db", file), result{resumed + question + goodbye(file), unanswered, 1})
	diff(t, talked(t, "yes\n", "--db", file), result{Stdout: resumed + question + `
yes, or no (and why) yes
  ✓ write_note {"file":"a.md","text":"x"}: Written to a.md.
Written to a.md.
` + goodbye(file)})
	diff(t, contents(t, filepath.Join(filepath.Dir(file), "notes", "a.md")), "x\n")
}

func TestDemoRemembersAfterRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.db")
	talked(t, "remember that I like green tea\n", "--db", file, "--thread", "one")
	const ask = "what do you know about tea?\n"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--thread", "two"}, "I know this: I like green tea\n"},
		{[]string{"--thread", "three", "--user", "bob"}, "I know nothing about it.\n"},
	} {
		got := talked(t, ask, append(test.args, "--db", file)...)
		if !strings.Contains(got.Stdout, test.want) || got.Code != 0 {
			t.Errorf("%v: got %+v", test.args, got)
		}
	}
}

func TestDemoRecallsAndForgets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.db")
	talked(t, "remember that I like green tea\nmy name is Ada\n", "--db", file, "--thread", "one")
	talked(t, "I live in Oslo\n", "--db", file, "--thread", "two")
	got := talked(t, `I play chess
what do you know about me?
forget that I like green tea
please forget where I live
forget chess
forget my birthday
what do you know about me?
`, "--db", file, "--thread", "three")
	diff(t, got, result{Stdout: `
> I play chess
` + disclaimer + `
Good to know.

> what do you know about me?
  ✓ search_memory {"query":"","limit":100}: 3 results
I know this: I like green tea; my name is Ada; I live in Oslo; I play chess

> forget that I like green tea
  ✓ search_memory {"query":"I like green tea"}: 2 results
  ✓ manage_memory {"action":"delete","id":"ID…: Deleted memory ID
Forgotten: I like green tea

> please forget where I live
  ✓ search_memory {"query":"where I live"}: 1 result
  ✓ manage_memory {"action":"delete","id":"ID…: Deleted memory ID
Forgotten: I live in Oslo

> forget chess
  ✓ search_memory {"query":"chess"}: 0 results
Forgotten: I play chess

> forget my birthday
  ✓ search_memory {"query":"my birthday"}: 1 result
There is nothing to forget: I know nothing about it.

> what do you know about me?
  ✓ search_memory {"query":"","limit":100}: 1 result
I know this: my name is Ada
` + strings.ReplaceAll(goodbye(file), "chat", "three")})
	// A forgotten statement is not extracted from its conversation later.
	talked(t, "forget everything you know about me\n", "--db", file, "--thread", "four")
	for _, thread := range []string{"one", "two", "three", "five"} {
		got := talked(t, "what do you know?\n", "--db", file, "--thread", thread, "--user", "nobody")
		if got.Code != 0 {
			t.Errorf("thread %s: %+v", thread, got)
		}
	}
	if got := talked(t, "what do you know about me?\n", "--db", file, "--thread", "six"); !strings.Contains(got.Stdout, "I know nothing about you yet.\n") {
		t.Errorf("not forgotten: %+v", got)
	}
}

// A note that would be lost with the process is rejected before the user is asked.
func TestDemoRejectsNotesWithoutDirectory(t *testing.T) {
	got := talked(t, "note a: x\nshow my notes\n")
	diff(t, got, result{Stdout: nothingSaved + `
> note a: x
` + disclaimer + `
  ✗ write_note {"file":"a.md","text":"x"}: tool write_note: notes would be lost when this run ends: use --notes DIR or…
That did not work: notes would be lost when this run ends: use --notes DIR or --db FILE

> show my notes
  ✓ read_notes {}: There are no notes yet.
There are no notes yet.
`})
}

func TestDemoReportsUnansweredQuestion(t *testing.T) {
	got := talked(t, "note a: x\n", "--notes", t.TempDir())
	diff(t, []any{got.Stderr, got.Code}, []any{"treadle: input ended before this question was answered: Write the note a.md? Answer yes or no in the next line, or use --yes\n", 1})
}

// The demo remembers what users say about themselves, even if they do not ask.
func TestDemoLearnsAndRecalls(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.db")
	diff(t, talked(t, "my name is Ada. I live in London\n", "--db", file), result{Stdout: "\n> my name is Ada. I live in London\n" + disclaimer + "\nGood to know.\n" + goodbye(file)})
	talked(t, "I live in Oslo\n", "--db", file, "--thread", "two")
	for args, want := range map[string]string{
		"--thread three":            "You told me: I live in Oslo.\n",
		"--thread four --user Evil": "I do not know that yet. Tell me, and I will remember.\n",
	} {
		got := talked(t, "where do I live?\n", append(strings.Fields(args), "--db", file)...)
		if !strings.Contains(got.Stdout, want) || got.Code != 0 {
			t.Errorf("%s: got %+v", args, got)
		}
	}
	// The saved conversation does not contain the recalled memories.
	shown := onFile(t, file, "show three")
	_, values, _ := strings.Cut(shown.Stdout, "\nValues\n")
	diff(t, values, `messages:
  user           where do I live?
  assistant      I am not a language model: I follow a few rules.
                 You told me: I live in Oslo.
`)
}

func TestDemoRejectsThreadsOfOtherGraphs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.db")
	if got := call(t.Context(), "jokes", "--db", file, "--thread", "x"); got.Code != 0 {
		t.Fatal(got)
	}
	diff(t, talked(t, "hello\n", "--db", file, "--thread", "x"), result{"", "treadle: thread \"x\" is not a conversation: use another --thread\n", 1})
}

// wire is an OpenAI-compatible server that sends the given responses in order and
// records the requests.
type wire struct {
	*httptest.Server
	mu      sync.Mutex
	answers []func(http.ResponseWriter)
	asked   []wireRequest
}

type wireRequest struct {
	Model    string
	Stream   bool
	Messages []struct {
		Role       string
		Content    json.RawMessage
		ToolCallID string `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	Tools []struct{ Function struct{ Name string } }
}

func newWire(t *testing.T, answers ...func(http.ResponseWriter)) *wire {
	s := &wire{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		var req wireRequest
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &req)
		}
		if err != nil || r.URL.Path != "/v1/chat/completions" || len(s.answers) == 0 {
			http.Error(w, fmt.Sprint("unexpected: ", r.URL.Path, err), http.StatusTeapot)
			return
		}
		s.asked = append(s.asked, req)
		s.answers[0](w)
		s.answers = s.answers[1:]
	}))
	t.Cleanup(s.Close)
	return s
}

// streamed responds with an event for each delta, and a stop reason.
func streamed(stop string, deltas ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, d := range append(deltas, "{}") {
			reason := "null"
			if d == "{}" {
				reason = `"` + stop + `"`
			}
			fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", d, reason)
			w.(http.Flusher).Flush()
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}
}

func refused(status int, message string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":%q,"type":"server_error"}}`, message)
	}
}

func TestDemoUsesOpenAIServer(t *testing.T) {
	server := newWire(t,
		streamed("tool_calls", `{"role":"assistant","content":"Let me "}`, `{"content":"compute."}`,
			`{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"calculator","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{\"expression\":"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"\"6*7\"}"}}]}`),
		streamed("stop", `{"role":"assistant","content":"It is "}`, `{"content":"42."}`),
		streamed("tool_calls", `{"tool_calls":[{"index":0,"id":"call_b","type":"function","function":{"name":"Memory","arguments":"{\"content\":\"The user asks for sums\"}"}}]}`))
	file := filepath.Join(t.TempDir(), "demo.db")
	got := talked(t, "six times seven?\n", "--base-url", server.URL+"/v1", "--model", "tiny", "--db", file)
	said, rest, _ := strings.Cut(got.Stdout, "\n\nTo continue")
	diff(t, said, `
> six times seven?
Let me compute.
  ✓ calculator {"expression":"6*7"}: 42
It is 42.`)
	if want := "  treadle demo --db " + file + " --thread chat --base-url " + server.URL + "/v1 --model tiny\n"; !strings.Contains(rest, want) || got.Code != 0 {
		t.Errorf("got %+v", got)
	}
	if len(server.asked) != 3 {
		t.Fatalf("%d requests", len(server.asked))
	}
	var tools [][]string
	for _, asked := range server.asked {
		var names []string
		for _, tool := range asked.Tools {
			names = append(names, tool.Function.Name)
		}
		tools = append(tools, names)
	}
	agents := []string{"calculator", "write_note", "read_notes", "manage_memory", "search_memory"}
	diff(t, tools, [][]string{agents, agents, {"Memory", "Done"}}) // the last request extracts memories
	if got := talked(t, "what do you know?\n", "--db", file, "--thread", "two"); !strings.Contains(got.Stdout, "I know this: The user asks for sums\n") {
		t.Errorf("memory not recalled: %+v", got)
	}
	second := server.asked[1]
	var roles []string
	for _, m := range second.Messages {
		roles = append(roles, m.Role)
	}
	diff(t, roles, []string{"system", "user", "assistant", "tool"})
	diff(t, []any{second.Model, second.Stream, second.Messages[2].ToolCalls[0].ID, second.Messages[3].ToolCallID, string(second.Messages[3].Content)},
		[]any{"tiny", true, "call_a", "call_a", `"42"`})
}

// After a failure, an empty line retries, and another line continues the
// conversation. The history stays valid for providers.
func TestDemoContinuesAfterServerFailure(t *testing.T) {
	server := newWire(t,
		refused(500, "the bulbs are out"),
		refused(429, "come back"),
		streamed("stop", `{"role":"assistant","content":"Hello."}`),
		refused(500, "out again"),
		streamed("stop", `{"role":"assistant","content":"Still here."}`))
	got := talked(t, "hello\n\n\nsing\nnever mind\n", "--base-url", server.URL+"/v1", "--model", "tiny")
	diff(t, got, result{nothingSaved + `
> hello
The model failed: openai: 500 Internal Server Error: server_error: the bulbs are out
Press Enter to retry.

> 
The model failed: openai: 429 Too Many Requests: server_error: come back
Press Enter to retry.

> 
Hello.

> sing
The model failed: openai: 500 Internal Server Error: server_error: out again
Press Enter to retry.

> never mind
Still here.
`, "treadle: openai: 500 Internal Server Error: server_error: out again\n", 1})
	var said []string
	for _, m := range server.asked[4].Messages[1:] {
		said = append(said, m.Role+" "+string(m.Content))
	}
	diff(t, said, []string{`user "hello"`, `assistant "Hello."`, `user "sing"`, `user "never mind"`})
}

// An error keeps its line breaks on both outputs.
func TestDemoKeepsLinesOfErrors(t *testing.T) {
	server := newWire(t, refused(400, "no such model:\n- tiny"))
	got := talked(t, "hello\n", "--base-url", server.URL+"/v1", "--model", "tiny")
	const want = "openai: 400 Bad Request: server_error: no such model:\n  - tiny\n"
	diff(t, got, result{nothingSaved + "\n> hello\nThe model failed: " + want + "Press Enter to retry.\n", "treadle: " + want, 1})
}
