package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/peterh/liner"
)

// errInterrupted is returned when the user presses Ctrl-C at a prompt.
var errInterrupted = fmt.Errorf("interrupted at a prompt: %w", context.Canceled)

// input reads lines: from a terminal with editing keys and history, and from other sources
// unedited.
type input struct {
	in      io.Reader
	lines   *bufio.Reader // keeps data read ahead for the next prompt
	edit    bool          // in is a terminal that can edit lines
	editor  *liner.State
	history []string // for an editor that is not open yet
	once    sync.Once

	mu        sync.Mutex
	prompting bool              // the editor shows a prompt, or is about to
	closed    bool              // no further prompt may be shown
	between   liner.ModeApplier // the terminal's mode between prompts
}

func newInput(in io.Reader, term *terminal) *input {
	return &input{in: in, edit: term.live() && term.standard}
}

// read shows a prompt, which is a single line, and returns a line without its line break. The
// error is io.EOF if there are no more lines.
func (i *input) read(ctx context.Context, out io.Writer, prompt string) (string, error) {
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if i.edit {
		return i.readEdited(ctx, out, prompt)
	}
	fmt.Fprint(out, prompt)
	if i.lines == nil {
		i.lines = bufio.NewReader(i.in)
	}
	return await(ctx, func() (string, error) {
		line, err := i.lines.ReadString('\n')
		if errors.Is(err, io.EOF) && line != "" {
			err = nil
		}
		return strings.TrimRight(line, "\r\n"), err
	})
}

func (i *input) readEdited(ctx context.Context, out io.Writer, prompt string) (string, error) {
	if i.editor == nil {
		i.editor = liner.NewLiner()
		i.editor.SetCtrlCAborts(true)
		i.editor.SetMultiLineMode(true)
		i.editor.SetBeep(false)
		for _, line := range i.history {
			i.editor.AppendHistory(line)
		}
		i.between, _ = liner.TerminalMode() // nil if there is none
		// A second Ctrl-C ends the process immediately, and must not leave the terminal without
		// echo.
		context.AfterFunc(ctx, i.close)
	}
	line, err := await(ctx, func() (string, error) { return i.prompt(prompt) })
	switch {
	case errors.Is(err, liner.ErrPromptAborted):
		return "", errInterrupted // the editor has shown ^C
	case ctx.Err() != nil && err != nil:
		fmt.Fprintln(out, "^C")
	case errors.Is(err, io.EOF):
		fmt.Fprintln(out) // the cursor is still after the prompt
	}
	return line, err
}

// prompt shows the editor's prompt, unless the input is closed.
func (i *input) prompt(text string) (string, error) {
	i.mu.Lock()
	if i.closed {
		i.mu.Unlock()
		return "", io.EOF
	}
	i.prompting = true
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		i.prompting = false
		i.mu.Unlock()
	}()
	return i.editor.Prompt(text)
}

// begins reports whether a prompt is about to change the terminal's mode.
func (i *input) begins() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.prompting {
		return false
	}
	now, err := liner.TerminalMode()
	return err == nil && reflect.DeepEqual(now, i.between)
}

// remember adds a line to the history for the arrow keys.
func (i *input) remember(line string) {
	if i.editor != nil {
		i.editor.AppendHistory(line)
	} else if i.edit {
		i.history = append(i.history, line)
	}
}

// close restores the terminal's mode. A prompt that has just started would change the mode
// again, so close waits for that change.
func (i *input) close() {
	i.once.Do(func() {
		if i.editor == nil {
			return
		}
		i.mu.Lock()
		i.closed = true
		i.mu.Unlock()
		for n := 0; n < 100 && i.begins(); n++ {
			time.Sleep(time.Millisecond) //nolint:forbidigo // a terminal does not report mode changes
		}
		_ = i.editor.Close() // cannot fail
	})
}

// await runs a read that cannot be canceled. If the context ends first, await abandons the
// read; the process is about to end.
func await(ctx context.Context, read func() (string, error)) (string, error) {
	type result struct {
		line string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		line, err := read()
		done <- result{line, err}
	}()
	select {
	case <-ctx.Done():
		return "", fmt.Errorf("no answer: %w", ctx.Err())
	case r := <-done:
		return r.line, r.err
	}
}
