package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

// shown returns the page of the guide.
func shown(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/graphs.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func TestGuideShowsDiagram(t *testing.T) {
	g := newTest(t, fake)
	if want := "```\n" + strings.TrimRight(g.Shape().Text(), "\n") + "\n```\n"; !strings.Contains(shown(t), want) {
		t.Errorf("the guide lacks the diagram\n%s", want)
	}
}

// Nodes run concurrently, so the lines of the output are compared without their order.
func TestGuideShowsOutput(t *testing.T) {
	for _, input := range []string{"reviews.txt", os.DevNull} {
		reviews, err := os.Open(input)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = reviews.Close() }()
		_, rest, _ := strings.Cut(shown(t), "go run . < "+input+"\n```\n\n```\n")
		want, _, _ := strings.Cut(rest, "```\n")
		var out bytes.Buffer
		if err := run(t.Context(), reviews, &out); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(sorted(out.String()), sorted(want)) {
			t.Errorf("%s: printed\n%s\nthe guide shows\n%s", input, out.String(), want)
		}
	}
}

func sorted(text string) []string { return slices.Sorted(strings.Lines(text)) }
