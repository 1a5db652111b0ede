package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// Characters that a terminal acts on: an escape, a C1 control as a character and as a
// byte, delete, a carriage return, and changes of direction.
const unruly = "a\x1b[2Jb\u009b2Jc\x9b2Jd\x7fe\rf\u202eg\u2066h\u200fi\u2028j"

func TestTerminalTextHasNoControlCharacters(t *testing.T) {
	for name, got := range map[string]string{"plain": plain(unruly), "printable": printable(unruly), "visible": string(plainJSON([]byte(unruly)))} {
		for _, bad := range []string{"\x1b", "\u009b", "\x9b2", "\x7f", "\r", "\u202e", "\u2066", "\u200f", "\u2028"} {
			if strings.Contains(got, bad) {
				t.Errorf("%s leaves %q in %q", name, bad, got)
			}
		}
	}
	if got := printable("a\tb\nc 👩‍👩‍👧"); got != "a\tb\nc 👩‍👩‍👧" {
		t.Errorf("%q", got)
	}
}

func TestPlainJSONKeepsValue(t *testing.T) {
	in := "a\x1b[2Jb\u009bc\x7f\u202e\u2066\n\t\""
	raw, err := json.Marshal(map[string]string{in: in})
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]string
	if err := json.Unmarshal(plainJSON(raw), &out); err != nil || out[in] != in {
		t.Errorf("%q, %v", out, err)
	}
	if bytes.ContainsAny(plainJSON(raw), "\x1b\x7f\u009b\u202e\u2066") {
		t.Errorf("%q", plainJSON(raw))
	}
}
