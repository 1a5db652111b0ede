package prompts

import (
	"testing"

	"pgregory.net/rapid"
)

// The first row is upstream's own. Without variables it leaves its tags in the
// text.
//
// Defect: §3.4 a prompt without variables keeps the tags of the optimizer.
func TestRepairDoublesStrayBraces(t *testing.T) {
	const original = "Hi {name}, use {tool}"
	for _, test := range []struct{ original, text, want string }{
		{original, "Yo {name} {bogus} {{x}} <TO_OPTIMIZE a=1>z</TO_OPTIMIZE>", "Yo {name} {{bogus}} {{x}} z"},
		{original, "<TO_OPTIMIZE>\n{tool}\n</TO_OPTIMIZE>", "{tool}"},
		{original, `{"a": {name}}`, `{{"a": {name}}}`},
		{original, "{{name}} {{{name}}}", "{{name}} {{{name}}}"},
		{original, "} {", "}} {{"},
		{"no variables", "{x} {{y}}", "{{x}} {{y}}"},
		{"no variables", "<TO_OPTIMIZE a=1>z</TO_OPTIMIZE>", "z"},
		{`not doubled: {"a": 1} {name}`, `{"b": 2} {name}`, `{"b": 2} {name}`},
	} {
		if got := repairTemplate(test.original, test.text); got != test.want {
			t.Errorf("%q healed by %q is %q, want %q", test.text, test.original, got, test.want)
		}
	}
}

func TestRepairIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([{}]|name|x| )*`).Draw(t, "text")
		healed := repairTemplate("{name}", text)
		if strayBraces(healed) {
			t.Errorf("%q has stray braces", healed)
		}
		if again := repairTemplate("{name}", healed); again != healed {
			t.Errorf("%q becomes %q when it is healed again", healed, again)
		}
		for _, v := range promptVariables(healed) {
			if v != "name" {
				t.Errorf("%q has the variable %s", healed, v)
			}
		}
	})
}

func TestDiffShowsEveryLineOfBothTexts(t *testing.T) {
	got := diffLines("a\nb\nc", "a\nx\nc\nd")
	if want := "  a\n- b\n+ x\n  c\n+ d\n"; got != want {
		t.Errorf("diff:\n%s\nwant:\n%s", got, want)
	}
}
