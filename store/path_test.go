package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPathsSelectTexts(t *testing.T) {
	const value = `{
		"title": "T", "n": 1.50, "yes": true, "nothing": null, "blank": " ", "empty": {},
		"meta": {"b": "<2>", "a": ["x", {"k": "y"}]},
		"list": ["one", "two", {"k": "three"}, null],
		"deep": {"l": [{"k": "p", "j": "q"}, {"k": "r"}]},
		"$dollar": "D"
	}`
	type found map[string]string
	for given, want := range map[string]found{
		"title":            {"title": "T"},
		"$.title":          {"$.title": "T"},
		"n":                {"n": "1.50"},
		"yes":              {"yes": "true"},
		"nothing":          {},
		"missing":          {},
		"blank":            {},
		"empty":            {},
		"title.x":          {},
		"meta":             {"meta": `{"a":["x",{"k":"y"}],"b":"<2>"}`},
		"meta.b":           {"meta.b": "<2>"},
		"list":             {"list": `["one","two",{"k":"three"},null]`},
		"list[0]":          {"list[0]": "one"},
		"list[-3]":         {"list[-3]": "two"},
		"list[-2].k":       {"list[-2].k": "three"},
		"list[9]":          {},
		"list[-9]":         {},
		"list[*]":          {"list[*].0": "one", "list[*].1": "two", "list[*].2": `{"k":"three"}`},
		"list[*].k":        {"list[*].k": "three"},
		"deep.l[*].k":      {"deep.l[*].k.0": "p", "deep.l[*].k.1": "r"},
		"meta.*":           {"meta.*.0": `["x",{"k":"y"}]`, "meta.*.1": "<2>"},
		"deep.l.*.k":       {"deep.l.*.k.0": "p", "deep.l.*.k.1": "r"},
		"{title,meta.b}":   {"{title,meta.b}.0": "T", "{title,meta.b}.1": "<2>"},
		"deep.l[0].{k, j}": {"deep.l[0].{k, j}.0": "p", "deep.l[0].{k, j}.1": "q"},
		"{deep,x}.l[1].k":  {"{deep,x}.l[1].k": "r"},
		"$dollar":          {"$dollar": "D"},
	} {
		p, err := parsePath(given)
		if err != nil {
			t.Fatalf("%s: %v", given, err)
		}
		texts, err := textsOf([]byte(value), []path{p})
		if err != nil {
			t.Fatalf("%s: %v", given, err)
		}
		got := found{}
		for _, text := range texts {
			got[text.field] = text.text
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", given, diff)
		}
	}
}

func TestWholeValueIsOneText(t *testing.T) {
	for _, path := range []string{"", "$"} {
		texts, err := textsOf([]byte(`{"b":1,"a":"<é>"}`), mustPaths([]string{path}))
		if diff := cmp.Diff([]text{{"$", `{"a":"<é>","b":1}`}}, texts, cmp.AllowUnexported(text{})); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", path, err, diff)
		}
	}
}

func TestInvalidPathsAreRejected(t *testing.T) {
	for _, path := range []string{".", "a.", ".a", "a..b", "a[", "a]b[", "a[]", "a[x]", "a[1", "a[1]b", "{a", "a}", "{a,}", "{}", "a.{b.{c}", "[1]]"} {
		if p, err := parsePath(path); err == nil {
			t.Errorf("%q parses as %+v", path, p)
		}
	}
}

// A path may come from a client, so its cost must be bounded.
func TestExplosivePathsAreRejected(t *testing.T) {
	nested := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	for given, value := range map[string]string{
		strings.TrimSuffix(strings.Repeat("{a,a}.", 40), "."): nested,
		strings.Repeat("{a,a}.", 39) + "b":                    nested,
		"l[*]":                                                `{"l":[` + strings.Repeat("1,", 1000) + `1]}`,
	} {
		if _, err := textsOf([]byte(value), mustPaths([]string{given})); !errors.Is(err, errTooMany) {
			t.Errorf("%s: got error %v", given, err)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, seed := range []string{"a.b[0].{c,d[*]}.*", "$", "{{a},b}", "a[-1][*]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePath(text)
		if err != nil {
			return
		}
		if _, err := textsOf([]byte(`{"a":{"b":[1,[2,{"c":"x"}]]},"":""}`), []path{p}); err != nil && !errors.Is(err, errTooMany) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
