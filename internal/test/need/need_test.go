package need_test

import (
	"testing"

	"github.com/treadle-go/treadle/internal/test/need"
)

func TestProgramSkipsListedProgramsOnly(t *testing.T) {
	for _, test := range []struct {
		without string
		skips   bool
	}{
		{"", false},
		{"Python Chromium", false},
		{"Node.js", true},
		{"Python Node.js", true},
	} {
		t.Setenv(need.Env, test.without)
		r := &recorder{TB: t}
		need.Program(r, need.Node)
		if got := len(r.skipped) > 0; got != test.skips {
			t.Errorf("%s=%q: skipped is %v, want %v", need.Env, test.without, got, test.skips)
		}
		if test.skips && need.Skipped("    x_test.go:7: "+r.skipped[0]+"\n") != need.Node {
			t.Errorf("Skipped does not find the program in %q", r.skipped[0])
		}
	}
	if got := need.Skipped("    x_test.go:7: not now\n"); got != "" {
		t.Errorf("another skip names %q", got)
	}
}

// A recorder is a test that cannot be skipped.
type recorder struct {
	testing.TB
	skipped []string
}

func (*recorder) Helper() {}

func (r *recorder) Skip(args ...any) { r.skipped = append(r.skipped, args[0].(string)) }
