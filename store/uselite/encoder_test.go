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

var _ store.Embedder = (*Encoder)(nil)

// The name is in every store with vectors of the model, so it must never
// change.
func TestModelIsNamedAfterItsFiles(t *testing.T) {
	encoder := openModel(t)
	if got, want := encoder.Model(), "uselite-6915bcb0c725"; got != want {
		t.Errorf("got model %q, want %q", got, want)
	}
	files := modelFiles(t)
	rewrite(t, files, "vocab.json", "-3.28450870514", "-3.28450870515")
	other, err := readContents(files)
	if err != nil {
		t.Fatal(err)
	}
	if other.model == encoder.Model() {
		t.Errorf("models with different vocabularies share the name %s", other.model)
	}
	if encoder.Dimension() != 512 {
		t.Errorf("got dimension %d", encoder.Dimension())
	}
}

// texts returns texts of many lengths, so that a row or number left over from
// another text would show.
func texts() []string {
	words := strings.Repeat("a long text leaves more behind than a short one ", 20)
	list := []string{"", "x", "", "y"}
	for length := 1; length < len(words); length *= 3 {
		list = append(list, words[:length], words[len(words)-length:])
	}
	return list
}

func TestVectorDependsOnlyOnItsText(t *testing.T) {
	encoder := openModel(t)
	list := texts()
	together, err := encoder.Embed(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range list {
		// A fresh encoder has seen no other texts.
		alone, err := (&Encoder{vocab: encoder.vocab, network: encoder.network, kernel: encoder.kernel}).Embed(t.Context(), []string{text})
		if err != nil {
			t.Fatal(err)
		}
		if len(alone) != 1 || !slices.Equal(alone[0], together[i]) {
			t.Errorf("vector of %.40q depends on other texts", text)
		}
	}
}

func TestConcurrentEmbed(t *testing.T) {
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
				t.Errorf("concurrent call: different vectors, or error %v", err)
			}
		})
	}
	calls.Wait()
}

func TestEmbedWithoutTexts(t *testing.T) {
	got, err := openModel(t).Embed(t.Context(), nil)
	if len(got) != 0 || err != nil {
		t.Errorf("Embed of no texts: got %v, %v", got, err)
	}
}

// endsAfter is a context that ends after a number of calls of Err.
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

func TestEmbedStopsWhenContextEnds(t *testing.T) {
	encoder := openModel(t)
	// Each text is long enough to fill a batch.
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
			t.Errorf("got %d vectors and error %v, want %s", len(got), err, want)
		}
	}
	ctx := &endsAfter{Context: t.Context()}
	ctx.times.Store(3)
	if got, err := encoder.Embed(ctx, list); len(got) != 3 || err != nil {
		t.Errorf("context that ends after the last text: got %d vectors and %v", len(got), err)
	}
}
