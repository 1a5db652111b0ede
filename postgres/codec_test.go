package postgres

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/checkpoint"
)

var everything = cmp.AllowUnexported(manifest{}, slot{}, segment{}, base{})

func manifests() []*manifest {
	slots := []slot{
		{},
		{kind: kindSmall, version: 3, data: []byte("x")},
		{kind: kindSmall, version: 1 << 63, data: []byte{}},
		{kind: kindLarge, version: 4, chain: 1 << 40},
		{kind: kindList, version: 5},
		{kind: kindList, version: 6, length: 300, segs: []segment{{1, 2}, {3, 400}}, owned: true},
	}
	later := append(append([]slot{}, slots...), slot{kind: kindSmall, data: []byte("new")})
	later[1] = slot{kind: kindSmall, version: 9, data: []byte("y")}
	return []*manifest{
		{},
		{shape: 7, rev: 2, step: -1, source: checkpoint.Input, slots: slots},
		{shape: 7, step: 1 << 20, source: "another", parent: checkpoint.ID{1, 2, 9, 4}, rent: 12, slots: slots},
		{shape: 8, source: checkpoint.Fork, parent: checkpoint.ID{15: 1}, slots: slots, base: &base{3, slots}},
		{shape: 9, source: checkpoint.Loop, slots: later, base: &base{3, slots}},
	}
}

func TestAManifestIsReadAsItWasWritten(t *testing.T) {
	id := checkpoint.ID{1, 2, 3, 4, 15: 9}
	for i, m := range manifests() {
		record := m.append(nil, id)
		got, err := parseManifest(record, id, m.base)
		if err != nil {
			t.Errorf("manifest %d: %v", i, err)
			continue
		}
		if d := cmp.Diff(m, got, everything); d != "" {
			t.Errorf("manifest %d (-want +got):\n%s", i, d)
		}
		for n := range record {
			if m, err := parseManifest(record[:n], id, m.base); err == nil {
				t.Errorf("%d of %d bytes of manifest %d are read as %+v", n, len(record), i, m)
			}
		}
	}
	m := manifests()[4]
	if n, all := len(m.append(nil, id)), len((&manifest{slots: m.slots}).append(nil, id)); n > all-30 {
		t.Errorf("with a base the record has %d bytes, without one %d", n, all)
	}
}

// A base is bought when as much has been paid without one, not before.
func TestAWideGraphPaysForWhatChanges(t *testing.T) {
	m := &manifest{slots: make([]slot, 200)}
	for i := range m.slots {
		m.slots[i] = slot{kind: kindSmall, version: 1, data: []byte("a value")}
	}
	full := len(m.append(nil, checkpoint.ID{}))
	bases, written := 0, 0
	const steps = 1000
	for i := range steps {
		m.slots[i%3].version++
		m.settle([]int{i % 3}, func(b []byte) int64 {
			bases++
			written += len(b) + baseCost
			return int64(bases)
		})
		written += len(m.append(nil, checkpoint.ID{}))
	}
	if written > steps*full/10 || bases == 0 {
		t.Errorf("%d steps of a graph whose values take %d bytes took %d, with %d bases", steps, full, written, bases)
	}
}

func FuzzRecord(f *testing.F) {
	on := manifests()[3].base
	for _, m := range manifests() {
		f.Add(m.append(nil, checkpoint.ID{}), m.base != nil)
	}
	f.Fuzz(func(t *testing.T, record []byte, based bool) {
		b := on
		if !based {
			b = nil
		}
		m, err := parseManifest(record, checkpoint.ID{}, b)
		if err != nil {
			return
		}
		again, err := parseManifest(m.append(nil, checkpoint.ID{}), checkpoint.ID{}, b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, again, everything); d != "" {
			t.Error(d)
		}
	})
}

func FuzzChunk(f *testing.F) {
	f.Add(encodeChunk(0))
	f.Add(encodeChunk(3, []byte("a"), nil, bytes.Repeat([]byte("b"), 200)))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, ok := parseChunk(data)
		if !ok {
			return
		}
		again, ok := parseChunk(encodeChunk(k.drop, k.items...))
		if !ok || again.drop != k.drop || !bytes.Equal(bytes.Join(again.items, []byte{0}), bytes.Join(k.items, []byte{0})) {
			t.Errorf("%v became %v, %v", k, again, ok)
		}
	})
}

func FuzzEcho(f *testing.F) {
	long := bytes.Repeat([]byte("the night owl "), 20)
	f.Add(append([]byte(`{"start":`), long...), long, []byte{1, 2, 3})
	f.Add([]byte("nothing"), []byte("in common"), []byte{})
	f.Fuzz(func(t *testing.T, text, source, code []byte) {
		have := chains{5: {{}, {items: [][]byte{source[:len(source)/2], source[len(source)/2:]}}}}
		at := binary.AppendUvarint(binary.AppendUvarint(nil, 5), 1)
		got, err := have.control(appendEcho(bytes.Clone(at), text, source))
		if len(text) <= echoMax && (err != nil || !bytes.Equal(got, text)) {
			t.Errorf("%q as an echo of %q is %q, %v", text, source, got, err)
		}
		if got, err := have.control(append(at, code...)); err == nil && len(got) > echoMax {
			t.Errorf("an echo of %d bytes", len(got))
		}
	})
}
