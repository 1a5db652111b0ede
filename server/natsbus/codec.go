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

// A message of the stream consists of a head and data. Events too large for one message are
// split into several messages, called parts.
//
//	byte 0       version, 1
//	1 to 16      run
//	17 to 24     First
//	25 to 32     Last
//	33 to 36     index of this part, from 0
//	37 to 40     number of parts
//	41 to 48     total size of the data of all parts
//	49 …         data
//
// Numbers are big-endian.
const (
	version  = 1
	headSize = 49
	// maxData is the maximum size of the data of events.
	maxData = 64 << 20
	// maxParts is far above the number needed with the usual message size of 1 MB.
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
		return h, nil, errors.New("empty message")
	case b[0] != version:
		return h, nil, fmt.Errorf("unsupported version %d: this program reads version %d", b[0], version)
	case len(b) < headSize:
		return h, nil, fmt.Errorf("message has %d bytes, fewer than the %d bytes of its head", len(b), headSize)
	}
	copy(h.run[:], b[1:])
	h.first, h.last = binary.BigEndian.Uint64(b[17:]), binary.BigEndian.Uint64(b[25:])
	h.part, h.parts = binary.BigEndian.Uint32(b[33:]), binary.BigEndian.Uint32(b[37:])
	h.size = binary.BigEndian.Uint64(b[41:])
	data := b[headSize:]
	switch {
	case h.first > h.last:
		return h, nil, fmt.Errorf("invalid event range %d to %d", h.first, h.last)
	case h.part >= h.parts || h.parts > maxParts:
		return h, nil, fmt.Errorf("invalid part %d of %d", h.part, h.parts)
	case h.size > maxData || uint64(len(data)) > h.size || h.parts == 1 && uint64(len(data)) != h.size:
		return h, nil, fmt.Errorf("message has %d of %d bytes", len(data), h.size)
	}
	return h, data, nil
}

// messages returns the contents of the messages that store e, each of at most limit bytes.
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

// messageID returns the ID by which the server ignores duplicate messages. Parts of different
// sizes have different IDs.
func messageID(e *ledger.Events, part, parts int) string {
	id := fmt.Sprintf("%s/%s/%d-%d", e.Thread, e.Run, e.First, e.Last)
	if parts > 1 {
		id += fmt.Sprintf("/%d-%d", part, parts)
	}
	return id
}

// assembly reassembles events from their parts, which may arrive in any order and more than
// once.
type assembly struct {
	head
	parts   [][]byte
	missing int
	has     uint64 // bytes received
}

// add adds a part. It returns the data once all parts have arrived, and nil before.
func (a *assembly) add(h *head, data []byte) ([]byte, error) {
	if a.parts == nil || a.size != h.size || a.head.parts != h.parts {
		// This is the first part, or a process with a different part size has started over.
		*a = assembly{head: *h, parts: make([][]byte, h.parts), missing: int(h.parts)}
	}
	if a.parts[h.part] != nil {
		return nil, nil
	}
	a.parts[h.part] = append(make([]byte, 0, len(data)), data...)
	a.missing--
	a.has += uint64(len(data))
	if a.has > a.size || a.missing == 0 && a.has != a.size {
		return nil, fmt.Errorf("parts have %d of %d bytes", a.has, a.size)
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

// token encodes a topic as a single token of a subject, without wildcards, spaces, or dots. It
// hashes long topics, because servers limit the length of a line.
func token(topic string) string {
	if len(topic) > 512 {
		sum := sha256.Sum256([]byte(topic))
		return "h" + hex.EncodeToString(sum[:])
	}
	return "t" + base64.RawURLEncoding.EncodeToString([]byte(topic))
}
