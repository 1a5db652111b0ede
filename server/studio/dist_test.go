package studio

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// The committed page matches its source.
func TestCommittedPageMatchesSource(t *testing.T) {
	needPackages(t)
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join("node_modules", ".bin", "vite"), "build", "--outDir", dir, "--logLevel", "error")
	cmd.Dir = "web"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			made[name], err = os.ReadFile(filepath.Join(dir, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	have := files()
	if got, want := slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(made)); !slices.Equal(got, want) {
		t.Fatalf("dist has %v, and the source makes %v: npm run build in server/studio/web", got, want)
	}
	for name, want := range made {
		if !bytes.Equal(have[name].plain, want) {
			t.Errorf("dist/%s does not match the source: run npm run build in server/studio/web", name)
		}
	}
}

const (
	// maxScript is the maximum compressed size of the page's scripts.
	maxScript = 600_000
	// maxEntry is the maximum compressed size of the script that starts the page.
	maxEntry = 250_000
)

func TestScriptsAreSmall(t *testing.T) {
	var total, entry int
	for name, f := range files() {
		if filepath.Ext(name) != ".js" {
			continue
		}
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.plain); err != nil || w.Close() != nil {
			t.Fatal("gzip", err)
		}
		if total += b.Len(); name == "studio.js" {
			entry = b.Len()
		}
	}
	t.Logf("scripts: %d bytes compressed, %d of them in the entry", total, entry)
	if entry == 0 || entry > maxEntry {
		t.Errorf("studio.js has %d bytes compressed, want at most %d", entry, maxEntry)
	}
	if total > maxScript {
		t.Errorf("the scripts have %d bytes compressed, more than %d", total, maxScript)
	}
}
