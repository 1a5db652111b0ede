package adapter

import (
	"fmt"
	"math"
)

// CheckTexts returns an error if a text to embed is empty. Most providers reject a whole
// request for it, without naming the text.
func CheckTexts(texts []string) error {
	for i, t := range texts {
		if t == "" {
			return fmt.Errorf("text %d of %d is empty: remove it", i+1, len(texts))
		}
	}
	return nil
}

// CheckVectors returns an error unless a model has returned n vectors of the given
// dimension with finite numbers.
func CheckVectors(model string, vectors [][]float32, n, dimension int) error {
	if len(vectors) != n {
		return fmt.Errorf("model %s returned %d vectors for %d texts", model, len(vectors), n)
	}
	for i, v := range vectors {
		if len(v) != dimension {
			return fmt.Errorf("vectors of model %s have %d numbers, not %d: set Options.Dimension to the length that it returns", model, len(v), dimension)
		}
		for _, x := range v {
			if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
				return fmt.Errorf("vector of text %d from model %s contains %v", i+1, model, x)
			}
		}
	}
	return nil
}
