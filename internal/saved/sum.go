package saved

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/treadle-go/treadle/checkpoint"
)

// A Sum computes the checksum of a row from its content and its place, so that both
// changed bytes and swapped rows are detected.
//
// A database copies a thread without reading its rows. The parts of the place that differ
// in a copy, the numbers of the thread and the namespace, are therefore not hashed with
// the rest but added ([Place]): the sum of the copy is the original's sum, minus the old
// place, plus the new place. A counter in a row is updated in the same way, without
// reading the row; an incorrect sum stays incorrect.
type Sum uint64

// SumMask reduces a sum modulo 2^31, as in all arithmetic with sums, so that a sum takes
// four bytes in a file.
const SumMask = 1<<31 - 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Int adds a number.
func (s Sum) Int(n int64) Sum {
	s = (s ^ Sum(n) ^ 0x2545F4914F6CDD1D) * 0x9E3779B97F4A7C15
	return s ^ s>>29
}

// Bytes adds bytes; nil and empty slices are equivalent.
func (s Sum) Bytes(b []byte) Sum {
	return s.Int(int64(len(b))<<32 | int64(crc32.Checksum(b, castagnoli)))
}

// ID adds a checkpoint ID.
func (s Sum) ID(id checkpoint.ID) Sum {
	return s.Int(int64(binary.BigEndian.Uint64(id[:8]))).Int(int64(binary.BigEndian.Uint64(id[8:])))
}

// Bool adds a bool.
func (s Sum) Bool(b bool) Sum {
	if b {
		return s.Int(1)
	}
	return s.Int(0)
}

// Value returns the sum.
func (s Sum) Value() int64 {
	s *= 0xD6E8FEB86659FD93
	return int64(s>>32) & SumMask
}

// Place returns the contribution of a numbered place to a sum.
func Place(n int64) int64 { return Sum(1).Int(n).Value() }

// Hash returns a hash of a name, seeded with of.
func Hash(of int64, name string) int64 {
	s := Sum(of)
	for len(name) >= 8 {
		s = s.Int(int64(binary.LittleEndian.Uint64([]byte(name[:8]))))
		name = name[8:]
	}
	var rest [8]byte
	n := copy(rest[:], name)
	return int64(s.Int(int64(binary.LittleEndian.Uint64(rest[:]))).Int(int64(n)))
}
