package uselite

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/treadle-go/treadle/store"
)

// An Encoder is what package store asks for.
var _ store.Embedder = (*Encoder)(nil)

// The name is in every store that has vectors of the model, so it must stay what it is.
func TestModelIsNamedAfterItsFiles(t *testing.T) {
	encoder := openModel(t)
	if got, want := encoder.Model(), "uselite-6915bcb0c725"; got != want {
		t.Errorf("the model is %q, want %q", got, want)
	}
	files := modelFiles(t)
	rewrite(t, files, "vocab.json", "-3.28450870514", "-3.28450870515")
	other, err := readContents(files)
	if err != nil {
		t.Fatal(err)
	}
	if other.model == encoder.Model() {
		t.Errorf("models with two vocabularies have one name, %s", other.model)
	}
	if encoder.Dimension() != 512 {
		t.Errorf("the dimension is %d", encoder.Dimension())
	}
}

// texts are of many lengths, so that a row or a number left over from another text would show.
func texts() []string {
	words := strings.Repeat("a long text leaves more behind than a short one ", 20)
	list := []string{"", "x", "", "y"}
	for length := 1; length < len(words); length *= 3 {
		list = append(list, words[:length], words[len(words)-length:])
	}
	return list
}

func TestAVectorDependsOnItsTextAlone(t *testing.T) {
	encoder := openModel(t)
	list := texts()
	together, err := encoder.Embed(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range list {
		// A fresh encoder has no memory of other texts.
		alone, err := (&Encoder{vocab: encoder.vocab, network: encoder.network, kernel: encoder.kernel}).Embed(t.Context(), []string{text})
		if err != nil {
			t.Fatal(err)
		}
		if len(alone) != 1 || !slices.Equal(alone[0], together[i]) {
			t.Errorf("the vector of %.40q is another one beside other texts", text)
		}
	}
}

func TestEmbedMayBeCalledConcurrently(t *testing.T) {
	encoder := openModel(t)
	list := texts()
	want, err := encoder.Embed(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			got, err := encoder.Embed(t.Context(), list)
			if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("a concurrent call gives other vectors, or the error %v", err)
			}
		})
	}
	calls.Wait()
}

func TestEmbedOfNothing(t *testing.T) {
	got, err := openModel(t).Embed(t.Context(), nil)
	if len(got) != 0 || err != nil {
		t.Errorf("no texts give %v, %v", got, err)
	}
}

// A context that ends after it was asked some times.
type endsAfter struct {
	context.Context
	times atomic.Int64
}

func (c *endsAfter) Err() error {
	if c.times.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

func TestEmbedStopsBetweenTextsWhenTheContextEnds(t *testing.T) {
	encoder := openModel(t)
	// Each is long enough to be a batch of its own.
	list := slices.Repeat([]string{strings.Repeat("word ", maxTokens)}, 3)
	for times, want := range []string{
		"uselite: stopped after 0 of 3 texts: context canceled",
		"uselite: stopped after 1 of 3 texts: context canceled",
		"uselite: stopped after 2 of 3 texts: context canceled",
	} {
		ctx := &endsAfter{Context: t.Context()}
		ctx.times.Store(int64(times))
		got, err := encoder.Embed(ctx, list)
		if got != nil || !errors.Is(err, context.Canceled) || err.Error() != want {
			t.Errorf("Embed gives %d vectors and %v, want %s", len(got), err, want)
		}
	}
	ctx := &endsAfter{Context: t.Context()}
	ctx.times.Store(3)
	if got, err := encoder.Embed(ctx, list); len(got) != 3 || err != nil {
		t.Errorf("a context that ends after the last text gives %d vectors and %v", len(got), err)
	}
}
