package items

import (
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/store"
)

// extend extends the lifetimes of records, unless one of them has ended.
func extend(c *database.Conn, all []refresh) (kept bool, err error) {
	for _, r := range all {
		var expires, sum int64
		if kept, err = c.Row("SELECT expires, sum FROM store_life WHERE seq=? AND ended IS NULL", []any{r.seq}, &expires, &sum); err != nil || !kept {
			return false, err
		}
		if !database.Intact(sum, lifeSum(r.seq, expires, 0)) {
			return false, database.Changed("lifetime of store record %d", r.seq)
		}
	}
	for _, r := range all {
		if _, err := c.Change("UPDATE store_life SET expires=?, sum=? WHERE seq=?", r.expires, lifeSum(r.seq, r.expires, 0), r.seq); err != nil {
			return false, err
		}
	}
	return true, nil
}

// A writing executes the writes of a batch or sweep, in one transaction.
type writing struct {
	c      *database.Conn
	stamps *saved.Memo[string, int64]
	now    time.Time
	places places
	forgot bool  // a whole namespace was forgotten
	first  int64 // the first record number assigned
	last   int64
	next   int64 // the number of the next record, if known

	unwords  bool // the words of removed items must be removed from the index now
	reworded bool // newWords was called

	placeByID map[int64][]int64

	firstVector, lastVector int64 // range of IDs of the vector rows written
	vectorStamps            map[int64]bool
}

func (s *Backend) newWriting(c *database.Conn, now time.Time) *writing {
	return &writing{c: c, stamps: &s.stamps, now: now, places: places{c: c}}
}

// An itemLine is a key with its current record.
type itemLine struct {
	namespace store.Namespace
	key       []byte
	space     int64 // the ID of the namespace, -1 if it does not exist
	place     []int64
	seq       int64 // the current record, 0 if there is none
	kind      int
	created   int64
	expires   int64 // 0: never
	live      bool
}

// writeAll executes the writes of a batch. Checks come before all writes.
func (s *Backend) writeAll(c *database.Conn, b *store.Batch, refreshes []refresh) ([]*store.Record, error) {
	w := s.newWriting(c, b.Now)
	lines := make([]*itemLine, len(b.Writes))
	for i := range b.Writes {
		op := &b.Writes[i]
		line, err := w.lineOf(op)
		if err != nil {
			return nil, err
		}
		lines[i] = line
		if op.If == nil {
			continue
		}
		have := int64(0)
		if line.live {
			have = line.seq
		}
		if have != *op.If {
			return nil, &store.ConflictError{Namespace: op.Namespace, Key: op.Key, Want: *op.If, Have: have}
		}
	}
	if _, err := extend(c, refreshes); err != nil {
		return nil, err
	}
	for _, r := range refreshes {
		for _, line := range lines {
			if line.seq == r.seq && line.expires != 0 {
				line.expires = r.expires
			}
		}
	}
	records := make([]*store.Record, len(b.Writes))
	for i := range b.Writes {
		var err error
		if records[i], err = w.write(&b.Writes[i], lines[i]); err != nil {
			return nil, err
		}
	}
	if w.unwords {
		if err := w.unword(); err != nil {
			return nil, err
		}
	}
	if err := w.fold(); err != nil {
		return nil, err
	}
	return records, w.parts()
}

func (w *writing) write(op *store.Write, line *itemLine) (*store.Record, error) {
	if w.forgot { // the line may be outdated
		var err error
		if line, err = w.lineOf(op); err != nil {
			return nil, err
		}
	}
	r := &store.Record{Kind: op.Kind, Namespace: op.Namespace, Key: op.Key, Updated: w.now}
	switch {
	case op.Times != nil:
		r.Created, r.Updated, r.Expires = op.Times.Created, op.Times.Updated, op.Times.Expires
		if op.Kind == store.Put {
			r.TTL = op.TTL
			r.Value = op.Value
			r.Meta = op.Meta
			r.Paths = op.Indexed.Paths
		}
	case op.Kind == store.Forgotten && op.Key == "":
		w.unwords = true
		if err := w.forgetAll(line); err != nil {
			return nil, err
		}
	case op.Kind == store.Forgotten:
		w.unwords = true
		if err := w.forget(line); err != nil {
			return nil, err
		}
	case op.Kind == store.Deleted:
		if !line.live {
			return nil, nil
		}
	default:
		r.Created = w.now
		r.TTL = op.TTL
		r.Value = op.Value
		r.Meta = op.Meta
		r.Paths = op.Indexed.Paths
		if line.live {
			r.Created = fromMicros(line.created)
		}
		if op.TTL > 0 {
			r.Expires = w.now.Add(op.TTL)
		}
	}
	_, err := w.add(line, r, &op.Indexed, op.Keep)
	return r, err
}

// line returns the line of a key with its current record.
func (w *writing) line(n store.Namespace, key string) (*itemLine, error) {
	line := &itemLine{namespace: n, key: []byte(key)}
	var err error
	if line.space, err = spaceID(w.c, n.Encode()); err != nil || line.space < 0 || key == "" {
		return line, err
	}
	var updated, ttl, stamp, life, ended int64
	var paths []byte
	var lifeHas, seal int64
	ok, err := w.c.Row("SELECT r.seq, r.kind, r.created, r.updated, r.lifetime, r.stamp, r.paths, r.seal, l.seq, l.expires, l.ended, l.sum FROM "+recordTables+" WHERE r.space=? AND r.key=? ORDER BY r.seq DESC LIMIT 1",
		[]any{line.space, line.key}, &line.seq, &line.kind, &line.created, &updated, &ttl, &stamp, &paths, &seal, &life, &line.expires, &ended, &lifeHas)
	if err != nil {
		return line, err
	}
	line.live = line.kind == saved.ItemPut && (line.expires == 0 || line.expires > w.now.UnixMicro())
	if !ok {
		return line, noItemIn(w.c, line.space, n, key)
	}
	if line.kind == saved.ItemPut && ended != 0 {
		return line, fmt.Errorf("%w: missing successor of store record %d, key %q in namespace %q", database.ErrDamaged, line.seq, key, n)
	}
	if life != 0 {
		if !database.Intact(lifeHas, lifeSum(life, line.expires, ended)) {
			return line, database.Changed("lifetime of store record %d, key %q", line.seq, key)
		}
	}
	if !database.Intact(seal, sealSum(line.seq, line.space, line.key, line.kind, line.created, updated, ttl, stamp, paths)) {
		return line, database.Changed("store record %d, key %q in namespace %q", line.seq, key, n)
	}
	return line, nil
}

// lineOf returns the line of a write. If the write forgets an item, damage to the item is
// ignored.
func (w *writing) lineOf(op *store.Write) (*itemLine, error) {
	line, err := w.line(op.Namespace, op.Key)
	if op.Kind == store.Forgotten && op.If == nil && errors.Is(err, database.ErrDamaged) && line.space >= 0 {
		return line, nil
	}
	return line, err
}

// settle finds or creates the IDs of the line's namespace and its ancestors.
func (w *writing) settle(line *itemLine) (err error) {
	if line.place != nil {
		return nil
	}
	line.place, err = w.places.of(line.namespace)
	line.space = line.place[len(line.place)-1]
	return err
}

// places returns the IDs of namespaces and their ancestors, starting at the top. It finds
// or creates each once per transaction.
type places struct {
	c      *database.Conn
	byName map[string]int64
}

func (p *places) of(n store.Namespace) ([]int64, error) {
	ids := make([]int64, len(n))
	for i := range n {
		name := n[:i+1].Encode()
		id, ok := p.byName[name]
		if !ok {
			var err error
			id, err = spaceID(p.c, name)
			if err == nil && id < 0 {
				id, err = makeSpace(p.c, name)
			}
			if err != nil {
				return ids, err
			}
			if p.byName == nil {
				p.byName = map[string]int64{}
			}
			p.byName[name] = id
		}
		ids[i] = id
	}
	return ids, nil
}

// makeSpace creates a namespace.
func makeSpace(c *database.Conn, name string) (int64, error) {
	id, err := c.AddName("store_space", "name", name)
	if err != nil {
		return 0, err
	}
	return id, c.AddWitness(spaceHash(name))
}

// add makes r the current record of its line and drops all but the newest keep records.
// It returns the number of dropped records.
func (w *writing) add(line *itemLine, r *store.Record, x *store.Indexed, keep int) (dropped int, err error) {
	if err := w.settle(line); err != nil {
		return 0, err
	}
	if r.Seq, err = w.insert(line, r, x); err != nil {
		return 0, err
	}
	if w.first == 0 {
		w.first = r.Seq
	}
	w.last = r.Seq
	before := *line
	line.seq, line.kind = r.Seq, saved.ItemNumber(r.Kind)
	if before.seq != 0 {
		if err := w.end(&before, r.Updated); err != nil {
			return 0, err
		}
		if dropped, err = w.trim(line, keep); err != nil {
			return 0, err
		}
	}
	if r.Kind == store.Put {
		for _, space := range line.under() {
			if _, err := w.c.Change("INSERT INTO store_under(space,seq) VALUES(?,?)", space, r.Seq); err != nil {
				return 0, err
			}
		}
		if _, err := w.c.Change("INSERT INTO store_key(space,hash,seq) VALUES(?,?,?)", line.space, keyHash(string(line.key)), r.Seq); err != nil {
			return 0, err
		}
	}
	return dropped, nil
}

// insert writes a record with its lifetime and vectors.
func (w *writing) insert(line *itemLine, r *store.Record, x *store.Indexed) (seq int64, err error) {
	var created, expires, ended int64
	if r.Kind == store.Put {
		created = r.Created.UnixMicro()
	} else {
		ended = r.Updated.UnixMicro()
	}
	if r.TTL > 0 {
		expires = r.Expires.UnixMicro()
	}
	stamp, err := w.stamp(x.Stamp)
	if err != nil {
		return 0, err
	}
	if w.next == 0 {
		// The table rejects a number that is too low.
		if _, err = w.c.Row("SELECT seq FROM sqlite_sequence WHERE name='store_record'", nil, &w.next); err != nil {
			return 0, err
		}
		w.next++
	}
	seq = w.next
	w.next++
	terms, words := encodeTerms(x.Terms)
	kind, updated, ttl := saved.ItemNumber(r.Kind), r.Updated.UnixMicro(), r.TTL.Microseconds()
	_, err = w.c.Insert("INSERT INTO store_record(seq,space,key,kind,created,updated,lifetime,stamp,words,paths,terms,meta,value,sum,seal) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
		seq, line.space, line.key, kind, created, updated, ttl, zeroNull(stamp), words,
		orNull([]byte(x.Paths)), sealTerms(seq, words, terms), orNull(r.Meta), orNull(r.Value),
		bodySum(seq, r.Meta, r.Value), sealSum(seq, line.space, line.key, kind, created, updated, ttl, stamp, []byte(x.Paths)))
	if err != nil {
		return 0, err
	}
	if expires != 0 || ended != 0 {
		if err := setLife(w.c, seq, expires, ended); err != nil {
			return 0, err
		}
	}
	return seq, w.addVectors(seq, stamp, x.Vectors)
}

// setLife sets the end of a record.
func setLife(c *database.Conn, seq, expires, ended int64) error {
	_, err := c.Change("INSERT INTO store_life(seq,expires,ended,sum) VALUES(?,?,?,?) ON CONFLICT(seq) DO UPDATE SET ended=excluded.ended, sum=excluded.sum",
		seq, zeroNull(expires), zeroNull(ended), lifeSum(seq, expires, ended))
	return err
}

// zeroNull returns n, or NULL if n is 0.
func zeroNull(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

// orNull returns b, or NULL if b is empty.
func orNull[B ~[]byte](b B) any {
	if len(b) == 0 {
		return nil
	}
	return []byte(b)
}

// under returns the spaces of the item's rows in store_under.
func (l *itemLine) under() []int64 {
	under := []int64{0}
	for _, id := range l.place {
		under = append(under, -id)
	}
	return under
}

// stamp returns the ID of a stamp, creating it if necessary; 0 for the empty stamp.
// Stamps are never removed, so the IDs can be cached.
func (w *writing) stamp(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if id, ok := w.stamps.Get(text); ok {
		return id, nil
	}
	id, err := stampID(w.c, text)
	if err == nil && id == 0 {
		id, err = makeStamp(w.c, text)
	}
	if err != nil {
		return 0, err
	}
	w.stamps.Set(text, id)
	return id, nil
}

// stampID returns the ID of a stamp, or 0 if it does not exist.
func stampID(c *database.Conn, text string) (id int64, err error) {
	var sum int64
	ok, err := c.Row("SELECT id, sum FROM store_stamp WHERE text=?", []any{[]byte(text)}, &id, &sum)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, c.Absent(stampHash(text), "store stamp %q", text)
	}
	if !database.Intact(sum, database.NameSum(id, []byte(text))) {
		return id, database.Changed("store stamp %q", text)
	}
	return id, nil
}

func makeStamp(c *database.Conn, text string) (int64, error) {
	id, err := c.AddName("store_stamp", "text", text)
	if err != nil {
		return 0, err
	}
	return id, c.AddWitness(stampHash(text))
}

// end turns the current record of a line into a past one.
func (w *writing) end(line *itemLine, at time.Time) error {
	err := setLife(w.c, line.seq, line.expires, at.UnixMicro())
	if err != nil || line.kind != saved.ItemPut {
		return err
	}
	if err := w.unlist(line); err != nil {
		return err
	}
	_, err = w.c.Change("UPDATE store_vector SET id=-id WHERE seq=?", line.seq)
	return err
}

// unlist removes the item of a line from all lists that searches use.
func (w *writing) unlist(line *itemLine) error {
	for _, space := range line.under() {
		if _, err := w.c.Change("DELETE FROM store_under WHERE space=? AND seq=?", space, line.seq); err != nil {
			return err
		}
	}
	if _, err := w.c.Change("DELETE FROM store_key WHERE space=? AND hash=?", line.space, keyHash(string(line.key))); err != nil {
		return err
	}
	_, err := w.c.Change("INSERT OR IGNORE INTO store_unword(item) VALUES(?)", line.seq)
	return err
}

// trim keeps the newest records of a line and returns the number of dropped ones.
func (w *writing) trim(line *itemLine, keep int) (dropped int, err error) {
	var old []int64
	err = w.c.Each("SELECT seq FROM store_record WHERE space=? AND key=? ORDER BY seq DESC LIMIT -1 OFFSET ?", []any{line.space, line.key, keep},
		func(scan func(...any) error) error {
			var seq int64
			err := scan(&seq)
			old = append(old, seq)
			return err
		})
	if err != nil {
		return 0, err
	}
	return len(old), w.drop(old)
}

// drop removes records that searches no longer find.
func (w *writing) drop(seqs []int64) error {
	for _, seq := range seqs {
		for _, q := range []string{
			"DELETE FROM store_record WHERE seq=?",
			"DELETE FROM store_life WHERE seq=?",
			"DELETE FROM store_vector WHERE seq=?",
		} {
			if _, err := w.c.Change(q, seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget removes all records of a line.
func (w *writing) forget(line *itemLine) error {
	if line.seq == 0 {
		if line.space < 0 {
			return nil
		}
		// The key of a missing item may remain.
		_, err := w.c.Change("DELETE FROM store_key WHERE space=? AND hash=?", line.space, keyHash(string(line.key)))
		return err
	}
	if err := w.settle(line); err != nil {
		return err
	}
	if _, err := w.c.Change("DELETE FROM store_part WHERE "+partsOfRecords("r.space=? AND r.key=?"), line.space, line.key); err != nil {
		return err
	}
	if line.kind == saved.ItemPut {
		if err := w.unlist(line); err != nil {
			return err
		}
	}
	line.seq = 0
	_, err := w.trim(line, 0)
	return err
}

// forgetAll removes all records under the line's namespace, and the namespaces below it.
// Records without a key, which mark earlier calls, are kept.
func (w *writing) forgetAll(line *itemLine) error {
	if err := w.settle(line); err != nil {
		return err
	}
	w.forgot = true
	w.places.byName, w.placeByID = nil, nil
	const (
		below   = "(SELECT id FROM store_space WHERE name>=? AND name<?)"
		records = "(SELECT seq FROM store_record WHERE space IN " + below + " AND key<>x'')"
	)
	from, to := saved.Span(line.namespace.Encode())
	for _, q := range []string{
		"INSERT OR IGNORE INTO store_unword(item) SELECT seq FROM store_key WHERE space IN " + below,
		"DELETE FROM store_part WHERE " + partsOfRecords("r.space IN "+below+" AND r.key<>x''"),
		"DELETE FROM store_life WHERE seq IN " + records,
		"DELETE FROM store_vector WHERE seq IN " + records,
		"DELETE FROM store_record WHERE space IN " + below + " AND key<>x''",
	} {
		if _, err := w.c.Change(q, from, to); err != nil {
			return err
		}
	}
	for _, above := range append([]int64{0}, line.place[:len(line.place)-1]...) {
		if _, err := w.c.Change("DELETE FROM store_under WHERE space=? AND seq IN (SELECT seq FROM store_under WHERE space=?)", -above, -line.space); err != nil {
			return err
		}
	}
	for _, q := range []string{
		"DELETE FROM store_key WHERE space IN " + below,
		"DELETE FROM store_under WHERE space IN (SELECT -id FROM store_space WHERE name>=? AND name<?)",
	} {
		if _, err := w.c.Change(q, from, to); err != nil {
			return err
		}
	}
	return tidy(w.c, from, to, line.space)
}

// tidy removes the empty namespaces in a range, with one exception. A namespace with only
// history below it is removed too.
func tidy(c *database.Conn, from, to []byte, except int64) error {
	var names []string
	var ids []int64
	err := c.Each(`SELECT id, name FROM store_space WHERE name>=? AND name<? AND id<>?
		AND NOT EXISTS (SELECT 1 FROM store_record WHERE space=store_space.id)
		AND NOT EXISTS (SELECT 1 FROM store_under WHERE space=-store_space.id)`, []any{from, to, except}, func(scan func(...any) error) error {
		var id int64
		var name string
		err := scan(&id, &name)
		ids, names = append(ids, id), append(names, name)
		return err
	})
	if err != nil {
		return err
	}
	for i, id := range ids {
		if _, err := c.Change("DELETE FROM store_space WHERE id=?", id); err != nil {
			return err
		}
		if err := c.RemoveWitness(spaceHash(names[i])); err != nil {
			return err
		}
	}
	return nil
}
