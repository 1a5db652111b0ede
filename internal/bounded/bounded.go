// Package bounded checks values against JSON schemas from outside the program: of an MCP
// server, a stored checkpoint or a configuration. Package jsonschema has no limit for
// references. A schema that refers to itself overflows the stack, which ends the
// process, and one whose references double at each level takes for ever.
//
//	schema, err := bounded.Parse(raw)       // fails if the schema is too large
//	s, err := bounded.Resolve(schema, nil)  // fails if a check could be endless or huge
//	err = s.Validate(value)                 // estimates the work first
//
// A schema may describe a tree, which refers to itself below properties or items: the
// depth of the value bounds the check.
package bounded

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// The limits. They are far above what people write, and far below what takes long.
const (
	maxSchemaDepth = 100        // schemas in schemas
	maxSchemas     = 10_000     // in one schema
	maxPattern     = 10_000     // instructions of a compiled pattern
	maxWork        = 2_000_000  // visits of a schema at a value, about a microsecond each
	maxStack       = 2_000      // visits inside each other
	maxProblem     = 2_000      // bytes of an error's text
	maxReading     = 20_000_000 // bytes of a schema, each as often as it is read

	// MaxDepth is the maximum nesting of JSON from outside.
	MaxDepth = 500
)

// Schema is a schema against which values can be checked in bounded time.
type Schema struct {
	*jsonschema.Resolved

	count    int                                         // of all schemas in it
	refs     bool                                        // one of them refers to another
	same     map[*jsonschema.Schema][]*jsonschema.Schema // what a reference leads to
	patterns map[*jsonschema.Schema]int                  // instructions of the patterns
}

// Parse decodes a schema. It limits the size and the nesting, because package
// jsonschema decodes an inner schema again for each schema around it.
func Parse(raw []byte) (*jsonschema.Schema, error) {
	if err := JSON(raw); err != nil {
		return nil, err
	}
	depth, reading := 1, 0
	for _, c := range raw { // brackets in texts do no harm to an estimate
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth = max(1, depth-1)
		}
		if reading += depth; reading > maxReading {
			return nil, errors.New("the schema is too large")
		}
	}
	var s *jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, short(err)
	}
	if s == nil {
		return nil, errors.New("the schema is null")
	}
	return s, nil
}

// Resolve checks a schema and resolves its references. The error names the part of the
// schema that is wrong.
func Resolve(s *jsonschema.Schema, o *jsonschema.ResolveOptions) (*Schema, error) {
	out, err := survey(s)
	if err != nil {
		return nil, err
	}
	err = catch(func() (err error) {
		out.Resolved, err = s.Resolve(o)
		return err
	})
	if err != nil {
		return nil, short(err)
	}
	return out, nil
}

// Validate checks a value that [encoding/json] has decoded into an any.
func (s *Schema) Validate(v any) error {
	if err := s.affordable(v); err != nil {
		return err
	}
	return short(catch(func() error { return s.Resolved.Validate(v) }))
}

// catch turns a panic of package jsonschema into an error: that is how it reports
// some of what it does not expect of a schema.
func catch(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the schema cannot be used: %v", p)
		}
	}()
	return do()
}

// short cuts the text of an error, which may repeat the value and the schema at
// every level.
func short(err error) error {
	if err == nil || len(err.Error()) <= maxProblem {
		return err
	}
	return &cut{err}
}

type cut struct{ error }

// Error is the beginning and the end, where the reason stands.
func (e *cut) Error() string {
	text := e.error.Error()
	const half = maxProblem / 2
	return strings.ToValidUTF8(text[:half], "") + " … " + strings.ToValidUTF8(text[len(text)-half:], "")
}

// Unwrap is the whole error.
func (e *cut) Unwrap() error { return e.error }

// JSON returns an error if JSON is nested too deeply. It only counts brackets.
func JSON(raw []byte) error {
	depth, text := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return errDepth
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

var errDepth = errors.New("it is nested too deeply: at most 500 levels are read")
