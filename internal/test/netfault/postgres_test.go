package netfault

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

func TestCommitsFollowsTransactionBlocks(t *testing.T) {
	for _, c := range []struct {
		open               bool
		sql                []string
		stillOpen, commits bool
	}{
		{false, []string{"SELECT 1"}, false, true},
		{false, []string{"BEGIN ISOLATION LEVEL READ COMMITTED", "SELECT 1"}, true, false},
		{true, []string{"SELECT 1"}, true, false},
		{true, []string{"SELECT 1", "COMMIT"}, false, true},
		{true, []string{"commit;"}, false, true},
		{true, []string{"ROLLBACK"}, false, false},
		{false, []string{"begin", "INSERT", "commit"}, false, true},
	} {
		var all []Statement
		for _, sql := range c.sql {
			all = append(all, Statement{SQL: sql})
		}
		if open, commits := after(c.open, all); open != c.stillOpen || commits != c.commits {
			t.Errorf("%v after open=%t: open=%t commits=%t", c.sql, c.open, open, commits)
		}
	}
}

// FuzzPostgresMessages feeds arbitrary bytes to the reader of client messages.
func FuzzPostgresMessages(f *testing.F) {
	message := func(kind byte, body string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body))), body...)
	}
	f.Add(slices.Concat(message('P', "s\x00SELECT $1\x00\x00\x00"), message('B', "\x00s\x00\x00\x00\x00\x01\x00\x00\x00\x01a\x00\x00"), message('E', "\x00\x00\x00\x00\x00")))
	f.Add(message('B', "\x00s\x00\x00\x01"))
	f.Add(message('Q', "COMMIT"))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		g := &pgConn{parsed: map[string]string{}, portals: map[string]Statement{}}
		in := bufio.NewReader(bytes.NewReader(raw))
		for {
			if len(raw) > 1<<16 {
				return
			}
			head, _ := in.Peek(5)
			if len(head) == 5 && binary.BigEndian.Uint32(head[1:]) > uint32(len(raw))+4 {
				return // a long message that does not come
			}
			m, err := readMessage(in)
			if err != nil || g.follow(m) != nil {
				return
			}
		}
	})
}
