package sqlite

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

var someID = checkpoint.ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// samples have every kind of thing that a manifest can hold.
func samples() []*manifest {
	near, far := someID, checkpoint.ID{0xff}
	near[5]--
	first, last := someID, someID
	first[0]++
	last[15]++
	slots := []saved.Slot{
		{},
		{Kind: saved.Small, Version: 1<<64 - 1, Data: []byte("small")},
		{Kind: saved.Small, Data: []byte{}},
		{Kind: saved.Large, Version: 7, Chain: 1 << 40},
		{Kind: saved.List, Version: 8},
		{Kind: saved.List, Version: 9, Length: 1000, Segments: []saved.Segment{{Chain: 3, Hi: 4}, {Chain: 5, Hi: 0}}, Owned: true},
		{Kind: saved.List, Version: 10, Length: 1, Segments: []saved.Segment{{Chain: 1, Hi: 1}}},
	}
	return []*manifest{
		{},
		{Header: saved.Header{Shape: 3, Rev: 2, Step: -1, Source: checkpoint.Input, Parent: near}, shared: true, control: []byte("control"), slots: slots, count: len(slots)},
		{Header: saved.Header{Source: "something else", Parent: far}, metadata: []byte("{}"), control: []byte{}},
		{Header: saved.Header{Source: checkpoint.Fork, Parent: first, Step: 1 << 40}, metadata: []byte{}},
		{Header: saved.Header{Source: checkpoint.Update, Parent: last}, control: []byte("code"), echo: &saved.Segment{Chain: 4, Hi: 5}},
		{Header: saved.Header{Source: checkpoint.Loop}, based: true, base: 12, repeated: 300, count: 9, patches: []saved.Patch{{At: 0, Slot: slots[1]}, {At: 3, Slot: slots[5]}, {At: 8, Slot: slots[0]}}},
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
	f.Add(saved.EncodeChunk(3, []byte("a"), []byte{}, []byte("ccc")), int64(1))
	f.Add(append(saved.EncodeChunk(0, []byte("a")), saved.EncodeChunk(1)...), int64(2))
	f.Fuzz(func(t *testing.T, data []byte, n int64) {
		chunks, ok := parseChunks(data, n)
		if !ok {
			return
		}
		var b []byte
		for _, k := range chunks {
			b = append(b, saved.EncodeChunk(k.Drop, k.Items...)...)
		}
		again, ok := parseChunks(b, n)
		if !ok || !reflect.DeepEqual(chunks, again) {
			t.Errorf("written and read again it is %+v, %v; was %+v", again, ok, chunks)
		}
	})
}

func TestRunNamesRoundTrip(t *testing.T) {
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
