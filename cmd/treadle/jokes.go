package main

import (
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
	"github.com/treadle-go/treadle/cmd/treadle/internal/demo"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/sqlite"
)

const (
	defaultTopic = "gophers"
	jokesThread  = "jokes"
	jokesPace    = 60 * time.Millisecond // between two words, in a terminal
)

func newJokes(s *streams) *cobra.Command {
	var topic topicFlag
	var pace paceFlag
	var db, thread string
	cmd := &cobra.Command{
		Use:   "jokes",
		Short: "Watch a graph fan out, pick the best joke, and ask",
		Long: `Run a graph that writes jokes: it brainstorms subjects for a topic, writes a joke
about each concurrently, picks the best, and asks whether to publish it. The model
is scripted, so it needs no key, service, or network.

In a terminal, it asks for the topic, shows the tasks while they run, and saves
every step in an SQLite file. Stop it at any time, even with kill -9, and start
it again: it resumes where it left off and repeats any unanswered question.

Without a terminal, it uses the default answers, prints plain lines, and saves
nothing unless --db names a file.`,
		Example: `  treadle jokes
  treadle jokes --topic owls
  treadle jokes --db jokes.db --thread owls
  treadle jokes --pace 0s > jokes.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if s.term.live() && !cmd.Flags().Changed("pace") {
				pace = paceFlag(jokesPace)
			}
			if db == "" {
				if db, err = s.databaseFile(); err != nil {
					return err
				}
			}
			if db, err = fileOnly(db); err != nil {
				return err
			}
			saver, err := sqlite.Open(db, nil)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, saver.Close()) }()
			g, err := demo.NewJokes(time.Duration(pace), saver)
			if err != nil {
				return err
			}
			j := jokesRun{streams: s, graph: g}
			if db != demo.InMemory {
				j.file = db
			}
			return j.run(cmd.Context(), thread, string(topic))
		},
	}
	cmd.Flags().Var(&topic, "topic", "topic of the jokes (default in a terminal: asks; otherwise "+defaultTopic+")")
	cmd.Flags().Var(&pace, "pace", "pause between two words (default in a terminal: "+jokesPace.String()+")")
	cmd.Flags().StringVar(&db, "db", "", "SQLite file for the steps, or "+demo.InMemory+" (default in a terminal: demo.db in the user's state directory; otherwise "+demo.InMemory+")")
	cmd.Flags().StringVar(&thread, "thread", "", "thread to start or continue (default the first of jokes, jokes-2, … that is unused or, in a terminal, unfinished)")
	return cmd
}

// databaseFile returns the database of a command without --db: the user's file in a terminal,
// and otherwise an in-memory database, because scripts may run concurrently.
func (s *streams) databaseFile() (string, error) {
	if s.term == nil {
		return demo.InMemory, nil
	}
	file, err := defaultFile()
	if err != nil {
		return "", fmt.Errorf("no default directory for the database: pass a file with --db: %w", err)
	}
	return file, os.MkdirAll(filepath.Dir(file), 0o700)
}

// defaultFile returns the user's database file, in the system's directory for program state.
func defaultFile() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) { // XDG says to ignore relative paths
		var err error
		if dir, err = os.UserConfigDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "treadle", "demo.db"), nil
}

// paceFlag is a flag for a non-negative duration.
type paceFlag time.Duration

func (p *paceFlag) String() string { return time.Duration(*p).String() }

// Type returns the name of the value in the help text.
func (p *paceFlag) Type() string { return "duration" }

// Set parses a duration.
func (p *paceFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		err = errors.New("use 0s or more")
	}
	*p = paceFlag(d)
	return err
}

// topicFlag is a flag for a topic.
type topicFlag string

func (t *topicFlag) String() string { return string(*t) }

// Type returns the name of the value in the help text.
func (t *topicFlag) Type() string { return "text" }

// Set accepts one line of plain text: a topic is printed in many places, and must not
// contain escape codes.
func (t *topicFlag) Set(s string) error {
	s = strings.TrimSpace(s)
	if s == "" {
		return errors.New("topic requires at least one letter")
	}
	if strings.ToValidUTF8(s, "") != s || strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("topic must be one line of plain text")
	}
	*t = topicFlag(s)
	return nil
}

// jokesRun runs the joke writer without its Go types, like a program that runs arbitrary
// graphs.
type jokesRun struct {
	*streams
	graph  treadle.AnyGraph
	file   string // the database; "" if threads are not saved
	thread *dynamic.Thread
}

// jokesState is the part of the graph's state that is shown.
type jokesState struct {
	Topic             string
	Jokes             []joke
	Winner, Published *joke
}

type joke struct {
	Subject, Text string
	Laughs        int
}

// jokesEvents selects the events that the views need. Updates report results of an earlier run.
var jokesEvents = treadle.Modes(treadle.ModeTasks, treadle.ModeMessages, treadle.ModeUpdates)

func (j *jokesRun) run(ctx context.Context, thread, topic string) error {
	snap, have, err := j.choose(ctx, thread, topic)
	if err != nil {
		return err
	}
	run, err := j.begin(ctx, snap, have, topic)
	if err != nil {
		return err
	}
	output, err := json.Marshal(snap.State)
	if err != nil {
		return err
	}
	for pauses := snap.Pauses; run != nil || len(pauses) > 0; {
		if run != nil {
			if output, pauses, err = j.watch(run); err != nil {
				return j.stopped(err)
			}
			run = nil
			continue
		}
		answer, err := j.askApproval(ctx, pauses[0])
		if err != nil {
			return j.stopped(err)
		}
		command, err := json.Marshal(map[string]demo.Approval{"resume": answer})
		if err != nil {
			return err
		}
		j.heading(map[demo.Decision]string{demo.Yes: "Publishing it", demo.No: "Dropping it", demo.Another: "Writing another one"}[answer.Decision])
		run = j.thread.CommandJSON(ctx, command, jokesEvents)
	}
	j.heading("The graph")
	j.print(strings.TrimRight(j.graph.Shape().Text(), "\n"))
	if err := j.report(output); err != nil {
		return err
	}
	return j.history(ctx)
}

// begin shows the state of the thread and returns the run to watch, or nil if the thread waits
// for an answer or is finished.
func (j *jokesRun) begin(ctx context.Context, snap *treadle.Snapshot, have jokesState, topic string) (iter.Seq2[treadle.Event, error], error) {
	saved := count(len(have.Jokes), "joke") + " saved"
	switch {
	case snap.ID.IsZero():
		if topic == "" {
			var err error
			if topic, err = j.askTopic(ctx); err != nil {
				return nil, err
			}
		}
		j.heading("Writing jokes about " + topic)
		input, err := json.Marshal(map[string]string{"topic": topic})
		return j.thread.StreamJSON(ctx, input, jokesEvents), err
	case len(snap.Tasks) == 0:
		j.heading(fmt.Sprintf("Thread %q is finished", j.thread.ID()))
		j.print(saved + ", nothing left to do")
		return nil, nil
	}
	j.heading(fmt.Sprintf("Resuming thread %q, %s", j.thread.ID(), saved))
	if len(snap.Pauses) == 0 {
		return j.thread.StreamJSON(ctx, nil, jokesEvents), nil
	}
	j.print("No node runs again: the thread waits for an answer.")
	return nil, nil
}

// choose opens the thread and reads its state. Without a name, it takes the first of jokes,
// jokes-2, … that is unused or, in a terminal, unfinished.
func (j *jokesRun) choose(ctx context.Context, name, topic string) (*treadle.Snapshot, jokesState, error) {
	for n := 1; ; n++ {
		id := name
		if id == "" {
			id = jokesThread
			if n > 1 {
				id = fmt.Sprintf("%s-%d", jokesThread, n)
			}
		}
		j.thread = dynamic.Open(j.graph, id)
		snap, err := j.thread.State(ctx)
		if err != nil {
			return nil, jokesState{}, err
		}
		var have jokesState
		raw, err := json.Marshal(snap.State)
		if err == nil {
			err = json.Unmarshal(raw, &have)
		}
		if err != nil {
			return nil, have, fmt.Errorf("thread %q: %w", j.thread.ID(), err)
		}
		other := have.Topic != "" && topic != "" && have.Topic != topic
		switch {
		case name != "" && other:
			return nil, have, fmt.Errorf("thread %q is about %s: use another --thread for %s", name, have.Topic, topic)
		case name != "", snap.ID.IsZero(), j.term != nil && len(snap.Tasks) > 0 && !other:
			return snap, have, nil
		}
	}
}

// stoppedError is the error of a run that was stopped and can be continued.
type stoppedError struct {
	error
	command string // the command that continues the run
}

func (e *stoppedError) Unwrap() error { return e.error }

// stopped adds the command that continues the thread to an error, if the thread is saved.
func (j *jokesRun) stopped(err error) error {
	if j.file == "" {
		return err
	}
	return &stoppedError{err, shellCommand("treadle", "jokes", "--db", j.file, "--thread", j.thread.ID())}
}

// shellCommand quotes the words of a command for a shell.
func shellCommand(words ...string) string {
	for i, w := range words {
		if w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:+,=@%") != "" {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// askTopic asks for the topic, in a terminal.
func (j *jokesRun) askTopic(ctx context.Context) (string, error) {
	if j.term == nil {
		return defaultTopic, nil
	}
	for {
		line, err := j.prompt(ctx, "What should the jokes be about?", "["+defaultTopic+"]")
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
		fmt.Fprintln(j.out, "A topic must be one line of plain text.")
	}
}

// askApproval shows the proposed joke and asks the node's question.
func (j *jokesRun) askApproval(ctx context.Context, pause treadle.Pause) (demo.Approval, error) {
	var p struct {
		Question string
		Joke     joke
	}
	if err := pause.Decode(&p); err != nil {
		return demo.Approval{}, fmt.Errorf("question %s: %w", pause.Value, err)
	}
	j.heading("The winner: " + p.Joke.Subject)
	j.text(p.Joke.Text)
	fmt.Fprintln(j.out)
	if j.term == nil {
		fmt.Fprintf(j.out, "%s yes (no terminal to ask)\n", p.Question)
		return demo.Approval{Decision: demo.Yes}, nil
	}
	for {
		line, err := j.prompt(ctx, p.Question+" yes, no, or another (and how)", "[yes]")
		if err != nil {
			return demo.Approval{}, err
		}
		if answer, ok := readApproval(line); ok {
			return answer, nil
		}
		fmt.Fprintln(j.out, `Answer yes or no, or for example "another, shorter".`)
	}
}

// readApproval parses an answer, or its first letter.
func readApproval(line string) (demo.Approval, bool) {
	if strings.ToValidUTF8(line, "") != line || strings.ContainsFunc(line, unicode.IsControl) {
		return demo.Approval{}, false
	}
	word, note := line, ""
	if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsLetter(r) }); i >= 0 {
		word, note = line[:i], strings.TrimLeftFunc(line[i:], func(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) })
	}
	word = strings.ToLower(word)
	for _, d := range []demo.Decision{demo.Yes, demo.No, demo.Another} {
		if d != demo.Another && note != "" {
			continue // a yes or no with a condition is invalid
		}
		if word == string(d) || word == string(d[:1]) || line == "" {
			return demo.Approval{Decision: d, Note: strings.TrimRight(note, ". ")}, true
		}
	}
	return demo.Approval{}, false
}

// prompt asks a question and returns the answer, which is empty if the user accepts the
// default.
func (s *streams) prompt(ctx context.Context, question, otherwise string) (string, error) {
	line, err := s.in.read(ctx, s.out, question+" "+otherwise+" ")
	s.out.used = true // the editor writes to the terminal itself
	if errors.Is(err, io.EOF) {
		if !s.in.edit {
			fmt.Fprintln(s.out) // the cursor is still after the question
		}
		return "", nil
	}
	return strings.TrimSpace(line), err
}

// watch shows a run and returns its output, or the interrupts that stopped it.
func (j *jokesRun) watch(run iter.Seq2[treadle.Event, error]) (json.RawMessage, []treadle.Pause, error) {
	var v view
	if j.term.live() {
		v = newLiveView(j.out, j.term)
	} else {
		v = &logView{out: j.out}
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

// report prints all jokes and the published one.
func (j *jokesRun) report(output json.RawMessage) error {
	var result jokesState
	if err := json.Unmarshal(output, &result); err != nil {
		return fmt.Errorf("output %s: %w", output, err)
	}
	j.heading("The jokes")
	for i, one := range result.Jokes {
		j.print(fmt.Sprintf("%d. %s (%s)", i+1, j.term.paint(bold, one.Subject), count(one.Laughs, "laugh")))
		j.text(one.Text)
	}
	if result.Published == nil {
		j.heading("Published: nothing")
		return nil
	}
	j.heading("Published: " + result.Published.Subject)
	j.text(result.Published.Text)
	return nil
}

// history prints a short list of the thread's checkpoints, oldest first.
func (j *jokesRun) history(ctx context.Context) error {
	var rows []string
	for snap, err := range j.thread.History(ctx, nil) {
		if err != nil {
			return err
		}
		next := "done"
		if len(snap.Next) > 0 {
			next = "next: " + tally(snap.Next)
		}
		rows = append(rows, fmt.Sprintf("step %2d  %-5s  %s", snap.Step, snap.Source, next))
	}
	j.heading(fmt.Sprintf("%s on thread %q", count(len(rows), "checkpoint"), j.thread.ID()))
	for i := range rows {
		j.print(rows[len(rows)-1-i])
	}
	if j.file != "" {
		j.heading("To inspect them")
		j.print(shellCommand("treadle", "threads", "show", j.thread.ID(), "--db", j.file))
	}
	return nil
}

// tally lists names and how often each is repeated, as in write ×4.
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

// count formats a number of things.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
