package v2

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/treadle-go/treadle/examples/guides/changing/v1"
)

// TestMain records the threads of version 1 in a temporary directory instead of the working tree.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "essays")
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "testdata"), 0o755)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "v2"), 0o755)
	}
	if err == nil {
		err = v1.Record(context.Background(), filepath.Join(dir, "testdata", "v1.db"))
	}
	if err == nil {
		err = os.Chdir(filepath.Join(dir, "v2"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
