package pregel

import (
	"bytes"
	"reflect"
)

// prints maps the fields of a node's input to their JSON, to detect whether the
// node modified it. Fields that cannot be encoded are not checked.
type prints map[string][]byte

func fingerprint(in any) prints {
	v := reflect.ValueOf(in)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	p := prints{}
	switch v.Kind() {
	case reflect.Struct:
		fields, _ := fieldsOf(v.Type())
		for _, f := range fields {
			p[f.name] = imprint(v.FieldByIndex(f.index))
		}
	case reflect.Map:
		for k, val := range v.Seq2() {
			p[k.String()] = imprint(val)
		}
	case reflect.Slice, reflect.Array:
		p[v.Type().String()] = imprint(v)
	}
	return p
}

// imprint returns the JSON of a field, or nil if it cannot be encoded.
func imprint(v reflect.Value) []byte {
	raw, err := toJSON(v.Interface())
	if err != nil {
		return nil
	}
	return raw
}

// changed returns the first field, by name, that differs, or "".
func (p prints) changed(now prints) string {
	first := ""
	for k, was := range p {
		if !bytes.Equal(was, now[k]) && (first == "" || k < first) {
			first = k
		}
	}
	for k := range now {
		if _, ok := p[k]; !ok && (first == "" || k < first) {
			first = k
		}
	}
	return first
}
