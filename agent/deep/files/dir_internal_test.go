package files

import (
	"os"
	"testing"
)

func TestFailedRenameFailsWrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/name/child", 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := replace(root, "name", []byte("text"), 0o600); err == nil {
		t.Error("replacing a directory succeeded")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the directory contains %v, %v", left, err)
	}
}
