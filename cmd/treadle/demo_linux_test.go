package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/cmd/treadle/internal/demo"
)

// chatInTTY starts the demo in a terminal, with the offline model.
func chatInTTY(t *testing.T, args ...string) *tty {
	t.Helper()
	for _, m := range demo.DefaultModels {
		t.Setenv(m.Key, "")
	}
	return inTTY(t, "", append([]string{"demo", "--pace", "0s"}, args...)...)
}

const noteQuestion = `
Write the note a.md?

     x

yes, or no (and why)`

const chatHint = "Type a message. Ctrl-D ends the conversation.\n"

// after returns the text on the screen after the lines that name the model.
func after(shown string) string {
	_, rest, _ := strings.Cut(shown, "to use one)\n")
	return rest
}

// However the process ended, the next one asks the same question and continues there.
func TestChatRepeatsQuestionAfterRestart(t *testing.T) {
	for _, test := range []struct {
		name string
		stop func(*tty)
		code int
		said string // after the question
	}{
		{"kill -9", func(c *tty) {
			if err := c.cmd.Process.Kill(); err != nil {
				c.t.Fatal(err)
			}
		}, -1, "\n"},
		{"Ctrl-C", func(c *tty) { c.send("\x03") }, 130, " ^C\ntreadle: interrupted\nTo continue: treadle demo --db FILE --thread chat\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "demo.db")
			c := chatInTTY(t, "--db", file)
			c.expect("> ")
			c.send("note a: x\n")
			c.expect("(and why) ")
			test.stop(c)
			code, _, shown := c.end()
			diff(t, code, test.code)
			diff(t, strings.ReplaceAll(after(shown), file, "FILE"), chatHint+"\n> note a: x\n"+disclaimer+"\n"+noteQuestion+test.said)

			c = chatInTTY(t, "--db", file)
			c.expect("(and why) ")
			c.send("yes\n")
			c.expect("> ")
			c.send("\x04")
			code, _, shown = c.end()
			diff(t, code, 0)
			diff(t, after(shown), "Continuing thread \"chat\", 2 messages so far.\n"+chatHint+noteQuestion+` yes
  ✓ write_note {"file":"a.md","text":"x"}: Written to a.md.
Written to a.md.

>
`+goodbye(file))
			diff(t, contents(t, filepath.Join(filepath.Dir(file), "notes", "a.md")), "x\n")
		})
	}
}

// Memories of a conversation whose process was killed are extracted by the next process,
// on any thread.
func TestChatKeepsMemoriesAfterKill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.db")
	c := chatInTTY(t, "--db", file)
	c.expect("> ")
	c.send("my name is Ada\n")
	c.expect("Good to know.\r\n")
	c.expect("> ")
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.end()
	talked(t, "thanks\n", "--db", file, "--thread", "two")
	if got := talked(t, "what is my name?\n", "--db", file, "--thread", "three"); !strings.Contains(got.Stdout, "You told me: my name is Ada.\n") {
		t.Errorf("got %+v", got)
	}
}

// The next process finishes a turn that the end of the process interrupted.
func TestChatFinishesCutOffTurn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.db")
	c := chatInTTY(t, "--db", file, "--pace", "1h")
	c.expect("> ")
	c.send("thanks\n")
	c.expect("\nI") // its first word
	c.send("\x03")
	code, _, shown := c.end()
	diff(t, code, 130)
	diff(t, strings.ReplaceAll(after(shown), file, "FILE"), chatHint+"\n> thanks\nI\ntreadle: interrupted\nTo continue: treadle demo --db FILE --thread chat\n")
	c = chatInTTY(t, "--db", file)
	c.expect("> ")
	c.send("\x04")
	_, _, shown = c.end()
	diff(t, after(shown), "Continuing thread \"chat\", 1 message so far.\n"+chatHint+disclaimer+"\nYou are welcome.\n\n>\n"+goodbye(file))
}

func TestChatUsesColorOnlyIfSupported(t *testing.T) {
	for _, test := range []struct {
		env   string
		color bool
	}{{"TERM=xterm-256color", true}, {"NO_COLOR=1", false}, {"TERM=dumb", false}} {
		t.Run(test.env, func(t *testing.T) {
			c := inTTY(t, test.env, "demo", "--model", "offline", "--pace", "0s", "--db", ":memory:")
			c.expect("> ")
			c.send("what is 2 + 2?\n")
			c.expect("2 + 2 = 4\r\n")
			c.send("\x04")
			code, raw, shown := c.end()
			diff(t, code, 0)
			diff(t, colors.MatchString(raw), test.color)
			diff(t, after(shown), nothingSaved+chatHint+"\n> what is 2 + 2?\n"+disclaimer+"\n"+`  ✓ calculator {"expression":"2 + 2"}: 4
2 + 2 = 4

>
`)
			// A line shows the running tool, if the terminal can erase it again.
			diff(t, strings.Contains(colors.ReplaceAllString(raw, ""), `  … calculator {"expression":"2 + 2"}`+"\r\x1b[J"), test.env != "TERM=dumb")
		})
	}
}
