package uselite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// reserved is the number of pieces at the start of the vocabulary that are not
	// text. The first represents unknown text.
	reserved = 6
	unknown  = 0
	// mark stands for the space before a word.
	mark = '▁'
)

// vocab holds the pieces that texts are split into. They also form a tree of runes,
// whose root is node 0.
type vocab struct {
	pieces []piece
	next   map[edge]int32 // the node below
	ends   []int32        // by node: the piece that ends there, or unknown
}

type piece struct {
	score float64
	runes int
}

type edge struct {
	node int32
	r    rune
}

// parseVocab parses vocab.json, an array of [piece, score].
func parseVocab(text []byte) (*vocab, error) {
	var entries []entry
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, err
	}
	if len(entries) <= reserved {
		return nil, fmt.Errorf("%d pieces: want more than the %d reserved ones", len(entries), reserved)
	}
	v := &vocab{pieces: make([]piece, len(entries)), next: map[edge]int32{}, ends: make([]int32, 1)}
	for id, e := range entries {
		if id < reserved {
			v.pieces[id] = piece{score: 0, runes: 1}
			continue
		}
		_, first := utf8.DecodeRuneInString(e.text)
		// No piece spans two words; tokens relies on that.
		if e.text == "" || strings.ContainsRune(e.text[first:], mark) {
			return nil, fmt.Errorf("invalid piece %d, %q: want at least one letter, and %q only at the start", id, e.text, mark)
		}
		v.pieces[id] = piece{e.score, utf8.RuneCountInString(e.text)}
		v.insert(e.text, int32(id))
	}
	return v, nil
}

// insert adds a piece to the tree. If two pieces have the same text, the later one
// counts, as in the reference implementation: the real vocabulary contains one text
// three times.
func (v *vocab) insert(text string, id int32) {
	node := int32(0)
	for _, r := range text {
		below, ok := v.next[edge{node, r}]
		if !ok {
			below = int32(len(v.ends))
			v.ends = append(v.ends, 0)
			v.next[edge{node, r}] = below
		}
		node = below
	}
	v.ends[node] = id
}

// entry is a piece in the file.
type entry struct {
	text  string
	score float64
}

// UnmarshalJSON parses [piece, score]. In the real vocabulary, some pieces with a colon
// have a null score, which the reference implementation treats as 0.
func (e *entry) UnmarshalJSON(text []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		return err
	}
	if len(parts) != 2 || string(parts[0]) == "null" {
		return errors.New("invalid entry: want [piece, score]")
	}
	if err := json.Unmarshal(parts[0], &e.text); err != nil {
		return err
	}
	return json.Unmarshal(parts[1], &e.score)
}
