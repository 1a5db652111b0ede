package sqlite

import (
	"sync"

	"github.com/treadle-go/treadle/internal/saved"
)

// A search by meaning compares some hundred vectors, which are all over the file as the
// words of items are (store_kept.go). Those that were compared last are kept too. What
// is under an id changes only when the item gets other words, which is told by a number
// in the file, and whether the item is still live the kept items know.

// A keptVector has the vectors of a record of an item without a TTL.
type keptVector struct {
	seq  int64
	data []byte // as in the file
}

// Size is how many bytes it takes.
func (v keptVector) Size() int { return len(v.data) + 96 }

// vectorBytes bounds what the vectors take: 40,000 of 384 dimensions.
const vectorBytes = 64 << 20

// keptVectors are the vectors that were compared last, by their ids.
type keptVectors struct {
	mu       sync.Mutex
	reworded int64
	byID     saved.Generations[int64, keptVector]
}

// get returns those vectors that it has, and the ids that it does not have.
func (k *keptVectors) get(ids []int64, reworded int64) (had map[int64]keptVector, missing []int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if reworded != k.reworded {
		return nil, ids
	}
	had = make(map[int64]keptVector, len(ids))
	for _, id := range ids {
		if v, ok := k.byID.Get(id); ok {
			had[id] = v
		} else {
			missing = append(missing, id)
		}
	}
	return had, missing
}

// keep keeps vectors, unless they are out of date.
func (k *keptVectors) keep(read map[int64]keptVector, reworded int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if reworded < k.reworded {
		return
	}
	if reworded > k.reworded {
		k.reworded = reworded
		k.byID.Clear()
	}
	for id, v := range read {
		k.byID.Set(id, v)
	}
}

// compareKept offers the kept ones of some vectors to the best hits, as compare does, and
// returns the ids of the others.
func (l *look) compareKept(best *topHits, ids []int64, reworded int64, there func(id int64)) (n int, missing []int64, err error) {
	had, missing := l.vectors.get(ids, reworded)
	if len(had) == 0 {
		return 0, missing, nil
	}
	seqs := make([]int64, 0, len(had))
	for _, v := range had {
		seqs = append(seqs, v.seq)
	}
	// What is compared for the second time will be compared again, so the items are kept
	// too. The index has told that they are in scope.
	seqs, _, err = l.items(scope{}, seqs, edition{reworded: reworded})
	if err != nil {
		return 0, nil, err
	}
	live := make(map[int64]bool, len(seqs))
	for _, seq := range seqs {
		live[seq] = true
	}
	for _, id := range ids {
		v, ok := had[id]
		if !ok || !live[v.seq] {
			continue
		}
		there(id)
		n++
		if err := best.offer(v.seq, v.data); err != nil {
			return 0, nil, err
		}
	}
	return n, missing, nil
}
