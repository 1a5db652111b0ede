package runs

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/treadletype"
)

// failure is the class and the message of an error as clients see it. Errors that
// LangGraph has too go by its names, because clients compare them.
func failure(err error) (class, message string) {
	if limit, ok := errors.AsType[*treadletype.StepLimitError](err); ok {
		return "GraphRecursionError", fmt.Sprintf("Recursion limit of %d reached without hitting a stop condition. You can increase the limit by setting the `recursion_limit` config key.", limit.Limit)
	}
	switch {
	case errors.Is(err, treadle.ErrNothingToContinue):
		return "EmptyInputError", "Received no input for the thread, which has no state: give it an input"
	case errors.Is(err, treadle.ErrAmbiguousResume):
		return "RuntimeError", "When there are multiple pending interrupts, you must specify the interrupt id when resuming."
	case errors.Is(err, context.DeadlineExceeded):
		return "TimeoutError", err.Error()
	}
	if _, ok := errors.AsType[*treadletype.UpdateError](err); ok {
		return "InvalidUpdateError", err.Error()
	}
	for ne, ok := errors.AsType[*treadle.NodeError](err); ok; ne, ok = errors.AsType[*treadle.NodeError](err) {
		err = ne.Err
	}
	return className(err), err.Error()
}

// className is the name of an error's type, if that says more than that it is one.
func className(err error) string {
	t := reflect.TypeOf(err)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := t.Name()
	switch {
	case name == "", strings.HasPrefix(t.PkgPath(), "errors"), t.PkgPath() == "fmt", name[0] >= 'a' && name[0] <= 'z':
		return "Error"
	}
	return name
}
