package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// Keys that terminals send.
const (
	up, left, home, backspace = "\x1b[A", "\x1b[D", "\x01", "\x7f"
	ctrlC, ctrlD              = "\x03", "\x04"
)

// said returns the conversation on a screen, without the lines before it.
func said(shown string) string {
	_, rest, _ := strings.Cut(shown, chatHint)
	return rest
}

func TestPromptCanBeEdited(t *testing.T) {
	for _, test := range []struct{ name, keys, line string }{
		{"left and insert", "what is 1 + 2?" + strings.Repeat(left, 2) + "0", "what is 1 + 02?"},
		{"home", "is 1 + 2?" + home + "what ", "what is 1 + 2?"},
		{"backspace over wide characters", "日本語" + backspace + backspace + "x", "日x"},
		{"insert before a wide character", "日本" + left + "x", "日x本"},
		{"Ctrl-D in a line deletes a character", "ab" + home + ctrlD + "what is ", "what is b"},
		{"pasted tab is dropped", "a\tb", "ab"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := chatInTTY(t, "--db", ":memory:")
			c.columns = 80
			c.expect("> ")
			c.send(test.keys + "\r")
			c.expectTimes(2, "\r\n> ")
			c.send(ctrlD)
			code, _, shown := c.end()
			diff(t, code, 0)
			line, _, _ := strings.Cut(said(shown), disclaimer)
			diff(t, line, "\n> "+test.line+"\n")
		})
	}
}

func TestPromptKeepsHistory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.db")
	c := chatInTTY(t, "--db", file)
	c.expect("> ")
	c.send("what is 1 + 1?\r")
	c.expect("1 + 1 = 2\r\n")
	c.send("note a: x\r")
	c.expect("(and why) ")
	c.send("no\r")
	c.expect("I did not write a.md.\r\n")
	c.send(up + up + "\r") // answers to questions are not in the history
	c.expectTimes(2, "1 + 1 = 2\r\n")
	c.send(ctrlD)
	c.end()
	// A resumed conversation keeps its history.
	c = chatInTTY(t, "--db", file)
	c.expect("> ")
	c.send(up + left + backspace + "5\r")
	c.expect("1 + 5 = 6\r\n")
	c.send(ctrlD)
	code, _, _ := c.end()
	diff(t, code, 0)
}

func TestPromptReadsPastedLinesOneByOne(t *testing.T) {
	c := chatInTTY(t, "--db", ":memory:")
	c.expect("> ")
	c.send("what is 1 + 1?\rwhat is 2 + 2?\rthanks\r")
	c.expect("You are welcome.\r\n")
	c.send(ctrlD)
	code, _, shown := c.end()
	diff(t, code, 0)
	diff(t, said(shown), `
> what is 1 + 1?
`+disclaimer+`
  ✓ calculator {"expression":"1 + 1"}: 2
1 + 1 = 2

> what is 2 + 2?
  ✓ calculator {"expression":"2 + 2"}: 4
2 + 2 = 4

> thanks
You are welcome.

>
`)
}

func TestOutputWrapsBetweenWords(t *testing.T) {
	c := inTTYOf(t, 34, "", "demo", "--model", "offline", "--pace", "0s", "--db", filepath.Join(t.TempDir(), "demo.db"))
	c.expect("> ")
	c.send("note a: the quick brown fox jumps over the lazy dog\r")
	c.expect("(and why) ")
	c.send("n\r")
	c.expect("I did not write a.md.\r\n")
	c.send("help\r")
	c.expect("Ada\").\r\n")
	c.send(ctrlD)
	code, _, shown := c.end()
	diff(t, code, 0)
	shown, _, _ = strings.Cut(shown, "\nTo continue")
	// The terminal wraps typed text within words; all other text fits.
	diff(t, shown, `Model: offline rules (no language
model: set OPENAI_API_KEY,
ANTHROPIC_API_KEY, or
GEMINI_API_KEY to use one)
Type a message. Ctrl-D ends the
conversation.

> note a: the quick brown fox jump
s over the lazy dog
I am not a language model: I
follow a few rules.

Write the note a.md?

     the quick brown fox jumps
     over the lazy dog

yes, or no (and why) n
  ✗ write_note {"…: The user ref…
I did not write a.md.

> help
I am not a language model: I
follow a few rules. I can compute
("what is 12 * (3 + 4)?"), write
notes ("note shopping: milk and
eggs"), read them ("show my
notes"), remember ("remember that
I like green tea"), recall ("what
do you know about me?"), and
forget ("forget that I like green
tea"). I also remember what you
say about yourself ("my name is
Ada").

>
`)
}

// A terminal that is too narrow for the editor still accepts answers.
func TestPromptInNarrowTerminal(t *testing.T) {
	notes := t.TempDir()
	c := inTTYOf(t, 24, "", "demo", "--model", "offline", "--pace", "0s", "--db", ":memory:", "--notes", notes)
	c.expect("> ")
	c.send("note a: x\r")
	c.expect("(and why)")
	c.send("yes\r")
	c.expect("Written to a.md.\r\n")
	c.send(ctrlD)
	code, _, _ := c.end()
	diff(t, code, 0)
	diff(t, contents(t, filepath.Join(notes, "a.md")), "x\n")
}

// Whatever ends the command, the terminal mode is restored.
func TestTerminalModeIsRestored(t *testing.T) {
	for name, keys := range map[string]string{"Ctrl-D": ctrlD, "Ctrl-C": ctrlC} {
		t.Run(name, func(t *testing.T) {
			c := chatInTTY(t, "--db", ":memory:")
			before := c.mode()
			c.expect("> ")
			c.send("thanks\r")
			c.expect("You are welcome.\r\n")
			c.send(keys)
			code, _, _ := c.end()
			diff(t, code, map[string]int{"Ctrl-D": 0, "Ctrl-C": 130}[name])
			diff(t, c.mode(), before)
		})
	}
}
