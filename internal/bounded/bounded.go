// Package bounded validates values against JSON schemas from untrusted sources, such as
// an MCP server, a stored checkpoint, or a configuration. Package jsonschema does not
// limit references: a schema that refers to itself overflows the stack, which ends the
// process, and a schema whose references double at each level takes forever.
//
//	schema, err := bounded.Parse(raw)       // fails if the schema is too large
//	s, err := bounded.Resolve(schema, nil)  // fails if a check could be endless or huge
//	err = s.Validate(value)                 // estimates the work first
//
// A schema may describe a tree, which refers to itself below properties or items: the
// depth of the value then bounds the check.
package bounded

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// The limits are far above hand-written schemas and far below inputs that take long.
const (
	maxSchemaDepth = 100        // nested schemas
	maxSchemas     = 10_000     // per schema document
	maxPattern     = 10_000     // instructions of a compiled pattern
	maxWork        = 2_000_000  // applications of a schema to a value, about a microsecond each
	maxStack       = 2_000      // nested applications
	maxProblem     = 2_000      // bytes of an error message
	maxReading     = 20_000_000 // bytes of a schema, counted each time they are read

	// MaxDepth is the maximum nesting depth of untrusted JSON.
	MaxDepth = 500
)

// Schema is a schema that validates values in bounded time.
type Schema struct {
	*jsonschema.Resolved

	count    int                                         // number of schemas in it
	refs     bool                                        // it contains references
	same     map[*jsonschema.Schema][]*jsonschema.Schema // targets of references
	patterns map[*jsonschema.Schema]int                  // instructions of the patterns
}

// Parse decodes a schema. It limits the size and nesting depth, because package
// jsonschema decodes a nested schema again at each level.
func Parse(raw []byte) (*jsonschema.Schema, error) {
	if err := JSON(raw); err != nil {
		return nil, err
	}
	depth, reading := 1, 0
	for _, c := range raw { // brackets in strings barely affect the estimate
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth = max(1, depth-1)
		}
		reading += depth
		if reading > maxReading {
			return nil, errors.New("schema too large")
		}
	}
	var s *jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, short(err)
	}
	if s == nil {
		return nil, errors.New("null schema")
	}
	return s, nil
}

// Resolve checks a schema and resolves its references. The error names the invalid part
// of the schema.
func Resolve(s *jsonschema.Schema, opts *jsonschema.ResolveOptions) (*Schema, error) {
	out, err := survey(s)
	if err != nil {
		return nil, err
	}
	err = catch(func() (err error) {
		out.Resolved, err = s.Resolve(opts)
		return err
	})
	if err != nil {
		return nil, short(err)
	}
	return out, nil
}

// Validate validates a value that [encoding/json] has decoded into an any.
func (s *Schema) Validate(v any) error {
	if err := s.affordable(v); err != nil {
		return err
	}
	return short(catch(func() error { return s.Resolved.Validate(v) }))
}

// catch converts a panic in package jsonschema into an error. The package panics on some
// unexpected schemas.
func catch(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("unusable schema: %v", p)
		}
	}()
	return do()
}

// short makes an error message readable: package jsonschema prints null as an invalid
// [reflect.Value], and may repeat the value and the schema at every level.
func short(err error) error {
	if err == nil {
		return nil
	}
	text := strings.ReplaceAll(err.Error(), fmt.Sprint(reflect.Value{}), "null")
	if len(text) > maxProblem { // keep the start, and the end, which contains the reason
		const half = maxProblem / 2
		text = strings.ToValidUTF8(text[:half], "") + " … " + strings.ToValidUTF8(text[len(text)-half:], "")
	}
	if text == err.Error() {
		return err
	}
	return &rewritten{err, text}
}

// A rewritten error is an error with another message.
type rewritten struct {
	error
	text string
}

// Error returns the readable message.
func (e *rewritten) Error() string { return e.text }

// Unwrap returns the complete error.
func (e *rewritten) Unwrap() error { return e.error }

// JSON returns an error if raw is nested too deeply. It only counts brackets.
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
			depth++
			if depth > MaxDepth {
				return errDepth
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

var errDepth = errors.New("nesting exceeds 500 levels")
