package vecindex

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// An index restored from its mean and signatures returns the same results.
func TestRestoredIndexMatches(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	first := Signed(draw(rnd, 96), draw(rnd, 96))
	restored := Restored(first.Dimension(), first.Mean())
	for id := range int64(500) {
		vectors := [][]float32{draw(rnd, 96), draw(rnd, 96)}
		first.Add("a", id, vectors...)
		restored.AddSigned("a", id, slices.Concat(first.Signature(vectors[0]), first.Signature(vectors[1])))
	}
	restored.AddSigned("a", 1000, nil) // it has no vectors
	for _, x := range []*Index{first, restored} {
		x.Remove("a", 7)
	}
	if first.Len() != restored.Len() || len(first.Signature(draw(rnd, 96))) != Words(96) {
		t.Errorf("one has %d vectors, the other %d", first.Len(), restored.Len())
	}
	for range 10 {
		query := draw(rnd, 96)
		ids := func(x *Index) (all []int64) {
			for _, id := range x.Likely("", query, 20) {
				all = append(all, id)
			}
			return all
		}
		if a, b := ids(first), ids(restored); !slices.Equal(a, b) {
			t.Fatalf("one finds %v, the other %v", a, b)
		}
	}
}

func TestDriftIsDistanceOfMeans(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	var here, there [][]float32
	mean := make([]float64, 40)
	for range 1000 {
		v := draw(rnd, 40)
		here = append(here, v)
		w := slices.Clone(v)
		slices.Reverse(w)
		there = append(there, w)
		for i := range v {
			mean[i] += float64(v[i]) / 1000
		}
	}
	var want float64
	for i := range mean {
		d := mean[i] - mean[len(mean)-1-i]
		want += d * d
	}
	x := Signed(here...)
	if got := x.Drift(here...); got > 1e-9 {
		t.Errorf("the same vectors are %v away", got)
	}
	if got := x.Drift(there...); math.Abs(got-want) > 1e-5 || want < 1e-3 {
		t.Errorf("the others are %v away, want %v", got, want)
	}
}

// Vectors without any structure are the hardest: the nearest are hardly nearer than
// others.
func TestLikelyNearestOfRandomVectors(t *testing.T) {
	const dimension, size, wanted, nearest, searches = 384, 8_000, 400, 10, 10
	rnd := rand.New(rand.NewPCG(11, 12))
	random := func() []float32 {
		v := make([]float32, dimension)
		var sum float64
		for i := range v {
			x := rnd.NormFloat64()
			v[i] = float32(x)
			sum += x * x
		}
		for i := range v {
			v[i] /= float32(math.Sqrt(sum))
		}
		return v
	}
	all := collection{}
	for id := range int64(size) {
		all[id] = member{"a", [][]float32{random()}}
	}
	var sample [][]float32
	for id := range int64(1000) {
		sample = append(sample, all[id].vectors[0])
	}
	x := Signed(sample...)
	for id, m := range all {
		x.Add("a", id, m.vectors...)
	}
	found := 0
	for range searches {
		query := random()
		seen := map[int64]bool{}
		for _, id := range x.Likely("", query, wanted) {
			seen[id] = true
			if len(seen) == wanted {
				break
			}
		}
		for _, h := range all.nearest("", query, nearest, anyID) {
			if seen[h.ID] {
				found++
			}
		}
	}
	if recall := float64(found) / (searches * nearest); recall < 0.95 {
		t.Errorf("the recall is %.3f, want at least 0.95", recall)
	}
}
