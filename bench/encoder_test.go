package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/store"
)

// noWeights sets up an environment without weights and with an empty cache.
func noWeights(t *testing.T) {
	t.Helper()
	before := weights
	weights = filepath.Join(t.TempDir(), "none")
	t.Cleanup(func() { weights = before })
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

// served returns a parcel of files on a test server.
func served(t *testing.T, files map[string]string) parcel {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o600, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b.Bytes()) }))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	sum := sha512.Sum512(b.Bytes())
	return parcel{url: server.URL + "/encoder-1.tgz", integrity: base64.StdEncoding.EncodeToString(sum[:]), size: "little"}
}

func TestEncoderIsFetchedOnceOnDemand(t *testing.T) {
	noWeights(t)
	p := served(t, map[string]string{"package/dist/model.json": "{}", "package/dist/shard": "1", "package/README.md": "no",
		"package/dist/../../outside": "no", "package/dist/deep/file": "no"})
	if dir, err := encoderDir(t.Context(), false, p, io.Discard); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without fetch: found in %q (%v)", dir, err)
	}
	var progress strings.Builder
	dir, err := encoderDir(t.Context(), true, p, &progress)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"model.json", "shard"}; !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
	if !strings.Contains(progress.String(), "fetching the sentence encoder") {
		t.Errorf("progress: %q", progress.String())
	}
	p.url = "http://127.0.0.1:1/encoder-1.tgz" // no server is needed
	for _, fetch := range []bool{true, false} {
		if again, err := encoderDir(t.Context(), fetch, p, io.Discard); err != nil || again != dir {
			t.Errorf("second time: found in %q (%v)", again, err)
		}
	}
}

func TestFailedFetchLeavesNothing(t *testing.T) {
	good := map[string]string{"package/dist/model.json": "{}"}
	for name, spoil := range map[string]func(*parcel){
		"another sum": func(p *parcel) { p.integrity = "AAAA" },
		"not there":   func(p *parcel) { p.url = "http://127.0.0.1:1/encoder-1.tgz" },
	} {
		t.Run(name, func(t *testing.T) {
			noWeights(t)
			p := served(t, good)
			spoil(&p)
			var progress strings.Builder
			if _, err := encoderDir(t.Context(), true, p, &progress); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("error: %v", err)
			}
			if !strings.Contains(progress.String(), "failed to fetch") {
				t.Errorf("progress: %q", progress.String())
			}
			if left, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "treadle", "bench", "*")); len(left) > 0 {
				t.Errorf("left %q", left)
			}
		})
	}
}

// Vectors of hashed n-grams are not normalized, but the store's are, so the nearest
// vectors differ unless the corpus normalizes them too.
func TestHashedNGramRecallMatchesSearch(t *testing.T) {
	noWeights(t)
	const size = 2000
	c, err := newCorpus(t.Context(), size, false, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(c.note, "-fetch") {
		t.Errorf("note %q does not explain how to get the encoder", c.note)
	}
	s, err := store.NewMemory(&store.Options{Embedder: c, Fields: []string{"text"}})
	if err != nil {
		t.Fatal(err)
	}
	fill(t.Context(), t, s, c.facts)
	for q, question := range c.questions[:20] {
		items, err := s.Search(t.Context(), nil, &store.SearchOptions{Query: question, Ranking: store.Semantic})
		if err != nil {
			t.Fatal(err)
		}
		var found []note
		for _, item := range items {
			var n note
			if err := item.Decode(&n); err != nil {
				t.Fatal(err)
			}
			found = append(found, n)
		}
		if got := c.recall(q, size, found); got != 1 {
			t.Errorf("question %d: recall %v of an exact search", q, got)
		}
	}
}

func fill(ctx context.Context, t *testing.T, s *store.Store, facts []string) {
	t.Helper()
	var ops []store.Op
	for i, text := range facts {
		ops = append(ops, store.PutOp{Namespace: store.Namespace{"f"}, Key: text, Value: note{Text: text, N: i}})
	}
	if _, err := s.Batch(ctx, ops...); err != nil {
		t.Fatal(err)
	}
}

// The bench downloads the same package as npm ci.
func TestEncoderMatchesTests(t *testing.T) {
	lock, err := os.ReadFile(filepath.Join("..", "internal", "test", "npm", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(lock), "sha512-"+encoderParcel.integrity) {
		t.Error("package-lock.json has another checksum: update encoderParcel")
	}
}
