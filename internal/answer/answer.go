// Package answer is about the values that a node waits for, answers to its questions
// and signals: which fit its type, and what it gets when a deadline passes.
package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/internal/schema"
)

// types remembers the schemas of types.
var types sync.Map // reflect.Type → *known

// known is what is known about the values of a type.
type known struct {
	raw  json.RawMessage
	fill *jsonschema.Schema // the schema, if it has defaults
}

// Schema returns the schema of the values of a type; none for a type that takes all values, such as
// an interface or json.RawMessage.
func Schema(t reflect.Type) (json.RawMessage, error) {
	if t.Kind() == reflect.Interface {
		return nil, nil
	}
	if k, ok := types.Load(t); ok {
		return k.(*known).raw, nil
	}
	s, err := schema.Of(t, schema.Described)
	if err != nil {
		return nil, err
	}
	raw, err := schema.Marshal(s)
	if err != nil {
		return nil, err
	}
	if string(raw) == "{}" {
		raw = nil
	}
	k := &known{raw: raw}
	if schema.HasDefaults(s) {
		k.fill = s
	}
	types.Store(t, k)
	return raw, nil
}

// Fill fills in the defaults of the fields of a value of the type that are absent.
func Fill(t reflect.Type, raw json.RawMessage) (json.RawMessage, error) {
	k, ok := types.Load(t)
	if !ok || k.(*known).fill == nil {
		return raw, nil
	}
	return schema.Fill(k.(*known).fill, raw)
}

// Deadline returns the end of a wait for a value that fits, and what the node gets then;
// nil if at is zero.
func Deadline(fits json.RawMessage, at time.Time, onTimeout any) (*pregel.Deadline, error) {
	if at.IsZero() {
		if onTimeout != nil {
			return nil, errors.New("OnTimeout has a value, and the Deadline is zero: set both or neither")
		}
		return nil, nil
	}
	d := &pregel.Deadline{At: at}
	if onTimeout == nil {
		return d, nil
	}
	raw, err := json.Marshal(onTimeout)
	if err != nil {
		return nil, fmt.Errorf("deadline: OnTimeout has no JSON: %w", err)
	}
	if err := pregel.Fits(fits, raw); err != nil {
		return nil, fmt.Errorf("deadline: OnTimeout %s does not fit: %w", raw, err)
	}
	d.Default = raw
	return d, nil
}
