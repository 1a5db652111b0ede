package main

import (
	"bytes"
	"encoding/json"
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

// fakePython returns an interpreter that keeps its arguments and its input, and prints the
// searches.
func fakePython(t *testing.T, searches string) (python string) {
	t.Helper()
	python = filepath.Join(t.TempDir(), "python")
	script := "#!/bin/sh\necho \"$1 $2\" > \"$0.in\"\ncat >> \"$0.in\"\ncat <<END\n" + searches + "\nEND\n"
	if err := os.WriteFile(python, []byte(script), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return python
}

func TestLangChainIsMeasured(t *testing.T) {
	python := fakePython(t, `[{"name": "FAISS", "found": [["D1:1"], ["D1:1", "D2:1"]]}]`)
	for embedder, url := range map[string]string{"hash": "py/retrieval.py http://127.0.0.1:", "none": "py/retrieval.py \n"} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{"locomo", "-json", "-embedder", embedder, "-python", python, locomoFile(t, original)}, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		given, err := os.ReadFile(python + ".in")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{url, `{"id":"D1:1","text":"Ann: I adopted a ferret."}`, `"questions":["Which ferret did Ann adopt?",`} {
			if !strings.Contains(string(given), want) {
				t.Errorf("%s: passed %s, want %s", embedder, given, want)
			}
		}
		lines := map[string]locomoLine{}
		for d := json.NewDecoder(&out); d.More(); {
			var l locomoLine
			if err := d.Decode(&l); err != nil {
				t.Fatal(err)
			}
			lines[l.Ranking+" "+l.Category] = l
		}
		if l := lines["FAISS "+allCategories]; l.Questions != 2 || l.At10 != 0.75 || l.MRR != 0.75 || l.Base != recallerRanking || l.MRRVs == nil {
			t.Errorf("%s: %+v", embedder, l)
		}
		if l := lines["FAISS multi"]; l.Questions != 1 || l.At10 != 0.5 {
			t.Errorf("%s: %+v", embedder, l)
		}
	}
}

func TestLangChainFailuresAreReported(t *testing.T) {
	for python, want := range map[string]string{
		filepath.Join(t.TempDir(), "none"):              "langchain: ",
		fakePython(t, "nothing"):                        "langchain: invalid character",
		fakePython(t, `[{"name": "X", "found": [[]]}]`): "langchain: X: results of 1 questions, want 2",
	} {
		err := run(t.Context(), []string{"locomo", "-embedder", "none", "-python", python, locomoFile(t, original)}, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
