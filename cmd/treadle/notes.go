package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

const largestNote = 64 << 10

// notebook is a directory of notes. Names lead nowhere else: every file is
// opened through an os.Root, which follows no way out, links included.
type notebook struct {
	dir string
	mu  sync.Mutex // calls of one answer run at the same time
}

type (
	note struct {
		File string `json:"file" jsonschema:"a name such as shopping.md"`
		Text string `json:"text" jsonschema:"all that the file is to hold"`
	}
	noteName struct {
		File string `json:"file,omitempty" jsonschema:"the note to read; without it all notes are listed"`
	}
	// noteProposal is what a person is asked about, and noteAnswer the answer.
	noteProposal struct {
		Question string `json:"question"`
		File     string `json:"file"`
		Text     string `json:"text"`
	}
	noteAnswer struct {
		Approved bool   `json:"approved"`
		Reason   string `json:"reason,omitempty"` // why not
	}
)

func (n *notebook) tools() []*llm.Tool {
	return []*llm.Tool{
		llm.NewTool("write_note", "Write a note to a file, in place of what it holds. The user is asked first.", n.write),
		llm.NewTool("read_notes", "Read a note, or list the notes there are.", n.read),
	}
}

// write asks and writes. What could not be written anyway is not asked about.
func (n *notebook) write(ctx context.Context, in note) (string, error) {
	if err := n.check(in); err != nil {
		return "", err
	}
	question := fmt.Sprintf("Write the note %s?", in.File)
	answer, err := treadle.Interrupt[noteAnswer](ctx, noteProposal{question, in.File, in.Text})
	if err != nil {
		return "", err
	}
	if !answer.Approved {
		if answer.Reason != "" {
			return "The user did not allow it: " + answer.Reason, nil
		}
		return "The user did not allow it.", nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	root, err := n.open()
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }() // nothing is buffered in it
	if err := root.MkdirAll(filepath.Dir(in.File), 0o755); err != nil {
		return "", outside(err)
	}
	if err := root.WriteFile(in.File, []byte(strings.TrimRight(in.Text, "\n")+"\n"), 0o644); err != nil {
		return "", outside(err)
	}
	return "Written to " + in.File + ".", nil
}

func (n *notebook) check(in note) error {
	switch {
	case !filepath.IsLocal(in.File) || filepath.Clean(in.File) == ".":
		return fmt.Errorf("%q is not a name within the directory of notes: use one such as shopping.md", in.File)
	case plain(in.File) != in.File:
		return fmt.Errorf("%q has characters that names of notes cannot have", in.File)
	case len(in.Text) > largestNote:
		return fmt.Errorf("the note has %d bytes: write at most %d", len(in.Text), largestNote)
	}
	return nil
}

// open opens the directory, which is made when it is first needed.
func (n *notebook) open() (*os.Root, error) {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(n.dir)
}

// outside tells the model of a failure without the machine's paths.
func outside(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", e.Path, e.Err)
	}
	return err
}

func (n *notebook) read(_ context.Context, in noteName) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	root, err := os.OpenRoot(n.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "There are no notes yet.", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }() // nothing is buffered in it
	if in.File == "" {
		return list(root.FS())
	}
	text, err := root.ReadFile(in.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no note %s: call read_notes without a file for those there are", in.File)
	case err != nil:
		return "", outside(err)
	case len(text) > largestNote || !utf8.Valid(text):
		return "", fmt.Errorf("%s is not a note: it is too long or no text", in.File)
	}
	return string(text), nil
}

// list is the names of all notes, one a line.
func list(dir fs.FS) (string, error) {
	var names []string
	err := fs.WalkDir(dir, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return "", outside(err)
	}
	if len(names) == 0 {
		return "There are no notes yet.", nil
	}
	slices.Sort(names)
	return strings.Join(names, "\n"), nil
}
