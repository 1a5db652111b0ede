package store

import (
	"bytes"
	"encoding/json"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/treadle-go/treadle/internal/leaves"
)

var number = rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?`)

func TestNumbersCompareExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, ok := new(big.Rat).SetString(a)
		y, ok2 := new(big.Rat).SetString(b)
		if !ok || !ok2 {
			t.Fatalf("%s or %s is not a number", a, b)
		}
		if got, want := parseDecimal([]byte(a)).compare(parseDecimal([]byte(b))), x.Cmp(y); got != want {
			t.Fatalf("%s and %s compare as %d, want %d", a, b, got, want)
		}
	})
}

func TestEqualNumbersInAnyNotation(t *testing.T) {
	for _, same := range [][]string{
		{"0", "-0", "0.0", "0e5", "-0.00e-7"},
		{"1", "1.0", "10e-1", "0.1e1", "1e0", "1E+0"},
		{"-120", "-1.2e2", "-120.000"},
		{"9007199254740993", "9007199254740993.0"},
		{"1e99999999999999999999", "1e99999999999999999998"}, // beyond the exponent limit
	} {
		for _, a := range same {
			for _, b := range same {
				if !equalJSON([]byte(a), []byte(b)) {
					t.Errorf("%s and %s compare as different", a, b)
				}
			}
		}
	}
}

// leaves.Find agrees with encoding/json.
func FuzzFind(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,"x",{"c":null}]},"a\"":"\\\"","a":{"d":-1.5e3}}`), "a", "d")
	f.Add([]byte(`{"a":[[],{},"]}",[1]]}`), "a", "3")
	f.Add([]byte(`{"":{"\u0000":true}}`), "", "\x00")
	f.Fuzz(func(t *testing.T, raw []byte, first, second string) {
		value, err := object(json.RawMessage(raw))
		if err != nil {
			return
		}
		for _, path := range [][]string{{first}, {first, second}} {
			got := leaves.Find(value, path)
			want, ok := findDecoded(decodeTree(value), path)
			if ok != (got != nil) {
				t.Fatalf("%q in %s: found %s, want %v", path, value, got, want)
			}
			if ok {
				if diff := cmp.Diff(want, decodeTree(got)); diff != "" {
					t.Fatalf("%q in %s (-want +got):\n%s", path, value, diff)
				}
			}
		}
	})
}

func findDecoded(v any, path []string) (any, bool) {
	for _, key := range path {
		switch in := v.(type) {
		case map[string]any:
			inner, ok := in[key]
			if !ok {
				return nil, false
			}
			v = inner
		case []any:
			var index int
			if err := json.Unmarshal([]byte(key), &index); err != nil || index < 0 || index >= len(in) || key[0] == '-' || bytes.ContainsAny([]byte(key), " \t\r\n.eE") {
				return nil, false
			}
			v = in[index]
		default:
			return nil, false
		}
	}
	return v, true
}
