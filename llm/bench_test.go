package llm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

func longChat(n int) llm.Messages {
	ms := make(llm.Messages, n)
	for i := range ms {
		if i%2 == 0 {
			ms[i] = human(fmt.Sprint("m", i), strings.Repeat("What about the owls? ", 5))
		} else {
			ms[i] = llm.Message{Role: llm.RoleAI, ID: fmt.Sprint("m", i), Content: strings.Repeat("They fly at night. ", 10)}
		}
	}
	return ms
}

// A turn is added to a conversation of 10,000 messages.
func BenchmarkMessageReduce10k(b *testing.B) {
	b.Run("append", func(b *testing.B) {
		r := llm.Messages(nil).Reducer()
		val, acc, err := r.Reduce(nil, nil, longChat(10_000), true)
		if err != nil {
			b.Fatal(err)
		}
		start, startAcc := val, acc
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			if n++; n%10_000 == 0 {
				val, acc = start, startAcc // not ever longer
			}
			if val, acc, err = r.Reduce(val, acc, llm.Messages{llm.User("And larks?"), llm.Assistant("By day.")}, true); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("from nothing", func(b *testing.B) { // LangGraph's add_messages, one message after the other
		r := llm.Messages(nil).Reducer()
		chat := longChat(10_000)
		b.ReportAllocs()
		for b.Loop() {
			var val, acc any
			var err error
			for i := range chat {
				if val, acc, err = r.Reduce(val, acc, chat[i:i+1:i+1], true); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("replace", func(b *testing.B) {
		chat := longChat(10_000)
		update := llm.Messages{human("m5000", "Corrected.")}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := chat.Reduce(update); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A conversation of 10,000 messages is cut to what fits.
func BenchmarkTrim10k(b *testing.B) {
	chat := longChat(10_000)
	for _, max := range []int{4_000, 1_000_000} {
		b.Run(fmt.Sprint(max), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := llm.Trim(b.Context(), chat, &llm.TrimOptions{MaxTokens: max, StartOn: []llm.Role{llm.RoleHuman}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("counted", func(b *testing.B) {
		b.ReportAllocs()
		guess := func(_ context.Context, ms []llm.Message) (int, error) { return llm.CountTokens(ms, nil), nil }
		for b.Loop() {
			if _, err := llm.Trim(b.Context(), chat, &llm.TrimOptions{MaxTokens: 4_000, Count: guess}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRepair10k(b *testing.B) {
	chat := longChat(10_000)
	b.ReportAllocs()
	for b.Loop() {
		llm.Repair(chat)
	}
}

func BenchmarkMessageJSON(b *testing.B) {
	m := llm.Assistant("Let me see.", llm.ToolCall{ID: "call_1", Name: "get_weather", Args: json.RawMessage(`{"city":"Boston"}`)})
	m.ID, m.Usage, m.Stop = "m1", &llm.Usage{Input: 10, Output: 5, Total: 15}, llm.StopTools
	raw, err := json.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("read 1000 plain", func(b *testing.B) { // what opening a thread costs
		raw, err := json.Marshal(longChat(1000))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			var ms llm.Messages
			if err := json.Unmarshal(raw, &ms); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(m); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		var m llm.Message
		for b.Loop() {
			if err := json.Unmarshal(raw, &m); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// An answer of 2,000 tokens is collected.
func BenchmarkGenerate2k(b *testing.B) {
	model := modelFunc(func(_ context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
		for range 2000 {
			if !yield(llm.Chunk{Content: "token "}, nil) {
				return
			}
		}
	})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := llm.Generate(b.Context(), model, llm.User("hi")); err != nil {
			b.Fatal(err)
		}
	}
}
