package vecindex

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collection is the expected content of an index, with a search that does not use the
// index.
type collection map[int64]member

type member struct {
	space   string
	vectors [][]float32
}

func (c collection) nearest(prefix string, query []float32, n int, accept func(int64) bool) []Hit {
	var hits []Hit
	for id, m := range c {
		if !strings.HasPrefix(m.space, prefix) || !accept(id) {
			continue
		}
		best := float32(math.Inf(-1))
		for _, v := range m.vectors {
			best = max(best, dot(query, v))
		}
		hits = append(hits, Hit{id, best})
	}
	slices.SortFunc(hits, byHit)
	return hits[:min(n, len(hits))]
}

// draw generates vectors that resemble embeddings: clustered around a few centers, which
// are closer to each other than random vectors, with coordinates of different weight.
func draw(rnd *rand.Rand, dimension int) []float32 {
	v := make([]float32, dimension)
	centre := rand.New(rand.NewPCG(rnd.Uint64N(200), 5))
	var sum float64
	for i := range v {
		x := 0.5 + centre.NormFloat64() + 0.7*rnd.NormFloat64()
		x /= 1 + float64(i)/float64(dimension)*4
		v[i] = float32(x)
		sum += x * x
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

func anyID(int64) bool { return true }

func TestSmallSpacesAreSearchedExactly(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			x, all := New(), collection{}
			for id := range int64(800) {
				m := member{space: []string{"a\x01", "a\x01b\x01", "ab\x01", "c\x01"}[rnd.IntN(4)]}
				for range 1 + rnd.IntN(3) {
					m.vectors = append(m.vectors, draw(rnd, 7))
				}
				if rnd.IntN(4) == 0 && id > 0 {
					m.vectors[0] = anyMember(all).vectors[0] // the same similarity
				}
				all[id] = m
				x.Add(m.space, id, m.vectors...)
				old := rnd.Int64N(id + 1)
				if rnd.IntN(3) == 0 {
					x.Remove(all[old].space, old) // perhaps once more
					delete(all, old)
				}
				if id%80 != 0 {
					continue
				}
				third := func(id int64) bool { return id%3 == 0 }
				for _, accept := range []func(int64) bool{anyID, third} {
					for _, prefix := range []string{"", "a\x01", "a\x01b\x01", "d"} {
						query, n := draw(rnd, 7), 1+rnd.IntN(20)
						if diff := cmp.Diff(all.nearest(prefix, query, n, accept), x.Nearest(prefix, query, n, accept), equateEmpty); diff != "" {
							t.Fatalf("the %d nearest under %q after %d (-want +got):\n%s", n, prefix, id, diff)
						}
					}
				}
			}
		})
	}
}

var equateEmpty = cmp.Comparer(func(a, b []Hit) bool { return slices.Equal(a, b) })

func anyMember(c collection) member {
	for _, m := range c {
		return m
	}
	return member{vectors: [][]float32{make([]float32, 7)}}
}

// large returns an index that has signatures.
func large(t *testing.T, dimension, size int) (*Index, collection, *rand.Rand) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 1))
	x, all := New(), collection{}
	for id := range int64(size) {
		all[id] = member{fmt.Sprintf("s%d\x01", id%5), [][]float32{draw(rnd, dimension)}}
		x.Add(all[id].space, id, all[id].vectors...)
	}
	if x.rotation == nil {
		t.Fatal("no signatures")
	}
	return x, all, rnd
}

func TestLargeSpacesAreSearchedWithHighRecall(t *testing.T) {
	for _, dimension := range []int{16, 64} {
		x, all, rnd := large(t, dimension, 6_000)
		found, wanted := 0, 0
		for range 20 {
			query := draw(rnd, dimension)
			want := all.nearest("s", query, 10, anyID)
			for _, hit := range x.Nearest("s", query, 10, anyID) {
				if slices.Contains(want, hit) { // with its exact similarity
					found++
				}
			}
			wanted += len(want)
		}
		if recall := float64(found) / float64(wanted); recall < 0.95 {
			t.Errorf("%d dimensions: recall@10 is %.3f", dimension, recall)
		}
	}
}

func TestLargeIndexForgetsRemoved(t *testing.T) {
	x, all, rnd := large(t, 16, 5_000)
	for id := range int64(5_000) {
		if id%8 == 0 {
			x.Remove(all[id].space, id)
			delete(all, id)
		}
	}
	for id := range int64(2_000) { // some again, with other vectors
		all[id] = member{"s9\x01", [][]float32{draw(rnd, 16)}}
		x.Remove(fmt.Sprintf("s%d\x01", id%5), id)
		x.Add("s9\x01", id, all[id].vectors...)
	}
	if x.Len() != len(all) {
		t.Errorf("there are %d vectors of %d", x.Len(), len(all))
	}
	query := draw(rnd, 16)
	for _, hit := range x.Nearest("", query, 4_000, anyID) {
		m, ok := all[hit.ID]
		if !ok {
			t.Fatalf("%d was removed", hit.ID)
		}
		if got := dot(query, m.vectors[0]); got != hit.Similarity {
			t.Fatalf("%d has the similarity %v, not %v", hit.ID, got, hit.Similarity)
		}
	}
}

// Even if few vectors are accepted, the search finds them.
func TestFilteredSearchFindsEnough(t *testing.T) {
	x, all, rnd := large(t, 16, 5_000)
	rare := func(id int64) bool { return id%500 == 7 }
	query := draw(rnd, 16)
	want := all.nearest("", query, 10, rare)
	if diff := cmp.Diff(want, x.Nearest("", query, 10, rare)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEmptiedIndexStartsOver(t *testing.T) {
	x := New()
	x.Add("a", 1, []float32{1, 0})
	x.Add("a", 2) // has none
	x.Remove("a", 2)
	x.Remove("b", 1)
	x.Remove("a", 1)
	if hits := x.Nearest("", []float32{1, 0}, 3, anyID); len(hits) != 0 || x.Len() != 0 {
		t.Errorf("%v is left of %d", hits, x.Len())
	}
	x.Add("a", 1, []float32{0, 1})
	want := []Hit{{1, 1}}
	if diff := cmp.Diff(want, x.Nearest("", []float32{0, 1}, 3, anyID)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
