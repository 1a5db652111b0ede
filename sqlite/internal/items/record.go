package items

import (
	"fmt"
	"strconv"
	"time"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
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
func scanRecord(scan func(...any) error) (scanned, error) {
	r := scanned{Record: &store.Record{}}
	var kind int
	var created, updated, ttl, stamp, life, expires, ended int64
	var lifeHas, sum, seal int64
	if err := scan(&r.Seq, &r.space, &kind, &r.Key, &created, &updated, &ttl, &stamp, &life, &expires, &ended, &lifeHas, &r.Paths, (*[]byte)(&r.Meta), (*[]byte)(&r.Value), &sum, &seal); err != nil {
		return r, err
	}
	r.Kind, r.ended = saved.ItemKind(kind), ended != 0
	if r.Kind == "" {
		return r, fmt.Errorf("%w: store record %d, key %q, has unknown kind %d", database.ErrDamaged, r.Seq, r.Key, kind)
	}
	if !database.Intact(sum, bodySum(r.Seq, r.Meta, r.Value)) {
		return r, database.Changed("value of key %q, store record %d", r.Key, r.Seq)
	}
	if !database.Intact(seal, sealSum(r.Seq, r.space, []byte(r.Key), kind, created, updated, ttl, stamp, []byte(r.Paths))) {
		return r, database.Changed("store record %d, key %q", r.Seq, r.Key)
	}
	if life == 0 && (ttl > 0 || kind != saved.ItemPut) {
		return r, fmt.Errorf("%w: missing lifetime of store record %d, key %q", database.ErrDamaged, r.Seq, r.Key)
	}
	if life != 0 {
		if !database.Intact(lifeHas, lifeSum(life, expires, ended)) {
			return r, database.Changed("lifetime of store record %d, key %q", r.Seq, r.Key)
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
	c    *database.Conn
	byID map[int64]store.Namespace
}

func (s *spaces) of(id int64) (store.Namespace, error) {
	if n, ok := s.byID[id]; ok {
		return n, nil
	}
	var name string
	var sum int64
	ok, err := s.c.Row("SELECT name, sum FROM store_space WHERE id=?", []any{id}, &name, &sum)
	if err != nil {
		return nil, err
	}
	n, err := store.DecodeNamespace(name)
	if !ok || err != nil {
		return nil, fmt.Errorf("%w: missing or unreadable store namespace %d", database.ErrDamaged, id)
	}
	if !database.Intact(sum, database.NameSum(id, []byte(name))) {
		return nil, database.Changed("store namespace %d", id)
	}
	if s.byID == nil {
		s.byID = map[int64]store.Namespace{}
	}
	s.byID[id] = n
	return n, nil
}

// readRecords returns the records that a query selects, with their namespaces.
func readRecords(c *database.Conn, query string, args ...any) ([]*store.Record, error) {
	var records []*store.Record
	var ids []int64
	err := c.Each(query, args, func(scan func(...any) error) error {
		r, err := scanRecord(scan)
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
func spaceID(c *database.Conn, name string) (int64, error) {
	if name == "" {
		return 0, nil
	}
	var id, sum int64
	ok, err := c.Row("SELECT id, sum FROM store_space WHERE name=?", []any{[]byte(name)}, &id, &sum)
	if err != nil {
		return -1, err
	}
	if !ok {
		return -1, c.Absent(spaceHash(name), "store namespace %q", name)
	}
	if !database.Intact(sum, database.NameSum(id, []byte(name))) {
		return id, database.Changed("store namespace %q", name)
	}
	return id, nil
}

// noItem returns ErrDamaged if a key without a record should have one.
func noItem(c *database.Conn, n store.Namespace, key string) error {
	space, err := spaceID(c, n.Encode())
	if err != nil || space < 0 {
		return err
	}
	return noItemIn(c, space, n, key)
}

func noItemIn(c *database.Conn, space int64, n store.Namespace, key string) error {
	var seq int64
	ok, err := c.Row("SELECT seq FROM store_key WHERE space=? AND hash=?", []any{space, keyHash(key)}, &seq)
	if err != nil || !ok {
		return err
	}
	return fmt.Errorf("%w: missing store record %d, key %q in namespace %q", database.ErrDamaged, seq, key, n)
}

// storeState reads and verifies the state of the store.
func storeState(c *database.Conn) (folded, compacted int64, err error) {
	var sum int64
	ok, err := c.Row("SELECT folded, compacted, sum FROM store_state", nil, &folded, &compacted, &sum)
	if err == nil && !ok {
		err = fmt.Errorf("%w: missing store state", database.ErrDamaged)
	}
	if err != nil {
		return 0, 0, err
	}
	if !database.Intact(sum, stateSum(folded, compacted)) {
		return folded, compacted, database.Changed("store state")
	}
	return folded, compacted, nil
}

func setStoreState(c *database.Conn, folded, compacted int64) error {
	_, err := c.Change("UPDATE store_state SET folded=?, compacted=?, sum=?", folded, compacted, stateSum(folded, compacted))
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
