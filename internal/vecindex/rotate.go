package vecindex

import (
	"math/bits"
	"math/rand/v2"
)

// rotation rotates vectors so that their differences spread over all coordinates. It is a
// product of random signs and Hadamard transforms, which takes O(d log d) steps; a random
// matrix would take O(d²). It pads to a power of two of at least 512, because more bits
// than dimensions estimate an angle better.
type rotation struct {
	size  int          // size of a rotated vector
	signs [2][]float32 // applied before each of the two transforms
}

// newRotation returns a rotation for the dimension. It is the same in all processes.
func newRotation(dimension int) *rotation {
	r := &rotation{size: newSize(dimension)}
	source := rand.New(rand.NewPCG(1, 2))
	for i := range r.signs {
		r.signs[i] = make([]float32, r.size)
		for j := range r.signs[i] {
			r.signs[i][j] = float32(1 - 2*int(source.Uint32()&1))
		}
	}
	return r
}

// newSize returns the size of a rotated vector.
func newSize(dimension int) int { return max(64*block, 1<<bits.Len(uint(dimension-1))) }

// apply writes v, rotated, to out, whose length is the rotation's size. The result is
// longer than v by a constant factor, which does not change signs.
func (r *rotation) apply(v, out []float32) {
	clear(out[copy(out, v):])
	for _, signs := range r.signs {
		for i, s := range signs {
			out[i] *= s
		}
		hadamard(out)
	}
}

// hadamard computes the fast Walsh-Hadamard transform in place.
func hadamard(v []float32) {
	for half := 1; half < len(v); half *= 2 {
		for start := 0; start < len(v); start += 2 * half {
			a, b := v[start:start+half], v[start+half:start+2*half]
			for i, x := range a {
				y := b[i]
				a[i], b[i] = x+y, x-y
			}
		}
	}
}

// signs returns the signs of the numbers as bits.
func signs(v []float32) []uint64 {
	out := make([]uint64, len(v)/64)
	for w := range out {
		var word uint64
		for i, x := range v[w*64 : w*64+64] {
			if x > 0 {
				word |= 1 << i
			}
		}
		out[w] = word
	}
	return out
}
