package llm

import (
	"bytes"
	"encoding/json"
	"testing"
)

// Arguments without spaces are not compacted; they are read as if they were.
func TestArgumentsDecodeLikePackageJSON(t *testing.T) {
	for _, raw := range []string{
		`{}`, `{"a":1,"b":[true,null,"x"],"c":{"d":-1.5e3}}`, `{"a":"b c"}`, "{\"a\":\n1}", `{"é":"\u00e9\n"}`,
		`{"a":01}`, `{"a":+1}`, `{"a":1.}`, `{"a":tru}`, `{"a":1,}`, `{"a"}`, `{"a":"`, `{a:1}`, `{"a":1}x`, "{\"a\":\"\x01\"}", `{"a":"\x"}`, `[1]`,
	} {
		args, problem := parseArgs(raw, false)
		var want bytes.Buffer
		if json.Compact(&want, []byte(raw)) != nil || raw[0] != '{' {
			if problem == "" {
				t.Errorf("%s is read as %s", raw, args)
			}
			continue
		}
		if problem != "" || string(args) != want.String() {
			t.Errorf("%s is read as %s (%s), want %s", raw, args, problem, &want)
		}
	}
}
