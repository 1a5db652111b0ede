package store

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// segment draws strings that often contain special bytes of the encoding.
var segment = rapid.StringOfN(rapid.RuneFrom([]rune{0, 1, 2, 3, 4, 5, 'a', 'b', '.', 'é', 0x10ffff}), 1, 4, -1)

func TestEncodingPreservesOrderAndPrefixes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SliceOfN(segment, 0, 4)
		a, b := Namespace(draw.Draw(t, "a")), Namespace(draw.Draw(t, "b"))
		if rapid.Bool().Draw(t, "related") {
			b = append(slices.Clone(a), b...)
		}
		ea, eb := a.Encode(), b.Encode()
		back, err := DecodeNamespace(ea)
		if err != nil || !slices.Equal(back, a) {
			t.Fatalf("%v decodes to %v, %v", a, back, err)
		}
		if strings.Contains(ea, "\x00") || !utf8.ValidString(ea) {
			t.Fatalf("%v encodes to %q", a, ea)
		}
		if got, want := strings.Compare(ea, eb), slices.Compare(a, b); got != want {
			t.Fatalf("%v and %v compare as %d, encoded as %d", a, b, want, got)
		}
		if got, want := strings.HasPrefix(eb, ea), b.HasPrefix(a); got != want {
			t.Fatalf("%v is under %v: %t, encoded: %t", b, a, want, got)
		}
	})
}

func TestDecodeNamespaceRejectsInvalid(t *testing.T) {
	for _, text := range []string{"a", "a\x01b", "\x00\x01", "\x02", "\x02\x01", "\x02\x05\x01", "\x02a\x01"} {
		if n, err := DecodeNamespace(text); err == nil {
			t.Errorf("%q decodes to %v", text, n)
		}
	}
}

func FuzzDecodeNamespace(f *testing.F) {
	f.Add("a\x01\x02\x02\x01")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := DecodeNamespace(text)
		if err == nil && n.Encode() != text {
			t.Errorf("%q decodes to %v, which encodes to %q", text, n, n.Encode())
		}
	})
}
