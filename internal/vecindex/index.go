package vecindex

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// exactUpTo is how many vectors are all compared. It is also how many the
	// index has before it makes signatures.
	exactUpTo = 4096
	// A search compares this many of the nearest by signature exactly, or
	// comparedPer for each one asked for, if that is more.
	comparedLeast = 1000
	comparedPer   = 40
	// regrowth is how many times larger than when the mean was taken the index
	// gets before it is taken anew.
	regrowth = 16
)

// An Index keeps vectors of one dimension, each with an id in a space. Several
// vectors may have one id. Methods that change it must not run at the same time
// as others; searches may run at the same time as each other.
type Index struct {
	spaces []*space // by name
	byName map[string]*space
	count  int
	signed bool // it keeps no vectors

	// What signatures are made with; nil as long as there are none.
	rotation *rotation
	mean     []float32 // rotated
	meanOf   int       // how many vectors there were
}

// A space has the vectors of one name, in no order.
type space struct {
	name       string
	ids        []int64
	vectors    [][]float32
	signatures []uint64          // words for each vector, if there is a rotation
	at         map[int64][]int32 // the slots of an id
}

// A Hit is an id with the greatest similarity, as dot product, of its vectors.
type Hit struct {
	ID         int64
	Similarity float32
}

// New makes an empty index.
func New() *Index { return &Index{byName: map[string]*space{}} }

// Len is the number of vectors.
func (x *Index) Len() int { return x.count }

// Add adds the vectors of an id that is not there. It keeps the vectors, which
// must have one dimension and not change any more.
func (x *Index) Add(name string, id int64, vectors ...[]float32) {
	if len(vectors) == 0 {
		return
	}
	s := x.byName[name]
	if s == nil {
		s = &space{name: name, at: map[int64][]int32{}}
		x.byName[name] = s
		x.spaces = slices.Insert(x.spaces, x.find(name), s)
	}
	for _, v := range vectors {
		s.at[id] = append(s.at[id], int32(len(s.ids)))
		s.ids = append(s.ids, id)
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

// Remove removes all vectors of an id.
func (x *Index) Remove(name string, id int64) {
	s := x.byName[name]
	if s == nil {
		return
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

// remove empties a slot and moves the last one into it.
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

// move notes that a vector of an id has gone to another slot, or for good.
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

// find is where in spaces a name is or would be.
func (x *Index) find(name string) int {
	i, _ := slices.BinarySearchFunc(x.spaces, name, func(s *space, name string) int { return strings.Compare(s.name, name) })
	return i
}

// under are the spaces whose names begin with prefix.
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

// sign takes the mean of the vectors and makes all signatures anew.
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

// setMean takes the mean of vectors.
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

// centred is a vector rotated, less the mean.
func (x *Index) centred(v []float32) []float32 {
	rotated := make([]float32, x.rotation.size)
	x.rotation.apply(v, rotated)
	for i, m := range x.mean {
		rotated[i] -= m
	}
	return rotated
}

// byHit orders hits best first, equal ones by greater id.
func byHit(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), cmp.Compare(b.ID, a.ID))
}
