package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// transcript shows a run of an agent: the model's text as it arrives, and a line for each tool
// call. In a terminal, another line shows the running calls. In logs, the lines of concurrent
// calls are in the order of the calls, so that the logs of two runs are equal.
type transcript struct {
	*streams
	text    wordWriter
	message string // ID of the message being shown
	running []toolRun
	drawn   bool // the line with the running calls is on the screen

	order []string       // IDs of the model's tool calls
	done  []finishedCall // not shown yet
}

type (
	toolRun      struct{ id, title string }
	finishedCall struct {
		call, mark, title, result string
		paint                     paint
	}
)

func newTranscript(s *streams) *transcript {
	return &transcript{streams: s, text: wordWriter{out: s.out, columns: func() int { return s.term.columns(0) }}}
}

func (t *transcript) show(ev treadle.Event) {
	switch ev := ev.(type) {
	case treadle.Token:
		if chunk, ok := ev.Chunk.(llm.Chunk); ok {
			t.say(chunk)
		}
	case treadle.Lifecycle:
		switch ev.Event {
		case "on_tool_start":
			t.begin(toolRun{ev.RunID, ev.Name + " " + compactJSON(ev.Input)})
		case "on_tool_end", "on_tool_error":
			t.end(ev)
		}
	}
}

// say prints a chunk of a message.
func (t *transcript) say(chunk llm.Chunk) {
	for _, call := range chunk.ToolCalls {
		t.order = append(t.order, call.ID)
	}
	text := chunk.Text()
	if text == "" {
		return
	}
	t.flush()
	t.erase()
	if t.message != chunk.ID {
		t.text.endLine()
		t.message = chunk.ID
	}
	t.text.print(printable(text))
	t.draw()
}

// begin shows a running call.
func (t *transcript) begin(r toolRun) {
	t.erase()
	t.text.endLine()
	t.running = append(t.running, r)
	t.draw()
}

// end shows a finished call. An interrupted call has not finished.
func (t *transcript) end(ev treadle.Lifecycle) {
	i := slices.IndexFunc(t.running, func(r toolRun) bool { return r.id == ev.RunID })
	if i < 0 {
		return
	}
	r := t.running[i]
	t.erase()
	t.running = slices.Delete(t.running, i, i+1)
	if !treadle.IsPause(ev.Err) {
		call, _ := ev.Metadata["tool_call_id"].(string)
		text, ok := toolResult(ev)
		f := finishedCall{call, "✓", plain(r.title), plain(oneLine(text)), green}
		if !ok {
			f.mark, f.paint = "✗", red
		}
		t.done = append(t.done, f)
	}
	if t.term.live() {
		t.flush()
	}
	t.draw()
}

// toolResult returns a short form of a call's result, and reports whether the tool did what the
// call requested.
func toolResult(ev treadle.Lifecycle) (text string, ok bool) {
	if ev.Err != nil {
		return ev.Err.Error(), false
	}
	m := llm.ToolResult(llm.ToolCall{}, ev.Output)
	text = m.Text()
	var list []json.RawMessage
	if json.Unmarshal([]byte(text), &list) == nil {
		text = count(len(list), "result")
	}
	return text, m.Status != llm.StatusError
}

// flush prints a line for each finished call.
func (t *transcript) flush() {
	slices.SortStableFunc(t.done, func(a, b finishedCall) int {
		return slices.Index(t.order, a.call) - slices.Index(t.order, b.call)
	})
	for _, f := range t.done {
		t.erase()
		t.text.endLine()
		fmt.Fprintln(t.out, "  "+t.term.paint(f.paint, f.mark)+" "+t.term.paint(faint, f.line(t.term.columns(120)-5)))
	}
	t.done = nil
}

// line returns the title and result in n columns, at least half of them for the result.
func (f *finishedCall) line(n int) string {
	title := head(f.title, max(n-2-width(f.result), n/2))
	return head(title+": "+f.result, n)
}

// draw shows the running calls; erase removes that line.
func (t *transcript) draw() {
	if !t.term.live() || len(t.running) == 0 || t.text.open() {
		return
	}
	var titles []string
	for _, r := range t.running {
		titles = append(titles, plain(r.title))
	}
	fmt.Fprint(t.out, "  "+t.term.paint(cyan, "…")+" "+t.term.paint(faint, head(strings.Join(titles, ", "), t.term.columns(120)-5)))
	t.drawn = true
}

func (t *transcript) erase() {
	if t.drawn {
		fmt.Fprint(t.out, "\r\x1b[J")
		t.drawn = false
	}
}

func (t *transcript) close() {
	t.flush()
	t.erase()
	t.text.endLine()
}

// compactJSON encodes a value as one line of JSON.
func compactJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(raw)
}
