// Package vecindex finds the vectors nearest to a query among those of a space
// and the spaces below it.
//
// What it hides: how. Up to a few thousand vectors under the searched prefix are
// all compared. Beyond that each vector has a signature: it is centred, rotated
// by a fixed random rotation (signs and Hadamard transforms, twice), and of each
// coordinate the sign is kept as a bit. The share of bits in which two
// signatures differ estimates the angle between the vectors, and counting
// differing bits is a hundred times cheaper than the angle itself. The nearest
// by signature are then compared exactly, so what is returned has its true
// similarity and its true order; what can happen is that a near one is missed.
// Where comparing is dear, because vectors are on disk, an estimate first puts the
// nearest by signature in a better order (see Likely).
// Centring matters because embeddings of sentences share a direction, which
// would make half of the bits the same for all.
//
// A vector is removed with its id and nothing is built in advance, so a search
// sees exactly what is in the index at that time.
package vecindex
