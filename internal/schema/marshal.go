package schema

import (
	"bytes"
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
)

// Marshal returns the JSON of a schema for clients and model providers. Many of them
// reject the boolean schemas that [json.Marshal] writes, so the schema of an any field is
// {}, not true. Only additionalProperties and similar keywords may be false.
func Marshal(s *jsonschema.Schema) (json.RawMessage, error) {
	raw, err := json.Marshal(s)
	if err != nil || !mayHaveBooleans(raw) {
		return raw, err
	}
	w := &schemaWriter{in: json.NewDecoder(bytes.NewReader(raw))}
	w.in.UseNumber()
	err = w.write(aSchema)
	return w.out.Bytes(), err
}

// mayHaveBooleans reports whether raw contains a boolean that Marshal may replace.
func mayHaveBooleans(raw []byte) bool {
	return bytes.Contains(raw, []byte("true")) || bytes.Count(raw, []byte("false")) > bytes.Count(raw, []byte(`"additionalProperties":false`))
}

// position is the role of a value in the JSON of a schema.
type position int

const (
	plain      position = iota // contains no schemas
	aSchema                    // a schema or a list of schemas
	restSchema                 // a schema that may be false
	namedOnes                  // an object whose values are schemas
)

// positions lists the keywords whose values contain schemas.
var positions = map[string]position{
	"items": aSchema, "prefixItems": aSchema, "contains": aSchema, "allOf": aSchema, "anyOf": aSchema, "oneOf": aSchema, "not": aSchema,
	"if": aSchema, "then": aSchema, "else": aSchema, "propertyNames": aSchema, "contentSchema": aSchema,
	"additionalProperties": restSchema, "additionalItems": restSchema, "unevaluatedProperties": restSchema, "unevaluatedItems": restSchema,
	"properties": namedOnes, "patternProperties": namedOnes, "dependentSchemas": namedOnes, "dependencies": namedOnes, "$defs": namedOnes, "definitions": namedOnes,
}

// schemaWriter copies the JSON of a schema, replacing booleans and preserving the order
// of keys.
type schemaWriter struct {
	in  *json.Decoder
	out bytes.Buffer
}

// write copies one value.
func (w *schemaWriter) write(at position) error {
	if at == plain {
		var raw json.RawMessage
		err := w.in.Decode(&raw)
		w.out.Write(raw)
		return err
	}
	token, err := w.in.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		return w.members('{', func(key string) position {
			if at == namedOnes {
				return aSchema
			}
			return positions[key]
		})
	case json.Delim('['):
		return w.members('[', func(string) position { return aSchema })
	case true:
		w.out.WriteString("{}")
		return nil
	case false:
		if at != restSchema {
			w.out.WriteString(`{"not":{}}`)
			return nil
		}
	}
	return w.token(token)
}

// members copies the rest of an object or list.
func (w *schemaWriter) members(open byte, at func(key string) position) error {
	w.out.WriteByte(open)
	for first := true; w.in.More(); first = false {
		if !first {
			w.out.WriteByte(',')
		}
		key := ""
		if open == '{' {
			token, err := w.in.Token()
			if err != nil {
				return err
			}
			key, _ = token.(string) // the decoder accepts only string keys
			if err := w.token(token); err != nil {
				return err
			}
			w.out.WriteByte(':')
		}
		if err := w.write(at(key)); err != nil {
			return err
		}
	}
	w.out.WriteByte(open + 2) // ASCII: '['+2 is ']', and '{'+2 is '}'
	_, err := w.in.Token()
	return err
}

// token writes a string, number, boolean, or null.
func (w *schemaWriter) token(token json.Token) error {
	raw, err := json.Marshal(token)
	w.out.Write(raw)
	return err
}
