package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/cmd/treadle/internal/demo"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/reduce"
	"github.com/treadle-go/treadle/sqlite"
)

var (
	anyID   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	anySize = regexp.MustCompile(`\d\.\d kB| \d\d\d B`)
	anyTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	anyByte = regexp.MustCompile(`"(bytes|freed)":\d+`)
)

// masks hides values that differ between runs: IDs, times, and, because IDs
// compress differently, sizes.
func masks(s string) string {
	s = anyID.ReplaceAllString(s, "ID")
	s = anyTime.ReplaceAllString(s, "TIME")
	s = anyByte.ReplaceAllString(s, `"$1":0`)
	return anySize.ReplaceAllString(s, "0.0 kB")
}

// library creates a file with three threads: a finished one, an interrupted one,
// and one whose second node failed after a third had finished.
func library(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "threads.db")
	db, err := sqlite.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	asking, err := demo.NewJokes(0, db)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"done", "asking"} {
		if _, err := dynamic.Open(asking, name).RunJSON(t.Context(), []byte(`{"topic":"owls"}`)); asked(err) != "Publish this joke?" {
			t.Fatal(err)
		}
	}
	if _, err := resumed(dynamic.Open(asking, "done").CommandJSON(t.Context(), []byte(`{"resume":{"decision":"yes"}}`))); err != nil {
		t.Fatal(err)
	}
	type state struct {
		Log reduce.List[string] `json:"log"`
	}
	type printed struct{ Log reduce.List[string] }
	b := treadle.New[state]("press")
	stopped := make(chan struct{})
	treadle.AddNode(b, "good", func(context.Context, state) (printed, error) {
		defer close(stopped)
		return printed{reduce.List[string]{"printed"}}, nil
	})
	treadle.AddNode(b, "bad", func(context.Context, state) (*printed, error) {
		<-stopped
		return nil, errors.New("no paper\x1b[31m left")
	})
	b.Edge(treadle.Start, "good")
	b.Edge(treadle.Start, "bad")
	g, err := b.Compile(&treadle.Options{Saver: db})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Thread("press\x1b[2J", treadle.Metadata(map[string]any{"user": "ada"})).Run(t.Context(), state{reduce.List[string]{"begun"}}); err == nil {
		t.Fatal("nothing failed")
	}
	return file
}

// onFile runs a threads command on a file and masks its output.
func onFile(t *testing.T, file, command string, args ...string) result {
	t.Helper()
	got := call(t.Context(), append(append([]string{"threads"}, strings.Fields(command)...), append(args, "--db", file)...)...)
	got.Stdout, got.Stderr = masks(got.Stdout), strings.ReplaceAll(masks(got.Stderr), file, "FILE")
	return got
}

// ids returns the checkpoints of the thread "done" by step, the newest of each step.
func ids(t *testing.T, file string) map[int]string {
	t.Helper()
	out := map[int]string{}
	for line := range strings.Lines(call(t.Context(), "threads", "history", "done", "--json", "--db", file).Stdout) {
		var g struct {
			ID   string
			Step int
		}
		if err := json.Unmarshal([]byte(line), &g); err != nil {
			t.Fatal(err)
		}
		if out[g.Step] == "" {
			out[g.Step] = g.ID
		}
	}
	return out
}

func TestThreadsTables(t *testing.T) {
	file := library(t)
	for command, want := range map[string]string{
		"list": `THREAD          GRAPH  CHECKPOINTS    SIZE  LAST CHANGE  STATUS
asking          jokes            5  0.0 kB  just now     waiting for an answer
done            jokes            7  0.0 kB  just now     idle
press\u001b[2J  press            2  0.0 kB  just now     failed
`,
		"du": `  SIZE  CHECKPOINTS  THREAD
0.0 kB            7  done
0.0 kB            5  asking
0.0 kB            2  press\u001b[2J
0.0 kB           14  in 3 threads
`,
		"history done --limit 3": `STEP  SOURCE  CHECKPOINT  MADE             NEXT
   5  loop    ID  just now (head)  nothing
   4  loop    ID  just now         publish
   3  loop    ID  just now         approve
`,
		"history asking": `STEP  SOURCE  CHECKPOINT  MADE             NEXT
   3  loop    ID  just now (head)  approve, waiting for an answer
   2  loop    ID  just now         judge
   1  loop    ID  just now         write ×4
   0  loop    ID  just now         brainstorm
  -1  input   ID  just now         __start__
`,
		"show asking": `thread      asking
graph       jokes
checkpoint  ID
step        3, created by loop, just now
status      waiting for an answer
next        approve

Tasks
NODE     STATE  TASK
approve  asks   ID

Questions
approve asks:
  {
    "question": "Publish this joke?",
    "joke": {
      "subject": "owls in love",
      "text": "I told my date that I write Go and think about owls. She returned an error. I did not check it.",
      "laughs": 10
    }
  }

Values
jokes:
  [
    {
      "subject": "owls at work",
      "text": "We put owls in charge of the stand-up. It ended early, and nobody knew what to do with the time.",
      "laughs": 2
    },
    {
      "subject": "owls in love",
      "text": "I told my date that I write Go and think about owls. She returned an error. I did not check it.",
      "laughs": 10
    },
    {
      "subject": "owls on holiday",
      "text": "I booked a quiet week without owls. On day two I paid extra for the upgrade.",
      "laughs": 7
    },
    {
      "subject": "owls in production",
      "text": "We shipped owls on a Friday. The dashboard is green. The dashboard is always green.",
      "laughs": 10
    }
  ]
loudest: 10
subjects: ["owls at work","owls in love","owls on holiday","owls in production"]
topic: "owls"
winner:
  {
    "subject": "owls in love",
    "text": "I told my date that I write Go and think about owls. She returned an error. I did not check it.",
    "laughs": 10
  }
`,
	} {
		t.Run(command, func(t *testing.T) {
			got := onFile(t, file, command)
			// The title of the ID column is narrower than the IDs.
			got.Stdout = strings.Replace(got.Stdout, "CHECKPOINT                            ", "CHECKPOINT  ", 1)
			diff(t, got, result{Stdout: want})
		})
	}
	diff(t, onFile(t, file, "show", "press\x1b[2J"), result{Stdout: `thread      press\u001b[2J
graph       press
checkpoint  ID
step        0, created by loop, just now
status      failed
next        bad, good
metadata    {"user":"ada"}

Tasks
NODE  STATE                                                                TASK
bad   failed: graph "press": node "bad" (step 1): no paper\u001b[31m left  ID
?     finished, wrote log                                                  ID

Values
log: ["begun"]
`})
}

func TestThreadsJSONPrintsObjectPerLine(t *testing.T) {
	file := library(t)
	for command, want := range map[string]string{
		"list": `{"thread":"asking","graph":"jokes","checkpoints":5,"bytes":0,"head":"ID","changed":"TIME","status":"waiting for an answer","next":["approve"]}
{"thread":"done","graph":"jokes","checkpoints":7,"bytes":0,"head":"ID","changed":"TIME","status":"idle"}
{"thread":"press\u001b[2J","graph":"press","checkpoints":2,"bytes":0,"head":"ID","changed":"TIME","status":"failed","next":["bad","good"]}
`,
		"du": `{"thread":"done","checkpoints":7,"bytes":0}
{"thread":"asking","checkpoints":5,"bytes":0}
{"thread":"press\u001b[2J","checkpoints":2,"bytes":0}
`,
		"history asking --limit 2": `{"thread":"asking","graph":"jokes","id":"ID","parent":"ID","step":3,"source":"loop","created":"TIME","status":"waiting for an answer","next":["approve"],` +
			`"tasks":[{"id":"ID","node":"approve","state":"asks"}],"questions":[QUESTION]}
{"thread":"asking","graph":"jokes","id":"ID","parent":"ID","step":2,"source":"loop","created":"TIME","status":"unfinished","next":["judge"]}
`,
		"show done": `{"thread":"done","graph":"jokes","id":"ID","parent":"ID","step":5,"source":"loop","created":"TIME","status":"idle","next":[],"values":VALUES}
`,
		"prune asking --keep-last 3 --dry-run": `{"checkpoints":5,"nested":0,"thread":"asking","would_remove":["ID","ID"]}
`,
		"prune asking --keep-last 3": `{"bytes":0,"checkpoints":3,"freed":0,"removed":2,"thread":"asking"}
`,
		"fork done --to copy": `{"at":"ID","from":"done","head":"ID","thread":"copy"}
`,
		"rm done --yes": `{"freed":0,"removed":7,"thread":"done"}
`,
	} {
		t.Run(command, func(t *testing.T) {
			got := onFile(t, copied(t, file), command+" --json")
			for line := range strings.Lines(got.Stdout) {
				if !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %s", line)
				}
			}
			got.Stdout = regexp.MustCompile(`"questions":\[.*\]\}`).ReplaceAllString(got.Stdout, `"questions":[QUESTION]}`)
			got.Stdout = regexp.MustCompile(`"values":\{.*\}\}`).ReplaceAllString(got.Stdout, `"values":VALUES}`)
			diff(t, got, result{Stdout: want})
		})
	}
}

// copied returns a copy of a file, for a test that changes it.
func copied(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(to, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestThreadsReportErrors(t *testing.T) {
	file := library(t)
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(raw[:4096]), applicationName, "xxxx", 1)
	foreign := put("foreign.db", other)
	for _, test := range []struct{ file, command, want string }{
		{filepath.Join(dir, "nosuch.db"), "list", "FILE: file does not exist"},
		{dir, "list", "FILE: is a directory"},
		{put("empty.db", ""), "du", "FILE: not an SQLite file"},
		{put("notes.txt", "to do"), "show x", "FILE: not an SQLite file"},
		{foreign, "list", "FILE: SQLite database of another application"},
		{file, "show don", `no thread "don" in FILE: did you mean "done"?`},
		{file, "history ASKING", `no thread "ASKING" in FILE: did you mean "asking"?`},
		{file, "fork nothing-like-it --to x", `no thread "nothing-like-it" in FILE`},
		{file, "prune dne --keep-last 1", `no thread "dne" in FILE: did you mean "done"?`},
		{file, "rm dne --yes", `no thread "dne" in FILE: did you mean "done"?`},
		{file, "fork done --to asking", `thread "asking" already exists`},
		{file, "fork done --to x --at 1", `several checkpoints of thread "done" start with 1`},
		{file, "fork done --to x --at xyz", `thread "done" has no checkpoint that starts with xyz`},
		{file, "show done --at 00000000-0000-0000-0000-000000000001", `thread "done" has no checkpoint ID`},
	} {
		t.Run(test.command, func(t *testing.T) {
			diff(t, onFile(t, test.file, test.command), result{"", "treadle: " + test.want + "\n", 1})
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "nosuch.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if now, err := os.ReadFile(foreign); err != nil || string(now) != other {
		t.Errorf("file of the other application changed (%v)", err)
	}
	if all := onFile(t, file, "list").Stdout; strings.Count(all, "\n") != 4 {
		t.Errorf("threads changed:\n%s", all)
	}
}

func TestThreadsForkAtOlderCheckpoint(t *testing.T) {
	file := library(t)
	at := ids(t, file)[3]
	before := onFile(t, file, "history done --json")
	diff(t, onFile(t, file, "fork done --to again --at", at), result{Stdout: "Thread \"again\" is a copy of \"done\" at step 3 (ID).\n"})
	diff(t, onFile(t, file, "history done --json"), before)
	got := call(t.Context(), "threads", "history", "again", "--limit", "2", "--db", file).Stdout
	if !strings.Contains(got, "(from "+at+")") {
		t.Errorf("start of the fork is missing:\n%s", got)
	}
	diff(t, masks(got), `STEP  SOURCE  CHECKPOINT                            MADE             NEXT
   4  fork    ID  just now (head)  approve (from ID)
   5  loop    ID  just now         nothing
`)
	// A run of the copy asks again and keeps the jokes.
	said := call(t.Context(), "jokes", "--thread", "again", "--db", file).Stdout
	first, _, _ := strings.Cut(said, "\n\nThe winner")
	diff(t, first, "Resuming thread \"again\", 4 jokes saved\n\n  step 5: approve: waits for an answer")
	if !strings.Contains(said, "\nPublished: owls in love\n") {
		t.Errorf("unexpected joke published:\n%s", said)
	}
}

// A copy of the head keeps its pending writes.
func TestThreadsForkKeepsPendingInterrupt(t *testing.T) {
	file := library(t)
	diff(t, onFile(t, file, "fork asking --to twin"), result{Stdout: "Thread \"twin\" is a copy of \"asking\" at step 3 (ID).\n"})
	twin, original := onFile(t, file, "show twin").Stdout, onFile(t, file, "show asking").Stdout
	diff(t, strings.Replace(twin, "twin", "asking", 1), original)
}

func TestThreadsPruneMatchesDryRun(t *testing.T) {
	for _, test := range []struct {
		flags string
		steps []int // kept
	}{
		{"--keep-last 1", []int{5}},
		{"--keep-last 3", []int{5, 4, 3}},
		{"--keep-last 100", []int{5, 4, 3, 2, 1, 0, -1}},
		{"--keep-interrupted", []int{5, 3}},
		{"--keep-last 2 --keep-interrupted", []int{5, 4, 3}},
		{"--max-age 1h", []int{5, 4, 3, 2, 1, 0, -1}},
		{"--max-age 1ns", []int{5}},
		{"--max-age 2w", []int{5, 4, 3, 2, 1, 0, -1}},
	} {
		t.Run(test.flags, func(t *testing.T) {
			file := library(t)
			all := ids(t, file)
			gone := 7 - len(test.steps)
			rehearsal := onFile(t, file, "prune done --dry-run "+test.flags)
			diff(t, rehearsal, result{Stdout: fmt.Sprintf("Would remove %d of the 7 checkpoints of thread \"done\".\n", gone) + strings.Repeat("  ID  just now\n", gone)})
			diff(t, ids(t, file), all)
			got := onFile(t, file, "prune done "+test.flags)
			got.Stdout = regexp.MustCompile(`\(.*\)`).ReplaceAllString(got.Stdout, "(SIZE)")
			diff(t, got, result{Stdout: fmt.Sprintf("Removed %s (SIZE) of thread \"done\"; %d left.\n", count(gone, "checkpoint"), len(test.steps))})
			want := map[int]string{}
			for _, step := range test.steps {
				want[step] = all[step]
			}
			diff(t, ids(t, file), want)
		})
	}
}

// The checkpoints of a subgraph are also pruned, but cannot be listed without its
// namespace.
func TestThreadsPruneCountsSubgraphs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nested.db")
	db, err := sqlite.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := graphNamed(t, "essay").Build(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dynamic.Open(g, "essay").RunJSON(t.Context(), []byte(`{"topic":"owls"}`)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	diff(t, onFile(t, file, "list").Stdout, `THREAD  GRAPH  CHECKPOINTS    SIZE  LAST CHANGE  STATUS
essay   essay           14  0.0 kB  just now     idle
`)
	diff(t, onFile(t, file, "prune essay --keep-last 7 --dry-run"), result{Stdout: `Would remove 1 of the 8 checkpoints of thread "essay".
  ID  just now
Not counted: 6 checkpoints of subgraphs.
`})
}

func TestThreadsRemove(t *testing.T) {
	file := library(t)
	diff(t, onFile(t, file, "rm done --yes"), result{Stdout: "Removed thread \"done\" with 7 checkpoints.\n"})
	diff(t, onFile(t, file, "rm done --yes"), result{"", "treadle: no thread \"done\" in FILE\n", 1})
	for answer, want := range map[string]string{
		"\n":    "Nothing was removed.\n",
		"":      "\nNothing was removed.\n",
		"no\n":  "Nothing was removed.\n",
		"ja\n":  "Nothing was removed.\n",
		"yes\n": "Removed thread \"asking\" with 5 checkpoints.\n",
	} {
		t.Run(answer, func(t *testing.T) {
			var out bytes.Buffer
			root := newRoot(&streams{in: newInput(strings.NewReader(answer), nil), out: &writer{w: &out}, term: &terminal{size: sized(80, 24)}})
			root.SetArgs([]string{"threads", "rm", "asking", "--db", copied(t, file)})
			if err := root.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			diff(t, out.String(), "Remove thread \"asking\" with 5 checkpoints permanently? [no] "+want)
		})
	}
}

// Encrypted threads are listed, with the status unreadable.
func TestThreadsListsEncryptedThreads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret.db")
	db, err := sqlite.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := checkpoint.Encrypted(db, checkpoint.EncryptionKey{ID: 1, Secret: bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	g, err := demo.NewJokes(0, sealed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dynamic.Open(g, "secret").RunJSON(t.Context(), []byte(`{"topic":"owls"}`)); asked(err) != "Publish this joke?" {
		t.Fatal(err)
	}
	var oldest checkpoint.ID
	for cp, err := range db.List(t.Context(), checkpoint.Query{Thread: "secret"}) {
		if err != nil {
			t.Fatal(err)
		}
		oldest = cp.ID
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	diff(t, onFile(t, file, "list"), result{Stdout: `THREAD  GRAPH  CHECKPOINTS    SIZE  LAST CHANGE  STATUS
secret                   5  0.0 kB  just now     unreadable
`})
	if got := call(t.Context(), "threads", "show", "secret", "--json", "--db", file); got.Code != 0 || strings.Contains(got.Stdout, "owls") || !json.Valid([]byte(got.Stdout)) {
		t.Errorf("got %+v", got)
	}
	// A copy can be read with the key; a fork at an older checkpoint requires the key.
	if got := onFile(t, file, "fork secret --to back --at", oldest.String()); got.Code == 0 || !strings.Contains(got.Stderr, `thread "secret" is encrypted`) {
		t.Errorf("fork at an older checkpoint: %+v", got)
	}
	if got := onFile(t, file, "fork secret --to copy"); got.Code != 0 {
		t.Errorf("copy: %+v", got)
	}
	if db, err = sqlite.Open(file, nil); err != nil {
		t.Fatal(err)
	}
	if sealed, err = checkpoint.Encrypted(db, checkpoint.EncryptionKey{ID: 1, Secret: bytes.Repeat([]byte{7}, 32)}); err != nil {
		t.Fatal(err)
	}
	if _, err := sealed.Get(t.Context(), checkpoint.Key{Thread: "copy"}); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestThreadsOfEmptyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none.db")
	db, err := sqlite.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"list", "du"} {
		got := onFile(t, file, command)
		got.Stdout = strings.ReplaceAll(got.Stdout, file, "FILE")
		diff(t, got, result{Stdout: "No threads in FILE.\n"})
		diff(t, onFile(t, file, command+" --json"), result{})
	}
}

// A thread that was leased but never run has no checkpoint.
func TestThreadsListsThreadWithoutCheckpoints(t *testing.T) {
	file := filepath.Join(t.TempDir(), "leased.db")
	db, err := sqlite.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Fence(t.Context(), "leased", 3), db.Close()); err != nil {
		t.Fatal(err)
	}
	diff(t, onFile(t, file, "list"), result{Stdout: `THREAD  GRAPH  CHECKPOINTS  SIZE  LAST CHANGE  STATUS
leased                   0   0 B               idle
`})
	diff(t, onFile(t, file, "show leased"), result{"", "treadle: thread \"leased\" in FILE has no checkpoints\n", 1})
}

// Without --db, the commands use the demo's file.
func TestThreadsDefaultToDemoFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	diff(t, call(t.Context(), "threads", "list"), result{"", "treadle: " + filepath.Join(dir, "treadle", "demo.db") + ": file does not exist\n", 1})
}

func TestJokesUsesNextThread(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.db")
	for _, want := range []string{"jokes", "jokes-2", "jokes-3"} {
		got := call(t.Context(), "jokes", "--db", file)
		if got.Code != 0 || !strings.Contains(got.Stdout, fmt.Sprintf("\n7 checkpoints on thread %q\n", want)) {
			t.Errorf("not on thread %s: %+v", want, got)
		}
	}
	got := call(t.Context(), "jokes", "--db", file, "--thread", "jokes-2")
	first, rest, _ := strings.Cut(got.Stdout, "\n\nThe graph")
	diff(t, first, "Thread \"jokes-2\" is finished\n\n  4 jokes saved, nothing left to do")
	if !strings.Contains(rest, demoPublished) || !strings.Contains(rest, "\n7 checkpoints on thread \"jokes-2\"\n") {
		t.Errorf("got %s", rest)
	}
	diff(t, call(t.Context(), "jokes", "--db", file, "--thread", "jokes-2", "--topic", "owls"),
		result{"", "treadle: thread \"jokes-2\" is about gophers: use another --thread for owls\n", 1})
}

func TestReadApproval(t *testing.T) {
	for line, want := range map[string]*demo.Approval{
		"":                      {Decision: demo.Yes},
		"y":                     {Decision: demo.Yes},
		"YES":                   {Decision: demo.Yes},
		"yes!":                  {Decision: demo.Yes},
		"n":                     {Decision: demo.No},
		"no.":                   {Decision: demo.No},
		"another":               {Decision: demo.Another},
		"a":                     {Decision: demo.Another},
		"another, with a cat":   {Decision: demo.Another, Note: "with a cat"},
		"Another one: shorter.": {Decision: demo.Another, Note: "one: shorter"},
		"yes, but shorter":      nil,
		"maybe":                 nil,
		"yellow":                nil,
		"another \x1b[31mred":   nil,
		"another \xff":          nil,
	} {
		got, ok := readApproval(line)
		if want == nil {
			diff(t, ok, false)
			continue
		}
		diff(t, []any{line, got, ok}, []any{line, *want, true})
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 1234: "1.2 kB", 9_949: "9.9 kB", 9_950: "10 kB", 999_499: "999 kB", 999_500: "1.0 MB",
		17_000_000_000: "17 GB", 2_500_000_000_000: "2.5 TB", 3_000_000_000_000_000: "3 PB",
	} {
		diff(t, size(n), want)
	}
}

func TestAgo(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-time.Hour: "just now", 0: "just now", 59 * time.Second: "just now", time.Minute: "1 minute ago", 119 * time.Minute: "1 hour ago",
		23 * time.Hour: "23 hours ago", 3 * day: "3 days ago", 40 * day: "1 month ago", 800 * day: "2 years ago",
	} {
		diff(t, ago(d), want)
	}
}

func TestPlain(t *testing.T) {
	for s, want := range map[string]string{
		"gophers 猫": "gophers 猫", "a\x1b[31mb": `a\u001b[31mb`, "a\u009b1mb": `a\u009b1mb`, "a\xffb": `a\xffb`, "a\ufffdb": "a\ufffdb", "a\x00\ufffd": `a\u0000` + "\ufffd",
	} {
		diff(t, plain(s), want)
	}
}

func TestShellCommand(t *testing.T) {
	diff(t, shellCommand("treadle", "jokes", "--db", "/a b/c's.db", "--thread", "", "x$y"), `treadle jokes --db '/a b/c'\''s.db' --thread '' 'x$y'`)
}

// asked returns the question of an interrupted run.
func asked(err error) string {
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok || len(stop.Pauses) != 1 {
		return fmt.Sprintf("no question, but %v", err)
	}
	var p struct{ Question string }
	if err := stop.Pauses[0].Decode(&p); err != nil {
		return err.Error()
	}
	return p.Question
}

// resumed returns the output at the end of a stream.
func resumed(events iter.Seq2[treadle.Event, error]) (out json.RawMessage, err error) {
	for ev, err := range events {
		if err != nil {
			return nil, err
		}
		if done, ok := ev.(treadle.Finished[json.RawMessage]); ok {
			out = done.Output
		}
	}
	return out, nil
}

func graphNamed(t *testing.T, name string) demo.GraphInfo {
	t.Helper()
	g, err := demo.FindGraph(name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
