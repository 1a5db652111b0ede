package saved

import (
	"math/rand/v2"
	"testing"
)

type sized int

func (s sized) Size() int { return int(s) }

// The cache never exceeds its size limit, and a cached value is the last one set.
func TestGenerationsStayWithinBound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	g := Generations[int, sized]{Most: 1000}
	last, hits := map[int]sized{}, 0
	for range 20_000 {
		k := rnd.IntN(60)
		switch rnd.IntN(10) {
		case 0:
			g.Delete(k)
			delete(last, k)
		case 1, 2, 3, 4:
			v := sized(rnd.IntN(300))
			g.Set(k, v)
			last[k] = v
			if v > 250 {
				delete(last, k) // too large
			}
		default:
			v, ok := g.Get(k)
			if want, set := last[k]; ok && (!set || v != want) {
				t.Fatalf("%d has the value %d, want %d (%v)", k, v, want, set)
			}
			if ok {
				hits++
			}
		}
		sum := 0
		for _, kept := range []map[int]sized{g.young, g.old} {
			for _, v := range kept {
				sum += int(v)
			}
		}
		if sum > 1000 {
			t.Fatalf("%d bytes are kept", sum)
		}
	}
	if hits == 0 || g.Len() == 0 {
		t.Errorf("%d hits, %d kept", hits, g.Len())
	}
	g.Clear()
	if g.Len() != 0 {
		t.Errorf("%d are kept", g.Len())
	}
}
