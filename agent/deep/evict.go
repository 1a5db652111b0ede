package deep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/llm"
)

const (
	previewLines = 5
	previewWidth = 1000
)

// shorten writes a result that is too large to a file. If that fails, the result stays as
// it is.
func (f *fileSystem) shorten(ctx context.Context, call llm.ToolCall, out any) any {
	if c, ok := treadle.CommandOf(out); ok {
		return f.shortenCommand(ctx, call, c, out)
	}
	m := llm.ToolResult(call, out)
	if short, ok := f.shortenMessage(ctx, call, m); ok {
		return short
	}
	return out
}

// shortenCommand shortens the messages in the update of a command.
func (f *fileSystem) shortenCommand(ctx context.Context, call llm.ToolCall, c treadle.Command[any], out any) any {
	if c.Update == nil || c.Parent {
		return out
	}
	update, err := treadle.UpdateOf(*c.Update)
	if err != nil {
		return out // reported by the agent
	}
	changed := treadle.Update{}
	for name, v := range update {
		changed[name] = v
		ms, ok := v.(llm.Messages)
		if !ok {
			continue
		}
		next := make(llm.Messages, len(ms))
		for i, m := range ms {
			next[i] = m
			if m.Role == llm.RoleTool && m.ToolCallID == call.ID {
				if short, ok := f.shortenMessage(ctx, call, m); ok {
					next[i] = short
				}
			}
		}
		changed[name] = next
	}
	return treadle.Command[treadle.Update]{Update: &changed, Goto: c.Goto}
}

// shortenMessage returns a message with a part of its text and the path of the file that
// has all of it, and with the paths of its large media.
func (f *fileSystem) shortenMessage(ctx context.Context, call llm.ToolCall, m llm.Message) (llm.Message, bool) {
	m, short := f.shortenText(ctx, call, m)
	m, moved := f.moveMedia(ctx, call, m)
	return m, short || moved
}

// shortenText is like shortenMessage, but leaves media unchanged.
func (f *fileSystem) shortenText(ctx context.Context, call llm.ToolCall, m llm.Message) (llm.Message, bool) {
	text, _ := textOf(m)
	if call.Name == toolRead || len(text) <= f.ResultLimit {
		return m, false
	}
	p := dirResults + "/" + fileName(call.ID)
	if err := f.Backend.Write(ctx, p, []byte(text), files.Any); err != nil {
		treadle.LoggerFrom(ctx).WarnContext(ctx, "large tool result not written to a file", "tool", call.Name, "call", call.ID, "error", err)
		return m, false
	}
	notice := fmt.Sprintf("The result is too large (%d characters). It was written to %s: use %s with offset and limit, or %s.\n\n%s",
		len(text), p, toolRead, toolGrep, preview(text))
	return withText(m, notice), true
}

// withText returns a message with another text. Its media stay.
func withText(m llm.Message, text string) llm.Message {
	out := m
	out.Content, out.Blocks = text, nil
	for _, b := range m.Parts() {
		if b.Type != llm.BlockText && b.Type != llm.BlockPlain {
			out.Blocks = append(out.Blocks, b)
		}
	}
	return out
}

// isLarge reports whether a message of the user has more than limit characters.
func isLarge(m *llm.Message, limit int) bool {
	if m.Role != llm.RoleHuman || m.ID == "" || limit <= 0 {
		return false
	}
	n := len(m.Content)
	for i := range m.Blocks {
		n += len(m.Blocks[i].Text)
	}
	if n <= limit {
		return false
	}
	text, _ := textOf(*m)
	return len(text) > limit
}

func messagePath(m llm.Message) string { return dirHistory + "/message_" + fileName(m.ID) + ".md" }

// abridged returns messages as the model sees them: of a large message of the user, it sees the
// first and last lines and the path of a file. The thread keeps the message.
func abridged(ms llm.Messages, limit int) llm.Messages {
	out, copied := ms, false
	for i := range ms {
		if !isLarge(&ms[i], limit) {
			continue
		}
		if !copied {
			out, copied = slices.Clone(ms), true
		}
		text, _ := textOf(ms[i])
		out[i] = withText(ms[i], fmt.Sprintf("[The message is long (%d characters). The whole text is in %s: use %s with offset and limit, or %s. It starts and ends with:]\n\n%s",
			len(text), messagePath(ms[i]), toolRead, toolGrep, preview(text)))
	}
	return out
}

// withMessages adds the files of large messages to the files of a thread. They are not saved,
// because the messages are.
func withMessages(records files.Records, ms llm.Messages, limit int) files.Records {
	copied := false
	for i := range ms {
		p := ""
		if isLarge(&ms[i], limit) {
			p = messagePath(ms[i])
		}
		if p == "" || records[p] != nil {
			continue
		}
		if !copied {
			records, copied = maps.Clone(records), true
		}
		if records == nil {
			records = files.Records{}
		}
		text, _ := textOf(ms[i])
		records[p] = files.Text(text)
	}
	return records
}

// preview returns the first and last lines of a text.
func preview(text string) string {
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	head, tail := all, []string(nil)
	if len(all) > 2*previewLines {
		head, tail = all[:previewLines], all[len(all)-previewLines:]
	}
	var b strings.Builder
	show := func(lines []string) {
		for _, line := range lines {
			if len(line) > previewWidth {
				line = fmt.Sprintf("%s… (%d characters)", strings.ToValidUTF8(line[:previewWidth], ""), len(line))
			}
			b.WriteString(line + "\n")
		}
	}
	show(head)
	if tail != nil {
		fmt.Fprintf(&b, "… (%d lines)\n", len(all)-2*previewLines)
		show(tail)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// fileName converts the ID of a call to the name of a file.
func fileName(id string) string {
	name := strings.Map(func(r rune) rune {
		if r == '.' || r == '/' || r == '\\' || r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(id, "_"))
	if len(name) > 128 || name == "" {
		sum := sha256.Sum256([]byte(id))
		return "call-" + hex.EncodeToString(sum[:])
	}
	return name
}
