package memory

import (
	"os"
	"strings"
	"testing"
)

// The pairs are in testdata/supersedes.txt. A link shows the older memory as ended, so a
// wrong link is worse than a missing one.
func TestSupersedesPrecisionAndRecall(t *testing.T) {
	raw, err := os.ReadFile("testdata/supersedes.txt")
	if err != nil {
		t.Fatal(err)
	}
	pairs, linked, right, wanted := 0, 0, 0, 0
	for line := range strings.Lines(string(raw)) {
		label, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if label != "yes" && label != "no" {
			continue
		}
		for _, p := range expand(rest) {
			pairs++
			got, want := supersedesText(p[0], p[1]), label == "yes"
			if want {
				wanted++
			}
			if got {
				linked++
			}
			if got && want {
				right++
			}
			if got != want {
				t.Logf("%q → %q: %v", p[0], p[1], got)
			}
		}
	}
	precision, recall := float64(right)/float64(linked), float64(right)/float64(wanted)
	t.Logf("%d pairs, precision %.3f, recall %.3f", pairs, precision, recall)
	if pairs < 200 || precision < 0.95 || recall < 0.8 {
		t.Errorf("%d pairs, precision %.3f, recall %.3f", pairs, precision, recall)
	}
}

// expand returns the pairs of a line: the texts around => or, for each ordered pair of
// values in braces, the frame with them.
func expand(line string) (pairs [][2]string) {
	if a, b, ok := strings.Cut(line, " => "); ok {
		return [][2]string{{a, b}}
	}
	before, rest, _ := strings.Cut(line, "{")
	values, after, _ := strings.Cut(rest, "}")
	all := strings.Split(values, "|")
	for i, a := range all {
		for j, b := range all {
			if i != j {
				pairs = append(pairs, [2]string{before + a + after, before + b + after})
			}
		}
	}
	return pairs
}
