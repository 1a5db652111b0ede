package saved

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/treadle-go/treadle/checkpoint"
)

// A Sum is the checksum of a row as it is being made. What goes into it is what
// the row says and where it belongs, so that a byte that changed is noticed and
// so are two rows that changed places.
//
// A database copies a thread without looking at its rows. So the places that are
// others in a copy, the numbers of a thread and a line, are not mixed into the
// rest but added ([Place]): the sum of the copy is the sum of the original, plus
// the one place, less the other. The same way a counter is kept in a sum without
// reading the row ([Sum.Value] of what it was and what it is), which leaves a
// sum that was wrong as wrong as it was.
type Sum uint64

// SumMask cuts off what is more than a sum: all arithmetic is modulo 2^31, which
// takes four bytes in a file.
const SumMask = 1<<31 - 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Int adds a number.
func (s Sum) Int(n int64) Sum {
	s = (s ^ Sum(n) ^ 0x2545F4914F6CDD1D) * 0x9E3779B97F4A7C15
	return s ^ s>>29
}

// Bytes adds bytes; none and nil are the same.
func (s Sum) Bytes(b []byte) Sum {
	return s.Int(int64(len(b))<<32 | int64(crc32.Checksum(b, castagnoli)))
}

// ID adds the id of a checkpoint.
func (s Sum) ID(id checkpoint.ID) Sum {
	return s.Int(int64(binary.BigEndian.Uint64(id[:8]))).Int(int64(binary.BigEndian.Uint64(id[8:])))
}

// Bool adds a truth value.
func (s Sum) Bool(b bool) Sum {
	if b {
		return s.Int(1)
	}
	return s.Int(0)
}

// Value is the sum itself.
func (s Sum) Value() int64 {
	s *= 0xD6E8FEB86659FD93
	return int64(s>>32) & SumMask
}

// Place is what being at a numbered place adds to a sum.
func Place(n int64) int64 { return Sum(1).Int(n).Value() }

// Hash is a name as a number. Two names hardly ever have the same one.
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
