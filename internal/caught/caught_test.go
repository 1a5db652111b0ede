package caught_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/internal/caught"
)

// catch calls f and returns the error that a deferred function creates.
func catch(f func()) *caught.Error {
	caughtErr := make(chan *caught.Error)
	go func() {
		defer func() { caughtErr <- caught.New("key: ", recover()) }()
		f()
	}()
	return <-caughtErr
}

var errOops = errors.New("oops")

type shy struct{}

func (shy) Error() string { panic("not to be printed") }

type unwritable struct{}

func (unwritable) MarshalJSON() ([]byte, error) { panic("in MarshalJSON") }

// The text of a panic names the place in the user's code, even if the panic happened in
// the standard library.
func TestErrorNamesUserFrame(t *testing.T) {
	var empty []int
	for _, test := range []struct {
		name string
		f    func()
		want string // a pattern; the place follows
	}{
		{"string", func() { panic("oops") }, `key: panic: oops`},
		{"error", func() { panic(errOops) }, `key: panic: oops`},
		{"nil", func() { panic(nil) }, `key: panic: panic called with nil argument.*`}, //nolint:govet // user code may do this
		{"runtime", func() { empty[len(empty)] = 1 }, `key: panic: runtime error: index out of range \[0\] with length 0`},
		{"library", func() { _ = strings.Repeat("x", -1) }, `key: panic: strings: negative Repeat count`},
		{"callback of the library", func() { slices.SortFunc([]int{2, 1}, func(int, int) int { panic("oops") }) }, `key: panic: oops`},
		{"method called by the library", func() { _, _ = json.Marshal(unwritable{}) }, `key: panic: in MarshalJSON`}, //nolint:errchkjson // it panics
		{"unprintable", func() { panic(shy{}) }, `key: panic: unprintable caught_test\.shy`},
		{"exit", runtime.Goexit, `key: runtime\.Goexit ended the goroutine, as t\.Fatal does: return an error instead`},
		{"while unwinding", func() {
			defer func() { panic("second") }()
			panic("first")
		}, `key: panic: second`},
	} {
		err := catch(test.f)
		place := ` \(caught_test\.\S+, caught_test\.go:\d+\)$`
		if !regexp.MustCompile("^(?s:" + test.want + ")" + place).MatchString(err.Error()) {
			t.Errorf("%s: %v", test.name, err)
		}
		if !strings.Contains(string(err.Stack), "caught_test.go") {
			t.Errorf("%s: the stack does not show the function: %s", test.name, err.Stack)
		}
		if err.Exit != (test.name == "exit") {
			t.Errorf("%s: Exit is %v", test.name, err.Exit)
		}
	}
	if err := catch(func() { panic(errOops) }); !errors.Is(err, errOops) {
		t.Error("the panic's error cannot be found in it")
	}
	if err := catch(func() { panic("x") }); err.Bare() != "key: panic: x" {
		t.Errorf("bare, it is %q", err.Bare())
	}
}
