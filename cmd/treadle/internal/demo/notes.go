package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

const (
	maxNoteSize = 64 << 10
	refusal     = "The user refused"
)

// noteDir is a directory of notes. Files are opened through an os.Root, so that no name or
// symbolic link leads out of the directory.
type noteDir struct {
	path string     // "" if notes cannot be stored
	mu   sync.Mutex // tool calls in the same message run concurrently
}

type (
	note struct {
		File string `json:"file" jsonschema:"a name such as shopping.md"`
		Text string `json:"text" jsonschema:"the whole content of the file"`
	}
	noteName struct {
		File string `json:"file,omitempty" jsonschema:"the note to read; without it, the notes are listed"`
	}
	// Question is the interrupt value of write_note, which asks the user before it writes.
	Question struct {
		Question string `json:"question"`
		File     string `json:"file"`
		Text     string `json:"text"`
	}
	// Answer is the user's answer to a Question.
	Answer struct {
		Approved bool   `json:"approved"`
		Reason   string `json:"reason,omitempty"` // why the note is not approved
	}
)

// JSONSchema returns a schema that also accepts true and false, which the Yes and No buttons of
// clients send.
func (Answer) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "boolean"},
		{
			Type:       "object",
			Properties: map[string]*jsonschema.Schema{"approved": {Type: "boolean"}, "reason": {Type: "string"}},
			Required:   []string{"approved"},
		},
	}}
}

// UnmarshalJSON implements [json.Unmarshaler].
func (a *Answer) UnmarshalJSON(raw []byte) error {
	*a = Answer{}
	if json.Unmarshal(raw, &a.Approved) == nil {
		return nil
	}
	type object Answer
	return json.Unmarshal(raw, (*object)(a))
}

func (n *noteDir) tools() []*llm.Tool {
	return []*llm.Tool{
		llm.NewTool("write_note", "Write a note to a file and replace its content. The user is asked first.", n.write),
		llm.NewTool("read_notes", "Read a note, or list all notes.", n.read),
	}
}

// write asks the user and writes the note. The result of a rejected note has an error status,
// so that neither the model nor the user takes the note for written.
func (n *noteDir) write(ctx context.Context, in note) (llm.Message, error) {
	if err := n.check(in); err != nil { // before asking the user in vain
		return llm.Message{}, err
	}
	answer, err := treadle.Interrupt[Answer](ctx, Question{fmt.Sprintf("Write the note %s?", in.File), in.File, in.Text})
	if err != nil {
		return llm.Message{}, err
	}
	if !answer.Approved {
		text := refusal
		if answer.Reason != "" {
			text += ": " + answer.Reason
		}
		return llm.Message{Content: text, Status: llm.StatusError}, nil
	}
	if err := n.save(in); err != nil {
		return llm.Message{}, withoutPath(err)
	}
	return llm.Message{Content: "Written to " + in.File + "."}, nil
}

func (n *noteDir) save(in note) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	root, err := n.open()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing is buffered
	if err := root.MkdirAll(filepath.Dir(in.File), 0o755); err != nil {
		return err
	}
	return root.WriteFile(in.File, []byte(strings.TrimRight(in.Text, "\n")+"\n"), 0o644)
}

var errNoNotes = errors.New("notes would be lost when this run ends: use --notes DIR or --db FILE")

func (n *noteDir) check(in note) error {
	switch {
	case n.path == "":
		return errNoNotes
	case !filepath.IsLocal(in.File) || filepath.Clean(in.File) == ".":
		return fmt.Errorf("%q is not a file name in the notes directory: use a name such as shopping.md", in.File)
	case !utf8.ValidString(in.File) || strings.ContainsFunc(in.File, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%q contains invalid characters", in.File)
	case len(in.Text) > maxNoteSize:
		return fmt.Errorf("note has %d bytes, but the limit is %d", len(in.Text), maxNoteSize)
	}
	return nil
}

// open opens the directory, which it creates if necessary.
func (n *noteDir) open() (*os.Root, error) {
	if err := os.MkdirAll(n.path, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(n.path)
}

// withoutPath returns an error for the model that omits the directory's path.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", e.Path, e.Err)
	}
	return err
}

func (n *noteDir) read(_ context.Context, in noteName) (string, error) {
	if n.path == "" {
		return "There are no notes yet.", nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	root, err := os.OpenRoot(n.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "There are no notes yet.", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }() // nothing is buffered
	if in.File == "" {
		return list(root.FS())
	}
	text, err := root.ReadFile(in.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("no note %s: call read_notes without a file to list the notes", in.File)
	case err != nil:
		return "", withoutPath(err)
	case len(text) > maxNoteSize || !utf8.Valid(text):
		return "", fmt.Errorf("%s is not a note: too long, or not text", in.File)
	}
	return string(text), nil
}

// list returns the names of all notes, one per line.
func list(dir fs.FS) (string, error) {
	var names []string
	err := fs.WalkDir(dir, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return "", withoutPath(err)
	}
	if len(names) == 0 {
		return "There are no notes yet.", nil
	}
	slices.Sort(names)
	return strings.Join(names, "\n"), nil
}
