// Package vecindex finds the vectors nearest to a query among those of a space
// and the spaces below it.
//
// If there are at most a few thousand vectors under the searched prefix, all of them
// are compared with the query. For larger sets each vector has a signature: the vector
// is centred, rotated by a fixed random rotation (signs and Hadamard transforms, twice),
// and the sign of each coordinate becomes a bit. The share of bits in which two
// signatures differ estimates the angle between the vectors, and counting bits is a
// hundred times cheaper than computing the angle. The nearest vectors by signature are
// then compared exactly. So results have their true similarity and order, but a near
// vector may be missed. If vectors are on disk, where comparing is expensive, an estimate
// first puts the nearest by signature in a better order; see Likely. Centring is needed
// because embeddings of sentences share a direction, which would make half of the bits
// equal for all.
//
// Nothing is built in advance, and removing an id removes its vectors, so a search sees
// exactly the present contents of the index.
package vecindex
