package items

import "github.com/treadle-go/treadle/internal/saved"

func spaceHash(name string) int64 { return saved.Hash(13, name) }

func stampHash(text string) int64 { return saved.Hash(14, text) }

func keyHash(key string) int64 { return saved.Hash(15, key) }

// bodySum returns the checksum of an item's value and metadata, and sealSum of the rest
// of its record.
func bodySum(seq int64, meta, value []byte) int64 {
	return saved.Sum(16).Int(seq).Bytes(meta).Bytes(value).Value()
}

func sealSum(seq, space int64, key []byte, kind int, created, updated, ttl, stamp int64, paths []byte) int64 {
	return saved.Sum(17).Int(seq).Int(space).Bytes(key).Int(int64(kind)).Int(created).Int(updated).Int(ttl).Int(stamp).Bytes(paths).Value()
}

func vectorSum(seq, stamp int64, data []byte) int64 {
	return saved.Sum(18).Int(seq).Int(stamp).Bytes(data).Value()
}

func termsSum(seq int64, words int, data []byte) uint32 {
	return uint32(saved.Sum(19).Int(seq).Int(int64(words)).Bytes(data).Value())
}

func stateSum(folded, compacted int64) int64 { return saved.Sum(20).Int(folded).Int(compacted).Value() }

// lifeSum returns the checksum of a lifetime. SQL can compute it too (lifeIsDamaged).
// NULL counts as 0.
func lifeSum(seq, expires, ended int64) int64 {
	part := func(n int64) int64 { return n&saved.SumMask*48271 + n>>31&saved.SumMask*16807 }
	return (part(seq) + 3*part(expires) + 5*part(ended) + 7) & saved.SumMask
}

// lifeIsDamaged is the condition for a damaged row of store_life l.
const lifeIsDamaged = `(l.sum IS NOT ((l.seq&0x7fffffff)*48271+(l.seq>>31&0x7fffffff)*16807
	+3*((coalesce(l.expires,0)&0x7fffffff)*48271+(coalesce(l.expires,0)>>31&0x7fffffff)*16807)
	+5*((coalesce(l.ended,0)&0x7fffffff)*48271+(coalesce(l.ended,0)>>31&0x7fffffff)*16807)+7)&0x7fffffff)`
