package main

import (
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/store"
)

func TestEmbeddingsAreServed(t *testing.T) {
	e := store.NewHashEmbedder(8)
	server := httptest.NewServer(embeddings(e))
	defer server.Close()
	texts := []string{"owls fly", "gophers dig"}
	got, err := (&remoteEmbedder{url: server.URL, dimension: 8}).Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	want, err := e.Embed(t.Context(), texts)
	if err != nil || !slices.EqualFunc(got, want, slices.Equal[[]float32]) {
		t.Errorf("got %v, want %v (%v)", got, want, err)
	}
}

// The interpreter is a shell script that prints its arguments and its input.
func TestLangChainReceivesDocuments(t *testing.T) {
	python := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(python, []byte("#!/bin/sh\necho \"$1 $2\"\ncat\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	for embedder, url := range map[string]string{"hash": "py/retrieval.py http://127.0.0.1:", "none": "py/retrieval.py \n"} {
		var out strings.Builder
		if err := run(t.Context(), []string{"locomo", "-embedder", embedder, "-python", python, locomoFile(t, original)}, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{url, `{"id":"D1:1","text":"Ann: I adopted a ferret."}`, `{"text":"Which ferret did Ann adopt?","sources":["D1:1"]}`} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: printed %s, want %s", embedder, &out, want)
			}
		}
	}
	err := run(t.Context(), []string{"locomo", "-embedder", "none", "-python", filepath.Join(t.TempDir(), "none"), locomoFile(t, original)}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "langchain: ") {
		t.Errorf("got %v for a missing interpreter", err)
	}
}
