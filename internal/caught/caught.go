// Package caught makes errors of calls of a user's function that did not return:
// because it panicked, or because it ended its goroutine with runtime.Goexit, as
// t.Fatal and t.FailNow do.
package caught

import (
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
)

// Error is a call that did not return.
type Error struct {
	What  string // what was called, for the text: "reduce: "; may be empty
	Value any    // of the panic
	Exit  bool   // it was no panic: the function ended its goroutine
	At    string // the first frame of the user's code, "" if there is none
	Stack []byte
}

// New is the error of a call that did not return. It is made in a deferred
// function, with what recover returned: nothing means that the goroutine ends.
func New(what string, value any) *Error {
	return &Error{What: what, Value: value, Exit: value == nil, At: origin(), Stack: debug.Stack()}
}

// Error names the place in the user's code.
func (e *Error) Error() string {
	text := e.Bare()
	if e.At != "" {
		text += " (" + e.At + ")"
	}
	return text
}

// Bare is the text without the place.
func (e *Error) Bare() string {
	if e.Exit {
		return e.What + "runtime.Goexit ended the goroutine, as t.Fatal does: return an error instead"
	}
	return e.What + "panic: " + text(e.Value)
}

// text is the value as it is printed. Its own methods may panic again.
func text(v any) (s string) {
	defer func() {
		if recover() != nil {
			s = fmt.Sprintf("a %T that cannot be printed", v)
		}
	}()
	if err, ok := v.(error); ok {
		return err.Error()
	}
	return fmt.Sprint(v)
}

// Unwrap is the panic's value, if it is an error.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// origin is the first frame of the user's code below the panic, or below
// runtime.Goexit: neither of the standard library nor of this module's engine.
func origin() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	first, src, thrown := "", "", false
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "":
		case f.Function == "runtime.gopanic" || f.Function == "runtime.Goexit":
			// The innermost counts: what panicked while another panic was on its way.
			if !thrown {
				thrown = true
				src, _, _ = strings.Cut(f.File, "runtime/panic.go")
			}
		case !thrown || strings.HasPrefix(f.Function, "runtime."):
		default:
			at := fmt.Sprintf("%s, %s:%d", f.Function[strings.LastIndexByte(f.Function, '/')+1:], path.Base(f.File), f.Line)
			if first == "" {
				first = at
			}
			if users(f, src) {
				return at
			}
		}
		if !more {
			return first
		}
	}
}

const module = "github.com/treadle-go/treadle"

// users reports whether a frame is of the user's code. src is the directory of
// the standard library, "" in a binary built with -trimpath.
func users(f runtime.Frame, src string) bool {
	if strings.HasSuffix(f.File, "_test.go") {
		return true
	}
	if rest, ok := strings.CutPrefix(f.Function, module); ok {
		// The engine's own; what is beside it, such as an example, calls it.
		return !strings.HasPrefix(rest, ".") && !strings.HasPrefix(rest, "/internal/")
	}
	if src != "" {
		return !strings.HasPrefix(f.File, src)
	}
	// A package of the standard library has no dot in the first part of its path.
	first, _, _ := strings.Cut(f.Function, "/")
	if first == f.Function {
		first, _, _ = strings.Cut(f.Function, ".")
	}
	return first == "main" || strings.Contains(first, ".")
}
