package sqlite

import (
	"fmt"
	"strconv"
	"time"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/store"
)

// Parts of statements that read records.
const (
	recordColumns = "r.seq, r.space, r.kind, r.key, r.created, r.updated, r.lifetime, r.stamp, l.seq, l.expires, l.ended, l.sum, r.paths, r.meta, r.value, r.sum, r.seal"
	recordTables  = "store_record r LEFT JOIN store_life l ON l.seq=r.seq"
)

// A scanned is a record with the data that only the file needs.
type scanned struct {
	*store.Record
	space int64
	ended bool // superseded, or the end of an item
}

// scanRecord reads and verifies recordColumns. It leaves the namespace to the caller,
// which may know it.
func (c *conn) scanRecord(scan func(...any) error) (scanned, error) {
	r := scanned{Record: &store.Record{}}
	var kind int
	var created, updated, ttl, stamp, life, expires, ended int64
	var lifeHas, sum, seal sum
	if err := scan(&r.Seq, &r.space, &kind, &r.Key, &created, &updated, &ttl, &stamp, &life, &expires, &ended, &lifeHas, &r.Paths, (*[]byte)(&r.Meta), (*[]byte)(&r.Value), &sum, &seal); err != nil {
		return r, err
	}
	r.Kind, r.ended = saved.ItemKind(kind), ended != 0
	if r.Kind == "" {
		return r, fmt.Errorf("%w: record %d of the store, of key %q, is of kind %d", ErrDamaged, r.Seq, r.Key, kind)
	}
	if !c.intact(sum, bodySum(r.Seq, r.Meta, r.Value)) {
		return r, changed("the value of key %q (record %d of the store)", r.Key, r.Seq)
	}
	if !c.intact(seal, sealSum(r.Seq, r.space, []byte(r.Key), kind, created, updated, ttl, stamp, []byte(r.Paths))) {
		return r, changed("record %d of the store, of key %q,", r.Seq, r.Key)
	}
	if life == 0 && (ttl > 0 || kind != saved.ItemPut) {
		return r, fmt.Errorf("%w: when record %d of the store, of key %q, ends is missing", ErrDamaged, r.Seq, r.Key)
	}
	if life != 0 {
		if !c.intact(lifeHas, lifeSum(life, expires, ended)) {
			return r, changed("when record %d of the store, of key %q, ends", r.Seq, r.Key)
		}
	}
	r.Updated, r.TTL = fromMicros(updated), time.Duration(ttl)*time.Microsecond
	if kind == saved.ItemPut {
		r.Created = fromMicros(created)
	}
	if ttl > 0 {
		r.Expires = fromMicros(expires)
	}
	return r, nil
}

func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }

// spaces returns namespaces by ID, reading each once per transaction.
type spaces struct {
	c    *conn
	byID map[int64]store.Namespace
}

func (s *spaces) of(id int64) (store.Namespace, error) {
	if n, ok := s.byID[id]; ok {
		return n, nil
	}
	var name string
	var sum sum
	ok, err := s.c.row("SELECT name, sum FROM store_space WHERE id=?", []any{id}, &name, &sum)
	if err != nil {
		return nil, err
	}
	n, err := store.DecodeNamespace(name)
	if !ok || err != nil {
		return nil, fmt.Errorf("%w: namespace %d of the store is missing or unreadable", ErrDamaged, id)
	}
	if !s.c.intact(sum, nameSum(id, []byte(name))) {
		return nil, changed("namespace %d of the store", id)
	}
	if s.byID == nil {
		s.byID = map[int64]store.Namespace{}
	}
	s.byID[id] = n
	return n, nil
}

// records returns the records that a query selects, with their namespaces.
func (c *conn) records(query string, args ...any) ([]*store.Record, error) {
	var records []*store.Record
	var ids []int64
	err := c.each(query, args, func(scan func(...any) error) error {
		r, err := c.scanRecord(scan)
		records, ids = append(records, r.Record), append(ids, r.space)
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

// spaceID returns the ID of a namespace: 0 for the root, or -1 if it does not exist.
func (c *conn) spaceID(name string) (int64, error) {
	if name == "" {
		return 0, nil
	}
	var id int64
	var sum sum
	ok, err := c.row("SELECT id, sum FROM store_space WHERE name=?", []any{[]byte(name)}, &id, &sum)
	if err != nil {
		return -1, err
	}
	if !ok {
		return -1, c.absent(spaceHash(name), "namespace %q of the store", name)
	}
	if !c.intact(sum, nameSum(id, []byte(name))) {
		return id, changed("namespace %q of the store", name)
	}
	return id, nil
}

// noItem returns ErrDamaged if a key without a record should have one.
func (c *conn) noItem(n store.Namespace, key string) error {
	space, err := c.spaceID(n.Encode())
	if err != nil || space < 0 {
		return err
	}
	return c.noItemIn(space, n, key)
}

func (c *conn) noItemIn(space int64, n store.Namespace, key string) error {
	var seq int64
	ok, err := c.row("SELECT seq FROM store_key WHERE space=? AND hash=?", []any{space, keyHash(key)}, &seq)
	if err != nil || !ok {
		return err
	}
	return fmt.Errorf("%w: record %d of the store, of key %q in namespace %q, is missing", ErrDamaged, seq, key, n)
}

// storeState reads and verifies the state of the store.
func (c *conn) storeState() (folded, compacted int64, err error) {
	var sum sum
	ok, err := c.row("SELECT folded, compacted, sum FROM store_state", nil, &folded, &compacted, &sum)
	if err == nil && !ok {
		err = fmt.Errorf("%w: the state of the store is missing", ErrDamaged)
	}
	if err != nil {
		return 0, 0, err
	}
	if !c.intact(sum, stateSum(folded, compacted)) {
		return folded, compacted, changed("the state of the store")
	}
	return folded, compacted, nil
}

func (c *conn) setStoreState(folded, compacted int64) error {
	_, err := c.change("UPDATE store_state SET folded=?, compacted=?, sum=?", folded, compacted, stateSum(folded, compacted))
	return err
}

// list encodes numbers as JSON for json_each: one statement for many rows takes a fifth
// of the time of many statements.
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
