package standalone

import (
	"bytes"
	"log/slog"
	"os"
	"regexp"
	"sync"
	"testing"
)

func TestPrettyLogLines(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(&prettyHandler{out: &out, mu: &sync.Mutex{}})
	log.With("a", 1).WithGroup("g").With("b", "two words").Warn("be\x1bware", "c", "", slog.Group("h", "d", "x\ny"), "e", `"`)
	log.Debug("not shown")
	log.Error("failed", "stack", "one\ntwo")
	want := regexp.MustCompile(`^\d\d:\d\d:\d\d WARN  be\\x1bware a=1 g\.b="two words" g\.c="" g\.h\.d="x\\ny" g\.e="\\""
\d\d:\d\d:\d\d ERROR failed stack=
one
two
$`)
	if !want.MatchString(out.String()) {
		t.Errorf("the lines are\n%s", &out)
	}
	out.Reset()
	slog.New(&prettyHandler{out: &out, mu: &sync.Mutex{}, color: true}).Info("hi", "k", "v")
	if want := regexp.MustCompile("^\x1b\\[2m\\d\\d:\\d\\d:\\d\\d\x1b\\[0m \x1b\\[36mINFO \x1b\\[0m hi \x1b\\[2mk=\x1b\\[0mv\n$"); !want.MatchString(out.String()) {
		t.Errorf("the line with colors is %q", &out)
	}
}

func TestLogIsPrettyOnTerminal(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = device.Close() }()
	if l, err := newLogger("auto", device); err != nil {
		t.Error(err)
	} else if _, ok := l.Handler().(*prettyHandler); !ok {
		t.Errorf("on a device the handler is %T", l.Handler())
	}
	if l, err := newLogger("auto", &bytes.Buffer{}); err != nil {
		t.Error(err)
	} else if _, ok := l.Handler().(*slog.TextHandler); !ok {
		t.Errorf("elsewhere the handler is %T", l.Handler())
	}
}
