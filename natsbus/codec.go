package natsbus

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// A message of the stream is a head and data. Events that are too large for one message are in several, called parts.
//
//	byte 0       version, 1
//	1 to 16      run
//	17 to 24     First
//	25 to 32     Last
//	33 to 36     number of this part, from 0
//	37 to 40     number of parts
//	41 to 48     bytes of data of all parts
//	49 …         data
//
// Numbers are big-endian.
const (
	version  = 1
	headSize = 49
	// maxData is the most data that events may have.
	maxData = 64 << 20
	// maxParts is far above what servers make necessary, whose messages have 1 MB.
	maxParts = 1 << 16
)

type head struct {
	run         uuid.UUID
	first, last uint64
	part, parts uint32
	size        uint64
}

func (h *head) append(b []byte) []byte {
	b = append(b, version)
	b = append(b, h.run[:]...)
	b = binary.BigEndian.AppendUint64(b, h.first)
	b = binary.BigEndian.AppendUint64(b, h.last)
	b = binary.BigEndian.AppendUint32(b, h.part)
	b = binary.BigEndian.AppendUint32(b, h.parts)
	return binary.BigEndian.AppendUint64(b, h.size)
}

// decode returns the head and the data of a message.
func decode(b []byte) (head, []byte, error) {
	var h head
	switch {
	case len(b) == 0:
		return h, nil, errors.New("it is empty")
	case b[0] != version:
		return h, nil, fmt.Errorf("its version is %d and this program reads version %d", b[0], version)
	case len(b) < headSize:
		return h, nil, fmt.Errorf("it has %d bytes and its head alone has %d", len(b), headSize)
	}
	copy(h.run[:], b[1:])
	h.first, h.last = binary.BigEndian.Uint64(b[17:]), binary.BigEndian.Uint64(b[25:])
	h.part, h.parts = binary.BigEndian.Uint32(b[33:]), binary.BigEndian.Uint32(b[37:])
	h.size = binary.BigEndian.Uint64(b[41:])
	data := b[headSize:]
	switch {
	case h.first > h.last:
		return h, nil, fmt.Errorf("its events are %d to %d", h.first, h.last)
	case h.part >= h.parts || h.parts > maxParts:
		return h, nil, fmt.Errorf("it is part %d of %d", h.part, h.parts)
	case h.size > maxData || uint64(len(data)) > h.size || h.parts == 1 && uint64(len(data)) != h.size:
		return h, nil, fmt.Errorf("it has %d of %d bytes", len(data), h.size)
	}
	return h, data, nil
}

// messages are the contents of the messages that hold events. Each has at most limit bytes.
func messages(e *ledger.Events, limit int) [][]byte {
	room := limit - headSize
	h := head{run: e.Run, first: e.First, last: e.Last, parts: uint32(max(1, (len(e.Data)+room-1)/room)), size: uint64(len(e.Data))}
	all := make([][]byte, h.parts)
	rest := e.Data
	for i := range all {
		part := rest[:min(room, len(rest))]
		rest = rest[len(part):]
		h.part = uint32(i)
		all[i] = append(h.append(make([]byte, 0, headSize+len(part))), part...)
	}
	return all
}

// messageID makes the server ignore a message that comes again. Parts of another size are other messages.
func messageID(e *ledger.Events, part, parts int) string {
	id := fmt.Sprintf("%s/%s/%d-%d", e.Thread, e.Run, e.First, e.Last)
	if parts > 1 {
		id += fmt.Sprintf("/%d-%d", part, parts)
	}
	return id
}

// assembly puts parts of events together. Parts may come in any order and more than once.
type assembly struct {
	head
	parts   [][]byte
	missing int
	has     uint64 // bytes
}

// add takes a part and returns the data if it was the last one that was missing.
func (a *assembly) add(h *head, data []byte) ([]byte, error) {
	if a.parts == nil || a.size != h.size || a.head.parts != h.parts {
		// The first part, or a process that makes parts of another size began anew.
		*a = assembly{head: *h, parts: make([][]byte, h.parts), missing: int(h.parts)}
	}
	if a.parts[h.part] != nil {
		return nil, nil
	}
	a.parts[h.part] = append(make([]byte, 0, len(data)), data...)
	a.missing--
	if a.has += uint64(len(data)); a.has > a.size || a.missing == 0 && a.has != a.size {
		return nil, fmt.Errorf("its parts have %d of %d bytes", a.has, a.size)
	}
	if a.missing > 0 {
		return nil, nil
	}
	whole := make([]byte, 0, a.size)
	for _, part := range a.parts {
		whole = append(whole, part...)
	}
	return whole, nil
}

// token writes a topic as one token of a subject, which has no wildcards, blanks or dots. Long topics are hashed, because servers
// limit the length of a line.
func token(topic string) string {
	if len(topic) > 512 {
		sum := sha256.Sum256([]byte(topic))
		return "h" + hex.EncodeToString(sum[:])
	}
	return "t" + base64.RawURLEncoding.EncodeToString([]byte(topic))
}
