package checkpoint

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"time"
)

// ID identifies a checkpoint. It is a version 6 UUID. Later IDs compare greater, both
// as bytes and as text. The UUID's clock sequence is the step.
type ID [16]byte

// gregorian is the offset of the Unix epoch from the UUID epoch, in units of 100 ns.
const gregorian = 0x01B21DD213814000

// lastTick keeps the IDs of a process strictly increasing even when the clock stands
// still or goes backward.
var lastTick atomic.Uint64

// nodeBits distinguishes the IDs of this process from IDs that another process creates
// in the same tick.
var nodeBits = func() (b [6]byte) {
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	return b
}()

// NewID returns an ID greater than after and greater than every ID that this process
// has created.
func NewID(step int, after ID) ID {
	tick := uint64(time.Now().UnixNano())/100 + gregorian
	if floor := after.tick(); tick <= floor {
		tick = floor + 1
	}
	for {
		last := lastTick.Load()
		if tick <= last {
			tick = last + 1
		}
		if lastTick.CompareAndSwap(last, tick) {
			break
		}
	}
	var id ID
	binary.BigEndian.PutUint64(id[:8], tick<<4&^0xffff|6<<12|tick&0xfff)
	binary.BigEndian.PutUint16(id[8:], 0x8000|uint16(step)&0x3fff)
	copy(id[10:], nodeBits[:])
	return id
}

func (id ID) tick() uint64 {
	if id.IsZero() {
		return 0
	}
	hi := binary.BigEndian.Uint64(id[:8])
	return hi>>16<<12 | hi&0xfff
}

// IsZero reports whether id is the zero ID, which identifies no checkpoint.
func (id ID) IsZero() bool { return id == ID{} }

// Time returns the time when the ID was created.
func (id ID) Time() time.Time {
	return time.Unix(0, int64(id.tick()-gregorian)*100).UTC()
}

// String returns the ID in standard UUID form, or "" for the zero ID.
func (id ID) String() string {
	if id.IsZero() {
		return ""
	}
	var b [36]byte
	hex.Encode(b[:8], id[:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:], id[10:])
	b[8] = '-'
	b[13] = '-'
	b[18] = '-'
	b[23] = '-'
	return string(b[:])
}

// ParseID parses the result of [ID.String].
func ParseID(s string) (ID, error) {
	var id ID
	if s == "" {
		return id, nil
	}
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, fmt.Errorf("checkpoint: invalid ID %q", s)
	}
	raw, err := hex.DecodeString(s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:])
	if err != nil {
		return id, fmt.Errorf("checkpoint: invalid ID %q", s)
	}
	copy(id[:], raw)
	if id.IsZero() { // the zero ID means the head and is written as ""
		return id, fmt.Errorf("checkpoint: invalid ID %q", s)
	}
	return id, nil
}

// MarshalText implements [encoding.TextMarshaler].
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *ID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseID(string(text))
	return err
}
