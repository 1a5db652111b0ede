package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../../../.."

// A program that uses only the root package, or agents with it, links no driver, no client and no server. One
// that uses memories links one module more.
func TestLibraryLinksOneModule(t *testing.T) {
	for dir, more := range map[string][]string{"treadle": nil, "agent": nil, "openai": nil, "ollama": nil, "memory": {"github.com/google/uuid"}} { // Erasure has a ledger
		modules, err := linked(t.Context(), root, dir)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(modules, append([]string{"github.com/google/jsonschema-go"}, more...)) {
			t.Errorf("%s links %v", dir, modules)
		}
	}
}

func TestDependencyTableIsCurrent(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), begin)
	table, _, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no table", page)
	}
	for _, p := range programs {
		modules, err := linked(t.Context(), root, p.dir)
		if err != nil {
			t.Fatal(err)
		}
		if want := "| " + name(p.pkg) + " | " + cell(modules) + " |"; !strings.Contains(table, want) {
			t.Errorf("table lacks %s\ngo run ./internal/test/system/linked", want)
		}
	}
}
