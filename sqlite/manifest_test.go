package sqlite

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/checkpoint"
)

var someID = checkpoint.ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// samples have every kind of thing that a manifest can hold.
func samples() []*manifest {
	near, far := someID, checkpoint.ID{0xff}
	near[5]--
	first, last := someID, someID
	first[0]++
	last[15]++
	slots := []slot{
		{},
		{kind: kindSmall, version: 1<<64 - 1, data: []byte("small")},
		{kind: kindSmall, data: []byte{}},
		{kind: kindLarge, version: 7, chain: 1 << 40},
		{kind: kindList, version: 8},
		{kind: kindList, version: 9, length: 1000, segs: []segment{{3, 4}, {5, 0}}, owned: true},
		{kind: kindList, version: 10, length: 1, segs: []segment{{1, 1}}},
	}
	return []*manifest{
		{},
		{shape: 3, rev: 2, step: -1, source: checkpoint.Input, parent: near, shared: true, control: []byte("control"), slots: slots, count: len(slots)},
		{source: "something else", parent: far, metadata: []byte("{}"), control: []byte{}},
		{source: checkpoint.Fork, parent: first, metadata: []byte{}, step: 1 << 40},
		{source: checkpoint.Update, parent: last, control: []byte("code"), echo: &echo{4, 5}},
		{source: checkpoint.Loop, based: true, base: 12, rent: 300, count: 9, patches: []patch{{0, slots[1]}, {3, slots[5]}, {8, slots[0]}}},
	}
}

func TestManifestRoundTrip(t *testing.T) {
	exported := cmp.Exporter(func(reflect.Type) bool { return true })
	for i, m := range samples() {
		record := m.append(nil, someID)
		got, err := parseManifest(record, someID)
		if err != nil {
			t.Errorf("sample %d: %v", i, err)
			continue
		}
		if d := cmp.Diff(m, got, exported); d != "" {
			t.Errorf("sample %d (-want +got):\n%s", i, d)
		}
		for n := range record { // no beginning of a record is one
			if _, err := parseManifest(record[:n], someID); err == nil {
				t.Errorf("sample %d: the first %d of %d bytes are a manifest too", i, n, len(record))
			}
		}
		if _, err := parseManifest(append(record, 0), someID); err == nil {
			t.Errorf("sample %d: a byte more is a manifest too", i)
		}
	}
}

// Whatever is in a record, reading it does not panic, and what can be read is
// written so that it reads the same.
func FuzzManifest(f *testing.F) {
	for _, m := range samples() {
		f.Add(m.append(nil, someID))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		m, err := parseManifest(record, someID)
		if err != nil {
			return
		}
		again, err := parseManifest(m.append(nil, someID), someID)
		if err != nil {
			t.Fatalf("written again it is unreadable: %v", err)
		}
		if !reflect.DeepEqual(m, again) {
			t.Errorf("read again it is %+v, was %+v", again, m)
		}
	})
}

// The same of the rows of chunks.
func FuzzChunks(f *testing.F) {
	f.Add([]byte{}, int64(1))
	f.Add(encodeChunk(3, []byte("a"), []byte{}, []byte("ccc")), int64(1))
	f.Add(append(encodeChunk(0, []byte("a")), encodeChunk(1)...), int64(2))
	f.Fuzz(func(t *testing.T, data []byte, n int64) {
		chunks, ok := parseChunks(data, n)
		if !ok {
			return
		}
		var b []byte
		for _, k := range chunks {
			b = appendChunk(b, k.drop, k.items)
		}
		again, ok := parseChunks(b, n)
		if !ok || !reflect.DeepEqual(chunks, again) {
			t.Errorf("written and read again it is %+v, %v; was %+v", again, ok, chunks)
		}
	})
}

// An echo gives back its text, whatever text and source are, and anything else
// that is taken for an echo is refused or read without a panic.
func FuzzEcho(f *testing.F) {
	f.Add([]byte("text"), []byte("source"))
	f.Add([]byte(`{"start":{"m":[{"content":"a long enough text that is in both"}]}}`), []byte(`{"id":1,"content":"a long enough text that is in both"}`))
	f.Add(bytes.Repeat([]byte("ab"), 100), bytes.Repeat([]byte("ba"), 70))
	f.Fuzz(func(t *testing.T, text, source []byte) {
		got, ok := parseEcho(appendEcho(nil, text, source), source)
		if !ok || !bytes.Equal(got, text) {
			t.Errorf("the echo is %q, %v; want %q", got, ok, text)
		}
		if got, ok := parseEcho(text, source); ok && len(got) > echoMax {
			t.Errorf("an echo of %d bytes", len(got))
		}
	})
}

func TestAnEchoIsShort(t *testing.T) {
	content := strings.Repeat("what was said, ", 40)
	text := []byte(`{"start":{"messages":[{"content":"` + content + `"}]}}`)
	source := []byte(`{"id":"7","content":"` + content + `"}`)
	if n := len(appendEcho(nil, text, source)); n > 60 {
		t.Errorf("an echo of %d bytes takes %d, want at most 60", len(text), n)
	}
}

func TestNamesOfRunsRoundTrip(t *testing.T) {
	for name, size := range map[string]int{
		"0190a6e2-6f3b-7000-8000-0000000000ff":  17,
		"0190A6E2-6F3B-7000-8000-0000000000FF":  37, // another spelling is another name
		"0190a6e2-6f3b-7000-8000-0000000000ff ": 38,
		"00000000-0000-0000-0000-000000000000":  37,
		"run":                                   4,
		"\x01":                                  2,
		strings.Repeat("x", 16):                 17,
	} {
		packed := packName(name)
		if got := unpackName(packed); got != name || len(packed) != size {
			t.Errorf("%q comes back as %q from %d bytes, want %d", name, got, len(packed), size)
		}
	}
}
