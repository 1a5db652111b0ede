package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
)

// Pretty returns the message as text for people: a title line of 80 columns, the
// name if there is one, the content and the tool calls. Control characters other
// than line breaks and tabs are removed.
func (m Message) Pretty() string { return m.pretty(false) }

// Print writes each message in the form of [Message.Pretty]. On a terminal the
// titles are bold.
func Print(w io.Writer, ms ...Message) error {
	bold := isTerminal(w)
	for _, m := range ms {
		if _, err := fmt.Fprintln(w, m.pretty(bold)); err != nil {
			return err
		}
	}
	return nil
}

// isTerminal also takes other devices for terminals, such as /dev/null, to which bold does no
// harm. To tell them apart would link a module into every agent.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

const printWidth = 80

func (m Message) pretty(bold bool) string {
	var b strings.Builder
	kind := string(m.Role)
	if kind != "" {
		kind = strings.ToUpper(kind[:1]) + kind[1:]
	}
	title := printable(" " + kind + " Message ")
	sep := strings.Repeat("=", max(0, (printWidth-len(title))/2))
	b.WriteString(sep)
	if bold {
		b.WriteString("\x1b[1m" + title + "\x1b[0m")
	} else {
		b.WriteString(title)
	}
	b.WriteString(sep)
	if len(title)%2 == 1 {
		b.WriteByte('=')
	}
	head := b.String()
	b.Reset()
	if m.Name != "" {
		b.WriteString("\nName: " + m.Name)
	}
	if text := m.prettyContent(); text != "" {
		b.WriteString("\n\n" + text)
	}
	if len(m.ToolCalls) > 0 {
		b.WriteString("\nTool Calls:")
		for _, c := range m.ToolCalls {
			prettyCall(&b, c.Name, c.ID, "", prettyArgs(c.Args))
		}
	}
	if len(m.InvalidToolCalls) > 0 {
		b.WriteString("\nInvalid Tool Calls:")
		for _, c := range m.InvalidToolCalls {
			prettyCall(&b, c.Name, c.ID, c.Error, []string{c.Args})
		}
	}
	return head + printable(b.String())
}

// printable leaves out control characters and those that turn the order of a line
// around, with which a text could look like another one.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, s)
}

func prettyCall(b *strings.Builder, name, id, problem string, args []string) {
	fmt.Fprintf(b, "\n  %s (%s)\n Call ID: %s", name, id, id)
	if problem != "" {
		b.WriteString("\n  Error: " + problem)
	}
	b.WriteString("\n  Args:")
	for _, line := range args {
		b.WriteString("\n    " + line)
	}
}

// prettyContent is the text, and a word for each block that is none.
func (m Message) prettyContent() string {
	lines := []string{}
	for _, p := range m.Parts() {
		switch {
		case p.Type == BlockText || p.Type == BlockPlain:
			lines = append(lines, p.Text)
		case p.Type == BlockReasoning:
			lines = append(lines, "[reasoning] "+p.Reasoning)
		case len(p.Data) > 0:
			lines = append(lines, fmt.Sprintf("[%s %s, %d bytes]", p.Type, p.MIMEType, len(p.Data)))
		case p.URL != "":
			lines = append(lines, fmt.Sprintf("[%s %s]", p.Type, p.URL))
		default:
			lines = append(lines, "["+p.Type+"]")
		}
	}
	return strings.Join(lines, "\n")
}

// prettyArgs is a line for each argument, in the order in which they came.
func prettyArgs(raw json.RawMessage) []string {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var lines []string
	for d.More() {
		var v json.RawMessage
		name, err := d.Token()
		if err != nil || d.Decode(&v) != nil {
			break
		}
		word := string(v)
		if json.Unmarshal(v, &word) != nil {
			word = string(v)
		}
		lines = append(lines, fmt.Sprintf("%v: %s", name, word))
	}
	return lines
}
