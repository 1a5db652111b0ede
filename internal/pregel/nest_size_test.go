package pregel

import (
	"reflect"
	"testing"
)

// A nested run fits into the memory that the allocator has for objects of up to 1792 bytes,
// with the 8 bytes that it puts in front of them.
func TestANestedRunIsSmall(t *testing.T) {
	if size := reflect.TypeFor[nestedRun]().Size(); size+8 > 1792 {
		t.Errorf("a nested run takes %d bytes, want at most %d", size, 1792-8)
	}
}
