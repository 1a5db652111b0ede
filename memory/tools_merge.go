package memory

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// partial converts a schema to one for updates that contain only some of the fields. No
// field is required, and none has a default, which would change a field that is not given.
// Lists are replaced as a whole, so the schema of their elements is left unchanged.
func partial(s *jsonschema.Schema) (*jsonschema.Schema, error) {
	if s.Type != "object" {
		return nil, fmt.Errorf("memory: Merge requires memories with fields: %s has none", s.Type)
	}
	loosen(s)
	s.Description = "the memory; not for delete; for update only the fields that change"
	return s, nil
}

func loosen(s *jsonschema.Schema) {
	s.Required = nil
	for _, p := range s.Properties {
		p.Default = nil
		if p.Type == "object" {
			loosen(p)
		}
	}
}

// mergeFields merges an update into the old document. Objects are merged field by field,
// other values are replaced, and null counts as absent.
func mergeFields(old, update json.RawMessage) (json.RawMessage, error) {
	a, err := decodeAny(old)
	if err != nil {
		return nil, err
	}
	b, err := decodeAny(update)
	if err != nil {
		return nil, err
	}
	return encodeAny(mergeValues(a, b))
}

func mergeValues(old, update any) any {
	into, ok := old.(map[string]any)
	from, also := update.(map[string]any)
	if !ok || !also {
		return update
	}
	for name, v := range from {
		if v != nil {
			into[name] = mergeValues(into[name], v)
		}
	}
	return into
}

// runMerging runs the tool if Merge is set.
func (m *managed) runMerging(ctx context.Context, args json.RawMessage) (any, error) {
	var a manageArgs[json.RawMessage]
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, err
	}
	var content json.RawMessage
	if a.Content != nil {
		content = *a.Content
	}
	return m.do(ctx, a.Action, a.ID, content)
}

// complete returns the new content of a memory, given the content in the call. old is nil
// for a new memory.
func (m *managed) complete(old, content json.RawMessage) (json.RawMessage, error) {
	if !m.o.Merge && old != nil && m.kind != "" {
		return m.whole.carry(old, content)
	}
	if !m.o.Merge {
		return content, nil
	}
	if old != nil {
		var err error
		if content, err = mergeFields(old, content); err != nil {
			return nil, err
		}
	}
	return m.whole.checkChange(old, content)
}
