package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/treadle-go/treadle"
)

// task is a task of a run as shown by the views.
type task struct {
	node, about  string
	step         int
	text         strings.Builder
	tokens       int
	began, ended time.Time
	done         bool
	asks         bool // done for now: it runs again with the answer
	saved        bool // done by an earlier run
	err          error
}

// title returns the task's node and the subject it was sent.
func (t *task) title() string {
	if t.about == "" {
		return t.node
	}
	return t.node + " (" + t.about + ")"
}

// progress tracks a run by its task and token events.
type progress struct {
	tasks []*task
	byID  map[string]*task
}

// add adds an event and returns its task, or nil.
func (p *progress) add(ev treadle.Event) *task {
	at := ev.Where()
	t := p.byID[at.TaskID]
	switch ev := ev.(type) {
	case treadle.TaskStarted:
		t = &task{node: at.Node, about: subjectOf(ev.Input), step: at.Step, began: at.Time}
		if p.byID == nil {
			p.byID = map[string]*task{}
		}
		p.tasks = append(p.tasks, t)
		p.byID[at.TaskID] = t
	case treadle.Token:
		if t != nil {
			fmt.Fprint(&t.text, ev.Chunk)
			t.tokens++
		}
	case treadle.Updated:
		if t != nil && ev.Cached { // cached tasks have no TaskFinished event
			t.done, t.saved, t.ended = true, true, at.Time
		}
	case treadle.TaskFinished:
		if t != nil {
			t.done = true
			t.asks = len(ev.Pauses) > 0
			t.err = ev.Err
			t.ended = at.Time
		}
	}
	return t
}

// subjectOf returns the subject that a task was sent, or "". It reads the value through JSON,
// because its Go type belongs to the graph.
func subjectOf(input any) string {
	if _, state := input.(treadle.Record); state {
		return ""
	}
	raw, err := json.Marshal(input)
	if err != nil {
		return ""
	}
	var sent struct{ Subject string }
	if json.Unmarshal(raw, &sent) != nil {
		return ""
	}
	return sent.Subject
}

// view shows a run while it is running.
type view interface {
	show(ev treadle.Event)
	// close ends the view and leaves its last frame on the screen.
	close()
}

// logView prints a line for each finished task. The tasks of a step may finish in any order but
// are printed in the order of the step, so that the logs of two runs are equal.
type logView struct {
	out     io.Writer
	run     progress
	printed int
}

func (l *logView) show(ev treadle.Event) {
	if _, ok := ev.(treadle.TaskFinished); !ok {
		l.run.add(ev)
		return
	}
	t := l.run.add(ev)
	for _, o := range l.run.tasks[l.printed:] {
		if t != nil && o.step == t.step && !o.done {
			return
		}
	}
	l.flush()
}

func (l *logView) flush() {
	for _, t := range l.run.tasks[l.printed:] {
		switch {
		case !t.done:
			fmt.Fprintf(l.out, "  step %d: %s: not finished\n", t.step, t.title())
		case t.saved:
			fmt.Fprintf(l.out, "  step %d: %s: saved earlier\n", t.step, t.title())
		case t.asks:
			fmt.Fprintf(l.out, "  step %d: %s: waits for an answer\n", t.step, t.title())
		case t.err != nil:
			fmt.Fprintf(l.out, "  step %d: %s: failed after %s\n", t.step, t.title(), seconds(t.ended.Sub(t.began)))
		case t.tokens == 0:
			fmt.Fprintf(l.out, "  step %d: %s: done in %s\n", t.step, t.title(), seconds(t.ended.Sub(t.began)))
		default:
			fmt.Fprintf(l.out, "  step %d: %s: %d tokens in %s\n", t.step, t.title(), t.tokens, seconds(t.ended.Sub(t.began)))
		}
	}
	l.printed = len(l.run.tasks)
}

func (l *logView) close() { l.flush() }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// frame is the time between two frames of a live view.
const frame = 80 * time.Millisecond

// liveView shows a line for each task, and redraws the lines in place.
type liveView struct {
	out  io.Writer
	term *terminal
	stop chan struct{}
	wait sync.WaitGroup

	mu    sync.Mutex
	run   progress
	drawn int // lines on the screen
	turn  int // position of the spinner
}

// newLiveView starts a view that is redrawn until it is closed.
func newLiveView(out io.Writer, term *terminal) *liveView {
	l := &liveView{out: out, term: term, stop: make(chan struct{})}
	// Hide the cursor and disable wrapping: if a line is longer than expected, it must not
	// become two, because the next frame is drawn over this one.
	fmt.Fprint(out, "\x1b[?25l\x1b[?7l")
	l.wait.Go(func() {
		ticks := time.NewTicker(frame)
		defer ticks.Stop()
		for {
			select {
			case <-l.stop:
				return
			case <-ticks.C:
				l.mu.Lock()
				l.turn++
				l.draw(time.Now(), false)
				l.mu.Unlock()
			}
		}
	})
	return l
}

// show adds an event. Changes of tasks are drawn immediately; tokens, which may be many, are
// drawn with the next frame.
func (l *liveView) show(ev treadle.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run.add(ev)
	if _, token := ev.(treadle.Token); !token {
		l.draw(time.Now(), false)
	}
}

func (l *liveView) close() {
	close(l.stop)
	l.wait.Wait()
	l.draw(time.Now(), true)
	fmt.Fprint(l.out, "\x1b[?7h\x1b[?25h")
}

// draw replaces the frame on the screen, in one write to avoid flicker. The last frame has no
// spinners.
func (l *liveView) draw(now time.Time, last bool) {
	columns, rows := l.term.size()
	tasks := l.run.tasks
	if hidden := len(tasks) - (rows - 1); hidden > 0 && !last {
		tasks = tasks[hidden:] // the cursor cannot reach lines that have scrolled off the screen
	}
	var b strings.Builder
	if l.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", l.drawn)
	}
	b.WriteString("\r\x1b[J")
	titles := 24 // keeps columns from moving with every new task
	for _, t := range l.run.tasks {
		titles = max(titles, width(l.title(t)))
	}
	titles = min(titles, columns/2)
	for _, t := range tasks {
		b.WriteString(l.line(t, now, last, titles, columns) + "\n")
	}
	l.drawn = len(tasks)
	fmt.Fprint(l.out, b.String())
}

func (l *liveView) title(t *task) string {
	if t.about == "" {
		return t.node
	}
	return t.node + "  " + t.about
}

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// line returns a task's line: mark, title, time, and text. It shows the end of the text while
// the task is running, and the start afterwards.
func (l *liveView) line(t *task, now time.Time, last bool, titles, columns int) string {
	mark, took := l.term.paint(cyan, string(spinner[l.turn%len(spinner)])), now.Sub(t.began)
	text := strings.TrimSpace(strings.ReplaceAll(t.text.String(), "\n", ", "))
	room := columns - len("  x ") - titles - len("  000.0s  ")
	switch {
	case t.asks:
		mark, took, text = l.term.paint(cyan, "?"), t.ended.Sub(t.began), head("waits for an answer", room)
	case t.saved:
		mark, took, text = l.term.paint(green, "✓"), 0, head("saved earlier", room)
	case t.done && t.err == nil:
		mark, took = l.term.paint(green, "✓"), t.ended.Sub(t.began)
		text = head(text, room)
	case t.done || last:
		mark = l.term.paint(red, "✗")
		if t.done {
			took = t.ended.Sub(t.began)
		}
		text = head(text, room)
	default:
		text = tail(text, room)
	}
	name, about := head(l.title(t), titles), ""
	if t.about != "" && strings.HasPrefix(name, t.node) {
		name, about = t.node, name[len(t.node):]
	}
	out := "  " + mark + " " + l.term.paint(bold, name) + about
	out += strings.Repeat(" ", max(0, titles-width(name)-width(about)))
	return out + fmt.Sprintf("  %6s  ", seconds(max(0, took))) + l.term.paint(faint, text)
}
