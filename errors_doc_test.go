package treadle_test

import (
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
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/treadletype"
)

// docs/errors.md has a section for every exported error of treadletype and of checkpoint, and for nothing else. The
// errors of the root package are aliases of those in treadletype.
func TestEveryErrorIsDocumented(t *testing.T) {
	page, err := os.ReadFile("docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	var sections []string
	for _, m := range regexp.MustCompile(`(?m)^### (\S+)$`).FindAllSubmatch(page, -1) {
		sections = append(sections, string(m[1]))
	}
	slices.Sort(sections)
	var want []string
	for dir, prefix := range map[string]string{"treadletype": "", "checkpoint": "checkpoint."} {
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

// exportedErrors are the types XError and the variables ErrX that the package in dir declares.
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

// The texts in docs/errors.md are what the errors say.
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
	question := treadle.Pause{ID: "5f0c", Value: json.RawMessage(`"publish?"`), Node: "review"}
	due := time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)
	signal := treadle.Pause{Kind: treadle.SignalPause, Node: "pay", Key: "payment", Due: due}
	late := question
	late.Due = due
	for _, err := range []error{
		&treadle.BuildError{Graph: "essay", Node: "draft", Field: "essay.draft.Titel", Msg: "is not in the state and nothing reads it: a misspelt name?"},
		&treadle.NodeError{Graph: "essay", Node: "draft", Step: 2, Attempt: 3, Err: errors.New("connection refused")},
		&treadle.StepLimitError{Graph: "essay", Limit: 25, Next: []string{"draft", "review"}},
		&treadle.ConflictError{Field: "title", Nodes: []string{"draft", "review"}},
		&treadle.ConflictError{Field: "log", Nodes: []string{"draft", "review"}, Overwrite: true},
		&treadle.UpdateError{Graph: "essay", Field: "titel", Msg: "the state has no such field; it has log, title"},
		&treadle.UpdateError{Graph: "essay", Field: "title", Msg: "is int, updates of this field are string"},
		&treadle.UpdateError{Graph: "essay", Field: "log", Msg: "the input has a value of the state, main.Log, and updates of this field are main.Entry: leave it zero, or compile the graph with an input type whose field Log is main.Entry (treadle.Compile); Builder.Initial gives starting values"},
		&treadle.UpdateError{Graph: "essay", Msg: `as plan: a branch behind it asks "where to?", and an update cannot wait for the answer: make the update as a node without such a branch, or as __input__ and continue the thread`},
		&treadle.GotoError{Graph: "essay", To: "revew", Msg: "there is no such node; there are draft, review"},
		&treadle.GotoError{Graph: "essay", To: "review", Msg: "Send of string, the node takes essay.Draft"},
		&treadle.GotoError{Graph: "essay", Msg: "the branch returned no destination; return treadle.To(treadle.End) to stop"},
		&treadle.GotoError{Graph: "essay", To: "memory", Msg: "several tasks of one step run it, and it keeps its state per thread, which can go on only once at a time: send to it in steps that follow each other, or leave out treadle.PerThread"},
		&treadle.TimeoutError{Node: "draft", Limit: 30 * time.Second},
		&treadle.TimeoutError{Node: "draft", Limit: 5 * time.Second, Idle: true},
		&treadle.TimeoutError{Node: "draft", Limit: 30 * time.Second, Abandoned: true},
		&treadle.MutationError{Node: "draft", Field: "Scores"},
		&treadle.ValidationError{Graph: "essay", What: "the input", Err: errors.New("the title is empty")},
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
		treadle.ErrNoSaver, treadle.ErrNoThread, treadletype.ErrNilContext, treadle.ErrNothingToContinue, treadle.ErrDrained,
		treadle.ErrAmbiguousResume, treadle.ErrNothingToResume, treadle.ErrUnknownPause, treadle.ErrOutsideRun,
		checkpoint.ErrNotFound, checkpoint.ErrConflict, checkpoint.ErrFenced, checkpoint.ErrUnavailable,
	} {
		if !documented[err.Error()] {
			t.Errorf("docs/errors.md does not have the text %q", err)
		}
		delete(documented, err.Error())
	}
	for text := range documented {
		t.Errorf("docs/errors.md has the text %q, which is no error's", text)
	}
}
