package minilm

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestOpenReportsInvalidFiles(t *testing.T) {
	files, err := modelFiles()
	if err != nil {
		t.Fatal(err)
	}
	weights, vocab := files[weightsFile].Data, files[vocabFile].Data
	for name, c := range map[string]struct {
		file    string
		content []byte
		want    string
	}{
		"no vocabulary":     {vocabFile, nil, "no ["},
		"other vocabulary":  {vocabFile, append(bytes.Clone(vocab), "more\n"...), "not all-MiniLM-L6-v2"},
		"empty":             {weightsFile, []byte{1}, "file truncated"},
		"truncated":         {weightsFile, weights[:len(weights)-1], "file truncated or damaged"},
		"huge description":  {weightsFile, append([]byte{255, 255, 255, 255, 255, 255, 255, 255}, weights[8:]...), "exceeds the file"},
		"no description":    {weightsFile, append([]byte{2, 0, 0, 0, 0, 0, 0, 0}, "[]"...), "description: "},
		"no tensors":        {weightsFile, append([]byte{2, 0, 0, 0, 0, 0, 0, 0}, "{}"...), "missing tensor"},
		"tensor of strings": {weightsFile, append([]byte{7, 0, 0, 0, 0, 0, 0, 0}, `{"a":1}`...), `tensor "a": `},
		"half precision":    {weightsFile, bytes.Replace(weights, []byte(`"F32"`), []byte(`"F16"`), 1), "want F32"},
	} {
		changed := maps.Clone(files)
		changed[c.file] = &fstest.MapFile{Data: c.content, Mode: 0o600}
		if _, err := load(changed); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestModelIsNamedAfterItsFiles(t *testing.T) {
	files, err := modelFiles()
	if err != nil {
		t.Fatal(err)
	}
	weights := bytes.Clone(files[weightsFile].Data)
	weights[len(weights)-4]++
	changed := maps.Clone(files)
	changed[weightsFile] = &fstest.MapFile{Data: weights, Mode: 0o600}
	other, err := load(changed)
	if err != nil {
		t.Fatal(err)
	}
	if e := openModel(t); other.Model() == e.Model() || other.Dimension() != 384 {
		t.Errorf("both are named %s", e.Model())
	}
}

// packed returns an archive like the published one.
func packed(t *testing.T, names ...string) []byte {
	t.Helper()
	files, err := modelFiles()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, name := range names {
		w, err := z.CreateHeader(&zip.FileHeader{Name: "package/model/" + name}) // not compressed: it is slow
		if err != nil {
			t.Fatal(err)
		}
		if f := files[name]; f != nil {
			if _, err := w.Write(f.Data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// publish makes Install fetch content.
func publish(t *testing.T, content []byte, sum string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	before := published
	t.Cleanup(func() { published = before })
	published = archive{server.URL + "/model.whl", sum}
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func TestInstalledModelIsFound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "models", "here")
	t.Setenv(dirVariable, dir)
	if _, err := Find(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), `run "treadle encoder"`) {
		t.Errorf("got %v before the installation", err)
	}
	content := packed(t, "README.md", vocabFile, weightsFile)
	publish(t, content, sumOf(content))
	for range 2 { // the second fetches nothing
		if got, err := Install(t.Context()); err != nil || got != dir {
			t.Fatalf("got %q and %v", got, err)
		}
		published.url = "http://127.0.0.1:1/"
	}
	e, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	if want := openModel(t).Model(); e.Model() != want {
		t.Errorf("got model %s, want %s", e.Model(), want)
	}
}

func TestFailedInstallLeavesNothing(t *testing.T) {
	parent := t.TempDir()
	t.Setenv(dirVariable, filepath.Join(parent, "model"))
	whole, partial := packed(t, vocabFile, weightsFile), packed(t, vocabFile)
	for _, c := range []struct {
		content   []byte
		sum, want string
	}{
		{whole, sumOf(partial), "checksum mismatch"},
		{whole[:100], sumOf(whole), "checksum mismatch"},
		{partial, sumOf(partial), "archive lacks model.safetensors"},
		{[]byte("no zip"), sumOf([]byte("no zip")), "not a valid zip file"},
	} {
		publish(t, c.content, c.sum)
		if _, err := Install(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) != 0 {
			t.Errorf("%s: left %v, %v", c.want, left, err)
		}
	}
	published.url += "\x7f"
	if _, err := Install(t.Context()); err == nil {
		t.Error("fetched an invalid address")
	}
}

func TestDefaultDirIsInUserCache(t *testing.T) {
	t.Setenv(dirVariable, "")
	t.Setenv("HOME", "/home/ada")
	t.Setenv("XDG_CACHE_HOME", "")
	if dir, err := Dir(); err != nil || !strings.HasSuffix(filepath.ToSlash(dir), "/treadle/all-MiniLM-L6-v2") {
		t.Errorf("got %q and %v", dir, err)
	}
}
