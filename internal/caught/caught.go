// Package caught creates errors for calls of user functions that did not return, because
// the function panicked or ended its goroutine with runtime.Goexit, as t.Fatal and
// t.FailNow do.
package caught

import (
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
)

// Error reports a call that did not return.
type Error struct {
	What  string // prefix of the message, such as "reduce: "; may be empty
	Value any    // the panic value
	Exit  bool   // the function ended its goroutine without a panic
	At    string // the frame that origin returns, or ""
	Stack []byte
}

// New returns the error for a call that did not return. Call it in a deferred function
// with the result of recover; nil means that the goroutine is exiting.
func New(what string, value any) *Error {
	return &Error{What: what, Value: value, Exit: value == nil, At: origin(), Stack: debug.Stack()}
}

// Error returns the message with the location in the user's code.
func (e *Error) Error() string {
	text := e.Bare()
	if e.At != "" {
		text += " (" + e.At + ")"
	}
	return text
}

// Bare returns the message without the location.
func (e *Error) Bare() string {
	if e.Exit {
		return e.What + "runtime.Goexit ended the goroutine, as t.Fatal does: return an error instead"
	}
	return e.What + "panic: " + text(e.Value)
}

// text formats the value. The value's own methods may panic.
func text(v any) (s string) {
	defer func() {
		if recover() != nil {
			s = fmt.Sprintf("unprintable %T", v)
		}
	}()
	if err, ok := v.(error); ok {
		return err.Error()
	}
	return fmt.Sprint(v)
}

// Unwrap returns the panic value if it is an error.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// origin returns the first frame in user code below the panic or runtime.Goexit: a frame
// that is neither in the standard library nor in this module's engine. If there is none,
// it returns the first frame below the panic.
func origin() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	first, src, thrown := "", "", false
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "":
		case f.Function == "runtime.gopanic" || f.Function == "runtime.Goexit":
			// The innermost counts: the function that panicked while another panic was
			// propagating.
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

// users reports whether a frame is in user code. src is the directory of the standard
// library, or "" in a binary built with -trimpath.
func users(f runtime.Frame, src string) bool {
	if strings.HasSuffix(f.File, "_test.go") {
		return true
	}
	if rest, ok := strings.CutPrefix(f.Function, module); ok {
		// The engine itself does not count; other packages, such as examples, call it.
		return !strings.HasPrefix(rest, ".") && !strings.HasPrefix(rest, "/internal/")
	}
	if src != "" {
		return !strings.HasPrefix(f.File, src)
	}
	// The path of a standard library package has no dot in its first element.
	first, _, _ := strings.Cut(f.Function, "/")
	if first == f.Function {
		first, _, _ = strings.Cut(f.Function, ".")
	}
	return first == "main" || strings.Contains(first, ".")
}
