package items

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/internal/vecindex"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// Vector signatures are also stored in the file, so a process does not have to read all
// vectors before its first search. They are stored in parts: part p of a stamp covers the
// rows of store_vector with this stamp and the IDs from (p-1)*partSize+1 to p*partSize.
// The transaction that writes the last of these IDs also writes the part. A search that
// misses a part computes and stores it. Part 0 contains the mean from which all
// signatures of the stamp are computed.
//
// Parts only help to find rows, so a part that is damaged, or was computed with another
// mean or by another version, counts as missing. A part is not rewritten when its rows
// are removed: a search finds nothing under their IDs. Only forgetting an item deletes
// its part, because signatures reveal something about texts.

const (
	partSize = 1024
	// partVersion is the version of the signature format.
	partVersion = 1
	// driftMost is the maximum squared distance between the mean of sampled vectors,
	// which have length 1, and the mean in the file. For 128 vectors, the mean is off by
	// 0.01 by chance.
	driftMost = 0.05
	// drawn is the number of vectors sampled for this comparison.
	drawn = 128
)

func partKey(stamp, part int64) int64 { return stamp<<32 | part }

func partSum(key, mean int64, data []byte) int64 {
	return saved.Sum(22).Int(key).Int(mean).Bytes(data).Value()
}

// A mean is the vector from which the signatures of a stamp are computed.
type mean struct {
	stamp int64
	id    int64
	index *vecindex.Index // empty
	data  []byte
}

func newMean(stamp int64, sample [][]float32) *mean {
	m := &mean{stamp: stamp, index: vecindex.Signed(sample...)}
	m.data = binary.AppendUvarint([]byte{partVersion}, uint64(len(sample[0])))
	for _, f := range m.index.Mean() {
		m.data = binary.LittleEndian.AppendUint32(m.data, math.Float32bits(f))
	}
	m.id = partSum(stamp, 0, m.data)
	return m
}

// readMean reads the mean of a stamp. It returns nil if there is no usable mean.
func readMean(c *database.Conn, stamp int64) (*mean, error) {
	m := &mean{stamp: stamp}
	var have int64
	ok, err := c.Row("SELECT mean, data, sum FROM store_part WHERE key=?", []any{partKey(stamp, 0)}, &m.id, &m.data, &have)
	if err != nil || !ok || have != partSum(partKey(stamp, 0), m.id, m.data) || m.id != partSum(stamp, 0, m.data) {
		return nil, err
	}
	r := saved.Reader{Rest: m.data}
	if r.Byte() != partVersion {
		return nil, nil
	}
	dimension := int(r.Int())
	if r.Bad || dimension < 1 || len(r.Rest) != 4*64*vecindex.Words(dimension) {
		return nil, nil
	}
	numbers := make([]float32, len(r.Rest)/4)
	for i := range numbers {
		numbers[i] = math.Float32frombits(binary.LittleEndian.Uint32(r.Rest[4*i:]))
	}
	m.index = vecindex.Restored(dimension, numbers)
	return m, nil
}

// setMean stores a mean and removes the parts of its stamp that were computed with
// another mean.
func setMean(c *database.Conn, m *mean) error {
	if _, err := c.Change("DELETE FROM store_part WHERE key>=? AND key<? AND mean<>?", partKey(m.stamp, 0), partKey(m.stamp+1, 0), m.id); err != nil {
		return err
	}
	return setPart(c, m, 0, m.data)
}

func setPart(c *database.Conn, m *mean, part int64, data []byte) error {
	key := partKey(m.stamp, part)
	_, err := c.Change("INSERT OR REPLACE INTO store_part(key,mean,data,sum) VALUES(?,?,?,?)", key, m.id, data, partSum(key, m.id, data))
	return err
}

// storedParts returns the valid parts of a mean in a range.
func storedParts(c *database.Conn, m *mean, from, to int64) (map[int64][]byte, error) {
	parts := map[int64][]byte{}
	err := c.Each("SELECT key, mean, data, sum FROM store_part WHERE key>=? AND key<=?", []any{partKey(m.stamp, from), partKey(m.stamp, to)},
		func(scan func(...any) error) error {
			var key, of int64
			var data []byte
			var have int64
			err := scan(&key, &of, &data, &have)
			if err == nil && of == m.id && have == partSum(key, of, data) {
				parts[key-partKey(m.stamp, 0)] = data
			}
			return err
		})
	return parts, err
}

// vectorRows calls do for each row of a part.
func vectorRows(c *database.Conn, stamp, part int64, do func(id, space int64, vectors [][]float32)) error {
	return c.Each("SELECT v.id, v.seq, r.space, v.data, v.sum FROM store_vector v LEFT JOIN store_record r ON r.seq=v.seq WHERE v.id>? AND v.id<=? AND v.stamp=? ORDER BY v.id",
		[]any{(part - 1) * partSize, part * partSize, stamp}, func(scan func(...any) error) error {
			var id, seq, space int64
			var data []byte
			var sum int64
			if err := scan(&id, &seq, &space, &data, &sum); err != nil {
				return err
			}
			if space == 0 {
				return missingRecord(seq)
			}
			if !database.Intact(sum, vectorSum(seq, stamp, data)) {
				return database.Changed("vectors of store record %d", seq)
			}
			decoded, err := decodeVectors(data)
			if err != nil {
				return err
			}
			vectors := make([][]float32, len(decoded))
			for i, v := range decoded {
				vectors[i] = v.Data
			}
			do(id, space, vectors)
			return nil
		})
}

// makePart computes a part. It contains for each row the difference between its ID and
// the previous one, its namespace, and its number of vectors (uvarints), followed by
// their signatures.
func makePart(c *database.Conn, m *mean, part int64) (data []byte, err error) {
	before := (part - 1) * partSize
	err = vectorRows(c, m.stamp, part, func(id, space int64, vectors [][]float32) {
		data = binary.AppendUvarint(data, uint64(id-before))
		data = binary.AppendUvarint(data, uint64(space))
		data = binary.AppendUvarint(data, uint64(len(vectors)))
		for _, v := range vectors {
			for _, word := range m.index.Signature(v) {
				data = binary.LittleEndian.AppendUint64(data, word)
			}
		}
		before = id
	})
	if data == nil {
		data = []byte{}
	}
	return data, err
}

// readPart decodes a part and calls do for each row. It reports whether the part is
// valid.
func readPart(m *mean, part int64, data []byte, do func(id, space int64, signatures []uint64)) bool {
	r := saved.Reader{Rest: data}
	id := (part - 1) * partSize
	var signatures []uint64
	words := len(m.index.Mean()) / 64
	for len(r.Rest) > 0 && !r.Bad {
		id += r.Int()
		space, n := r.Int(), int(r.Int())*words
		if r.Bad || n < 0 || n > len(r.Rest)/8 {
			return false
		}
		signatures = signatures[:0]
		for i := range n {
			signatures = append(signatures, binary.LittleEndian.Uint64(r.Rest[8*i:]))
		}
		r.Rest = r.Rest[8*n:]
		do(id, space, signatures)
	}
	return !r.Bad
}

// vectorsAdded records that a row of vectors was written.
func (w *writing) vectorsAdded(id, stamp int64) {
	if id == 0 {
		return
	}
	if w.firstVector == 0 {
		w.firstVector, w.vectorStamps = id, map[int64]bool{}
	}
	w.lastVector, w.vectorStamps[stamp] = id, true
}

// parts stores the parts that the written rows have completed.
func (w *writing) parts() error {
	from, to := (w.firstVector-1)/partSize+1, w.lastVector/partSize
	if w.firstVector == 0 || to < from {
		return nil
	}
	for stamp := range w.vectorStamps {
		m, err := readMean(w.c, stamp)
		if err != nil {
			return err
		}
		for part := from; part <= to; part++ {
			if m == nil {
				var sample [][]float32
				err := vectorRows(w.c, stamp, part, func(_, _ int64, vectors [][]float32) { sample = append(sample, vectors...) })
				if err != nil || len(sample) == 0 {
					return err
				}
				m = newMean(stamp, sample)
				if err := setMean(w.c, m); err != nil {
					return err
				}
			}
			data, err := makePart(w.c, m, part)
			if err != nil {
				return err
			}
			if err := setPart(w.c, m, part, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// partsOfRecords returns a condition on store_part. It selects the parts with signatures
// of the records that a condition on store_record r selects.
func partsOfRecords(condition string) string {
	return "key IN (SELECT v.stamp<<32|((abs(v.id)-1)/1024+1) FROM store_record r CROSS JOIN store_vector v WHERE v.seq=r.seq AND " + condition + ")"
}

// restore returns an index with the mean in the file, or nil if there is none or the
// vectors have drifted too far from it.
func (u *catchUp) restore(ctx context.Context) (x *nearby, err error) {
	if u.db.Path == database.InMemory {
		return nil, nil
	}
	err = u.db.Read(ctx, func(c *database.Conn) error {
		stamp, err := stampID(c, u.stamp)
		if err != nil || stamp == 0 {
			return err
		}
		m, err := readMean(c, stamp)
		if err != nil || m == nil {
			return err
		}
		if drift, err := driftOf(c, m); err != nil || drift > driftMost {
			u.replaced = m.id
			return err
		}
		x = &nearby{index: m.index, mean: m, gone: map[int64]string{}}
		return nil
	})
	return x, err
}

// driftOf returns the squared distance between m and the mean of sampled vectors.
func driftOf(c *database.Conn, m *mean) (float64, error) {
	last, err := lastVector(c)
	if err != nil {
		return 0, err
	}
	at := make([]int64, drawn)
	for i := range at {
		at[i] = last / drawn * int64(i)
	}
	var sample [][]float32
	err = c.Each("SELECT data FROM store_vector WHERE id IN (SELECT (SELECT min(id) FROM store_vector WHERE id>j.value) FROM json_each(?) j) AND stamp=?",
		[]any{list(at), m.stamp}, func(scan func(...any) error) error {
			var data []byte
			if err := scan(&data); err != nil {
				return err
			}
			vectors, err := decodeVectors(data)
			for _, v := range vectors {
				sample = append(sample, v.Data)
			}
			return err
		})
	if err != nil || len(sample) < drawn/2 { // too few to decide
		return 0, err
	}
	return m.index.Drift(sample...), nil
}

// partsRead is the number of parts read per transaction.
const partsRead = 16

// parts adds the parts in the file to a new index. It computes the missing parts and
// returns those. If anew is set, it computes all parts.
func (u *catchUp) parts(ctx context.Context, x *nearby, anew bool) (made map[int64][]byte, err error) {
	var last, items int64
	err = u.db.Read(ctx, func(c *database.Conn) (err error) {
		if last, err = lastVector(c); err == nil {
			_, err = c.Row("SELECT count(*) FROM store_under WHERE space=0", nil, &items)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	made = map[int64][]byte{}
	names := map[int64]string{}
	rows := int64(0)
	for from := int64(1); from <= last/partSize; from += partsRead {
		to := min(from+partsRead-1, last/partSize)
		err := u.db.Read(ctx, func(c *database.Conn) error {
			have := map[int64][]byte{}
			var err error
			if !anew {
				if have, err = storedParts(c, x.mean, from, to); err != nil {
					return err
				}
			}
			for part := from; part <= to; part++ {
				data, ok := have[part]
				if !ok {
					if data, err = makePart(c, x.mean, part); err != nil {
						return err
					}
					made[part] = data
				}
				n, err := x.addPart(c, part, data, names)
				if err != nil {
					return err
				}
				rows += n
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(made) > 0 {
			u.added += int(partsRead * partSize)
			u.tell(ctx)
		}
	}
	x.upto = last / partSize * partSize
	if !anew && rows > 2*items+4*partSize { // most rows are gone
		fresh := *x.mean
		fresh.index = vecindex.Restored(x.index.Dimension(), x.index.Mean())
		x.mean, x.index = &fresh, fresh.index
		return u.parts(ctx, x, true)
	}
	return made, nil
}

// addPart adds a part to an index and returns its number of rows.
func (x *nearby) addPart(c *database.Conn, part int64, data []byte, names map[int64]string) (rows int64, err error) {
	ok := readPart(x.mean, part, data, func(id, space int64, signatures []uint64) {
		rows++
		name, known := names[space]
		if !known && err == nil {
			name, err = spaceName(c, space)
			names[space] = name
		}
		if name != "" {
			x.index.AddSigned(name, id, signatures)
		}
	})
	if err == nil && !ok {
		err = fmt.Errorf("%w: unreadable part %d of the vector signatures", database.ErrDamaged, part)
	}
	return rows, err
}

// spaceName returns the name of a namespace, or "" if all of it was forgotten.
func spaceName(c *database.Conn, space int64) (name string, err error) {
	ok, err := c.Row("SELECT name FROM store_space WHERE id=?", []any{space}, &name)
	if err != nil || ok {
		return name, err
	}
	var seq int64
	left, err := c.Row("SELECT seq FROM store_record WHERE space=?", []any{space}, &seq)
	if err == nil && left {
		err = missingRecord(seq)
	}
	return "", err
}

// keepWait is the maximum time that a search waits to store the parts it computed.
const keepWait = 2 * time.Second

// keepParts stores parts, and their mean if it is not in the file. A failure is logged
// and does not fail the search.
func (u *catchUp) keepParts(ctx context.Context, m *mean, restored bool, made map[int64][]byte, upto int64) {
	if u.db.Path == database.InMemory || upto == 0 || restored && len(made) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepWait)
	defer cancel()
	err := u.db.Write(ctx, func(c *database.Conn) error {
		now, err := readMean(c, m.stamp)
		if err != nil {
			return err
		}
		if now == nil || now.id == u.replaced {
			if err := setMean(c, m); err != nil {
				return err
			}
		} else if now.id != m.id { // another process was faster
			return nil
		}
		for part, data := range made {
			if err := setPart(c, m, part, data); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		u.db.Log.WarnContext(ctx, "sqlite: failed to write vector signatures; the next process computes them again", "path", u.db.Path, "error", err)
	}
}
