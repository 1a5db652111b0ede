package uselite

import (
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// enough is the number of bytes of a text to try first: they usually yield 128 tokens.
const enough = 1024

// tokens splits the text into pieces (see split) and returns at most limit of them. It
// reads no more of a long text than it needs.
func (v *vocab) tokens(text string, limit int) []int32 {
	for size := enough; size <= len(text)/4; size *= 4 {
		// No piece spans the start of a word, so the text after a word does not affect
		// its tokens.
		word := strings.LastIndexByte(text[:size], ' ')
		if word < 0 {
			continue
		}
		if ids := v.split(text[:word]); len(ids) >= limit {
			return ids[:limit]
		}
	}
	ids := v.split(text)
	return ids[:min(limit, len(ids))]
}

// reach is the best split of the text up to some position: the sum of the scores and
// the last piece. The zero value is an unknown rune with the sum 0 (see split).
type reach struct {
	sum   float64
	piece int32
}

// split splits the text into pieces with the highest sum of scores. Consecutive unknown
// runes form one token.
//
// If several splits have the same sum, it chooses as the reference implementation does,
// so that the vectors are the same: the later start wins; a sum of exactly 0 counts as
// none; and a position where no piece ends, because its rune occurs only inside longer
// pieces, counts as reached by an unknown rune with the sum 0.
func (v *vocab) split(text string) []int32 {
	text = norm.NFKC.String(text)
	if text == "" {
		return nil
	}
	runes := []rune(string(mark) + strings.ReplaceAll(text, " ", string(mark)))
	best := make([]reach, len(runes)+1)
	for start := range runes {
		v.extend(best[start:], runes[start:])
	}
	return v.follow(best)
}

// extend tries the pieces at the start of runes. best[0] is the best split before them.
func (v *vocab) extend(best []reach, runes []rune) {
	found := false
	node := int32(0)
	for i, r := range runes {
		below, ok := v.next[edge{node, r}]
		if !ok {
			break
		}
		node = below
		if id := v.ends[node]; id != unknown {
			found = true
			best[i+1].improve(reach{best[0].sum + v.pieces[id].score, id})
		}
	}
	if !found {
		best[1].improve(reach{best[0].sum, unknown})
	}
}

func (r *reach) improve(by reach) {
	if r.sum == 0 || by.sum >= r.sum {
		*r = by
	}
}

// follow collects the pieces of the best split by walking from the end to the start.
func (v *vocab) follow(best []reach) []int32 {
	var ids []int32
	for at := len(best) - 1; at > 0; {
		id := best[at].piece
		if id != unknown || len(ids) == 0 || ids[len(ids)-1] != unknown {
			ids = append(ids, id)
		}
		at -= v.pieces[id].runes
	}
	slices.Reverse(ids)
	return ids
}
