// Package near finds the name that a misspelled name probably means.
package near

import (
	"fmt"
	"strings"
)

// Name returns the element of names that name probably means, or "" if none is similar.
func Name(name string, names []string) string {
	best, at := "", max(2, len(name)/3)+1
	for _, n := range names {
		d := distance(name, n)
		if strings.EqualFold(name, n) {
			d = 0
		}
		if d < at {
			best, at = n, d
		}
	}
	return best
}

// Hint returns `: did you mean "NAME"?`, or "" if no name is similar.
func Hint(name string, names []string) string {
	if n := Name(name, names); n != "" {
		return fmt.Sprintf(": did you mean %q?", n)
	}
	return ""
}

// distance returns the Levenshtein distance between a and b.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range from {
		corner := row[0]
		row[0] = i + 1
		for j, s := range to {
			change := corner
			if r != s {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, corner+1, row[j]+1)
		}
	}
	return row[len(to)]
}
