package runs

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/treadle-go/treadle"
)

var (
	// goType matches encoding/json errors that name a Go type. Its groups are the JSON value,
	// the field, and the type.
	goType = regexp.MustCompile(`(?:want [^\s:]+: )?json: cannot unmarshal ([^:]+?) into Go (?:struct field (\S+) of type|value of type) ((?:\[\])*struct \{.*\}|[^\s,;:]+(?: \{\})?)`)
	// wantType matches the Go type of a field in an update error, which precedes the reason.
	wantType = regexp.MustCompile(`want [*\[\]]*[a-z]\w*\.[A-Za-z]\w*(?:\[[^\s:]*\])?: `)
)

// Text rewrites the text of an error for clients, which understand JSON but not the Go types of
// the program: "want a number, not string" instead of the type that encoding/json failed to
// decode into.
func Text(text string) string {
	text = goType.ReplaceAllStringFunc(text, func(found string) string {
		m := goType.FindStringSubmatch(found)
		out := "unexpected " + m[1]
		if want := jsonName(m[3]); want != "" {
			out = "want " + want + ", not " + m[1]
		}
		if n, ok := strings.CutPrefix(m[1], "number "); ok && strings.Contains(m[3], "int") {
			out = "want an integer, not " + n
		}
		if _, field, _ := strings.Cut(m[2], "."); field != "" { // the first part is a Go type name
			return field + ": " + out
		}
		return out
	})
	text = wantType.ReplaceAllString(text, "")
	return strings.ReplaceAll(text, "json: unknown field", "unknown field")
}

// jsonName describes in words the JSON type of a Go type. It returns "" if the JSON type is
// unknown.
func jsonName(t string) string {
	t = strings.TrimPrefix(t, "*")
	switch {
	case strings.HasPrefix(t, "[]"), arrayType.MatchString(t):
		return "a list"
	case strings.HasPrefix(t, "map["), strings.HasPrefix(t, "struct"):
		return "an object"
	case numberType.MatchString(t), t == "json.Number":
		return "a number"
	case t == "bool":
		return "true or false"
	case t == "string":
		return "a string"
	case t == "uuid.UUID":
		return "a UUID"
	case t == "time.Time":
		return "a time"
	}
	return ""
}

// JSONType describes in words the JSON type that a Go type is decoded from.
func JSONType(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name := jsonName(t.String()); name != "" {
		return name
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	}
	return "a number"
}

var (
	arrayType  = regexp.MustCompile(`^\[[0-9]+\]`)
	numberType = regexp.MustCompile(`^(u?int|float)[0-9]*$`)
)

// failure returns the class and message of an error as shown to clients. Errors that also exist
// in LangGraph use its class names, because clients compare them.
func failure(err error) (class, message string) {
	class, message = classify(err)
	return class, Text(message)
}

// severalOpen is the error message for a single answer to multiple pending interrupts.
const severalOpen = "When there are multiple pending interrupts, you must specify the interrupt id when resuming."

func classify(err error) (class, message string) {
	if limit, ok := errors.AsType[*treadle.StepLimitError](err); ok {
		return "GraphRecursionError", fmt.Sprintf("Recursion limit of %d reached without hitting a stop condition. You can increase the limit by setting the `recursion_limit` config key.", limit.Limit)
	}
	switch {
	case errors.Is(err, treadle.ErrNothingToContinue):
		return "EmptyInputError", "Received no input for the thread, which has no state: give it an input"
	case errors.Is(err, treadle.ErrAmbiguousResume):
		return "RuntimeError", severalOpen
	case errors.Is(err, context.DeadlineExceeded):
		return "TimeoutError", err.Error()
	}
	if _, ok := errors.AsType[*treadle.UpdateError](err); ok {
		return "InvalidUpdateError", err.Error()
	}
	for ne, ok := errors.AsType[*treadle.NodeError](err); ok; ne, ok = errors.AsType[*treadle.NodeError](err) {
		err = ne.Err
	}
	return className(err), err.Error()
}

// className returns the name of the error's type, or "Error" if the name carries no
// information.
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
