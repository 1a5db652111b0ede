package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCranfieldIsMeasured(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"cran.all.1400": ".I 1\n.T\ntitle\n.W\nowls fly\nat night\n.I 2\n.W\ngophers dig\n.I 3\n.W\n\n",
		"cran.qry":      ".I 001\n.W\nwho digs or\ndig\n.I 004\n.W\nowls\n.I 005\n.W\nnobody\n",
		"cranqrel":      "1 2 1\n2 1 3\n2 2 -1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"cranfield", "-embedder", "hash", "-python", fakePython(t, `[{"name": "FAISS", "found": [["2"], ["2"]]}]`), dir}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"keyword   all       2          1.000     1.000     1.000      1.000  1.000",
		"FAISS     all       2          0.500     0.500     0.500      0.500  0.500    -       -", "-0.500 (-1.000 to +0.000)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("missing %q:\n%s", want, &out)
		}
	}
}
