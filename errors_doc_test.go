package treadle_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/agent/sandbox"
	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/client/a2a"
	rows "github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/memory/prompts"
	"github.com/treadle-go/treadle/memory/summary"
	"github.com/treadle-go/treadle/retrieval"
	"github.com/treadle-go/treadle/store"
)

// docs/errors.md has a section for every exported error of treadletype and of checkpoint, a table row for
// every exported error of the other packages, and nothing else. The errors of the root package are aliases
// of those in treadletype.
func TestEveryErrorIsDocumented(t *testing.T) {
	page, err := os.ReadFile("docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	var sections []string
	for _, m := range regexp.MustCompile(`(?m)^### (\S+)$`).FindAllSubmatch(page, -1) {
		sections = append(sections, string(m[1]))
	}
	for _, row := range errorRows(page) {
		sections = append(sections, row[0])
	}
	slices.Sort(sections)
	var want []string
	for _, dir := range publicPackages(t) {
		prefix := filepath.Base(dir) + "."
		switch dir {
		case ".":
			continue
		case "treadletype":
			prefix = ""
		}
		for _, name := range exportedErrors(t, dir) {
			want = append(want, prefix+name)
		}
	}
	slices.Sort(want)
	if len(want) == 0 {
		t.Fatal("no errors were found")
	}
	if !slices.Equal(sections, want) {
		t.Errorf("docs/errors.md has sections for\n%v\nthe errors are\n%v", sections, want)
	}
}

// errorRows returns the names and texts of the errors that the tables of the page list.
func errorRows(page []byte) (rows [][2]string) {
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9]+\\.\\w*Err\\w*)` \\| `([^`]+)` \\|").FindAllSubmatch(page, -1) {
		rows = append(rows, [2]string{string(m[1]), string(m[2])})
	}
	return rows
}

// exportedErrors returns the types XError and the variables ErrX that the package in dir
// declares.
func exportedErrors(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() && strings.HasSuffix(spec.Name.Name, "Error") {
						names = append(names, spec.Name.Name)
					}
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						if gen.Tok == token.VAR && strings.HasPrefix(id.Name, "Err") {
							names = append(names, id.Name)
						}
					}
				}
			}
		}
	}
	return names
}

// The texts in docs/errors.md are the texts of the errors.
func TestDocumentedErrorTextsAreTrue(t *testing.T) {
	raw, err := os.ReadFile("docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	// The documented texts are the lines of the blocks without a language.
	documented := map[string]bool{}
	for _, block := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatch(string(raw), -1) {
		if block[1] == "" {
			for line := range strings.Lines(block[2]) {
				documented[strings.TrimSpace(line)] = true
			}
		}
	}
	for _, row := range errorRows(raw) {
		documented[row[1]] = true
	}
	question := treadle.Pause{ID: "5f0c", Value: json.RawMessage(`"publish?"`), Node: "review"}
	due := time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)
	signal := treadle.Pause{Kind: treadle.SignalPause, Node: "pay", Key: "payment", Due: due}
	late := question
	late.Due = due
	seven := store.Namespace{"users", "7"}
	for _, err := range []error{
		&treadle.BuildError{Graph: "essay", Node: "draft", Field: "essay.draft.Titel", Msg: "not in the state and never read: misspelled?"},
		&treadle.NodeError{Graph: "essay", Node: "draft", Step: 2, Attempt: 3, Err: errors.New("connection refused")},
		&treadle.StepLimitError{Graph: "essay", Limit: 25, Next: []string{"draft", "review"}},
		&treadle.ConflictError{Field: "title", Nodes: []string{"draft", "review"}},
		&treadle.ConflictError{Field: "log", Nodes: []string{"draft", "review"}, Overwrite: true},
		&treadle.UpdateError{Graph: "essay", Field: "titel", Msg: "unknown field; the state has log, title"},
		&treadle.UpdateError{Graph: "essay", Field: "title", Msg: "is int, but updates of this field are string"},
		&treadle.UpdateError{Graph: "essay", Field: "log", Msg: "input contains a value of the state (main.Log), but updates of this field are main.Entry: leave it zero, or compile the graph with an input type whose field Log is main.Entry (treadle.Compile); Builder.Initial sets starting values"},
		&treadle.UpdateError{Graph: "essay", Msg: `as plan: a branch after it asks "where to?", and an update cannot wait for the answer: update as a node without such a branch, or as __input__ and continue the thread`},
		&treadle.GotoError{Graph: "essay", To: "revew", Msg: "unknown node; the graph has draft, review"},
		&treadle.GotoError{Graph: "essay", To: "review", Msg: "Send of string, but the node takes essay.Draft"},
		&treadle.GotoError{Graph: "essay", Msg: "branch returned no destination: return treadle.To(treadle.End) to stop"},
		&treadle.GotoError{Graph: "essay", To: "review", Msg: "timeout without a Send: set treadle.Timeout on the node, or send to it"},
		&treadle.GotoError{Graph: "essay", To: "memory", Msg: "run by several tasks of one step, but its per-thread state supports one run at a time: send to it in separate steps, or remove treadle.PerThread"},
		&treadle.TimeoutError{Node: "draft", Limit: 30 * time.Second},
		&treadle.TimeoutError{Node: "draft", Limit: 5 * time.Second, Idle: true},
		&treadle.TimeoutError{Node: "draft", Limit: 30 * time.Second, Abandoned: true},
		&treadle.MutationError{Node: "draft", Field: "Scores"},
		&treadle.ValidationError{Graph: "essay", What: "input", Err: errors.New("the title is empty")},
		&treadle.ValidationError{Graph: "essay", What: "field title", Err: errors.New("the title is too long")},
		&treadle.InterruptError{Graph: "essay", Pauses: []treadle.Pause{question}},
		&treadle.InterruptError{Graph: "essay", Before: []string{"publish"}},
		&treadle.OrderError{Call: 2, Recorded: "fast", Made: "slow"},
		&treadle.AnswerError{Pause: question, Answer: json.RawMessage("35"), Err: errors.New(`validating root: type: 35 has type "integer", want "boolean"`)},
		&treadle.SwallowedInterruptError{Pauses: []treadle.Pause{question}},
		&treadle.SwallowedInterruptError{Pauses: []treadle.Pause{{Kind: treadle.SleepPause, Due: due}}},
		&treadle.SwallowedInterruptError{Pauses: []treadle.Pause{signal}},
		&treadle.DeadlineError{Pause: late},
		&treadle.DeadlineError{Pause: signal},
		&treadle.GraphError{Graph: "essay", Thread: "7", Of: "letter"},
		&treadle.GraphError{Graph: "essay", Thread: "7", Namespace: "draft:1", Of: "letter"},
		&treadle.InterruptError{Graph: "essay", Pauses: []treadle.Pause{{Kind: treadle.SleepPause, Node: "wait", Due: due}}},
		&treadle.InterruptError{Graph: "essay", Pauses: []treadle.Pause{signal}},
		&treadle.InterruptChangedError{Node: "review", Answered: json.RawMessage(`"the name?"`), Asked: json.RawMessage(`"the age?"`)},
		&treadle.StoredValueError{Graph: "essay", Thread: "7", Checkpoint: checkpoint.ID{0x1e, 0xc9, 0x41, 0x4c, 0x23, 0x2a, 0x6b, 0, 0xb3, 0xc8, 0x9f, 0x6b, 0xde, 0xce, 0xd8, 0x46}, Field: "title", Stored: "a JSON number", Want: "string", Err: errors.New("json: cannot unmarshal number into Go value of type string")},
		&checkpoint.LimitError{Field: "pages", Limit: 256 << 20, Got: 300_000_000},
		&checkpoint.LimitError{Field: "tree", Depth: true, Limit: 9900, Got: 12_000},
		&checkpoint.CodecError{Field: "pages", Codec: "gzip/1", Known: []string{"json"}},
		treadle.ErrNoSaver, treadle.ErrNoThread, treadle.ErrNilContext, treadle.ErrNothingToContinue, treadle.ErrDrained,
		treadle.ErrAmbiguousResume, treadle.ErrNothingToResume, treadle.ErrUnknownInterrupt, treadle.ErrOutsideRun,
		checkpoint.ErrNotFound, checkpoint.ErrConflict, checkpoint.ErrFenced, checkpoint.ErrUnavailable,
		store.ErrNotFound, store.ErrNoStore, store.ErrCompacted,
		&store.InvalidError{What: "operation", Reason: "is nil"},
		&store.ConflictError{Namespace: seven, Key: "name", Want: 3, Have: 4},
		&store.EmbedError{Model: "minilm", Err: errors.New("connection refused")},
		&store.ImportError{Line: 3, Err: errors.New("invalid JSON")},
		&store.GoneError{Version: 12, Namespace: seven, Key: "name"},
		&store.BranchError{Name: "trial", State: store.Merged},
		&store.MergeError{Branch: "trial", Conflicts: []store.Conflict{{Namespace: seven, Key: "name"}}},
		rows.ErrNotFound, rows.ErrExists, rows.ErrBusy, rows.ErrFull, rows.ErrLost, rows.ErrStale, rows.ErrNoLease, bus.ErrClosed,
		&llm.Error{Provider: "openai", Status: 429, Code: "rate_limit_exceeded", Message: "slow down", RetryAfter: 7 * time.Second},
		&llm.ContextError{Limit: 200_000, Used: 250_000, Err: errors.New("prompt is too long")},
		&llm.ObjectError{Type: "string", Tries: 3, Err: errors.New("response is not JSON")},
		&llm.HistoryError{Index: 2, CallID: "c1", Reason: "missing result: use llm.Repair"},
		&llm.ToolError{Tool: "weather", Err: errors.New("connection refused")},
		&llm.ArgumentsError{Tool: "weather", Args: json.RawMessage(`{"city":7}`), Err: errors.New("city: not a string")},
		llm.ErrEmpty, llm.ErrRefused, llm.ErrLength,
		&agent.LimitError{What: "model calls", Scope: "run", Used: 10, Budget: 10},
		&agent.RedactError{Kind: "email", Where: llm.RoleHuman, Count: 2},
		deep.ErrRestarted,
		files.ErrPath, files.ErrIsDir, files.ErrTooLarge, files.ErrConflict,
		sandbox.ErrUnsupported, sandbox.ErrClosed,
		&memory.VarError{Var: "user"},
		&memory.BlockError{Label: "persona", Limit: 2000, Size: 2400, Reason: "shorten it"},
		&memory.CallError{Tool: "Memory", Args: "{}", Attempts: 3, Err: errors.New("empty text")},
		&memory.PanicError{Key: "user-7", Value: "index out of range"},
		memory.ErrNoKey, memory.ErrCanceled, memory.ErrClosed,
		&prompts.LostVariablesError{Variables: []string{"name"}}, summary.ErrBudget,
		&client.Error{Method: "GET", Path: "/threads/7", Status: 404, Detail: "thread not found"},
		&client.RunError{Run: "1f0c", Class: "ValueError", Message: "no title"},
		&a2a.Error{Agent: "shop", Method: "message/send", Code: -32005, Message: "no owls"},
		&a2a.TaskError{Agent: "shop", Task: "7", State: "failed", Message: "no owls left"},
		&client.CommandError{Method: "run.start", Code: "no_such_run", Message: "unknown run"},
		retrieval.ErrSkip, &retrieval.CitationError{Uncited: []string{"Owls fly."}},
		client.ErrNotFound, client.ErrConflict, client.ErrDenied,
	} {
		text := err.Error()
		for short := range documented {
			if start, ok := strings.CutSuffix(short, "…"); ok && strings.HasPrefix(text, start) {
				text = short
			}
		}
		if !documented[text] {
			t.Errorf("docs/errors.md does not have the text %q", err)
		}
		delete(documented, text)
	}
	// The errors of the other modules, with their source.
	for text, source := range map[string][2]string{
		"mcptool: no response from server": {"mcptool/servers.go"},
		"mcptool: connections closed":      {"mcptool/servers.go"},
		"sqlite: database closed":          {"sqlite/internal/database/errors.go"},
		"sqlite: damaged file":             {"sqlite/internal/database/errors.go"},
		"postgres: database closed":        {"postgres/internal/database/errors.go"},
		"postgres: damaged data":           {"postgres/internal/database/errors.go"},
		"postgres: write outcome unknown":  {"postgres/internal/database/errors.go"},
		"postgres: schema mismatch":        {"postgres/internal/database/errors.go"},
		"403: key is read-only":            {"server/auth.go", `"%d: %s", e.Status, e.Detail`},
	} {
		code, err := os.ReadFile(source[0])
		if err != nil {
			t.Fatal(err)
		}
		if !documented[text] || !strings.Contains(string(code), cmp.Or(source[1], `"`+text+`"`)) {
			t.Errorf("docs/errors.md or %s does not have the text %q", source[0], text)
		}
		delete(documented, text)
	}
	for text := range documented {
		t.Errorf("docs/errors.md contains the text %q, which no error has", text)
	}
}
