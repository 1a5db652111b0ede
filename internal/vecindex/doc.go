// Package vecindex finds the vectors nearest to a query in a space and the spaces below
// it.
//
// If the searched prefix has at most a few thousand vectors, all of them are compared
// with the query. For larger sets, each vector has a signature: the vector is rotated by
// a fixed random rotation (signs and Hadamard transforms, twice) and centered, and the
// sign of each coordinate becomes a bit. The fraction of differing bits estimates the
// angle between two vectors, and counting bits is a hundred times cheaper than computing
// the angle. The nearest vectors by signature are then compared exactly. Results
// therefore have their true similarity and order, but a near vector may be missed. If
// vectors are on disk, where comparing is expensive, an estimate first reorders the
// nearest vectors by signature; see Likely. Centering is needed because sentence
// embeddings share a direction, which would make half of the bits equal for all vectors.
//
// Nothing is built in advance, and removing an ID removes its vectors, so a search always
// reflects the current contents of the index.
package vecindex
