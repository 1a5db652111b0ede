package sqlite

import (
	"fmt"
	"strconv"
	"time"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/store"
)

// Parts of the statements that read records.
const (
	recordColumns = "r.seq, r.space, r.kind, r.key, r.created, r.updated, r.ttl, l.expires, r.paths, r.meta, r.value"
	recordTables  = "store_record r LEFT JOIN store_life l ON l.seq=r.seq"
)

// scanRecord reads recordColumns. The namespace is left to the caller, who may
// know it.
func scanRecord(scan func(...any) error) (r *store.Record, space int64, err error) {
	r = &store.Record{}
	var kind int
	var created, updated, ttl, expires int64
	if err := scan(&r.Seq, &space, &kind, &r.Key, &created, &updated, &ttl, &expires, &r.Paths, (*[]byte)(&r.Meta), (*[]byte)(&r.Value)); err != nil {
		return nil, 0, err
	}
	r.Kind = saved.ItemKind(kind)
	if r.Kind == "" {
		return nil, 0, fmt.Errorf("%w: record %d of the store is of kind %d", ErrDamaged, r.Seq, kind)
	}
	r.Updated, r.TTL = fromMicros(updated), time.Duration(ttl)*time.Microsecond
	if kind == saved.ItemPut {
		r.Created = fromMicros(created)
	}
	if ttl > 0 {
		r.Expires = fromMicros(expires)
	}
	return r, space, nil
}

func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }

// spaces are the namespaces of ids, each read once in a transaction.
type spaces struct {
	c    *conn
	byID map[int64]store.Namespace
}

func (s *spaces) of(id int64) (store.Namespace, error) {
	if n, ok := s.byID[id]; ok {
		return n, nil
	}
	var name string
	ok, err := s.c.row("SELECT name FROM store_space WHERE id=?", []any{id}, &name)
	if err != nil {
		return nil, err
	}
	n, err := store.DecodeNamespace(name)
	if !ok || err != nil {
		return nil, fmt.Errorf("%w: namespace %d of the store is missing or unreadable", ErrDamaged, id)
	}
	if s.byID == nil {
		s.byID = map[int64]store.Namespace{}
	}
	s.byID[id] = n
	return n, nil
}

// records reads records with their namespaces.
func (c *conn) records(query string, args ...any) ([]*store.Record, error) {
	var records []*store.Record
	var ids []int64
	err := c.each(query, args, func(scan func(...any) error) error {
		r, space, err := scanRecord(scan)
		records, ids = append(records, r), append(ids, space)
		return err
	})
	if err != nil {
		return nil, err
	}
	names := spaces{c: c}
	for i, r := range records {
		if r.Namespace, err = names.of(ids[i]); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// spaceID is the id of a namespace, 0 of the root, or -1 if there is none.
func (c *conn) spaceID(name string) (int64, error) {
	if name == "" {
		return 0, nil
	}
	var id int64
	ok, err := c.row("SELECT id FROM store_space WHERE name=?", []any{[]byte(name)}, &id)
	if !ok {
		id = -1
	}
	return id, err
}

// list is numbers as the JSON that json_each takes apart: one statement for
// many rows takes a fifth of the time of many statements.
func list(numbers []int64) string {
	b := make([]byte, 0, 8*len(numbers)+2)
	b = append(b, '[')
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(append(b, ']'))
}
