package postgres

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

var everything = cmp.AllowUnexported(manifest{}, base{})

func manifests() []*manifest {
	slots := []saved.Slot{
		{},
		{Kind: saved.Small, Version: 3, Data: []byte("x")},
		{Kind: saved.Small, Version: 1 << 63, Data: []byte{}},
		{Kind: saved.Large, Version: 4, Chain: 1 << 40},
		{Kind: saved.List, Version: 5},
		{Kind: saved.List, Version: 6, Length: 300, Segments: []saved.Segment{{Chain: 1, Hi: 2}, {Chain: 3, Hi: 400}}, Owned: true},
	}
	later := append(append([]saved.Slot{}, slots...), saved.Slot{Kind: saved.Small, Data: []byte("new")})
	later[1] = saved.Slot{Kind: saved.Small, Version: 9, Data: []byte("y")}
	return []*manifest{
		{},
		{Header: saved.Header{Shape: 7, Rev: 2, Step: -1, Source: checkpoint.Input}, slots: slots},
		{Header: saved.Header{Shape: 7, Step: 1 << 20, Source: "another", Parent: checkpoint.ID{1, 2, 9, 4}}, repeated: 12, slots: slots},
		{Header: saved.Header{Shape: 8, Source: checkpoint.Fork, Parent: checkpoint.ID{15: 1}}, slots: slots, base: &base{3, slots}},
		{Header: saved.Header{Shape: 9, Source: checkpoint.Loop}, slots: later, base: &base{3, slots}},
	}
}

func TestManifestRoundTrip(t *testing.T) {
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
func TestRecordSizeDependsOnChanges(t *testing.T) {
	m := &manifest{slots: make([]saved.Slot, 200)}
	for i := range m.slots {
		m.slots[i] = saved.Slot{Kind: saved.Small, Version: 1, Data: []byte("a value")}
	}
	full := len(m.append(nil, checkpoint.ID{}))
	bases, written := 0, 0
	const steps = 1000
	for i := range steps {
		m.slots[i%3].Version++
		changed := make([]bool, len(m.slots))
		changed[i%3] = true
		m.settle(changed, func(b []byte) int64 {
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
