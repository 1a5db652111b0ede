package main

import (
	"io"
	"strings"
	"testing"
)

func TestFolderIsMeasured(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []string{"20 added", "20 unchanged"} { // the second run reuses the folder
		var out strings.Builder
		if err := run(t.Context(), []string{"folder", "-chunks", "20", "-dir", dir}, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		if first, _, _ := strings.Cut(out.String(), "unchanged sync"); !strings.Contains(first, want) || !strings.Contains(out.String(), "semantic") {
			t.Error(out.String())
		}
	}
	if err := run(t.Context(), []string{"folder", "unexpected"}, io.Discard, io.Discard); err == nil {
		t.Error("accepts an argument")
	}
}
