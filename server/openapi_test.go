package server

import (
	"testing"
)

// Every route is described, and nothing else is.
func TestTheDescriptionHasExactlyTheRoutes(t *testing.T) {
	known := map[string]bool{}
	for _, rt := range (&Server{}).table() {
		key := rt.method + " " + rt.path
		known[key] = true
		if d, ok := descriptions[key]; !ok || d.summary == "" {
			t.Errorf("%s has no description", key)
		}
	}
	for key := range descriptions {
		if !known[key] {
			t.Errorf("%s is described and there is no such route", key)
		}
	}
}
