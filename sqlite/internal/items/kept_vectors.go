package items

import (
	"sync"

	"github.com/treadle-go/treadle/internal/saved"
)

// A semantic search compares a few hundred vectors, which are scattered over the file
// like the words of items (kept.go). The most recently compared vectors are
// therefore cached too. The vectors of an ID change only when the item is reindexed,
// which a counter in the file shows. The cached items show whether an item is still live.

// A keptVector contains the vectors of a record of an item without a TTL.
type keptVector struct {
	seq  int64
	data []byte // encoded as in the file
}

// Size returns the size of the vectors in bytes.
func (v keptVector) Size() int { return len(v.data) + 96 }

// vectorBytes limits the size of the cached vectors: 40,000 of 384 dimensions.
const vectorBytes = 64 << 20

// keptVectors caches the most recently compared vectors by ID.
type keptVectors struct {
	mu       sync.Mutex
	reworded int64
	byID     saved.Generations[int64, keptVector]
}

// get returns the cached vectors among ids, and the IDs that are not cached.
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

// keep caches vectors, unless they are outdated.
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

// compareKept offers the cached vectors among ids to the best hits, like compare, and
// returns the other IDs.
func (l *look) compareKept(best *topHits, ids []int64, reworded int64, there func(id int64)) (n int, missing []int64, err error) {
	had, missing := l.vectors.get(ids, reworded)
	if len(had) == 0 {
		return 0, missing, nil
	}
	seqs := make([]int64, 0, len(had))
	for _, v := range had {
		seqs = append(seqs, v.seq)
	}
	// A vector that is compared for the second time will probably be compared again, so
	// its item is cached too. The index has already established that it is in scope.
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
