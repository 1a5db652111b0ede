package saved

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
)

// Reading any record does not panic, and a decoded record is encoded so that it decodes to
// the same.
func FuzzHeaderAndSlots(f *testing.F) {
	id := checkpoint.ID{1, 2, 3, 4, 15: 9}
	near, far := id, checkpoint.ID{0xff}
	near[5]--
	slots := []Slot{
		{},
		{Kind: Small, Version: 1<<64 - 1, Data: []byte("small")},
		{Kind: Large, Version: 7, Chain: 1 << 40},
		{Kind: List, Version: 9, Length: 1000, Segments: []Segment{{3, 4}, {5, 0}}, Owned: true},
		{Kind: List, Version: 2},
		{Kind: List, Version: 3, Length: 2, Data: []byte("\x01a\x00")},
	}
	for _, h := range []Header{
		{},
		{Shape: 3, Rev: 2, Step: -1, Source: checkpoint.Input, Parent: near},
		{Step: 1 << 40, Source: "something else", Parent: far},
	} {
		f.Add(AppendSlots(h.Append(nil, id, FirstFlag), slots), len(slots))
	}
	read := func(record []byte, n int) (h Header, flags byte, slots []Slot, ok bool) {
		r := Reader{Rest: record}
		h, flags, err := r.Header(id)
		slots = r.Slots(n)
		return h, flags, slots, err == nil && r.Done()
	}
	f.Fuzz(func(t *testing.T, record []byte, n int) {
		n = max(0, min(n, len(record)))
		h, flags, slots, ok := read(record, n)
		if !ok {
			return
		}
		again, flagsAgain, slotsAgain, ok := read(AppendSlots(h.Append(nil, id, flags&^hasParent), slots), n)
		// The flag may mark a parent that is missing; it is then dropped.
		if !ok || again != h || flagsAgain|hasParent != flags|hasParent || !reflect.DeepEqual(slotsAgain, slots) {
			t.Errorf("written and read again it is %+v, %v, %+v, %v; was %+v, %v, %+v", again, flagsAgain, slotsAgain, ok, h, flags, slots)
		}
	})
}

// The same of chunks.
func FuzzChunk(f *testing.F) {
	f.Add([]byte{})
	f.Add(EncodeChunk(0))
	f.Add(EncodeChunk(3, []byte("a"), nil, bytes.Repeat([]byte("b"), 200)))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, ok := ParseChunk(data)
		if !ok {
			return
		}
		again, ok := ParseChunk(EncodeChunk(k.Drop, k.Items...))
		if !ok || !reflect.DeepEqual(again, k) {
			t.Errorf("written and read again it is %+v, %v; was %+v", again, ok, k)
		}
	})
}

// An echo returns its text, for any text and source. Other data is rejected or decoded
// without a panic.
func FuzzEcho(f *testing.F) {
	f.Add([]byte("text"), []byte("source"), []byte{})
	f.Add([]byte(`{"start":{"m":[{"content":"a long enough text that is in both"}]}}`), []byte(`{"id":1,"content":"a long enough text that is in both"}`), []byte{1, 2, 3})
	f.Add(bytes.Repeat([]byte("ab"), 100), bytes.Repeat([]byte("ba"), 70), []byte{0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, text, source, code []byte) {
		have, at := Chains{5: {{}, {Items: [][]byte{source[:len(source)/2], source[len(source)/2:]}}}}, Segment{5, 1}
		got, err := have.Echoed(at, AppendEcho(nil, text, source))
		if len(text) <= EchoMax && (err != nil || !bytes.Equal(got, text)) {
			t.Errorf("%q as an echo of %q is %q, %v", text, source, got, err)
		}
		if got, err := have.Echoed(at, code); err == nil && len(got) > EchoMax {
			t.Errorf("an echo of %d bytes", len(got))
		}
	})
}

func TestEchoIsShort(t *testing.T) {
	content := strings.Repeat("what was said, ", 40)
	text := []byte(`{"start":{"messages":[{"content":"` + content + `"}]}}`)
	source := []byte(`{"id":"7","content":"` + content + `"}`)
	if n := len(AppendEcho(nil, text, source)); n > 60 {
		t.Errorf("an echo of %d bytes takes %d, want at most 60", len(text), n)
	}
}

// Missing or damaged data is an error, never an empty list or a panic.
func TestBrokenChainsAreErrors(t *testing.T) {
	have := Chains{
		1: {{Items: [][]byte{[]byte("a"), []byte("b")}}},
		2: {{Items: [][]byte{[]byte("a")}}, {Drop: 2}},
	}
	for _, test := range []struct {
		slot Slot
		want string
	}{
		{Slot{Kind: Large, Chain: 9}, "chunk 0 of chain 9 is missing"},
		{Slot{Kind: Large, Chain: 1}, "chain 1 has 2 values instead of one"},
		{Slot{Kind: List, Length: 2, Segments: []Segment{{1, 3}}}, "chunk 1 of chain 1 is missing"},
		{Slot{Kind: List, Length: 2, Segments: []Segment{{2, 1}}}, "chain 2 drops 2 elements of 1"},
		{Slot{Kind: List, Length: 3, Segments: []Segment{{1, 0}}}, "list has 2 elements, want 3"},
		{Slot{Kind: List, Length: 2, Data: []byte("\x01a")}, "short list does not have 2 elements"},
		{Slot{Kind: List, Length: 1, Data: []byte("\x01a\x00")}, "short list does not have 1 elements"},
		{Slot{Kind: List, Length: 1, Data: []byte("\x02a")}, "short list does not have 1 elements"},
		{Slot{Kind: List, Length: 1 << 40, Data: []byte("\x01a")}, "short list does not have 1099511627776 elements"},
	} {
		if v, err := have.Value(&test.slot, true); err == nil || err.Error() != test.want {
			t.Errorf("%+v is %+v, %v; want the error %q", test.slot, v, err, test.want)
		}
	}
	if text, err := have.Echoed(Segment{1, 7}, nil); err == nil || err.Error() != "chunk 1 of chain 1 is missing" {
		t.Errorf("an echo of missing data is %q, %v", text, err)
	}
}

// A copied value shares no memory with the decoded data.
func TestCopiedValueSharesNoMemory(t *testing.T) {
	have := Chains{1: {{Items: [][]byte{[]byte("large")}}}, 2: {{Items: [][]byte{[]byte("first"), []byte("second")}}}}
	slots := []Slot{{Kind: Small, Data: []byte("small")}, {Kind: Large, Chain: 1}, {Kind: List, Length: 2, Segments: []Segment{{2, 0}}}, {Kind: List, Length: 1, Data: []byte("\x05short")}}
	for i := range slots {
		v, err := have.Value(&slots[i], true)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range append(v.Items, v.Data) {
			clear(b)
			_ = append(b, "spoilt"...)
		}
	}
	if have.text() != "large first second" || string(slots[0].Data) != "small" || string(slots[3].Data) != "\x05short" {
		t.Errorf("the decoded data is now %q and %q", have.text(), slots[0].Data)
	}
}

func (have Chains) text() string {
	return string(bytes.Join(append(have[1][0].Items, have[2][0].Items...), []byte(" ")))
}

func TestFilterTakesNumbersAsJSONDoes(t *testing.T) {
	for _, test := range []struct {
		want     map[string]any
		metadata string
		matches  bool
	}{
		{nil, `{}`, true},
		{map[string]any{"n": 1}, `{"n":1.0,"more":true}`, true},
		{map[string]any{"n": 1}, `{"n":"1"}`, false},
		{map[string]any{"n": nil}, `{}`, false},
		{map[string]any{"n": nil}, `{"n":null}`, true},
		{map[string]any{"n": []int{1, 2}}, `{"n":[1,2]}`, true},
		{map[string]any{"n": 1}, ``, false},
	} {
		f, err := NewFilter(test.want)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Matches([]byte(test.metadata)); got != test.matches {
			t.Errorf("%v matches %s: %v, want %v", test.want, test.metadata, got, test.matches)
		}
	}
	if _, err := NewFilter(map[string]any{"f": func() {}}); err == nil {
		t.Error("a function was accepted")
	}
}

// After any change, a list and all its earlier states read correctly. A short list is kept
// in its slot if possible, and otherwise in chunks.
func TestListsOfAllLengthsGrowAndShrink(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	short, long := 0, 0
	for range 300 {
		type state struct {
			slot Slot
			want [][]byte
		}
		var before []state
		chains, g := Chains{}, Growth{Short: rnd.IntN(5) > 0}
		g.Load = func(s *Slot) ([][]byte, error) { return chains.Elements(s) }
		most := []int{2, 20, 100}[rnd.IntN(3)] // bytes of an element
		var want [][]byte
		for range 40 {
			c := checkpoint.Change{Channel: "l", Version: 1, List: true, Drop: rnd.IntN(3)}
			if rnd.IntN(10) == 0 {
				c.Drop = len(want) + rnd.IntN(2)
			}
			for range rnd.IntN(4) {
				c.Items = append(c.Items, bytes.Repeat([]byte{byte(rnd.IntN(256))}, rnd.IntN(most)))
			}
			isHead := rnd.IntN(5) > 0 // or a fork
			next := Growth{Next: g.Next, Load: g.Load, Short: g.Short}
			next.Inherit(g.Names, g.Slots, isHead)
			if err := next.Apply([]checkpoint.Change{c}); err != nil {
				t.Fatal(err)
			}
			for _, k := range next.Chunks {
				one, ok := ParseChunk(k.Data)
				if !ok || k.Seq != int64(len(chains[k.Chain])) {
					t.Fatalf("chunk %d of chain %d, which has %d: %v", k.Seq, k.Chain, len(chains[k.Chain]), ok)
				}
				chains[k.Chain] = append(chains[k.Chain], one)
			}
			want = append(slices.Clone(want[:len(want)-min(c.Drop, len(want))]), c.Items...)
			g = next
			if s := g.Slots[0]; s.short() {
				short++
				if !g.Short || len(s.Data) > InlineMax || len(next.Chunks) > 0 {
					t.Fatalf("%d bytes in a slot, and %d chunks", len(s.Data), len(next.Chunks))
				}
			} else if s.Length > 0 {
				long++
			}
			before = append(before, state{g.Slots[0], want})
		}
		for i, b := range before {
			got, err := chains.Elements(&b.slot)
			if err != nil || !slices.EqualFunc(got, b.want, bytes.Equal) {
				t.Fatalf("after change %d the list is %q, %v; want %q", i, got, err, b.want)
			}
		}
	}
	if short < 1000 || long < 1000 {
		t.Errorf("%d short lists and %d long ones: the test does not try both", short, long)
	}
}
