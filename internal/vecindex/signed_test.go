package vecindex

import (
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The likely nearest include nearly all of the nearest, only in the requested spaces, and
// without removed vectors.
func TestLikelyNearest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	all := collection{}
	var sample [][]float32
	for id := range int64(3000) {
		m := member{space: []string{"a\x01", "a\x01b\x01", "c\x01"}[id%3], vectors: [][]float32{draw(rnd, 96), draw(rnd, 96)}}
		all[id] = m
		if id%10 == 0 {
			sample = append(sample, m.vectors[0])
		}
	}
	x := Signed(sample...)
	for id, m := range all {
		x.Add(m.space, id, m.vectors...)
	}
	for id := range int64(500) {
		x.Remove(all[id].space, id)
		delete(all, id)
	}
	if x.Len() != 2*len(all) {
		t.Errorf("it has %d vectors, want %d", x.Len(), 2*len(all))
	}
	const searches, wanted, nearest = 20, 500, 10
	for prefix, share := range map[string]float64{"": 1, "a\x01": 2. / 3, "c\x01": 1. / 3, "d": 0} {
		found := 0
		for range searches {
			query := draw(rnd, 96)
			seen := map[int64]bool{}
			vectors := 0
			for name, id := range x.Likely(prefix, query, wanted) {
				if m, ok := all[id]; !ok || m.space != name {
					t.Fatalf("ID %d is in space %q: %v", id, name, m)
				}
				if vectors < wanted {
					seen[id] = true
				}
				vectors++
			}
			if want := int(2 * float64(len(all)) * share); vectors < want-10 || vectors > want+10 {
				t.Errorf("under %q there are %d vectors, want about %d", prefix, vectors, want)
			}
			for _, h := range all.nearest(prefix, query, nearest, anyID) {
				if seen[h.ID] {
					found++
				}
			}
		}
		if recall := float64(found) / (searches * nearest); share > 0 && recall < 0.95 {
			t.Errorf("under %q the recall is %.3f, want at least 0.95", prefix, recall)
		}
	}
}

func TestEstimatesAreProductsWithSigns(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 9))
	query, vector := draw(rnd, 512), draw(rnd, 512)
	var want float64
	for i, x := range vector {
		want += math.Copysign(float64(query[i]), float64(query[i])*float64(x))
	}
	if got := newEstimate(query).product(signs(vector)); math.Abs(float64(got)-want) > 1e-4 {
		t.Errorf("the product is %v, want %v", got, want)
	}
}

// The nearest come sooner than by signatures alone.
func TestEstimatesAreBetterThanDistances(t *testing.T) {
	rnd := rand.New(rand.NewPCG(10, 10))
	all := collection{}
	x := Signed(draw(rnd, 384), draw(rnd, 384))
	for id := range int64(1000) {
		all[id] = member{space: "a", vectors: [][]float32{draw(rnd, 384)}}
		x.Add("a", id, all[id].vectors...)
	}
	const wanted = 30
	estimated, signed := 0, 0
	for range 20 {
		query := draw(rnd, 384)
		nearest := map[int64]bool{}
		for _, h := range all.nearest("", query, 20, anyID) {
			nearest[h.ID] = true
		}
		count := func(n *int, ids iter.Seq[int64]) {
			left := wanted
			for id := range ids {
				if nearest[id] {
					*n++
				}
				if left--; left == 0 {
					return
				}
			}
		}
		count(&estimated, func(yield func(int64) bool) {
			for _, id := range x.Likely("", query, wanted) {
				if !yield(id) {
					return
				}
			}
		})
		count(&signed, func(yield func(int64) bool) {
			for at := range x.bySignature(x.spaces, x.signature(query), x.Len(), wanted, nil) {
				if !yield(x.spaces[at.space].ids[at.index]) {
					return
				}
			}
		})
	}
	if estimated <= signed {
		t.Errorf("of the nearest, %d come first by estimates and %d by distances", estimated, signed)
	}
}

// An index without vectors releases its memory when all entries are removed.
func TestSignedIndexEmptiesOut(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 8))
	x := Signed(draw(rnd, 8))
	for id := range int64(20) {
		x.Add("a", id, draw(rnd, 8))
	}
	for id := range int64(20) {
		x.Remove("a", id)
	}
	var left []int64
	for _, id := range x.Likely("", draw(rnd, 8), 10) {
		left = append(left, id)
	}
	if x.Len() != 0 || !slices.Equal(left, nil) {
		t.Errorf("%d are left: %v", x.Len(), left)
	}
}

func TestParallelPartsCoverAll(t *testing.T) {
	for _, n := range []int{0, 1, parallelFrom, 2*parallelFrom - 1, 2 * parallelFrom, 10*parallelFrom + 7} {
		done := make([]int, n)
		Parallel(n, func(from, to int) {
			for i := from; i < to; i++ {
				done[i]++
			}
		})
		if i := slices.IndexFunc(done, func(times int) bool { return times != 1 }); i >= 0 {
			t.Errorf("of %d, %d is done %d times", n, i, done[i])
		}
	}
}
