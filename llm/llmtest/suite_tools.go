package llmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

// testProviderTools checks that a tool that the provider runs is described next to a
// function, that its output and the citations arrive, the same from a stream and a
// whole response, and that its output is sent back unchanged and in its place.
func testProviderTools(t *testing.T, r *rig) {
	tool := r.p.Tool
	if len(tool.Fields) == 0 || len(tool.Items) == 0 || len(tool.Citation) == 0 {
		t.Fatal("Provider.Tool is not set: set it, or give the reason in Lacks under ProviderTools")
	}
	reply := Reply{
		Reasoning: []string{"Search", " first."},
		Signature: "c2VhcmNo",
		Items:     tool.Items,
		Text:      []string{"It", " rains."},
		Citation:  tool.Citation,
		Stop:      llm.StopEnd,
		Usage:     usage,
	}
	question := llm.User("Weather?")
	tools := llm.With(r.model, llm.Tools(weather(), llm.ProviderTool(tool.Fields)), llm.Reasoning("low"))
	var whole llm.Message
	for _, streamed := range []bool{false, true} {
		model, name := tools, "streamed"
		if !streamed {
			model, name = llm.With(tools, llm.NoStream()), "whole"
		}
		r.will(r.reply(reply))
		m := must(t)(llm.Generate(t.Context(), model, question))
		wantTools(t, r.last().Tools, tool.Fields)
		if m.Text() != "It rains." || m.Reasoning() != "Search first." || m.Stop != llm.StopEnd || len(m.ToolCalls)+len(m.InvalidToolCalls) > 0 {
			t.Errorf("the %s answer is %+v, want the reasoning, the text, and no calls", name, m)
		}
		if n := len(items(m)); n != len(tool.Items) {
			t.Errorf("the %s answer has %d blocks for %d items: %+v", name, n, len(tool.Items), m.Blocks)
		}
		if !holds(jsonOf(t, m), jsonOf(t, tool.Citation)) {
			t.Errorf("the %s answer lacks the citation: %+v", name, m)
		}
		m = reload(t, m)
		if !streamed {
			whole = m
		}
		diff(t, "the streamed answer, compared to the whole", content(t, whole), content(t, m))

		r.will(r.reply(Reply{Text: []string{"ok"}, Stop: llm.StopEnd, Usage: usage}))
		must(t)(llm.Generate(t.Context(), model, question, m, llm.User("Thanks")))
		back := r.last().Messages
		if len(back) != 3 {
			t.Fatalf("the provider got %+v, want three messages", back)
		}
		var sent []map[string]any
		for _, b := range items(back[1]) {
			sent = append(sent, b.Extra)
		}
		diff(t, fmt.Sprintf("the items of the %s answer sent back", name), jsonOf(t, tool.Items), jsonOf(t, sent))
		order := trace(back[1])
		if i, k := slices.Index(order, "think Search first."), slices.Index(order, "say It rains."); i != 0 || k != len(order)-1 || k != len(tool.Items)+1 {
			t.Errorf("the %s answer was sent back as %q, want its reasoning, items, and text", name, order)
		}
		if signed := []byte(reply.Signature); bytes.Contains(r.p.Whole(reply), signed) && bytes.Count(r.lastBody(), signed) != 1 {
			t.Errorf("the %s answer was sent back without its signature, or with several:\n%s", name, r.lastBody())
		}
	}
}

// wantTools checks that a request offers the function get_weather and a tool of the
// provider.
func wantTools(t *testing.T, got []ReceivedTool, fields map[string]any) {
	t.Helper()
	own := slices.IndexFunc(got, func(tool ReceivedTool) bool { return tool.Fields != nil })
	if len(got) != 2 || own < 0 || got[1-own].Name != "get_weather" || got[1-own].Fields != nil {
		t.Fatalf("the request offers %+v, want get_weather and the provider's tool", got)
	}
	diff(t, "the description of the provider's tool", jsonOf(t, fields), jsonOf(t, got[own].Fields))
}

// items returns the blocks that are neither text nor reasoning.
func items(m llm.Message) []llm.Block {
	return slices.DeleteFunc(slices.Clone(m.Blocks), func(b llm.Block) bool {
		return slices.Contains([]string{llm.BlockText, llm.BlockReasoning}, b.Type)
	})
}

// content returns the content of a message and its usage as plain JSON, without the
// indexes of blocks, which only streams have.
func content(t *testing.T, m llm.Message) any {
	t.Helper()
	out := llm.Message{Role: m.Role, Content: m.Content, Blocks: slices.Clone(m.Blocks), Usage: m.Usage, Stop: m.Stop}
	for i := range out.Blocks {
		out.Blocks[i].Index = nil
	}
	return jsonOf(t, out)
}

// jsonOf returns a value as plain JSON.
func jsonOf(t *testing.T, v any) (out any) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// holds reports whether a JSON value contains another.
func holds(v, part any) bool {
	if reflect.DeepEqual(v, part) {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, field := range v {
			if holds(field, part) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(element any) bool { return holds(element, part) })
	}
	return false
}
