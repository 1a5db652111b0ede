package llm

import (
	"strings"
	"testing"
)

// The only part of printing that cannot be seen from outside without a terminal.
func TestTitlesAreBoldOnTerminal(t *testing.T) {
	want := strings.Repeat("=", 34) + "\x1b[1m Ai Message \x1b[0m" + strings.Repeat("=", 34) + "\n\nhi"
	if got := Assistant("hi").pretty(true); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
