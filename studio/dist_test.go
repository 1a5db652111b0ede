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

// The committed page is what its source makes.
func TestTheCommittedPageIsTheOneThatTheSourceMakes(t *testing.T) {
	if _, err := os.Stat("web/node_modules"); err != nil {
		t.Fatalf("this test needs packages from npm: %v: run .ci/npm", err)
	}
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
		t.Fatalf("dist has %v, and the source makes %v: npm run build in studio/web", got, want)
	}
	for name, want := range made {
		if !bytes.Equal(have[name].plain, want) {
			t.Errorf("dist/%s is not what the source makes: npm run build in studio/web", name)
		}
	}
}

// maxScript is what the scripts of the page may have, compressed.
const maxScript = 600_000

func TestTheScriptsAreSmall(t *testing.T) {
	var total int
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
		total += b.Len()
	}
	t.Logf("scripts: %d bytes compressed", total)
	if total > maxScript {
		t.Errorf("the scripts have %d bytes compressed, more than %d", total, maxScript)
	}
}
