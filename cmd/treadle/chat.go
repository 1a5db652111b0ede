package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/treadletype"
)

// chat is a conversation with an agent on a thread:
//
//	          ┌──────────── line ────────────┐
//	          ▼                              │
//	start ─▶ run ──▶ questions? ──no──▶ read a line ──end──▶ done
//	          ▲          │yes
//	          └─ answer ─┘
//
// A thread that was left at a question, or in the middle of a run, enters the
// circle where it was.
type chat struct {
	*streams
	thread *treadle.Thread[agent.State, agent.State]
	model  string
	yes    bool
	goOn   string // the commands to go on and to look into the thread; "" if it is not kept
	look   string
	settle func(context.Context) error // has what was said remembered
	err    error                       // the last failure of the model
}

// run talks until there are no more lines.
func (c *chat) run(ctx context.Context) error {
	err := c.talk(ctx)
	switch {
	case errors.Is(err, io.EOF):
		c.bye(ctx)
		if c.term == nil {
			return c.err // a script wants to know
		}
		return nil
	case c.goOn != "":
		return &stoppedError{err, c.goOn}
	}
	return err
}

// talk goes round until something ends it: its error is never nil.
func (c *chat) talk(ctx context.Context) error {
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

// greet says who speaks, and where the conversation stands.
func (c *chat) greet(snap *treadle.Snapshot) error {
	who := c.model
	if strings.HasPrefix(who, offlineName) {
		who = "offline rules (no language model: set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY for one)"
	}
	fmt.Fprintln(c.out, c.term.paint(faint, "Model: "+plain(who)))
	if !snap.ID.IsZero() {
		var have agent.State
		if err := snap.Read(&have); err != nil {
			return err
		}
		fmt.Fprintln(c.out, c.term.paint(faint, fmt.Sprintf("Going on with thread %q, %s so far.", c.thread.ID(), count(len(have.Messages), "message"))))
	}
	if c.term != nil {
		fmt.Fprintln(c.out, c.term.paint(faint, "Say something; Ctrl-D ends the conversation."))
	}
	return nil
}

// bye has what was said remembered, and says how to come back.
func (c *chat) bye(ctx context.Context) {
	if c.goOn == "" {
		return
	}
	if snap, err := c.thread.State(ctx); err != nil || snap.ID.IsZero() {
		return // nothing was said
	}
	if c.term.live() {
		fmt.Fprint(c.out, c.term.paint(faint, "Thinking over what was said…"))
	}
	err := c.settle(ctx)
	if c.term.live() {
		fmt.Fprint(c.out, "\r\x1b[J")
	}
	if err != nil {
		fmt.Fprintln(c.out, c.term.paint(red, "Not all of it could be thought over: "+said(err)))
	}
	c.heading("To go on, or to look at what was kept")
	c.print(c.goOn)
	c.print(c.look)
}

var chatEvents = treadle.Modes(treadle.ModeTokens, treadle.ModeEvents)

// next is the run that answers the first open question, or that takes in what
// is said next. It is io.EOF if there is nothing more to read.
func (c *chat) next(ctx context.Context, pauses []treadletype.Pause) (iter.Seq2[treadle.Event, error], error) {
	if len(pauses) > 0 {
		answer, err := c.ask(ctx, pauses[0])
		// One at a time: what was answered is kept even if nobody answers the rest.
		return c.thread.ResumeStream(ctx, treadle.Answers{pauses[0].ID: answer}, chatEvents), err
	}
	for {
		line, err := c.read(ctx, "\n> ")
		if err != nil {
			return nil, err
		}
		if line != "" {
			return c.thread.Stream(ctx, agent.Ask(line), chatEvents), nil
		}
		snap, err := c.thread.State(ctx)
		if err != nil {
			return nil, err
		}
		if len(snap.Next) > 0 { // the last run has failed
			return c.thread.ContinueStream(ctx, chatEvents), nil
		}
	}
}

// read reads a line behind a prompt. If it is not typed there, it is printed
// there, so that the conversation reads the same.
func (c *chat) read(ctx context.Context, prompt string) (string, error) {
	if c.lines == nil {
		c.lines = bufio.NewReader(c.in)
	}
	if c.term != nil {
		fmt.Fprint(c.out, c.term.paint(bold, prompt))
	}
	raw, err := readLine(ctx, c.lines)
	line := strings.TrimSpace(strings.ToValidUTF8(raw, "\uFFFD"))
	switch {
	case err != nil:
	case raw == "":
		err = io.EOF
	case c.term == nil:
		fmt.Fprintf(c.out, "%s%s\n", prompt, printable(line))
	}
	if err != nil && c.term != nil {
		fmt.Fprintln(c.out) // the cursor is still behind the prompt
	}
	return line, err
}

// ask shows what a tool proposes and asks whether it may.
func (c *chat) ask(ctx context.Context, pause treadletype.Pause) (noteAnswer, error) {
	var p noteProposal
	if err := pause.Decode(&p); err != nil {
		return noteAnswer{}, fmt.Errorf("question %s: %w", pause.Value, err)
	}
	c.heading(plain(p.Question))
	for line := range strings.Lines(p.Text) {
		c.print("   " + plain(strings.TrimRight(line, "\n")))
	}
	question := "\nyes, or no (and why) "
	if c.yes {
		fmt.Fprintln(c.out, question+"yes (because of --yes)")
		return noteAnswer{Approved: true}, nil
	}
	for {
		line, err := c.read(ctx, question)
		if err != nil {
			return noteAnswer{}, err
		}
		if answer, ok := readAnswer(line); ok {
			return answer, nil
		}
		fmt.Fprintln(c.out, `Answer yes or no, or for example "no, not now".`)
	}
}

// readAnswer understands yes or no, or its first letter. What follows a no is
// the reason; a yes with an if is none.
func readAnswer(line string) (noteAnswer, bool) {
	word, reason := line, ""
	if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsLetter(r) }); i >= 0 {
		word, reason = line[:i], strings.TrimLeftFunc(line[i:], func(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) })
	}
	switch word = strings.ToLower(word); {
	case word == "no" || word == "n":
		return noteAnswer{Reason: reason}, true
	case (word == "yes" || word == "y") && reason == "":
		return noteAnswer{Approved: true}, true
	}
	return noteAnswer{}, false
}

// watch shows a run and returns the questions that it has stopped with. A
// failure of the model is shown, too, and is no end of the conversation.
func (c *chat) watch(ctx context.Context, run iter.Seq2[treadle.Event, error]) ([]treadletype.Pause, error) {
	v := speech{streams: c.streams}
	defer v.close()
	for ev, err := range run {
		if stop, ok := errors.AsType[*treadle.InterruptError](err); ok && len(stop.Pauses) > 0 {
			return stop.Pauses, nil
		}
		if err != nil {
			v.close()
			return nil, c.failed(ctx, err)
		}
		v.show(ev)
	}
	return nil, nil
}

// failed shows a failure of the model. Others, such as a full disk, end the
// conversation.
func (c *chat) failed(ctx context.Context, err error) error {
	node, ok := errors.AsType[*treadle.NodeError](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	c.err = node.Err
	if e, ok := errors.AsType[*llm.Error](err); ok {
		c.err = e
	}
	fmt.Fprintln(c.out, c.term.paint(red, "The model failed: "+said(c.err)))
	fmt.Fprintln(c.out, c.term.paint(faint, "An empty line tries again."))
	return nil
}

// said is an error as it is shown: in the lines that it has, those behind the
// first one indented. What providers report may be a page.
func said(err error) string {
	return strings.ReplaceAll(printable(strings.TrimSpace(err.Error())), "\n", "\n  ")
}
