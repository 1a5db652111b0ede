package standalone

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// newLogger returns a logger that writes to out. Format auto is pretty on a terminal
// and text otherwise.
func newLogger(format string, out io.Writer) (*slog.Logger, error) {
	file, _ := out.(*os.File)
	terminal := false
	if file != nil {
		info, err := file.Stat()
		terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if format == "auto" {
		format = "text"
		if terminal {
			format = "pretty"
		}
	}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(out, nil)), nil
	case "text":
		return slog.New(slog.NewTextHandler(out, nil)), nil
	case "pretty":
		return slog.New(&prettyHandler{out: out, mu: &sync.Mutex{}, color: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}), nil
	}
	return nil, fmt.Errorf("--log %q: want auto, json, text, or pretty", format)
}

// prettyHandler writes log lines for people: the time of day, the level, the message, and the
// attributes.
type prettyHandler struct {
	out   io.Writer
	mu    *sync.Mutex
	color bool
	group string // prefix of attribute names, with a trailing dot
	attrs string // formatted attributes of WithAttrs
}

// Enabled implements [slog.Handler].
func (*prettyHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle implements [slog.Handler].
func (h *prettyHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(h.paint("2", r.Time.Format(time.TimeOnly)) + " ")
	level := fmt.Sprintf("%-5s", r.Level)
	switch {
	case r.Level >= slog.LevelError:
		level = h.paint("31", level)
	case r.Level >= slog.LevelWarn:
		level = h.paint("33", level)
	default:
		level = h.paint("36", level)
	}
	b.WriteString(level + " " + oneLine(r.Message) + h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		h.write(&b, h.group, a)
		return true
	})
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.out, b.String())
	return err
}

func (h *prettyHandler) write(b *strings.Builder, group string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, inner := range v.Group() {
			h.write(b, group, inner)
		}
		return
	}
	if a.Equal(slog.Attr{}) {
		return
	}
	text := v.String()
	if a.Key != "stack" && (text == "" || strings.ContainsAny(text, " \"") || text != oneLine(text)) {
		text = strconv.Quote(text)
	}
	if a.Key == "stack" { // a panic's stack trace, unreadable on one line
		text = "\n" + text
	}
	b.WriteString(" " + h.paint("2", group+a.Key+"=") + text)
}

// oneLine returns s with control characters quoted, so that it cannot affect the terminal.
func oneLine(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 }) < 0 {
		return s
	}
	return strings.Trim(strconv.Quote(s), `"`)
}

func (h *prettyHandler) paint(code, s string) string {
	if !h.color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// WithAttrs implements [slog.Handler].
func (h *prettyHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		h.write(&b, h.group, a)
	}
	next := *h
	next.attrs += b.String()
	return &next
}

// WithGroup implements [slog.Handler].
func (h *prettyHandler) WithGroup(name string) slog.Handler {
	next := *h
	if name != "" {
		next.group += name + "."
	}
	return &next
}
