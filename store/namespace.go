package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The maximum sizes of namespaces and keys in encoded form, in bytes; see
// [Namespace.Encode].
const (
	MaxNamespace = 1024
	MaxKey       = 1024
)

// A Namespace is a path of segments. Namespaces are compared segment by segment, never
// as joined text, so {"a", "b"} is not under {"a.b"}, and {"ab"} is not under {"a"}.
//
// A segment is any non-empty string of valid UTF-8, and may contain dots, wildcards,
// and NUL. The namespace of an item has at least one segment. An empty Namespace is a
// prefix of every namespace.
type Namespace []string

// String returns the quoted segments, for use in messages.
func (n Namespace) String() string { return fmt.Sprintf("%q", []string(n)) }

// HasPrefix reports whether n equals p or is below it.
func (n Namespace) HasPrefix(p Namespace) bool {
	return len(p) <= len(n) && slices.Equal(n[:len(p)], p)
}

// Encode returns the namespace as a single string, which backends can use as a column
// or map key. It contains no NUL, and is valid UTF-8 if n is. Encoded namespaces sort
// by bytes in the same order as namespaces sort by segments, and q is under p exactly
// if q.Encode() starts with p.Encode(). A key is encoded as a namespace of one segment.
func (n Namespace) Encode() string {
	size := 0
	for _, s := range n {
		size += len(s) + 1
	}
	var b strings.Builder
	b.Grow(size)
	for _, s := range n {
		for i := range len(s) {
			if c := s[i]; c <= escape {
				b.WriteByte(escape)
				b.WriteByte(c + escape)
			} else {
				b.WriteByte(c)
			}
		}
		b.WriteByte(terminator)
	}
	return b.String()
}

// Special bytes of the encoding. A segment ends with the smallest byte of the encoding,
// so that it sorts before longer segments that start with it.
const (
	terminator = 1
	escape     = 2 // the next byte is one from 0 to 2, plus 2
)

var errEncoding = errors.New("store: not an encoded namespace")

// DecodeNamespace decodes the result of [Namespace.Encode].
func DecodeNamespace(encoded string) (Namespace, error) {
	var n Namespace
	var segment []byte
	for i := 0; i < len(encoded); i++ {
		switch c := encoded[i]; c {
		case terminator:
			n = append(n, string(segment))
			segment = segment[:0]
		case escape:
			i++
			if i == len(encoded) || encoded[i] < escape || encoded[i] > 2*escape {
				return nil, errEncoding
			}
			segment = append(segment, encoded[i]-escape)
		case 0:
			return nil, errEncoding
		default:
			segment = append(segment, c)
		}
	}
	if len(segment) > 0 || encoded != "" && encoded[len(encoded)-1] != terminator {
		return nil, errEncoding
	}
	return n, nil
}

// check returns an error if n is invalid as the namespace of an item, or as a prefix.
func (n Namespace) check(prefix bool) error {
	if len(n) == 0 && !prefix {
		return &InvalidError{What: "namespace", Reason: "is empty: use at least one segment"}
	}
	if isBranch(n) {
		return &InvalidError{What: "namespace " + n.String(), Reason: "is reserved for branches: use Store.Branch"}
	}
	for i, s := range n {
		switch {
		case s == "":
			return &InvalidError{What: "namespace " + n.String(), Reason: fmt.Sprintf("segment %d is empty", i)}
		case !utf8.ValidString(s):
			return &InvalidError{What: "namespace " + n.String(), Reason: fmt.Sprintf("segment %d is not valid UTF-8", i)}
		}
	}
	if size := len(n.Encode()); size > MaxNamespace {
		return &InvalidError{What: "namespace", Reason: fmt.Sprintf("has %d bytes: the limit is %d", size, MaxNamespace)}
	}
	return nil
}

func checkKey(n Namespace, key string) error {
	if err := n.check(false); err != nil {
		return err
	}
	switch {
	case key == "":
		return &InvalidError{What: "key in namespace " + n.String(), Reason: "is empty"}
	case !utf8.ValidString(key):
		return &InvalidError{What: fmt.Sprintf("key %q in namespace %v", key, n), Reason: "is not valid UTF-8"}
	case len(Namespace{key}.Encode()) > MaxKey:
		return &InvalidError{What: "key in namespace " + n.String(), Reason: fmt.Sprintf("exceeds %d bytes", MaxKey)}
	}
	return nil
}
