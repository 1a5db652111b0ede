package runs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// collect returns what messages records, one line each.
func collect(m *messages) *[]string {
	var lines []string
	m.add = func(ns []string, _ string, data any) {
		var d struct {
			Event, Reason, Message string
			Index                  int
			Content, Delta, Usage  json.RawMessage
		}
		if err := json.Unmarshal(jsonOf(data), &d); err != nil {
			panic(err)
		}
		line := d.Event
		if strings.HasPrefix(d.Event, "content") {
			line += fmt.Sprintf(" %d %s%s", d.Index, d.Content, d.Delta)
		}
		lines = append(lines, strings.Join(append(ns, strings.TrimSpace(line+" "+d.Reason+d.Message+string(d.Usage))), "|"))
	}
	return &lines
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestBlocksFollowEachOther(t *testing.T) {
	var m messages
	lines := collect(&m)
	at := &treadle.Origin{Node: "n", TaskID: "t"}
	for _, c := range []llm.Chunk{
		{Blocks: []llm.Block{{Type: llm.BlockReasoning, Index: new(0), Reasoning: "let "}}},
		{Blocks: []llm.Block{{Type: llm.BlockReasoning, Index: new(0), Reasoning: "me"}}},
		{Blocks: []llm.Block{{Type: llm.BlockReasoning, Index: new(0), Extra: map[string]any{"signature": "s"}}}},
		{Content: "a"},
		{Content: "b"},
		{ToolCalls: []llm.ToolCallChunk{{Index: new(0), ID: "1", Name: "f", Args: "{}"}}},
		{ToolCalls: []llm.ToolCallChunk{{Index: new(1), ID: "2", Name: "g", Args: "{"}}},
		{Blocks: []llm.Block{{Type: llm.BlockImage, URL: "http://x"}}},
		{Content: "c", Usage: &llm.Usage{Input: 1}},
		{Stop: llm.StopTools, Usage: &llm.Usage{Output: 2}},
	} {
		c.ID = "m"
		m.token(at, c)
	}
	m.end("m", "")
	m.end("m", "")
	same(t, *lines,
		"message-start",
		`content-block-start 0 {"reasoning":"","type":"reasoning"}`,
		`content-block-delta 0 {"reasoning":"let ","type":"reasoning-delta"}`,
		`content-block-delta 0 {"reasoning":"me","type":"reasoning-delta"}`,
		`content-block-finish 0 {"type":"reasoning","reasoning":"let me","signature":"s"}`,
		`content-block-start 1 {"text":"","type":"text"}`,
		`content-block-delta 1 {"text":"a","type":"text-delta"}`,
		`content-block-delta 1 {"text":"b","type":"text-delta"}`,
		`content-block-finish 1 {"type":"text","text":"ab"}`,
		`content-block-start 2 {"args":"","id":"1","index":2,"name":"f","type":"tool_call_chunk"}`,
		`content-block-delta 2 {"fields":{"args":"{}","id":"1","index":2,"name":"f","type":"tool_call_chunk"},"type":"block-delta"}`,
		`content-block-finish 2 {"name":"f","args":{},"id":"1","type":"tool_call"}`,
		`content-block-start 3 {"args":"","id":"2","index":3,"name":"g","type":"tool_call_chunk"}`,
		`content-block-delta 3 {"fields":{"args":"{","id":"2","index":3,"name":"g","type":"tool_call_chunk"},"type":"block-delta"}`,
		(*lines)[14], // the call breaks off; why is said in llm's words
		`content-block-start 4 {"type":"image","url":"http://x"}`,
		`content-block-finish 4 {"type":"image","url":"http://x"}`,
		`content-block-start 5 {"text":"","type":"text"}`,
		`content-block-delta 5 {"text":"c","type":"text-delta"}`,
		`content-block-finish 5 {"type":"text","text":"c"}`,
		`message-finish tool_calls{"input_tokens":1,"output_tokens":2,"total_tokens":0}`)
	if bad := (*lines)[14]; !strings.HasPrefix(bad, `content-block-finish 3 {"name":"g","args":"{","id":"2","error":`) || !strings.HasSuffix(bad, `"type":"invalid_tool_call"}`) {
		t.Errorf("the call that breaks off is %s", bad)
	}
}

func TestInterleavedToolCallsAreWhole(t *testing.T) {
	var m messages
	lines := collect(&m)
	piece := func(i int, id, args string) {
		m.token(&treadle.Origin{}, llm.Chunk{ID: "m", ToolCalls: []llm.ToolCallChunk{{Index: &i, ID: id, Args: args}}})
	}
	piece(0, "a", `{"x":`)
	piece(1, "b", `{"y":`)
	piece(0, "", `1}`)
	piece(1, "", `2}`)
	m.end("m", "")
	last := map[string]string{}
	for _, l := range *lines {
		if what, content, ok := strings.Cut(l, " {"); ok && strings.HasPrefix(what, "content-block-finish") {
			last[what] = content
		}
	}
	if !strings.Contains(last["content-block-finish 0"], `"args":{"x":1}`) || !strings.Contains(last["content-block-finish 1"], `"args":{"y":2}`) {
		t.Errorf("calls %v", last)
	}
}

// A piece of a call repeats its arguments so far. Long ones must not cost the square
// of their length.
func TestLongArgumentsAreNotSentWithEachPiece(t *testing.T) {
	var m messages
	bytes := 0
	m.add = func(_ []string, _ string, data any) { bytes += len(jsonOf(data)) }
	piece := strings.Repeat("x", 10)
	m.token(&treadle.Origin{}, llm.Chunk{ID: "m", ToolCalls: []llm.ToolCallChunk{{Index: new(0), ID: "1", Name: "f", Args: `{"a":"`}}})
	for range 10_000 {
		m.token(&treadle.Origin{}, llm.Chunk{ID: "m", ToolCalls: []llm.ToolCallChunk{{Index: new(0), Args: piece}}})
	}
	m.end("m", "")
	if bytes > 30*100_000 {
		t.Errorf("%d bytes for arguments of 100,000", bytes)
	}
}

func TestMessagesEndWithModelTaskOrRun(t *testing.T) {
	var m messages
	lines := collect(&m)
	for _, id := range []string{"a", "b", "c"} {
		m.token(&treadle.Origin{TaskID: "task of " + id}, llm.Chunk{ID: id, Content: id})
		m.call("model of "+id, id)
	}
	*lines = nil
	m.endCall("model of a", "broken")
	m.endTask("task of b")
	m.endAll("")
	m.call("late", "a")
	m.endAll("")
	same(t, *lines, "error broken",
		`content-block-finish 0 {"type":"text","text":"b"}`, "message-finish stop",
		`content-block-finish 0 {"type":"text","text":"c"}`, "message-finish stop")
	if len(m.open)+len(m.runs) > 0 {
		t.Errorf("%d messages and %d runs are remembered", len(m.open), len(m.runs))
	}
}

func TestMessageBreaksOffAfterFirstPiece(t *testing.T) {
	var m messages
	lines := collect(&m)
	m.call("model", "a") // the event of the piece comes before the piece
	m.token(&treadle.Origin{}, llm.Chunk{ID: "a", Content: "a"})
	*lines = nil
	m.endCall("model", "broken")
	same(t, *lines, "error broken")
}

func TestUnstreamedMessages(t *testing.T) {
	var m messages
	lines := collect(&m)
	at := &treadle.Origin{Namespace: []string{"g:1"}, Node: "n"}
	m.returned(at, llm.ToolResult(llm.ToolCall{ID: "c1", Name: "f"}, "done"))
	m.returned(at, llm.User("not shown"))
	m.token(at, llm.Assistant("hi", llm.ToolCall{ID: "c2", Name: "f"}))
	tool, graph := "g:1|tools:c1|", "g:1|"
	same(t, *lines,
		tool+"message-start", tool+`content-block-start 0 {"text":"","type":"text"}`, tool+`content-block-delta 0 {"text":"done","type":"text-delta"}`,
		tool+`content-block-finish 0 {"type":"text","text":"done"}`, tool+"message-finish stop",
		graph+"message-start", graph+`content-block-start 0 {"text":"","type":"text"}`, graph+`content-block-delta 0 {"text":"hi","type":"text-delta"}`,
		graph+`content-block-finish 0 {"type":"text","text":"hi"}`,
		graph+`content-block-start 1 {"args":"","id":"c2","index":1,"name":"f","type":"tool_call_chunk"}`,
		graph+`content-block-finish 1 {"name":"f","args":{},"id":"c2","type":"tool_call"}`, graph+"message-finish stop")
}
