package main

import (
	"slices"
	"strings"
	"testing"
)

// Messages contain frequent and rare words, and memories are sentences of normal length.
func TestMemoriesHaveNaturalWordFrequencies(t *testing.T) {
	const size = 5000
	s := newSentences()
	c := &corpus{questions: s.take("question", asked), facts: s.take("fact", size)}
	c.vectors = make([][]float32, asked+size)
	m := newMemories(c, size)
	having := map[string]int{}
	for i, text := range m.texts {
		words := strings.Fields(strings.ToLower(strings.TrimRight(text, ".")))
		if n := len(words); n < 6 || n > 30 || !strings.HasSuffix(text, ".") {
			t.Fatalf("memory %d has %d words: %q", i, n, text)
		}
		slices.Sort(words)
		for _, w := range slices.Compact(words) {
			having[w]++
		}
	}
	frequent, rare := 0, 0
	for _, text := range m.messages {
		for w := range strings.FieldsSeq(strings.ToLower(strings.TrimRight(text, "?"))) {
			switch n := having[w]; {
			case n > size/10:
				frequent++
			case n < size/100:
				rare++
			}
		}
	}
	if len(having) < 5000 || frequent < 3*len(m.messages) || rare < 2*len(m.messages) {
		t.Errorf("%d different words; %d messages have %d frequent and %d rare words", len(having), len(m.messages), frequent, rare)
	}
	if again := newMemories(c, size); !slices.Equal(again.texts, m.texts) || !slices.Equal(again.messages, m.messages) {
		t.Error("memories are not deterministic")
	}
}
