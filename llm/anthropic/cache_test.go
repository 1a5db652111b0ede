package anthropic_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
)

// marked returns the paths of the cache marks in a request body, with their times.
func marked(v any, path ...string) []string {
	var out []string
	switch v := v.(type) {
	case object:
		if mark, ok := v["cache_control"].(object); ok {
			out = append(out, strings.TrimSpace(fmt.Sprint(strings.Join(path, "."), " ", mark["ttl"])))
		}
		for name, field := range v {
			out = append(out, marked(field, append(slices.Clip(path), name)...)...)
		}
	case []any:
		for i, element := range v {
			out = append(out, marked(element, append(slices.Clip(path), fmt.Sprint(i))...)...)
		}
	}
	slices.Sort(out)
	return out
}

func TestCachePromptMarksPrefix(t *testing.T) {
	call := llm.ToolCall{ID: "c", Name: "get_weather", Args: []byte(`{"city":"Oslo"}`)}
	history := []llm.Message{llm.System("Be kind."), llm.User("Weather?"), llm.Assistant("", call), llm.ToolResult(call, "rain")}
	manual := llm.Block{Type: llm.BlockText, Text: "Long document.", Extra: object{"cache_control": ephemeral}}
	for name, c := range map[string]struct {
		ttl     time.Duration
		history []llm.Message
		tools   []*llm.Tool
		want    []string
	}{
		"all places": {0, history, []*llm.Tool{weather(nil)}, []string{"messages.1.content.0 <nil>", "messages.2.content.0 <nil>", "system.0 <nil>", "tools.0 <nil>"}},
		"an hour":    {time.Hour, history[:2], nil, []string{"messages.0.content.0 1h", "system.0 1h"}},
		"own marks": {0, append([]llm.Message{llm.System("Be kind."), llm.User("", manual, manual), llm.Assistant("Yes.")}, llm.User("And?")), []*llm.Tool{weather(nil)},
			[]string{"messages.0.content.0 <nil>", "messages.0.content.1 <nil>", "messages.2.content.0 <nil>", "system.0 <nil>"}},
		"marked tool": {0, history[1:2], []*llm.Tool{weather(object{"cache_control": ephemeral})}, []string{"messages.0.content.0 <nil>", "tools.0 <nil>"}},
	} {
		s := serve(t, ok())
		generate(t, llm.With(open(t, s.URL), llm.NoStream(), llm.Tools(c.tools...), llm.CachePrompt(c.ttl)), c.history...)
		if d := cmp.Diff(c.want, marked(plain(t, s.body(0)))); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// What one request marks is a prefix of the next one, which otherwise could not use it.
func TestCachedPrefixDoesNotChange(t *testing.T) {
	s := serve(t, ok(), ok())
	model := llm.With(open(t, s.URL), llm.NoStream(), llm.CachePrompt(0))
	history := []llm.Message{llm.System("Be kind."), llm.User("One?")}
	generate(t, model, history...)
	generate(t, model, append(history, llm.Assistant("One."), llm.User("Two?"))...)
	first, second := plain(t, s.body(0)).(object), plain(t, s.body(1)).(object)
	text := func(body object, i int) any {
		return body["messages"].([]any)[i].(object)["content"].([]any)[0].(object)["text"]
	}
	if d := cmp.Diff(first["system"], second["system"]); d != "" || text(first, 0) != text(second, 0) {
		t.Errorf("the prefix changed: %s", d)
	}
}
