package vecindex

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// exactUpTo is the maximum number of vectors that are all compared. A larger index
	// has signatures.
	exactUpTo = 4096
	// A search compares exactly the comparedLeast nearest vectors by signature, or
	// comparedPer for each requested result, whichever is more.
	comparedLeast = 1000
	comparedPer   = 40
	// regrowth is the growth factor after which the mean is computed again.
	regrowth = 16
)

// Index holds vectors of the same dimension, each with an ID in a space. An ID may have
// several vectors. Searches may run concurrently, but not concurrently with methods that
// change the index.
type Index struct {
	spaces []*space // sorted by name
	byName map[string]*space
	count  int
	signed bool // keeps signatures but no vectors

	dimension int // set if signed

	// Used to compute signatures; nil while there are none.
	rotation *rotation
	mean     []float32 // rotated
	meanOf   int       // number of vectors in the mean
}

// space holds the vectors of one name, unordered.
type space struct {
	name       string
	ids        []int64
	vectors    [][]float32
	signatures []uint64          // words() words per vector; empty without a rotation
	at         map[int64][]int32 // slots by ID; nil until the first removal
}

// Hit is an ID with the highest similarity (dot product) among its vectors.
type Hit struct {
	ID         int64
	Similarity float32
}

// New returns an empty index.
func New() *Index { return &Index{byName: map[string]*space{}} }

// Len returns the number of vectors.
func (x *Index) Len() int { return x.count }

// Add adds the vectors of an ID that is not in the index. The vectors must have the
// index's dimension. The index keeps them, so they must not be modified.
func (x *Index) Add(name string, id int64, vectors ...[]float32) {
	if len(vectors) == 0 {
		return
	}
	s := x.space(name)
	for _, v := range vectors {
		s.addID(id)
		if !x.signed {
			s.vectors = append(s.vectors, v)
		}
		if x.rotation != nil {
			s.signatures = append(s.signatures, x.signature(v)...)
		}
	}
	x.count += len(vectors)
	if !x.signed && x.count > exactUpTo && x.count > regrowth*x.meanOf {
		x.sign()
	}
}

// space returns the space with the given name, creating it if necessary.
func (x *Index) space(name string) *space {
	s := x.byName[name]
	if s == nil {
		s = &space{name: name}
		x.byName[name] = s
		x.spaces = slices.Insert(x.spaces, x.find(name), s)
	}
	return s
}

// addID adds the ID of a vector. It does not build the map, because many indexes are
// filled, searched, and discarded, and the map would take a third of the time to fill
// one.
func (s *space) addID(id int64) {
	if s.at != nil {
		s.at[id] = append(s.at[id], int32(len(s.ids)))
	}
	s.ids = append(s.ids, id)
}

// Remove removes all vectors of an ID.
func (x *Index) Remove(name string, id int64) {
	s := x.byName[name]
	if s == nil {
		return
	}
	if s.at == nil {
		s.at = make(map[int64][]int32, len(s.ids))
		for i, id := range s.ids {
			s.at[id] = append(s.at[id], int32(i))
		}
	}
	for slots := s.at[id]; len(slots) > 0; slots = s.at[id] {
		s.remove(slots[0], x.words())
		x.count--
	}
	if len(s.ids) == 0 {
		delete(x.byName, name)
		i := x.find(name)
		x.spaces = slices.Delete(x.spaces, i, i+1)
	}
}

// remove removes a slot and moves the last slot into its place.
func (s *space) remove(slot int32, words int) {
	last := int32(len(s.ids) - 1)
	s.move(s.ids[slot], slot, -1)
	if slot != last {
		s.move(s.ids[last], last, slot)
		s.ids[slot] = s.ids[last]
		copy(s.signature(slot, words), s.signature(last, words))
	}
	s.ids = s.ids[:last]
	if s.vectors != nil {
		s.vectors[slot] = s.vectors[last]
		s.vectors[last] = nil
		s.vectors = s.vectors[:last]
	}
	s.signatures = s.signatures[:int(last)*words]
}

// move records that a vector of an ID has moved to another slot, or was removed if to is
// negative.
func (s *space) move(id int64, from, to int32) {
	slots := s.at[id]
	i := slices.Index(slots, from)
	switch {
	case to >= 0:
		slots[i] = to
	case len(slots) == 1:
		delete(s.at, id)
	default:
		s.at[id] = slices.Delete(slots, i, i+1)
	}
}

func (s *space) signature(slot int32, words int) []uint64 {
	return s.signatures[int(slot)*words:][:words]
}

// find returns the position of a name in spaces, or where it would be inserted.
func (x *Index) find(name string) int {
	i, _ := slices.BinarySearchFunc(x.spaces, name, func(s *space, name string) int { return strings.Compare(s.name, name) })
	return i
}

// under returns the spaces whose names start with prefix.
func (x *Index) under(prefix string) []*space {
	from := x.find(prefix)
	to, _ := slices.BinarySearchFunc(x.spaces[from:], prefix, func(s *space, prefix string) int {
		if strings.HasPrefix(s.name, prefix) {
			return -1
		}
		return 1
	})
	return x.spaces[from : from+to]
}

func (x *Index) words() int {
	if x.rotation == nil {
		return 0
	}
	return x.rotation.size / 64
}

// sign computes the mean of the vectors and all signatures.
func (x *Index) sign() {
	if x.rotation == nil {
		x.rotation = newRotation(len(x.spaces[0].vectors[0]))
	}
	all := make([][][]float32, len(x.spaces))
	for i, s := range x.spaces {
		all[i] = s.vectors
	}
	x.setMean(all...)
	for _, s := range x.spaces {
		s.signatures = make([]uint64, 0, len(s.ids)*x.words())
		for _, v := range s.vectors {
			s.signatures = append(s.signatures, x.signature(v)...)
		}
	}
}

// setMean sets the mean to the mean of the given vectors.
func (x *Index) setMean(all ...[][]float32) {
	var sum []float64
	n := 0
	for _, vectors := range all {
		for _, v := range vectors {
			if sum == nil {
				sum = make([]float64, len(v))
			}
			for i, f := range v {
				sum[i] += float64(f)
			}
		}
		n += len(vectors)
	}
	mean := make([]float32, len(sum))
	for i := range mean {
		mean[i] = float32(sum[i] / float64(n))
	}
	x.mean = make([]float32, x.rotation.size)
	x.rotation.apply(mean, x.mean)
	x.meanOf = n
}

func (x *Index) signature(v []float32) []uint64 { return signs(x.centred(v)) }

// centred returns v rotated, minus the mean.
func (x *Index) centred(v []float32) []float32 {
	rotated := make([]float32, x.rotation.size)
	x.rotation.apply(v, rotated)
	for i, m := range x.mean {
		rotated[i] -= m
	}
	return rotated
}

// byHit orders hits by descending similarity, then by descending ID.
func byHit(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), cmp.Compare(b.ID, a.ID))
}
