package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle"
)

const (
	defaultTopic = "gophers"
	demoThread   = "demo"
	readingPace  = 60 * time.Millisecond // between words, if somebody watches them
)

func newDemo(s *streams) *cobra.Command {
	var topic topicFlag
	var pace paceFlag
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a joke writer and watch it work",
		Long: `Run a joke writer: brainstorm subjects for a topic, write a joke about each at
the same time, and let a judge pick the best. A scripted model does the talking,
so it needs no key, no service and no network.

In a terminal it asks for the topic and shows the tasks while they run.
Elsewhere it takes the default and prints plain lines.`,
		Example: `  treadle demo
  treadle demo --topic owls
  treadle demo --pace 0s > demo.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.term.live() && !cmd.Flags().Changed("pace") {
				pace = paceFlag(readingPace)
			}
			g, err := newJokes(model{time.Duration(pace)})
			if err != nil {
				return err
			}
			d := demo{streams: s, graph: g}
			return d.run(cmd.Context(), string(topic))
		},
	}
	cmd.Flags().Var(&topic, "topic", "what the jokes are about (asked for in a terminal, else "+defaultTopic+")")
	cmd.Flags().Var(&pace, "pace", "the time between two words (in a terminal "+readingPace.String()+")")
	return cmd
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

// demo runs a graph of jokes of which it knows no Go types, as any program
// would that is handed a graph.
type demo struct {
	*streams
	graph treadle.AnyGraph
}

func (d *demo) run(ctx context.Context, topic string) error {
	if topic == "" {
		var err error
		if topic, err = d.ask(ctx); err != nil {
			return err
		}
	}
	d.heading("Writing jokes about " + topic)
	input, err := json.Marshal(map[string]string{"topic": topic})
	if err != nil {
		return err
	}
	thread := d.graph.Open(demoThread)
	output, err := d.watch(thread.StreamJSON(ctx, input, treadle.Modes(treadle.ModeTasks, treadle.ModeTokens)))
	if err != nil {
		return err
	}
	d.heading("The graph")
	d.print(strings.TrimRight(d.graph.Shape().Text(), "\n"))
	if err := d.report(output); err != nil {
		return err
	}
	return d.history(ctx, thread)
}

// ask asks for the topic if there is somebody to ask.
func (d *demo) ask(ctx context.Context) (string, error) {
	if d.term == nil {
		return defaultTopic, nil
	}
	in := bufio.NewReader(d.in)
	for {
		fmt.Fprintf(d.out, "What shall the jokes be about? %s ", d.term.paint(faint, "["+defaultTopic+"]"))
		line, err := readLine(ctx, in)
		if err != nil {
			fmt.Fprintln(d.out)
			return "", err
		}
		if !strings.HasSuffix(line, "\n") { // Ctrl-D: the cursor is still behind the question
			fmt.Fprintln(d.out)
		}
		if strings.TrimSpace(line) == "" {
			return defaultTopic, nil
		}
		var topic topicFlag
		if err := topic.Set(line); err == nil {
			return string(topic), nil
		}
		fmt.Fprintln(d.out, "A topic is one line of plain text.")
	}
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
		return "", fmt.Errorf("no topic: %w", ctx.Err())
	case r := <-done:
		if errors.Is(r.err, io.EOF) {
			r.err = nil
		}
		return r.line, r.err
	}
}

// watch shows a run while it goes on and returns its output.
func (d *demo) watch(run func(func(treadle.Event, error) bool)) (json.RawMessage, error) {
	var v view
	if d.term.live() {
		v = newLive(d.out, d.term)
	} else {
		v = &lines{out: d.out}
	}
	defer v.close()
	var output json.RawMessage
	for ev, err := range run {
		if err != nil {
			return nil, err
		}
		if done, ok := ev.(treadle.Finished[json.RawMessage]); ok {
			output = done.Output
			continue
		}
		v.show(ev)
	}
	return output, nil
}

// report prints the jokes and the winner.
func (d *demo) report(output json.RawMessage) error {
	type joke struct {
		Subject, Text string
		Laughs        int
	}
	var result struct {
		Jokes  []joke
		Winner joke
	}
	if err := json.Unmarshal(output, &result); err != nil {
		return fmt.Errorf("output %s: %w", output, err)
	}
	d.heading("The jokes")
	for i, j := range result.Jokes {
		d.print(fmt.Sprintf("%d. %s (%s)", i+1, d.term.paint(bold, j.Subject), count(j.Laughs, "laugh")))
		d.text(j.Text)
	}
	d.heading("The winner: " + result.Winner.Subject)
	d.text(result.Winner.Text)
	return nil
}

// history prints the thread's checkpoints in short, oldest first.
func (d *demo) history(ctx context.Context, thread treadle.AnyThread) error {
	var rows []string
	for snap, err := range thread.History(ctx) {
		if err != nil {
			return err
		}
		next := "done"
		if len(snap.Next) > 0 {
			next = "next: " + tally(snap.Next)
		}
		rows = append(rows, fmt.Sprintf("step %2d  %-5s  %s", snap.Step, snap.Source, next))
	}
	d.heading(fmt.Sprintf("%s on thread %q", count(len(rows), "checkpoint"), thread.ID()))
	for i := range rows {
		d.print(rows[len(rows)-1-i])
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
func (d *demo) heading(s string) {
	if d.out.used {
		fmt.Fprintln(d.out)
	}
	fmt.Fprintf(d.out, "%s\n\n", d.term.paint(bold, s))
}

// print writes lines, indented.
func (d *demo) print(s string) {
	for line := range strings.Lines(s) {
		fmt.Fprintf(d.out, "  %s\n", strings.TrimRight(line, "\n"))
	}
}

// text writes running text in lines that fit.
func (d *demo) text(s string) {
	columns := 80
	if d.term != nil {
		columns, _ = d.term.size()
	}
	for _, line := range wrap(s, min(columns, 80)-6) {
		d.print("   " + line)
	}
}
