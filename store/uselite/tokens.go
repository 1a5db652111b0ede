package uselite

import (
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// A reach is the best way to split the text up to some place. Its zero value counts as a way too, an unknown rune with
// the sum 0 (see tokens).
type reach struct {
	sum    float64 // of the scores
	piece  int32   // the last one
	tokens int     // how many there are
}

// tokens splits the text into pieces so that the sum of their scores is highest, and returns at most limit of them.
// Unknown runes in a row are one token.
//
// Where the scores leave a choice it goes the reference's way, since the vectors are to be the same:
// of equal sums the later start wins; a sum of exactly 0 counts as none; and a place that no piece reaches, because its
// rune is only known as a part of longer pieces, counts as reached by an unknown rune with the sum 0.
func (v *vocab) tokens(text string, limit int) []int32 {
	text = norm.NFKC.String(text)
	if text == "" {
		return nil
	}
	runes := []rune(string(mark) + strings.ReplaceAll(text, " ", string(mark)))
	best := make([]reach, len(runes)+1)
	end := len(runes)
	for start := range runes {
		if start > 0 && best[start].tokens == 0 {
			best[start].tokens = best[start-1].after(unknown)
		}
		// No piece goes over the start of a word, so nothing that follows changes the tokens before it.
		if runes[start] == mark && best[start].tokens >= limit {
			end = start
			break
		}
		v.extend(best, runes, start)
	}
	return v.follow(best[:end+1], limit)
}

// extend tries the pieces that start at a place.
func (v *vocab) extend(best []reach, runes []rune, start int) {
	from := best[start]
	found := false
	node := int32(0)
	for i, r := range runes[start:] {
		below, ok := v.next[edge{node, r}]
		if !ok {
			break
		}
		node = below
		if id := v.ends[node]; id != 0 {
			found = true
			best[start+i+1].improve(from.sum+v.pieces[id].score, id, from)
		}
	}
	if !found {
		best[start+1].improve(from.sum, unknown, from)
	}
}

func (r *reach) improve(sum float64, piece int32, from reach) {
	if r.sum == 0 || sum >= r.sum {
		*r = reach{sum, piece, from.after(piece)}
	}
}

// after is how many tokens there are when the piece is added.
func (r reach) after(piece int32) int {
	if piece == unknown && r.piece == unknown && r.tokens > 0 {
		return r.tokens
	}
	return r.tokens + 1
}

// follow collects the best way from the end back to the start.
func (v *vocab) follow(best []reach, limit int) []int32 {
	var ids []int32
	for at := len(best) - 1; at > 0; {
		id := best[at].piece
		if len(ids) == 0 || id != unknown || ids[len(ids)-1] != unknown {
			ids = append(ids, id)
		}
		at -= v.pieces[id].runes
	}
	slices.Reverse(ids)
	return ids[:min(limit, len(ids))]
}
