package pregel

import (
	"reflect"
	"testing"
)

// A nested run, with the allocator's 8-byte header, fits into the size class of 1792
// bytes.
func TestNestedRunIsSmall(t *testing.T) {
	if size := reflect.TypeFor[nestedRun]().Size(); size+8 > 1792 {
		t.Errorf("a nested run takes %d bytes, want at most %d", size, 1792-8)
	}
}
