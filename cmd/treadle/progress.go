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

// task is what is known of one task of a run.
type task struct {
	node, about  string
	step         int
	text         strings.Builder
	tokens       int
	began, ended time.Time
	done         bool
	asks         bool // done for now: it will run again with an answer
	kept         bool // done by a run before this one
	err          error
}

// title names a task: its node, and what it was sent if anything.
func (t *task) title() string {
	if t.about == "" {
		return t.node
	}
	return t.node + " (" + t.about + ")"
}

// progress follows a run by its stream of tasks and tokens.
type progress struct {
	tasks []*task
	byID  map[string]*task
}

// see takes in an event and returns the task it is about, nil if none.
func (p *progress) see(ev treadle.Event) *task {
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
		if t != nil && ev.Cached { // there is no other word of its end
			t.done, t.kept, t.ended = true, true, at.Time
		}
	case treadle.TaskFinished:
		if t != nil {
			t.done, t.asks, t.err, t.ended = true, len(ev.Pauses) > 0, ev.Err, at.Time
		}
	}
	return t
}

// subjectOf is what a task was sent, if it was sent something of its own. A
// value that was sent arrives as the Go value it is; as JSON all are alike.
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

// A view shows a run to somebody while it goes on.
type view interface {
	show(ev treadle.Event)
	// close ends the view; what it shows stays.
	close()
}

// lines is the view for logs: a line per finished task. The tasks of a step
// finish in any order and are listed in that of the step, so that two runs
// read the same.
type lines struct {
	out     io.Writer
	run     progress
	printed int
}

func (l *lines) show(ev treadle.Event) {
	if _, ok := ev.(treadle.TaskFinished); !ok {
		l.run.see(ev)
		return
	}
	t := l.run.see(ev)
	for _, o := range l.run.tasks[l.printed:] {
		if t != nil && o.step == t.step && !o.done {
			return
		}
	}
	l.flush()
}

func (l *lines) flush() {
	for _, t := range l.run.tasks[l.printed:] {
		switch {
		case !t.done:
			fmt.Fprintf(l.out, "  step %d: %s: not finished\n", t.step, t.title())
		case t.kept:
			fmt.Fprintf(l.out, "  step %d: %s: kept\n", t.step, t.title())
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

func (l *lines) close() { l.flush() }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// frame is the time between two pictures of a live view.
const frame = 80 * time.Millisecond

// live is the view for terminals: a line per task that is drawn again in place.
type live struct {
	out  io.Writer
	term *terminal
	stop chan struct{}
	wait sync.WaitGroup

	mu    sync.Mutex
	run   progress
	drawn int // lines on the screen
	turn  int // of the spinner
}

// newLive starts a live view, which is drawn until it is closed.
func newLive(out io.Writer, term *terminal) *live {
	l := &live{out: out, term: term, stop: make(chan struct{})}
	// No cursor, and no wrapping: a line that the terminal finds longer than we
	// do must not become two, because the next picture is drawn over this one.
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

// show takes in an event. Tasks that come and go are drawn at once; tokens may
// be many and wait for the next picture.
func (l *live) show(ev treadle.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run.see(ev)
	if _, token := ev.(treadle.Token); !token {
		l.draw(time.Now(), false)
	}
}

func (l *live) close() {
	close(l.stop)
	l.wait.Wait()
	l.draw(time.Now(), true)
	fmt.Fprint(l.out, "\x1b[?7h\x1b[?25h")
}

// draw puts a picture of the run over the one before, in one write so that
// nobody sees half of it. The last picture has no spinners.
func (l *live) draw(now time.Time, last bool) {
	columns, rows := l.term.size()
	tasks := l.run.tasks
	if hidden := len(tasks) - (rows - 1); hidden > 0 && !last {
		tasks = tasks[hidden:] // the cursor cannot go up to what has scrolled away
	}
	var b strings.Builder
	if l.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", l.drawn)
	}
	b.WriteString("\r\x1b[J")
	titles := 24 // so that the columns do not jump with every new task
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

func (l *live) title(t *task) string {
	if t.about == "" {
		return t.node
	}
	return t.node + "  " + t.about
}

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// line is a task on the screen: mark, title, time, and what it says. While it
// speaks its last words are shown, afterwards its first.
func (l *live) line(t *task, now time.Time, last bool, titles, columns int) string {
	mark, took := l.term.paint(cyan, string(spinner[l.turn%len(spinner)])), now.Sub(t.began)
	text := strings.TrimSpace(strings.ReplaceAll(t.text.String(), "\n", ", "))
	room := columns - len("  x ") - titles - len("  000.0s  ")
	switch {
	case t.asks:
		mark, took, text = l.term.paint(cyan, "?"), t.ended.Sub(t.began), head("waits for an answer", room)
	case t.kept:
		mark, took, text = l.term.paint(green, "✓"), 0, head("kept", room)
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
