package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDamagedEncoderIsReported(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TREADLE_ENCODER", dir)
	if opts, err := demoOptions(); err != nil || opts != nil {
		t.Errorf("without an encoder: got %v and %v", opts, err)
	}
	for _, name := range []string{"model.safetensors", "vocab.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := demoOptions(); err == nil {
		t.Error("the server uses a damaged encoder")
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"encoder"}, strings.NewReader(""), &out, &errs); code != exitFailed ||
		!strings.Contains(errs.String(), "delete the directory and run the command again") {
		t.Errorf("got exit code %d, %q, and %q", code, out.String(), errs.String())
	}
}
