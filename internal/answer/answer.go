// Package answer validates the values that a node waits for, answers to its interrupts
// and signals, and determines the value that it receives when a deadline passes.
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

// types caches the schemas of types.
var types sync.Map // reflect.Type → *known

// known is the cached information about a type.
type known struct {
	raw  json.RawMessage
	fill *jsonschema.Schema // the schema, if it has defaults
}

// Schema returns the JSON schema of a type. It returns nil for a type that accepts any
// value, such as an interface or json.RawMessage.
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

// Fill fills in the defaults of absent fields in a value of type t.
func Fill(t reflect.Type, raw json.RawMessage) (json.RawMessage, error) {
	k, ok := types.Load(t)
	if !ok || k.(*known).fill == nil {
		return raw, nil
	}
	return schema.Fill(k.(*known).fill, raw)
}

// Deadline returns a deadline and the value that the node receives when it passes. It
// returns nil if at is zero, and an error if onTimeout does not match the schema fits.
func Deadline(fits json.RawMessage, at time.Time, onTimeout any) (*pregel.Deadline, error) {
	if at.IsZero() {
		if onTimeout != nil {
			return nil, errors.New("OnTimeout without Deadline: set both or neither")
		}
		return nil, nil
	}
	d := &pregel.Deadline{At: at}
	if onTimeout == nil {
		return d, nil
	}
	raw, err := json.Marshal(onTimeout)
	if err != nil {
		return nil, fmt.Errorf("deadline: cannot encode OnTimeout as JSON: %w", err)
	}
	if err := pregel.Fits(fits, raw); err != nil {
		return nil, fmt.Errorf("deadline: invalid OnTimeout %s: %w", raw, err)
	}
	d.Default = raw
	return d, nil
}
