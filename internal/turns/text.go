package turns

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// Whole moves a cut back until no result after it belongs to a call before it.
func Whole(ms llm.Messages, cut int) int {
	last := 0
	for _, end := range Ends(ms) {
		if end <= cut {
			last = end
		}
	}
	return last
}

// Transcript returns a conversation as text.
func Transcript(ms llm.Messages) string {
	var b strings.Builder
	for _, m := range ms {
		fmt.Fprintf(&b, "%s: %s", cmp.Or(m.Name, string(m.Role)), m.Text())
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, " [calls %s %s]", c.Name, c.Args)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
