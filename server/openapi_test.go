package server

import (
	"reflect"
	"testing"
)

// Every route is described, and nothing else is.
func TestOpenAPIListsAllRoutes(t *testing.T) {
	known := map[string]bool{}
	for _, rt := range (&Server{}).table() {
		key := rt.method + " " + rt.path
		known[key] = true
		if d, ok := descriptions[key]; !ok || d.summary == "" {
			t.Errorf("%s has no description: add it to descriptions in openapi.go", key)
		}
	}
	for key := range descriptions {
		if !known[key] {
			t.Errorf("%s is described, but the route does not exist", key)
		}
	}
}

// The fields that the description of a route leaves out are fields of its body.
func TestOpenAPIOmissionsExist(t *testing.T) {
	for key, d := range descriptions {
		if d.without == nil {
			continue
		}
		body := reflect.TypeOf(d.body)
		if body.Kind() == reflect.Slice {
			body = body.Elem()
		}
		known := map[string]any{}
		addFields(body, known, map[string]any{})
		for _, name := range d.without {
			if known[name] == nil {
				t.Errorf("%s: its body has no field %s", key, name)
			}
		}
	}
}
