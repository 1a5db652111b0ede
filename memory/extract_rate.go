package memory

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/llm"
)

// Tool arguments that a model uses to rate a document. Kinds with a field of one of these
// names are rejected.
const (
	argConfidence = "_confidence"
	argImportance = "_importance"
	argFrom       = "_valid_from"
	argUntil      = "_valid_until"
)

var ratingArgs = []string{argConfidence, argImportance, argFrom, argUntil}

// rating is a model's rating of a document. A nil field was not given; a zero time removes
// the previous time.
type rating struct {
	confidence, importance *float64
	from, until            *time.Time
}

func (r rating) isZero() bool { return r == rating{} }

// dates reports whether the rating sets the start or end of the validity.
func (r rating) dates() bool { return r.from != nil || r.until != nil }

// add applies the confidence and importance of a later rating, if given.
func (r *rating) add(later rating) {
	if later.confidence != nil {
		r.confidence = later.confidence
	}
	if later.importance != nil {
		r.importance = later.importance
	}
}

// rated returns a copy of a tool with optional arguments for a rating. Only the copy's
// schema is used, because the extractor executes the calls itself.
func rated(t *llm.Tool) *llm.Tool {
	share := func(description string) *jsonschema.Schema {
		low, high := 0.0, 1.0
		return &jsonschema.Schema{Type: "number", Minimum: &low, Maximum: &high, Description: description}
	}
	date := func(description string) *jsonschema.Schema {
		return &jsonschema.Schema{Types: []string{"string", "null"}, Description: description +
			", if that was said or follows: a date such as 2026-03-01, or a time with its zone; null takes back what was known"}
	}
	s := t.Parameters.CloneSchemas()
	if s.Properties == nil { // a kind without fields
		s.Properties = map[string]*jsonschema.Schema{}
	}
	s.Properties[argConfidence] = share("how sure you are of it: 0 is a guess, 1 is certain")
	s.Properties[argImportance] = share("how much it will matter later: 0 is hardly, 1 is that it must never be missed")
	s.Properties[argFrom] = date("since when it holds")
	s.Properties[argUntil] = date("until when it holds, that day not included")
	if len(s.PropertyOrder) > 0 {
		s.PropertyOrder = slices.Concat(s.PropertyOrder, ratingArgs)
	}
	return &llm.Tool{Name: t.Name, Description: t.Description, Parameters: s, Run: never}
}

// rate adds the rating arguments to the tools if Rate is set.
func (x *extractor) rate() error {
	if !x.Rate {
		return nil
	}
	for i, k := range x.Kinds {
		for _, name := range ratingArgs {
			if k.tool.Parameters.Properties[name] != nil {
				return fmt.Errorf("memory: field %q of kind %s conflicts with ratings: rename the field or clear Rate", name, k.name)
			}
		}
		x.inserters[i] = rated(k.tool)
	}
	x.patcher = rated(patchTool)
	return nil
}

// unrated splits the arguments of a call into the document and the rating.
func (x *extractor) unrated(call llm.ToolCall) (json.RawMessage, rating, error) {
	var args map[string]json.RawMessage
	if !x.Rate {
		return argsOf(call), rating{}, nil
	}
	if err := json.Unmarshal(argsOf(call), &args); err != nil {
		return nil, rating{}, fmt.Errorf("arguments are not a JSON object: %w", err)
	}
	var r rating
	var err error
	if r.confidence, err = takeShare(args, argConfidence); err != nil {
		return nil, rating{}, err
	}
	if r.importance, err = takeShare(args, argImportance); err != nil {
		return nil, rating{}, err
	}
	if r.from, err = takeTime(args, argFrom); err != nil {
		return nil, rating{}, err
	}
	if r.until, err = takeTime(args, argUntil); err != nil {
		return nil, rating{}, err
	}
	out, err := encodeAny(args)
	return out, r, err
}

// takeTime removes a time from the arguments and returns it. It returns nil if the time is
// absent, and a zero time if it is null or empty.
func takeTime(args map[string]json.RawMessage, name string) (*time.Time, error) {
	raw, ok := args[name]
	if !ok {
		return nil, nil
	}
	delete(args, name)
	var text *string
	if json.Unmarshal(raw, &text) == nil {
		if text == nil || *text == "" {
			return &time.Time{}, nil
		}
		for _, layout := range []string{time.DateOnly, time.RFC3339} {
			at, err := time.Parse(layout, *text)
			if at = at.UTC(); err == nil && at.Year() >= 0 && at.Year() <= 9999 { // JSON cannot represent other years
				return &at, nil
			}
		}
	}
	return nil, fmt.Errorf("invalid %s %s: give a date such as 2026-03-01, a time such as 2026-03-01T15:00:00Z, or null, or omit it", name, raw)
}

// takeShare removes a number from 0 to 1 from the arguments and returns it. It returns nil
// if the number is absent or null.
func takeShare(args map[string]json.RawMessage, name string) (*float64, error) {
	raw, ok := args[name]
	if !ok {
		return nil, nil
	}
	delete(args, name)
	var v *float64
	if json.Unmarshal(raw, &v) != nil || v != nil && (*v < 0 || *v > 1) {
		return nil, fmt.Errorf("invalid %s %s: give a number from 0 to 1, or omit it", name, raw)
	}
	return v, nil
}
