package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/cmd/treadle/internal/demo"
	"github.com/treadle-go/treadle/llm"
)

// chat is a conversation with an agent on a thread:
//
//	          ┌──────────── line ────────────┐
//	          ▼                              │
//	start ─▶ run ──▶ interrupts? ──no─▶ read a line ──end──▶ done
//	          ▲          │yes
//	          └─ answer ─┘
//
// A thread that stopped at an interrupt or in the middle of a run continues there.
type chat struct {
	*streams
	thread  *treadle.Thread[agent.State, agent.State]
	model   llm.Info
	yes     bool   // approve without asking
	resume  string // the commands to continue and to inspect the thread; "" if it is not saved
	inspect string
	flush   func(context.Context) error // extracts memories from the conversation

	question string // the question that is pending when the input ends
	err      error  // the last model failure
}

// run runs the conversation until the input ends. Without a terminal, it returns an error for
// an unanswered question or a model failure, for the sake of scripts.
func (c *chat) run(ctx context.Context) error {
	err := c.loop(ctx)
	switch {
	case errors.Is(err, io.EOF):
		c.finish(ctx)
		switch {
		case c.term != nil:
			return nil
		case c.question != "":
			return fmt.Errorf("input ended before this question was answered: %s Answer yes or no in the next line, or use --yes", c.question)
		}
		return c.err
	case c.resume != "":
		return &stoppedError{err, c.resume}
	}
	return err
}

// loop runs until an error ends it: its result is never nil.
func (c *chat) loop(ctx context.Context) error {
	snap, err := c.thread.State(ctx)
	if err != nil {
		return err
	}
	if err := c.greet(snap); err != nil {
		return err
	}
	pauses := snap.Pauses
	if len(pauses) == 0 && len(snap.Next) > 0 {
		if pauses, err = c.watch(ctx, c.thread.ContinueStream(ctx, chatEvents)); err != nil {
			return err
		}
	}
	for {
		run, err := c.next(ctx, pauses)
		if err != nil {
			return err
		}
		if pauses, err = c.watch(ctx, run); err != nil {
			return err
		}
	}
}

// greet shows the model and the state of the conversation.
func (c *chat) greet(snap *treadle.Snapshot) error {
	model := c.model.String()
	if c.model.Provider == demo.Offline {
		model = "offline rules (no language model: set OPENAI_API_KEY, ANTHROPIC_API_KEY, or GEMINI_API_KEY to use one)"
	}
	c.paragraph(faint, "Model: "+plain(model))
	if c.resume == "" {
		c.paragraph(faint, "The conversation is not saved: use --db FILE to keep it.")
	}
	if !snap.ID.IsZero() {
		var state agent.State
		if err := snap.Read(&state); err != nil {
			return err
		}
		c.paragraph(faint, fmt.Sprintf("Continuing thread %q, %s so far.", c.thread.ID(), count(len(state.Messages), "message")))
		for _, line := range userMessages(state.Messages) {
			c.in.remember(line)
		}
	}
	if c.term != nil {
		c.paragraph(faint, "Type a message. Ctrl-D ends the conversation.")
	}
	return nil
}

// finish extracts memories and prints how to continue.
func (c *chat) finish(ctx context.Context) {
	if c.resume == "" {
		return
	}
	if snap, err := c.thread.State(ctx); err != nil || snap.ID.IsZero() {
		return // the conversation is empty
	}
	if c.term.live() {
		fmt.Fprint(c.out, c.term.paint(faint, "Saving memories…"))
	}
	err := c.flush(ctx)
	if c.term.live() {
		fmt.Fprint(c.out, "\r\x1b[J")
	}
	if err != nil {
		c.paragraph(red, "Failed to save all memories; the next run retries: "+errorText(err))
	}
	c.heading("To continue, or to inspect the saved thread")
	c.print(c.resume)
	c.print(c.inspect)
}

var chatEvents = treadle.Modes(treadle.ModeMessages, treadle.ModeEvents)

// next returns the run that answers the first pending question or takes the next line. The
// error is io.EOF if there are no more lines.
func (c *chat) next(ctx context.Context, pauses []treadle.Pause) (iter.Seq2[treadle.Event, error], error) {
	if len(pauses) > 0 {
		answer, err := c.ask(ctx, pauses[0])
		// One at a time: an answer is saved even if the next question gets none.
		return c.thread.ResumeStream(ctx, treadle.Answers{pauses[0].ID: answer}, chatEvents), err
	}
	for {
		line, err := c.read(ctx, "> ")
		if err != nil {
			return nil, err
		}
		if line != "" {
			c.in.remember(line)
			return c.thread.Stream(ctx, agent.Ask(line), chatEvents), nil
		}
		snap, err := c.thread.State(ctx)
		if err != nil {
			return nil, err
		}
		if len(snap.Next) > 0 { // the last run failed
			return c.thread.ContinueStream(ctx, chatEvents), nil
		}
	}
}

// read reads a line after an empty line and a prompt. Without a terminal, it prints the line
// after the prompt, so that the output reads like a conversation.
func (c *chat) read(ctx context.Context, prompt string) (string, error) {
	shown := prompt
	if c.term == nil {
		shown = ""
	} else {
		fmt.Fprintln(c.out)
	}
	line, err := c.in.read(ctx, c.out, shown)
	line = strings.TrimSpace(strings.ToValidUTF8(line, "\uFFFD"))
	if err == nil && c.term == nil {
		fmt.Fprintf(c.out, "\n%s%s\n", prompt, printable(line))
	}
	return line, err
}

// ask shows what a tool is about to do and asks for permission.
func (c *chat) ask(ctx context.Context, pause treadle.Pause) (demo.Answer, error) {
	var q demo.Question
	if err := pause.Decode(&q); err != nil {
		return demo.Answer{}, fmt.Errorf("question %s: %w", pause.Value, err)
	}
	c.heading(plain(q.Question))
	for line := range strings.Lines(q.Text) {
		for _, part := range wrapLine(plain(strings.TrimRight(line, "\n")), c.term.columns(80)-5) {
			c.print("   " + part)
		}
	}
	const prompt = "yes, or no (and why) "
	if c.yes {
		fmt.Fprintln(c.out, "\n"+prompt+"yes (because of --yes)")
		return demo.Answer{Approved: true}, nil
	}
	for {
		line, err := c.read(ctx, prompt)
		if err != nil {
			c.question = plain(q.Question)
			return demo.Answer{}, err
		}
		if answer, ok := readAnswer(line); ok {
			return answer, nil
		}
		c.paragraph("", `Answer yes or no, or for example "no, not now".`)
	}
}

// readAnswer parses yes or no, or the first letter. The text after a no is the reason; a yes
// with a condition is invalid.
func readAnswer(line string) (demo.Answer, bool) {
	word, reason := line, ""
	if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsLetter(r) }); i >= 0 {
		word, reason = line[:i], strings.TrimLeftFunc(line[i:], func(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) })
	}
	word = strings.ToLower(word)
	switch {
	case word == "no" || word == "n":
		return demo.Answer{Reason: reason}, true
	case (word == "yes" || word == "y") && reason == "":
		return demo.Answer{Approved: true}, true
	}
	return demo.Answer{}, false
}

// watch shows a run and returns its questions. It shows a model failure, which does not end the
// conversation.
func (c *chat) watch(ctx context.Context, run iter.Seq2[treadle.Event, error]) ([]treadle.Pause, error) {
	t := newTranscript(c.streams)
	defer t.close()
	for ev, err := range run {
		if stop, ok := errors.AsType[*treadle.InterruptError](err); ok && len(stop.Pauses) > 0 {
			return stop.Pauses, nil
		}
		if err != nil {
			t.close()
			return nil, c.failed(ctx, err)
		}
		t.show(ev)
	}
	return nil, nil
}

// failed shows a model failure. Other failures, such as a full disk, end the conversation.
func (c *chat) failed(ctx context.Context, err error) error {
	node, ok := errors.AsType[*treadle.NodeError](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	c.err = node.Err
	if e, ok := errors.AsType[*llm.Error](err); ok {
		c.err = e
	}
	c.paragraph(red, "The model failed: "+errorText(c.err))
	c.paragraph(faint, "Press Enter to retry.")
	return nil
}

// errorText formats an error for people and indents all lines after the first. Provider errors
// can have many lines.
func errorText(err error) string {
	return strings.ReplaceAll(printable(strings.TrimSpace(err.Error())), "\n", "\n  ")
}

// userMessages returns the user's messages that are single lines.
func userMessages(messages llm.Messages) []string {
	var texts []string
	for i := range messages {
		if text := messages[i].Text(); messages[i].Role == llm.RoleHuman && text != "" && printable(text) == text && !strings.Contains(text, "\n") {
			texts = append(texts, text)
		}
	}
	return texts
}
