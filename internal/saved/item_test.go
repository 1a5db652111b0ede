package saved

import (
	"bytes"
	"testing"

	"github.com/treadle-go/treadle/store"
)

// The numbers are in tables, so they stay.
func TestKindsOfItemsHaveTheirNumbers(t *testing.T) {
	for number, kind := range map[int]store.Kind{1: store.Put, 2: store.Deleted, 3: store.Expired, 4: store.Forgotten} {
		if got := ItemNumber(kind); got != number {
			t.Errorf("the number of %q is %d, want %d", kind, got, number)
		}
		if got := ItemKind(number); got != kind {
			t.Errorf("the kind %d is %q, want %q", number, got, kind)
		}
	}
	for _, number := range []int{-1, 0, 5} {
		if got := ItemKind(number); got != "" {
			t.Errorf("the kind %d is %q, want none", number, got)
		}
	}
	if got := ItemNumber("another"); got != 0 {
		t.Errorf("the number of another kind is %d, want 0", got)
	}
}

func TestSpanCoversPrefix(t *testing.T) {
	all := []store.Namespace{nil, {"a"}, {"a", "b"}, {"a", "\U0010ffff"}, {"a.b"}, {"ab"}, {"b"}, {"é"}}
	for _, prefix := range all {
		from, to := Span(prefix.Encode())
		for _, n := range all {
			name := []byte(n.Encode())
			under := len(n) >= len(prefix) && n[:len(prefix)].Encode() == prefix.Encode()
			if got := bytes.Compare(name, from) >= 0 && bytes.Compare(name, to) < 0; got != under {
				t.Errorf("%q is in the span of %q: %v, want %v", n, prefix, got, under)
			}
		}
	}
}

func TestNewsReachThoseWhoWait(t *testing.T) {
	var n News
	n.Tell() // without a waiter
	first, second := n.Next(), n.Next()
	n.Tell()
	<-first
	<-second
	select {
	case <-n.Next():
		t.Error("old news were reported again")
	default:
	}
}
