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

// Pretty formats the message for people: an 80-column title line, the name if set,
// the content, and the tool calls. Control characters other than line breaks and
// tabs are removed.
func (m Message) Pretty() string { return m.pretty(false) }

// Print writes each message as formatted by [Message.Pretty]. On a terminal, the
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

// isTerminal reports whether w is a character device. These include some that are
// not terminals, such as /dev/null, where bold does no harm. An exact check would
// link another module into every agent.
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

// printable removes control characters and bidirectional formatting characters,
// which could make a text look like another one.
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

// prettyContent returns the text, with a placeholder for each block that is not
// text.
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

// prettyArgs returns a line for each argument, in the original order.
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
