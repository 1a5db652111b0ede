package uselite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/store/internal/matmul"
)

func BenchmarkEmbed(b *testing.B) {
	encoder := openModel(b)
	for _, count := range []int{8, 32, maxTokens} {
		text := strings.TrimSpace(strings.Repeat("word ", count))
		if got := len(encoder.vocab.tokens(text, maxTokens)); got != count {
			b.Fatalf("got %d tokens, want %d", got, count)
		}
		for _, test := range []struct {
			name string
			mul  matmul.Kernel
		}{{"fastest", matmul.Fastest(processor)}, {"portable", matmul.Portable}} {
			encoder := &Encoder{vocab: encoder.vocab, network: encoder.network, kernel: test.mul}
			b.Run(fmt.Sprintf("tokens=%d/%s", count, test.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := encoder.Embed(b.Context(), []string{text}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkEmbed64Texts(b *testing.B) {
	encoder := openModel(b)
	texts := make([]string, 64)
	for i := range texts {
		texts[i] = "the cat sat on the mat today"
	}
	for b.Loop() {
		if _, err := encoder.Embed(b.Context(), texts); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		if _, err := Open(modelDir); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTokens(b *testing.B) {
	vocab := openModel(b).vocab
	text := strings.Repeat("The committee met again and could not agree. ", 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		vocab.tokens(text, maxTokens)
	}
}
