package openai

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/treadle-go/treadle/internal/sse"
)

// values decodes any JSON with a scanner, and reports whether it is JSON.
func values(data []byte) (any, bool) {
	s := scanner{data: data}
	v := anyOf(&s)
	s.end()
	return v, !s.broken
}

func anyOf(s *scanner) any {
	switch s.peek() {
	case '{':
		m := map[string]any{}
		if s.open('{') {
			for s.more('}') {
				k := string(s.key())
				m[k] = anyOf(s)
			}
		}
		return m
	case '[':
		list := []any{}
		if s.open('[') {
			for s.more(']') {
				list = append(list, anyOf(s))
			}
		}
		return list
	case '"':
		return s.str("")
	}
	return json.RawMessage(s.raw())
}

// FuzzScanner holds the scanner to encoding/json: it accepts the same, and
// means the same by it.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-0.5e+3,true,false,null,"x\n\u00e9\ud83d\ude00\ud83d\"\/"],"":{}}`, `[]`, ` { } `, `"\ud800\u0041"`, `01`, `[1,]`, `{"a":1,}`,
		`{"a" 1}`, `-`, `1e`, `"\x"`, `"`, "\"\x01\"", `nul`, `1 2`, `{"\u0061":1}`, `[[[[]]]]`, `"\ud83d\ude00"`, `"\u12"`, `,`, `[,1]`, `{,}`, `]`, "\xff", "\"\xff\"", "1\x00", "\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := values(data)
		if want := json.Valid(data); ok != want {
			t.Fatalf("%q: valid is %v, want %v", data, ok, want)
		}
		skipped := scanner{data: data}
		skipped.skip()
		skipped.end()
		if skipped.broken == ok {
			t.Fatalf("%q: reading and skipping differ", data)
		}
		if !ok || !utf8.Valid(data) { // encoding/json replaces invalid UTF-8
			return
		}
		raw, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var want, again any
		if err := json.Unmarshal(data, &want); err != nil {
			return // a number that is too large
		}
		if err := json.Unmarshal(raw, &again); err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(again)
		if string(a) != string(b) {
			t.Errorf("%q is %s, want %s", data, b, a)
		}
	})
}

func TestScannerLimitsDepth(t *testing.T) {
	for depth, want := range map[int]bool{maxDepth: true, maxDepth + 1: false} {
		data := make([]byte, 2*depth)
		for i := range depth {
			data[i], data[depth+i] = '[', ']'
		}
		s := scanner{data: data}
		s.skip()
		s.end()
		if s.broken == want || json.Valid(data) != want {
			t.Errorf("depth %d: accepted %v, by encoding/json %v, want %v", depth, !s.broken, json.Valid(data), want)
		}
	}
}

// Values of other types than expected say something, or nothing, but break nothing.
func TestScannerTakesOtherTypes(t *testing.T) {
	for value, want := range map[string]struct {
		text, str string
		number    int64
	}{
		`"a"`: {"a", "a", 0}, `null`: {}, `5`: {"5", "", 5}, `"5"`: {"5", "5", 5}, `5.0`: {"5.0", "", 5}, `1e3`: {"1e3", "", 1000},
		`{"a":[1]}`: {`{"a":[1]}`, "", 0}, `true`: {"true", "", 0}, `1e300`: {"1e300", "", 0}, `-3`: {"-3", "", -3}, `""`: {},
	} {
		read := func(f func(*scanner)) {
			s := scanner{data: []byte("[" + value + ",1]")}
			s.open('[')
			s.more(']')
			f(&s)
			if !s.more(']') || s.number() != 1 || s.more(']') || s.broken {
				t.Errorf("%s: the scanner is lost", value)
			}
		}
		read(func(s *scanner) {
			if got := s.text(""); got != want.text {
				t.Errorf("%s: the text is %q, want %q", value, got, want.text)
			}
		})
		read(func(s *scanner) {
			if got := s.str(""); got != want.str {
				t.Errorf("%s: the string is %q, want %q", value, got, want.str)
			}
		})
		read(func(s *scanner) {
			if got := s.number(); got != want.number {
				t.Errorf("%s: the number is %d, want %d", value, got, want.number)
			}
		})
		read(func(s *scanner) {
			if s.open('{') {
				for s.more('}') {
					s.key()
					s.skip()
				}
			}
		})
	}
}

// A server may send two pieces of one answer in one event. Nothing of the first is
// lost.
func TestTwoPiecesInOneEventAreJoined(t *testing.T) {
	var p piece
	err := p.read(sse.Event{Data: []byte(`{"choices":[` +
		`{"index":0,"logprobs":{"content":[1]},"delta":{"content":"a","reasoning_content":"first "}},` +
		`{"index":0,"delta":{"content":"b","reasoning_content":"second","annotations":[{"type":"x"}]}}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if p.content != "ab" || p.reasoning.text != "first second" || p.meta["logprobs"] == nil || p.meta["annotations"] == nil {
		t.Errorf("joined they are %+v", p.choice)
	}
	err = p.read(sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{"content":"c","reasoning_content":"kept"}},{"index":0,"delta":{"content":"d"}}]}`)})
	if err != nil || p.content != "cd" || p.reasoning.text != "kept" || p.reasoning.field == "" {
		t.Errorf("joined they are %+v, %v", p.choice, err)
	}
}
