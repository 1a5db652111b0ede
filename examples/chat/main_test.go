package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// A second process continues the conversation of the first.
func TestChatContinues(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	file := filepath.Join(t.TempDir(), "chat.db")
	for _, test := range []struct{ in, want string }{
		{"hello\nhow are you?\n", "> Message 1 was: hello\n\n> Message 2 was: how are you?\n\n> \n"},
		{"still there?", "> Message 3 was: still there?\n\n> \n"},
	} {
		var out bytes.Buffer
		if err := chat(t.Context(), file, strings.NewReader(test.in), &out); err != nil {
			t.Fatal(err)
		}
		if out.String() != test.want {
			t.Errorf("got %q, want %q", out.String(), test.want)
		}
	}
}
