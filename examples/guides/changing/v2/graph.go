// Package v2 contains the new version of the graph.
package v2

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Essay is the state. Mood is gone, and Author is new.
type Essay struct {
	Title  string `json:"title"`
	Body   string `json:"body" treadle:"was=text"`
	Length Words  `json:"length"`
	Author string `json:"author"`
}

// Words is a number of words. Version 1 saved it as a string.
type Words int

// UnmarshalJSON reads both forms.
func (w *Words) UnmarshalJSON(data []byte) error {
	var old string
	if json.Unmarshal(data, &old) == nil {
		n, err := strconv.Atoi(old)
		*w = Words(n)
		return err
	}
	return json.Unmarshal(data, (*int)(w))
}

type drafted struct {
	Body   string
	Length Words
}

func draft(_ context.Context, e Essay) (drafted, error) {
	text := "All about " + e.Title + "."
	return drafted{text, Words(len(strings.Fields(text)))}, nil
}

type signed struct{ Author string }

func sign(ctx context.Context, e Essay) (signed, error) {
	author, err := treadle.Interrupt[string](ctx, "Sign "+e.Title+"?")
	return signed{author}, err
}

// New returns the graph: draft, then sign.
func New(saver checkpoint.Saver) (*treadle.Graph[Essay, Essay], error) {
	b := treadle.New[Essay]("essay")
	treadle.AddNode(b, "draft", draft)
	treadle.AddNode(b, "sign", sign, treadle.Was("review"))
	b.Sequence(treadle.Start, "draft", "sign", treadle.End)
	return b.Compile(&treadle.Options{Saver: saver})
}
