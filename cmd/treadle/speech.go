package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// speech shows a run of an agent: what the model says as it comes, and a line
// for each tool. On a terminal there is a line for those that are at work,
// which goes when they are done. For logs the lines of tools that ran at the
// same time come in the order of their calls, so that two runs read the same.
type speech struct {
	*streams
	message string // the one that is being shown
	open    bool   // the line has not ended
	calls   []toolRun
	drawn   bool // the line of those at work is there

	order []string   // ids of the model's calls
	done  []doneLine // held back until all are
}

// toolRun is a tool at work, and doneLine what is said of it afterwards.
type (
	toolRun  struct{ id, title string }
	doneLine struct {
		call, mark, text string
		paint            paint
	}
)

func (v *speech) show(ev treadle.Event) {
	switch ev := ev.(type) {
	case treadle.Token:
		if chunk, ok := ev.Chunk.(llm.Chunk); ok {
			v.say(chunk)
		}
	case treadle.Lifecycle:
		switch ev.Event {
		case "on_tool_start":
			v.begin(toolRun{ev.RunID, ev.Name + " " + arguments(ev.Input)})
		case "on_tool_end", "on_tool_error":
			v.end(ev)
		}
	}
}

// say prints a piece of a message.
func (v *speech) say(chunk llm.Chunk) {
	for _, call := range chunk.ToolCalls {
		v.order = append(v.order, call.ID)
	}
	if chunk.Content == "" {
		return
	}
	v.flush()
	v.erase()
	if v.message != chunk.ID {
		v.endLine()
		v.message = chunk.ID
	}
	text := printable(chunk.Content)
	fmt.Fprint(v.out, text)
	v.open = !strings.HasSuffix(text, "\n")
	v.draw()
}

// begin shows a tool that is at work.
func (v *speech) begin(t toolRun) {
	v.erase()
	v.endLine()
	v.calls = append(v.calls, t)
	v.draw()
}

// end shows what a tool has done. One that asks first is not done.
func (v *speech) end(ev treadle.Lifecycle) {
	i := slices.IndexFunc(v.calls, func(t toolRun) bool { return t.id == ev.RunID })
	if i < 0 {
		return
	}
	t := v.calls[i]
	v.erase()
	v.calls = slices.Delete(v.calls, i, i+1)
	call, _ := ev.Metadata["tool_call_id"].(string)
	switch {
	case treadle.IsSignal(ev.Err):
	case ev.Err != nil:
		v.done = append(v.done, doneLine{call, "✗", t.title + ": " + ev.Err.Error(), red})
	default:
		text, ok := ev.Output.(string)
		if !ok {
			text = arguments(ev.Output)
		}
		v.done = append(v.done, doneLine{call, "✓", t.title + ": " + strings.ReplaceAll(strings.TrimSpace(text), "\n", ", "), green})
	}
	if v.term.live() {
		v.flush()
	}
	v.draw()
}

// flush prints a line about each tool that is done.
func (v *speech) flush() {
	slices.SortStableFunc(v.done, func(a, b doneLine) int {
		return slices.Index(v.order, a.call) - slices.Index(v.order, b.call)
	})
	for _, d := range v.done {
		v.erase()
		v.endLine()
		fmt.Fprintln(v.out, "  "+v.term.paint(d.paint, d.mark)+" "+v.term.paint(faint, head(plain(d.text), v.columns()-5)))
	}
	v.done = nil
}

// draw shows which tools are at work, and erase takes that away.
func (v *speech) draw() {
	if !v.term.live() || len(v.calls) == 0 || v.open {
		return
	}
	var titles []string
	for _, t := range v.calls {
		titles = append(titles, plain(t.title))
	}
	fmt.Fprint(v.out, "  "+v.term.paint(cyan, "…")+" "+v.term.paint(faint, head(strings.Join(titles, ", "), v.columns()-5)))
	v.drawn = true
}

func (v *speech) erase() {
	if v.drawn {
		fmt.Fprint(v.out, "\r\x1b[J")
		v.drawn = false
	}
}

func (v *speech) columns() int {
	if v.term == nil {
		return 120
	}
	columns, _ := v.term.size()
	return columns
}

// endLine ends the line that a message has left open.
func (v *speech) endLine() {
	if v.open {
		fmt.Fprintln(v.out)
		v.open = false
	}
}

func (v *speech) close() {
	v.flush()
	v.erase()
	v.endLine()
}

// arguments is a value as one line of JSON.
func arguments(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(raw)
}

// printable is text in lines without anything that a terminal would obey.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if obeyed(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}
