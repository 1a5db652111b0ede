package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/treadletype"
)

const (
	defaultTopic = "gophers"
	jokesThread  = "jokes"
	readingPace  = 60 * time.Millisecond // between words, if somebody watches them
)

func newTeller(s *streams) *cobra.Command {
	var topic topicFlag
	var pace paceFlag
	var db, thread string
	cmd := &cobra.Command{
		Use:   "jokes",
		Short: "Watch a joke writer: a graph that fans out and asks",
		Long: `Run a joke writer: brainstorm subjects for a topic, write a joke about each at
the same time, let a judge pick the best, and ask whether to publish it. A
scripted model does the talking, so it needs no key, no service and no network.

In a terminal it asks for the topic, shows the tasks while they run, and keeps
every step in an SQLite file. Stop it at any time, even with kill -9, and start
it again: it goes on where it was, and asks again what nobody has answered.

Elsewhere it takes the default answers and prints plain lines, and keeps nothing
unless it is given a file.`,
		Example: `  treadle jokes
  treadle jokes --topic owls
  treadle jokes --db jokes.db --thread owls
  treadle jokes --pace 0s > jokes.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if s.term.live() && !cmd.Flags().Changed("pace") {
				pace = paceFlag(readingPace)
			}
			if db == "" {
				if db, err = s.demoFile(); err != nil {
					return err
				}
			}
			saver, err := sqlite.Open(db, nil)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, saver.Close()) }()
			g, err := newJokes(model{time.Duration(pace)}, saver)
			if err != nil {
				return err
			}
			d := teller{streams: s, graph: g}
			if db != inMemory {
				d.file = db
			}
			return d.run(cmd.Context(), thread, string(topic))
		},
	}
	cmd.Flags().Var(&topic, "topic", "what the jokes are about (asked for in a terminal, else "+defaultTopic+")")
	cmd.Flags().Var(&pace, "pace", "the time between two words (in a terminal "+readingPace.String()+")")
	cmd.Flags().StringVar(&db, "db", "", "the SQLite file to keep the steps in, or "+inMemory+" (in a terminal demo.db in the user's state directory, else "+inMemory+")")
	cmd.Flags().StringVar(&thread, "thread", "", "the thread to begin or to go on with (in a terminal the first of jokes, jokes-2 … that is not finished, else the first that is not there)")
	return cmd
}

// inMemory is a database that nobody else sees and that ends with the process.
const inMemory = ":memory:"

// demoFile is the database of a demo that was given none: a file of the user's
// if somebody watches. Runs in the background are many and must not meet.
func (s *streams) demoFile() (string, error) {
	if s.term == nil {
		return inMemory, nil
	}
	file, err := defaultFile()
	if err != nil {
		return "", fmt.Errorf("no place for the database, give one with --db: %w", err)
	}
	return file, os.MkdirAll(filepath.Dir(file), 0o700)
}

// defaultFile is where the demo keeps its threads: where the system has its
// users keep what programs want to find again.
func defaultFile() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) { // the XDG rule for values that are not
		var err error
		if dir, err = os.UserConfigDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "treadle", "demo.db"), nil
}

// paceFlag is a time that is not negative.
type paceFlag time.Duration

func (p *paceFlag) String() string { return time.Duration(*p).String() }

// Type is what the help calls the flag's value.
func (p *paceFlag) Type() string { return "duration" }

// Set reads a duration.
func (p *paceFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		err = errors.New("want 0s or more")
	}
	*p = paceFlag(d)
	return err
}

// topicFlag is a topic that has been checked.
type topicFlag string

func (t *topicFlag) String() string { return string(*t) }

// Type is what the help calls the flag's value.
func (t *topicFlag) Type() string { return "text" }

// Set accepts one line of plain text: a topic is printed in many places, and
// must not bring escape codes along.
func (t *topicFlag) Set(s string) error {
	s = strings.TrimSpace(s)
	if s == "" {
		return errors.New("a topic has at least one letter")
	}
	if strings.ToValidUTF8(s, "") != s || strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("a topic is one line of plain text")
	}
	*t = topicFlag(s)
	return nil
}

// teller runs a graph of jokes of which it knows no Go types, as any program
// would that is handed a graph.
type teller struct {
	*streams
	graph  treadle.AnyGraph
	file   string // where the threads are kept; "" if nowhere
	thread treadle.AnyThread
}

// material is what the demo reads of the graph's state.
type material struct {
	Topic             string
	Jokes             []piece
	Winner, Published *piece
}

type piece struct {
	Subject, Text string
	Laughs        int
}

// watched are the events that the views follow; updates tell of results that
// were kept.
var watched = treadle.Modes(treadle.ModeTasks, treadle.ModeTokens, treadle.ModeUpdates)

func (d *teller) run(ctx context.Context, thread, topic string) error {
	snap, have, err := d.choose(ctx, thread, topic)
	if err != nil {
		return err
	}
	run, err := d.begin(ctx, snap, have, topic)
	if err != nil {
		return err
	}
	output, err := json.Marshal(snap.Values)
	if err != nil {
		return err
	}
	for pauses := snap.Pauses; run != nil || len(pauses) > 0; {
		if run != nil {
			if output, pauses, err = d.watch(run); err != nil {
				return d.stopped(err)
			}
			run = nil
			continue
		}
		answer, err := d.askApproval(ctx, pauses[0])
		if err != nil {
			return d.stopped(err)
		}
		command, err := json.Marshal(map[string]approval{"resume": answer})
		if err != nil {
			return err
		}
		d.heading(map[decision]string{yes: "Publishing it", no: "Dropping it", another: "Writing another one"}[answer.Decision])
		run = d.thread.CommandJSON(ctx, command, watched)
	}
	d.heading("The graph")
	d.print(strings.TrimRight(d.graph.Shape().Text(), "\n"))
	if err := d.report(output); err != nil {
		return err
	}
	return d.history(ctx)
}

// begin says what is about to happen on the thread and returns the run that
// does it: none if the thread waits for an answer or is finished.
func (d *teller) begin(ctx context.Context, snap *treadle.Snapshot, have material, topic string) (iter.Seq2[treadle.Event, error], error) {
	kept := count(len(have.Jokes), "joke") + " kept"
	switch {
	case snap.ID.IsZero():
		if topic == "" {
			var err error
			if topic, err = d.askTopic(ctx); err != nil {
				return nil, err
			}
		}
		d.heading("Writing jokes about " + topic)
		input, err := json.Marshal(map[string]string{"topic": topic})
		return d.thread.StreamJSON(ctx, input, watched), err
	case len(snap.Tasks) == 0:
		d.heading(fmt.Sprintf("Thread %q is finished", d.thread.ID()))
		d.print(kept + ", and nothing left to do")
		return nil, nil
	}
	d.heading(fmt.Sprintf("Resuming thread %q, %s", d.thread.ID(), kept))
	if len(snap.Pauses) == 0 {
		return d.thread.StreamJSON(ctx, nil, watched), nil
	}
	d.print("Nothing is written again: the thread waits for an answer.")
	return nil, nil
}

// choose opens the thread to work on and reads what it has. With no name given
// it takes the first of jokes, jokes-2 … that is free, or for a person who may
// have left one unfinished, that is not finished.
func (d *teller) choose(ctx context.Context, name, topic string) (*treadle.Snapshot, material, error) {
	for n := 1; ; n++ {
		id := name
		if id == "" {
			if id = jokesThread; n > 1 {
				id = fmt.Sprintf("%s-%d", jokesThread, n)
			}
		}
		d.thread = d.graph.Open(id)
		snap, err := d.thread.State(ctx)
		if err != nil {
			return nil, material{}, err
		}
		var have material
		raw, err := json.Marshal(snap.Values)
		if err == nil {
			err = json.Unmarshal(raw, &have)
		}
		if err != nil {
			return nil, have, fmt.Errorf("thread %q: %w", d.thread.ID(), err)
		}
		other := have.Topic != "" && topic != "" && have.Topic != topic
		switch {
		case name != "" && other:
			return nil, have, fmt.Errorf("thread %q is about %s: take another --thread for %s", name, have.Topic, topic)
		case name != "", snap.ID.IsZero(), d.term != nil && len(snap.Tasks) > 0 && !other:
			return snap, have, nil
		}
	}
}

// stoppedError is a demo that was stopped and can go on.
type stoppedError struct {
	error
	goOn string // the command to do so
}

func (e *stoppedError) Unwrap() error { return e.error }

// stopped adds to an error how to go on, if the thread is there to go on with.
func (d *teller) stopped(err error) error {
	if d.file == "" {
		return err
	}
	return &stoppedError{err, shellLine("treadle", "jokes", "--db", d.file, "--thread", d.thread.ID())}
}

// shellLine is a command as one types it.
func shellLine(words ...string) string {
	for i, w := range words {
		if w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:+,=@%") != "" {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// askTopic asks for the topic if there is somebody to ask.
func (d *teller) askTopic(ctx context.Context) (string, error) {
	if d.term == nil {
		return defaultTopic, nil
	}
	for {
		line, err := d.prompt(ctx, "What shall the jokes be about?", "["+defaultTopic+"]")
		if err != nil {
			return "", err
		}
		if line == "" {
			return defaultTopic, nil
		}
		var topic topicFlag
		if err := topic.Set(line); err == nil {
			return string(topic), nil
		}
		fmt.Fprintln(d.out, "A topic is one line of plain text.")
	}
}

// askApproval shows what a node proposes and asks what it wants to know.
func (d *teller) askApproval(ctx context.Context, pause treadletype.Pause) (approval, error) {
	var p struct {
		Question string
		Joke     piece
	}
	if err := pause.Decode(&p); err != nil {
		return approval{}, fmt.Errorf("question %s: %w", pause.Value, err)
	}
	d.heading("The winner: " + p.Joke.Subject)
	d.text(p.Joke.Text)
	fmt.Fprintln(d.out)
	if d.term == nil {
		fmt.Fprintf(d.out, "%s yes (there is nobody to ask)\n", p.Question)
		return approval{Decision: yes}, nil
	}
	for {
		line, err := d.prompt(ctx, p.Question+" yes, no, or another (and how)", "[yes]")
		if err != nil {
			return approval{}, err
		}
		if answer, ok := readApproval(line); ok {
			return answer, nil
		}
		fmt.Fprintln(d.out, `Answer yes or no, or for example "another, shorter".`)
	}
}

// readApproval understands an answer, or its first letter.
func readApproval(line string) (approval, bool) {
	if strings.ToValidUTF8(line, "") != line || strings.ContainsFunc(line, unicode.IsControl) {
		return approval{}, false
	}
	word, note := line, ""
	if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsLetter(r) }); i >= 0 {
		word, note = line[:i], strings.TrimLeftFunc(line[i:], func(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) })
	}
	word = strings.ToLower(word)
	for _, d := range []decision{yes, no, another} {
		if d != another && note != "" {
			continue // yes, but
		}
		if word == string(d) || word == string(d[:1]) || line == "" {
			return approval{d, strings.TrimRight(note, ". ")}, true
		}
	}
	return approval{}, false
}

// prompt asks a question and reads the answer, which is empty if the default
// is taken.
func (s *streams) prompt(ctx context.Context, question, otherwise string) (string, error) {
	if s.lines == nil {
		s.lines = bufio.NewReader(s.in)
	}
	fmt.Fprintf(s.out, "%s %s ", question, s.term.paint(faint, otherwise))
	line, err := readLine(ctx, s.lines)
	if err != nil {
		fmt.Fprintln(s.out)
		return "", err
	}
	if !strings.HasSuffix(line, "\n") { // Ctrl-D: the cursor is still behind the question
		fmt.Fprintln(s.out)
	}
	return strings.TrimSpace(line), nil
}

// readLine reads a line with its newline, or without one what is left of the
// input. A read cannot be cancelled: after Ctrl-C it is left behind, and the
// process is about to end.
func readLine(ctx context.Context, in *bufio.Reader) (string, error) {
	type read struct {
		line string
		err  error
	}
	done := make(chan read, 1)
	go func() {
		line, err := in.ReadString('\n')
		done <- read{line, err}
	}()
	select {
	case <-ctx.Done():
		return "", fmt.Errorf("no answer: %w", ctx.Err())
	case r := <-done:
		if errors.Is(r.err, io.EOF) {
			r.err = nil
		}
		return r.line, r.err
	}
}

// watch shows a run while it goes on and returns its output, or the questions
// that it has stopped with.
func (d *teller) watch(run iter.Seq2[treadle.Event, error]) (json.RawMessage, []treadletype.Pause, error) {
	var v view
	if d.term.live() {
		v = newLive(d.out, d.term)
	} else {
		v = &lines{out: d.out}
	}
	defer v.close()
	var output json.RawMessage
	for ev, err := range run {
		if stop, ok := errors.AsType[*treadle.InterruptError](err); ok && len(stop.Pauses) > 0 {
			return nil, stop.Pauses, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if done, ok := ev.(treadle.Finished[json.RawMessage]); ok {
			output = done.Output
			continue
		}
		v.show(ev)
	}
	return output, nil, nil
}

// report prints the jokes and what became of the best.
func (d *teller) report(output json.RawMessage) error {
	var result material
	if err := json.Unmarshal(output, &result); err != nil {
		return fmt.Errorf("output %s: %w", output, err)
	}
	d.heading("The jokes")
	for i, j := range result.Jokes {
		d.print(fmt.Sprintf("%d. %s (%s)", i+1, d.term.paint(bold, j.Subject), count(j.Laughs, "laugh")))
		d.text(j.Text)
	}
	if result.Published == nil {
		d.heading("Published: nothing")
		return nil
	}
	d.heading("Published: " + result.Published.Subject)
	d.text(result.Published.Text)
	return nil
}

// history prints the thread's checkpoints in short, oldest first.
func (d *teller) history(ctx context.Context) error {
	var rows []string
	for snap, err := range d.thread.History(ctx, nil) {
		if err != nil {
			return err
		}
		next := "done"
		if len(snap.Next) > 0 {
			next = "next: " + tally(snap.Next)
		}
		rows = append(rows, fmt.Sprintf("step %2d  %-5s  %s", snap.Step, snap.Source, next))
	}
	d.heading(fmt.Sprintf("%s on thread %q", count(len(rows), "checkpoint"), d.thread.ID()))
	for i := range rows {
		d.print(rows[len(rows)-1-i])
	}
	if d.file != "" {
		d.heading("To look around in them")
		d.print(shellLine("treadle", "threads", "show", d.thread.ID(), "--db", d.file))
	}
	return nil
}

// tally lists names with how often they come in a row: write ×4.
func tally(names []string) string {
	var out []string
	for i := 0; i < len(names); {
		n := 1
		for i+n < len(names) && names[i+n] == names[i] {
			n++
		}
		name := names[i]
		if n > 1 {
			name += fmt.Sprintf(" ×%d", n)
		}
		out = append(out, name)
		i += n
	}
	return strings.Join(out, ", ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// heading starts a part of the output, with an empty line to the one before.
func (s *streams) heading(title string) {
	if s.out.used {
		fmt.Fprintln(s.out)
	}
	fmt.Fprintf(s.out, "%s\n\n", s.term.paint(bold, title))
}

// print writes lines, indented.
func (s *streams) print(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(s.out, "  %s\n", strings.TrimRight(line, "\n"))
	}
}

// text writes running text in lines that fit.
func (s *streams) text(words string) {
	columns := 80
	if s.term != nil {
		columns, _ = s.term.size()
	}
	for _, line := range wrap(printable(words), min(columns, 80)-6) {
		s.print("   " + line)
	}
}
