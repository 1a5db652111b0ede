package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

// known is what the holder of the writer's connection remembers. All of it may
// be behind the times, when another process has written, but none of it is
// ever wrong: what it says of ids stays true, and what it says of a head is
// used only under the compare-and-set of that head.
type known struct {
	heads  map[lineName]*head
	shapes map[string]int64 // by saved.EncodeNames
	stamps map[string]int64 // of the store
}

type lineName struct{ thread, path string }

// maxKnown bounds each of the maps.
const maxKnown = 4096

func (k *known) forget() { *k = known{} }

func (k *known) setHead(name lineName, h *head) {
	if k.heads == nil {
		k.heads = map[lineName]*head{}
	}
	if _, ok := k.heads[name]; !ok {
		bound(k.heads)
	}
	k.heads[name] = h
}

func (k *known) setShape(names string, id int64) {
	if k.shapes == nil {
		k.shapes = map[string]int64{}
	}
	bound(k.shapes)
	k.shapes[names] = id
}

func (k *known) setStamp(text string, id int64) {
	if k.stamps == nil {
		k.stamps = map[string]int64{}
	}
	bound(k.stamps)
	k.stamps[text] = id
}

// bound makes room in a full map. Which entry goes decides only what has to be
// read again.
func bound[K comparable, V any](m map[K]V) {
	if len(m) < maxKnown {
		return
	}
	for k := range m {
		delete(m, k)
		return
	}
}

// head is the state of a line.
type head struct {
	thread int64 // 0: there is no such thread
	epoch  uint64
	line   int64 // 0: there is no such line
	id     checkpoint.ID
	at     int64 // the ordinal of id
	last   int64
	next   int64
	rev    uint64
	open   bool
	count  int64 // of checkpoints; only if it was read

	// Of the checkpoint id. Without m, nothing of it has been read.
	m      *manifest    // without control and metadata
	names  []string     // the channels
	base   []saved.Slot // of m
	run    run
	echoes bool   // the control is worth an echo
	record []byte // then, if it is not too long to be remembered
}

type run struct {
	number   int64 // 0: none
	name     string
	metadata []byte
}

// maxRecord bounds the records that are remembered.
const maxRecord = 16 << 10

// keyOf is the key of a checkpoint.
func keyOf(line, ordinal int64) int64 { return line<<32 | ordinal }

// The limits of a key.
const (
	maxLine    = 1<<31 - 1
	maxOrdinal = 1<<32 - 1
)

// loadHead reads what the file has.
func (c *conn) loadHead(name lineName) (*head, error) {
	h := &head{next: 1} // 0 is no run
	var err error
	if h.thread, h.epoch, err = c.threadRow(name.thread); err != nil || h.thread == 0 {
		return h, err
	}
	var id []byte
	var size int64
	var sum sum
	ok, err := c.row("SELECT id, head, at, last, next, rev, open, count, bytes, sum FROM line WHERE thread=? AND path=?", []any{h.thread, []byte(name.path)},
		&h.line, &id, &h.at, &h.last, &h.next, &h.rev, &h.open, &h.count, &size, &sum)
	if err != nil {
		return h, err
	}
	if !ok {
		h.line = 0
		return h, c.absent(lineHash(h.thread, name.path), "the line of namespace %q", name.path)
	}
	copy(h.id[:], id)
	return h, c.verify(sum, h.sum()+lineSum(h.line, h.thread, name.path)+countSum(h.count, size), "the line of namespace %q", name.path)
}

// threadRow reads the row of a thread. Its id is 0 if there is no such thread.
func (c *conn) threadRow(name string) (id int64, epoch uint64, err error) {
	var sum sum
	ok, err := c.row("SELECT id, fence, sum FROM thread WHERE name=?", []any{[]byte(name)}, &id, &epoch, &sum)
	if err != nil {
		return 0, 0, err
	}
	if !ok {
		return 0, 0, c.absent(threadHash(name), "its row")
	}
	return id, epoch, c.verify(sum, threadSum(id, name, epoch), "its row")
}

// errStale: what was remembered does not hold, or is not enough.
var errStale = errors.New("sqlite: stale")

// Put implements [checkpoint.Saver].
func (db *DB) Put(ctx context.Context, p *checkpoint.Put) error {
	err := db.write(ctx, func(c *conn) error {
		name := lineName{p.Thread, p.Namespace}
		if h := db.known.heads[name]; h != nil {
			err := db.put(c, name, h, p, false)
			if !errors.Is(err, errStale) {
				return err
			}
			delete(db.known.heads, name)
		}
		h, err := c.loadHead(name)
		if err != nil {
			return err
		}
		return db.put(c, name, h, p, true)
	})
	return inThread(p.Thread, err)
}

func fencedError(thread string, epoch, fence uint64) error {
	return fmt.Errorf("%w: thread %q is at epoch %d, the writer has %d", checkpoint.ErrFenced, thread, epoch, fence)
}

// put stores p after h. With fresh, h was read in this transaction and is the
// truth. Without, it is remembered: then the first write is the compare-and-set,
// and whatever does not fit is errStale, with nothing written.
func (db *DB) put(c *conn, name lineName, h *head, p *checkpoint.Put, fresh bool) error {
	g, err := c.grow(h, p)
	if err != nil {
		if !fresh {
			return errStale
		}
		return err
	}

	// From here on nothing is refused; a line that was not there is made.
	after := &head{thread: h.thread, epoch: max(h.epoch, p.Fence), line: h.line, id: p.ID, at: h.last + 1, last: h.last + 1, rev: h.rev, open: hasResults(p.Pending), names: g.Names, base: g.base, m: &g.m}
	if after.last > maxOrdinal {
		return fmt.Errorf("sqlite: thread %q has had %d checkpoints, which is as many as it can have", p.Thread, h.last)
	}
	if h.line == 0 {
		if err := c.makeLine(name, after); err != nil {
			return err
		}
	}
	newRun := p.RunID != "" && h.run.name != p.RunID
	switch {
	case newRun:
		after.run = run{number: g.Next, name: p.RunID, metadata: bytes.Clone(p.Metadata)}
		g.Next++
	case p.RunID != "":
		after.run = h.run
	}
	after.next = g.Next
	if g.m.Shape == 0 && len(g.Names) > 0 {
		if g.m.Shape, err = db.shapeOf(c, g.Names, fresh); err != nil {
			return err
		}
	}
	g.m.Rev, g.m.Parent, g.m.Step, g.m.Source = h.rev, p.Parent, p.Step, p.Source
	g.m.control, g.m.metadata = p.Control, p.Metadata
	g.m.shared = len(p.Metadata) > 0 && bytes.Equal(p.Metadata, after.run.metadata)
	record := g.m.append(make([]byte, 0, 128+len(p.Control)+len(p.Metadata)), p.ID)
	g.m.control, g.m.metadata, g.m.patches = nil, nil, nil
	if after.echoes = worthEcho(p.Control); after.echoes && len(record) <= maxRecord {
		after.record = record
	}
	shorter, less, err := c.echoOf(h, p.Parent, g)
	if err != nil {
		return err
	}

	size := len(record) - less
	for _, k := range g.Chunks {
		size += len(k.Data)
	}
	n, err := c.change(`UPDATE line SET head=?, at=?, last=?, next=?, open=?, count=count+1, bytes=bytes+?, sum=(sum+?)&0x7fffffff
		WHERE id=? AND head=? AND rev=? AND open=? AND (SELECT fence FROM thread WHERE id=?)=?`,
		p.ID[:], after.at, after.last, after.next, after.open, size, after.sum()-h.sum()+countSum(1, int64(size)), after.line, h.id[:], int64(h.rev), h.open, after.thread, int64(h.epoch))
	if err != nil {
		return err
	}
	if n != 1 {
		if fresh {
			return fmt.Errorf("%w: line %d was read and is not there", ErrDamaged, after.line)
		}
		return errStale
	}
	if newRun {
		if _, err := c.change("INSERT INTO run(line,run,name,metadata,sum) VALUES(?,?,?,?,?)", after.line, after.run.number, packName(p.RunID), after.run.metadata,
			runSum(after.line, after.run.number, packName(p.RunID), after.run.metadata)); err != nil {
			return err
		}
	}
	if _, err := c.change("INSERT INTO checkpoint(key,id,run,record,sum) VALUES(?,?,?,?,?)", keyOf(after.line, after.at), p.ID[:], after.run.number, record,
		checkpointSum(keyOf(after.line, after.at), p.ID, after.run.number, record)); err != nil {
		return err
	}
	if err := c.addPending(keyOf(after.line, after.at), p.Pending); err != nil {
		return err
	}
	if shorter != nil {
		if _, err := c.change("UPDATE checkpoint SET record=?, sum=? WHERE key=?", shorter,
			checkpointSum(keyOf(h.line, h.at), h.id, h.run.number, shorter), keyOf(h.line, h.at)); err != nil {
			return err
		}
	}
	for _, k := range g.Chunks {
		if _, err := c.change("INSERT INTO chunk(line,chain,seq,n,data,sum) VALUES(?,?,?,1,?,?)", after.line, k.Chain, k.Seq, k.Data,
			chunkSum(after.line, k.Chain, k.Seq, 1, k.Data)); err != nil {
			return err
		}
		if (k.Seq+1)%packSize == 0 {
			if err := c.pack(after.line, k.Chain, k.Seq); err != nil {
				return err
			}
		}
	}
	// Results of the head are there only if its line is open; another parent
	// may always have some.
	if g.parent != 0 && (h.open || g.parent != keyOf(h.line, h.at)) {
		if _, err := c.change("DELETE FROM pending WHERE checkpoint=? AND kind=?", g.parent, []byte(checkpoint.Done)); err != nil {
			return err
		}
	}
	if p.Fence > h.epoch {
		if err := c.setEpoch(after.thread, h.epoch, p.Fence); err != nil {
			return err
		}
	}
	db.known.setHead(name, after)
	return nil
}

func (c *conn) setEpoch(thread int64, before, epoch uint64) error {
	_, err := c.change("UPDATE thread SET fence=?, sum=(sum+?)&0x7fffffff WHERE id=?", int64(epoch), epochSum(epoch)-epochSum(before), thread)
	return err
}

// grow makes the manifest of p after h, or refuses p.
func (c *conn) grow(h *head, p *checkpoint.Put) (*growth, error) {
	if p.Fence < h.epoch {
		return nil, fencedError(p.Thread, h.epoch, p.Fence)
	}
	if h.id != p.Head {
		return nil, fmt.Errorf("%w: thread %q has %s, the put expected %s", checkpoint.ErrConflict, p.Thread, h.id, p.Head)
	}
	g := &growth{}
	g.Next, g.Load = h.next, func(s *saved.Slot) ([][]byte, error) { return newLoader(c, h.line).elements(s) }
	if !p.Parent.IsZero() {
		if err := c.inherit(g, h, p); err != nil {
			return nil, err
		}
	}
	if p.ID.IsZero() || bytes.Compare(p.ID[:], h.id[:]) <= 0 {
		return nil, fmt.Errorf("%w: id %s does not follow %s", checkpoint.ErrConflict, p.ID, h.id)
	}
	if err := g.Apply(p.Changes); err != nil {
		return nil, err
	}
	if g.More {
		g.m.Shape = 0 // to be found
	}
	g.settle()
	return g, nil
}

// inherit starts g from the parent's manifest.
func (c *conn) inherit(g *growth, h *head, p *checkpoint.Put) error {
	parent, names, base := h.m, h.names, h.base
	isHead := p.Parent == h.id
	g.parent = keyOf(h.line, h.at)
	if !isHead || parent == nil {
		r, err := c.find(h, p.Parent)
		if err != nil {
			return err
		}
		if r == nil {
			return fmt.Errorf("%w: parent %s in thread %q", checkpoint.ErrNotFound, p.Parent, p.Thread)
		}
		if names, err = c.namesOf(r.m.Shape); err != nil {
			return err
		}
		if base, err = r.m.resolve(newLoader(c, h.line)); err != nil {
			return err
		}
		if isHead {
			if h.run, err = c.runRow(h.line, r.run); err != nil {
				return err
			}
			h.echoes = r.m.echo == nil && worthEcho(r.m.control)
		}
		g.parent, parent = r.key, r.m
	}
	g.Inherit(names, parent.slots, isHead && parent.Rev == h.rev)
	g.base, g.m.Shape = base, parent.Shape
	g.m.based, g.m.base, g.m.rent = parent.based, parent.base, parent.rent
	return nil
}

// stored is a checkpoint's row.
type stored struct {
	key int64
	id  checkpoint.ID
	run int64
	m   *manifest
}

// storedColumns are what scanStored reads.
const storedColumns = "key, id, run, record, sum"

// scanStored reads the row of a checkpoint.
func (c *conn) scanStored(scan func(...any) error) (*stored, error) {
	r := &stored{}
	var id, record []byte
	var sum sum
	if err := scan(&r.key, &id, &r.run, &record, &sum); err != nil {
		return nil, err
	}
	copy(r.id[:], id)
	var err error
	if r.m, err = parseManifest(record, r.id); err == nil {
		err = c.verify(sum, checkpointSum(r.key, r.id, r.run, record), "checkpoint %s", r.id)
	}
	return r, err
}

// find reads a checkpoint's row, nil if there is none.
func (c *conn) find(h *head, id checkpoint.ID) (*stored, error) {
	key, err := c.locate(h, id)
	if err != nil || key == 0 {
		return nil, err
	}
	var r *stored
	err = c.each("SELECT "+storedColumns+" FROM checkpoint WHERE key=?", []any{key}, func(scan func(...any) error) (err error) {
		r, err = c.scanStored(scan)
		return err
	})
	return r, err
}

// locate returns the key of a checkpoint, or 0. That there is none is said only
// after a look at all that the line has: if the one that was asked for is missing
// or its id is unreadable, the line does not have what it should have.
func (c *conn) locate(h *head, id checkpoint.ID) (int64, error) {
	if h.line == 0 || id.IsZero() || bytes.Compare(id[:], h.id[:]) > 0 {
		return 0, nil
	}
	key, err := c.search(h, id)
	if err != nil {
		return 0, err
	}
	var there []byte
	ok, err := c.row("SELECT id FROM checkpoint WHERE key=?", []any{key}, &there)
	switch {
	case err != nil:
		return 0, err
	case ok && bytes.Equal(there, id[:]):
		return key, nil
	case id == h.id:
		return 0, fmt.Errorf("%w: checkpoint %s, which is the newest, is missing", ErrDamaged, id)
	}
	return 0, c.audit(h)
}

// audit reads all checkpoints of a line to see whether they are what the line
// should have.
func (c *conn) audit(h *head) error {
	var n, last int64
	var before checkpoint.ID
	err := c.each("SELECT "+storedColumns+" FROM checkpoint WHERE key>? AND key<=? ORDER BY key", []any{keyOf(h.line, 0), keyOf(h.line, maxOrdinal)}, func(scan func(...any) error) error {
		r, err := c.scanStored(scan)
		if err != nil {
			return err
		}
		if bytes.Compare(r.id[:], before[:]) <= 0 {
			return fmt.Errorf("%w: checkpoint %s comes after %s", ErrDamaged, r.id, before)
		}
		n, last, before = n+1, r.key, r.id
		return nil
	})
	if err == nil && (n != h.count || last != keyOf(h.line, h.at)) {
		err = missingCheckpoints(n, h)
	}
	return err
}

// tally tells whether a gap in a line is one that was made on purpose. A line of
// which nothing was ever removed has none; of others it counts what is left.
func (c *conn) tally(h *head) error {
	var n, last int64
	if _, err := c.row("SELECT count(*), max(key) FROM checkpoint WHERE key>? AND key<=?", []any{keyOf(h.line, 0), keyOf(h.line, maxOrdinal)}, &n, &last); err != nil {
		return err
	}
	if n != h.count || last != keyOf(h.line, h.at) || n == h.last {
		return missingCheckpoints(n, h)
	}
	return nil
}

func missingCheckpoints(n int64, h *head) error {
	return fmt.Errorf("%w: of %d checkpoints, up to %s, there are %d", ErrDamaged, h.count, h.id, n)
}

// search returns the key of the first checkpoint of a line whose id is not less
// than id, or 0. Most that are looked for are not far from the head.
func (c *conn) search(h *head, id checkpoint.ID) (found int64, err error) {
	if h.line == 0 || bytes.Compare(id[:], h.id[:]) > 0 {
		return 0, nil
	}
	// Up to lo ids are less. From hi on they are not, and found is the first
	// of those.
	lo, hi := keyOf(h.line, 0), keyOf(h.line, h.at)
	found = hi
	if id == h.id {
		return found, nil
	}
	for step := int64(1); lo+1 < hi; {
		mid := lo + (hi-lo)/2
		if step > 0 && hi-step > mid {
			mid, step = hi-step, step*4
		}
		var key int64
		var at []byte
		ok, err := c.row("SELECT key, id FROM checkpoint WHERE key>=? AND key<? ORDER BY key LIMIT 1", []any{mid, hi}, &key, &at)
		switch {
		case err != nil:
			return 0, err
		case !ok:
			hi = mid
		case bytes.Compare(at, id[:]) < 0:
			lo, step = key, 0
		default:
			hi, found = mid, key
		}
	}
	return found, nil
}

// makeLine makes the line of h, and its thread if need be.
func (c *conn) makeLine(name lineName, h *head) (err error) {
	if h.thread == 0 {
		if h.thread, err = c.makeThread(name.thread, 0); err != nil {
			return err
		}
	}
	h.line, err = c.insert("INSERT INTO line(thread,path,head,at,last,next,rev,open,count,bytes) VALUES(?,?,?,0,0,1,0,0,0,0)", h.thread, []byte(name.path), make([]byte, len(checkpoint.ID{})))
	if err == nil && h.line > maxLine {
		err = fmt.Errorf("sqlite: the file has had %d lines, which is as many as it can have", int64(maxLine))
	}
	if err != nil {
		return err
	}
	empty := head{next: 1}
	if _, err := c.change("UPDATE line SET sum=? WHERE id=?", (empty.sum()+lineSum(h.line, h.thread, name.path))&saved.SumMask, h.line); err != nil {
		return err
	}
	return c.attest(lineHash(h.thread, name.path))
}

func (c *conn) makeThread(name string, epoch uint64) (int64, error) {
	id, err := c.insert("INSERT INTO thread(name,fence) VALUES(?,?)", []byte(name), int64(epoch))
	if err != nil {
		return 0, err
	}
	if _, err := c.change("UPDATE thread SET sum=? WHERE id=?", threadSum(id, name, epoch)&saved.SumMask, id); err != nil {
		return 0, err
	}
	return id, c.attest(threadHash(name))
}

// runRow reads a run; number 0 is none.
func (c *conn) runRow(line, number int64) (r run, err error) {
	if number == 0 {
		return r, nil
	}
	var name []byte
	var sum sum
	ok, err := c.row("SELECT name, metadata, sum FROM run WHERE line=? AND run=?", []any{line, number}, &name, &r.metadata, &sum)
	if err != nil {
		return r, err
	}
	r.number, r.name = number, unpackName(name)
	if !ok || r.name == "" {
		return r, fmt.Errorf("%w: run %d of line %d is missing", ErrDamaged, number, line)
	}
	return r, c.verify(sum, runSum(line, number, name, r.metadata), "run %d of line %d", number, line)
}

// packName is how the name of a run is stored. Most are UUIDs in their usual
// spelling, which take 36 bytes as text and 16 as what they are.
func packName(name string) []byte {
	if id, err := checkpoint.ParseID(name); err == nil && id.String() == name && !id.IsZero() {
		return append([]byte{1}, id[:]...)
	}
	return append([]byte{0}, name...)
}

// unpackName is empty if there is no such name.
func unpackName(b []byte) string {
	switch {
	case len(b) == 1+len(checkpoint.ID{}) && b[0] == 1:
		return checkpoint.ID(b[1:]).String()
	case len(b) > 1 && b[0] == 0:
		return string(b[1:])
	}
	return ""
}

// shapeOf finds or makes the row of the names.
func (db *DB) shapeOf(c *conn, names []string, fresh bool) (int64, error) {
	key := saved.EncodeNames(names)
	if id := db.known.shapes[key]; id != 0 {
		return id, nil
	}
	if !fresh {
		return 0, errStale
	}
	var id int64
	var sum sum
	ok, err := c.row("SELECT id, sum FROM shape WHERE names=?", []any{[]byte(key)}, &id, &sum)
	if err != nil {
		return 0, err
	}
	if ok {
		if err := c.verify(sum, nameSum(id, []byte(key)), "shape %d", id); err != nil {
			return 0, err
		}
	}
	if !ok {
		if id, err = c.insert("INSERT INTO shape(names) VALUES(?)", []byte(key)); err != nil {
			return 0, err
		}
		if _, err := c.change("UPDATE shape SET sum=? WHERE id=?", nameSum(id, []byte(key))&saved.SumMask, id); err != nil {
			return 0, err
		}
	}
	db.known.setShape(key, id)
	return id, nil
}

// namesOf reads a shape. Shape 0 has no names.
func (c *conn) namesOf(shape int64) ([]string, error) {
	if shape == 0 {
		return nil, nil
	}
	var raw []byte
	var sum sum
	ok, err := c.row("SELECT names, sum FROM shape WHERE id=?", []any{shape}, &raw, &sum)
	if err != nil {
		return nil, err
	}
	names, readable := saved.DecodeNames(raw)
	if !ok || !readable {
		return nil, fmt.Errorf("%w: shape %d is missing or unreadable", ErrDamaged, shape)
	}
	return names, c.verify(sum, nameSum(shape, raw), "shape %d", shape)
}

// shapes are those that readers have met.
type shapes struct {
	mu    sync.Mutex
	names map[int64][]string
}

// of returns the names of a shape that the file has.
func (s *shapes) of(c *conn, id int64) ([]string, error) {
	s.mu.Lock()
	names, ok := s.names[id]
	s.mu.Unlock()
	if ok {
		return names, nil
	}
	names, err := c.namesOf(id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[int64][]string{}
	}
	bound(s.names)
	s.names[id] = names
	return names, nil
}

// PutWrites implements [checkpoint.Saver].
func (db *DB) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, writes []checkpoint.Write) error {
	name := lineName{at.Thread, at.Namespace}
	err := db.write(ctx, func(c *conn) error {
		h, err := c.loadHead(name)
		if err != nil {
			return err
		}
		if fence < h.epoch {
			return fencedError(at.Thread, h.epoch, fence)
		}
		id := at.ID
		if id.IsZero() {
			id = h.id
		}
		key, err := c.locate(h, id)
		if err != nil {
			return err
		}
		if key == 0 {
			return fmt.Errorf("%w: %s in thread %q", checkpoint.ErrNotFound, at.ID, at.Thread)
		}
		if err := c.addPending(key, writes); err != nil {
			return err
		}
		if id == h.id && !h.open && hasResults(writes) {
			opened := *h
			opened.open = true
			if _, err := c.change("UPDATE line SET open=1, sum=(sum+?)&0x7fffffff WHERE id=?", opened.sum()-h.sum(), h.line); err != nil {
				return err
			}
			if k := db.known.heads[name]; k != nil {
				k.open = true
			}
		}
		if fence > h.epoch {
			return c.setEpoch(h.thread, h.epoch, fence)
		}
		return nil
	})
	return inThread(at.Thread, err)
}

// addPending adds writes to a checkpoint or replaces them.
func (c *conn) addPending(key int64, writes []checkpoint.Write) error {
	for _, w := range writes {
		// An upsert keeps the rowid, and with it the order.
		kind, data := saved.WriteRow(&w)
		_, err := c.change(`INSERT INTO pending(checkpoint,task,kind,data,sum) VALUES(?,?,?,?,?)
			ON CONFLICT(checkpoint,task,kind) DO UPDATE SET data=excluded.data, sum=excluded.sum`, key, []byte(w.Task), kind, data, pendingSum(key, w.Task, kind, data))
		if err != nil {
			return err
		}
	}
	return nil
}

// hasResults reports whether there is something that the next put consumes.
func hasResults(writes []checkpoint.Write) bool {
	return slices.ContainsFunc(writes, func(w checkpoint.Write) bool { return w.Kind == checkpoint.Done })
}

// Get implements [checkpoint.Saver].
func (db *DB) Get(ctx context.Context, key checkpoint.Key) (*checkpoint.Checkpoint, error) {
	var cp *checkpoint.Checkpoint
	err := db.read(ctx, func(c *conn) error {
		h, err := c.loadHead(lineName{key.Thread, key.Namespace})
		if err != nil {
			return err
		}
		id := key.ID
		if id.IsZero() {
			id = h.id
		}
		r, err := c.find(h, id)
		if err != nil {
			return err
		}
		if r == nil {
			return fmt.Errorf("%w: thread %q, namespace %q, id %q", checkpoint.ErrNotFound, key.Thread, key.Namespace, key.ID)
		}
		rd := db.reading(c, h, key.Thread, key.Namespace)
		cp, err = rd.checkpoint(ctx, r)
		return err
	})
	if err != nil {
		return nil, inThread(key.Thread, err)
	}
	return cp, nil
}

// reading makes checkpoints of the rows of one line, in one transaction.
type reading struct {
	db     *DB
	c      *conn
	h      *head
	key    checkpoint.Key
	loader *loader
	runs   map[int64]run
}

func (db *DB) reading(c *conn, h *head, thread, namespace string) *reading {
	return &reading{db: db, c: c, h: h, key: checkpoint.Key{Thread: thread, Namespace: namespace}, loader: newLoader(c, h.line), runs: map[int64]run{}}
}

// run reads a run once; its metadata is shared.
func (rd *reading) run(number int64) (run, error) {
	if r, ok := rd.runs[number]; ok {
		return r, nil
	}
	r, err := rd.c.runRow(rd.h.line, number)
	rd.runs[number] = r
	return r, err
}

// metadata is that of a row and its run.
func (rd *reading) metadata(r *stored) (json.RawMessage, error) {
	if !r.m.shared {
		return r.m.metadata, nil
	}
	of, err := rd.run(r.run)
	return bytes.Clone(of.metadata), err
}

// checkpoint reads what a row refers to.
func (rd *reading) checkpoint(ctx context.Context, r *stored) (*checkpoint.Checkpoint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	of, err := rd.run(r.run)
	if err != nil {
		return nil, err
	}
	cp := &checkpoint.Checkpoint{Key: rd.key, Parent: r.m.Parent, Step: r.m.Step, Source: r.m.Source, RunID: of.name, Control: r.m.control, Values: make(map[string]checkpoint.Value, len(r.m.slots))}
	cp.ID = r.id
	if r.m.echo != nil {
		if cp.Control, err = rd.loader.echoed(r.m); err != nil {
			return nil, fmt.Errorf("control of checkpoint %s: %w", r.id, err)
		}
	}
	if _, err := r.m.resolve(rd.loader); err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", r.id, err)
	}
	if cp.Metadata, err = rd.metadata(r); err != nil {
		return nil, err
	}
	names, err := rd.db.shapes.of(rd.c, r.m.Shape)
	if err != nil {
		return nil, err
	}
	if len(names) != len(r.m.slots) {
		return nil, fmt.Errorf("%w: checkpoint %s has %d channels, its shape %d", ErrDamaged, r.id, len(r.m.slots), len(names))
	}
	for i := range r.m.slots {
		s := &r.m.slots[i]
		if s.Kind == saved.None {
			continue
		}
		v, err := rd.loader.value(s)
		if err != nil {
			return nil, fmt.Errorf("channel %q of checkpoint %s: %w", names[i], r.id, err)
		}
		cp.Values[names[i]] = v
	}
	err = rd.c.each("SELECT task, kind, data, sum FROM pending WHERE checkpoint=? ORDER BY rowid", []any{r.key},
		func(scan func(...any) error) error {
			var task string
			var kind, data []byte
			var sum sum
			if err := scan(&task, &kind, &data, &sum); err != nil {
				return err
			}
			cp.Pending = append(cp.Pending, saved.ParseWrite(task, kind, data))
			return rd.c.verify(sum, pendingSum(r.key, task, kind, data), "what task %q left at checkpoint %s", task, r.id)
		})
	cp.Pending = saved.Latest(cp.Pending)
	return cp, err
}

const (
	// listPage is how many checkpoints are read at a time: a caller must not
	// hold a connection while it looks at them, and may stop after the first.
	listPage = 16
	// scanPage is how many rows are looked at for those that match.
	scanPage = 64
)

// List implements [checkpoint.Saver].
func (db *DB) List(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Checkpoint, error] {
	return func(yield func(*checkpoint.Checkpoint, error) bool) {
		want, err := saved.NewFilter(q.Metadata)
		if err != nil {
			yield(nil, err)
			return
		}
		left := q.Limit
		for end, more := int64(0), true; more; {
			size := listPage
			if left > 0 {
				size = min(size, left)
			}
			var page []*checkpoint.Checkpoint
			err := db.read(ctx, func(c *conn) (err error) {
				page, end, more, err = db.page(ctx, c, q, want, end, size)
				return err
			})
			if err != nil {
				yield(nil, inThread(q.Thread, err))
				return
			}
			for _, cp := range page {
				if !yield(cp, nil) {
					return
				}
			}
			if left -= len(page); q.Limit > 0 && left == 0 {
				return
			}
		}
	}
}

// page reads up to size checkpoints with keys before end; 0 is where the query
// begins. It returns where the next page ends and whether there may be one. A
// key is never used again, so it means the same in every transaction.
func (db *DB) page(ctx context.Context, c *conn, q checkpoint.Query, want saved.Filter, end int64, size int) (page []*checkpoint.Checkpoint, next int64, more bool, err error) {
	h, err := c.loadHead(lineName{q.Thread, q.Namespace})
	if err != nil || h.line == 0 {
		return nil, 0, false, err
	}
	above := end // a row is expected right below it; 0: anywhere
	if end == 0 {
		end = keyOf(h.line, h.last+1)
		above = keyOf(h.line, h.at+1)
		if !q.Before.IsZero() && bytes.Compare(q.Before[:], h.id[:]) <= 0 {
			if above, err = c.locate(h, q.Before); err != nil {
				return nil, 0, false, err
			}
			if end, err = c.search(h, q.Before); err != nil {
				return nil, 0, false, err
			}
		}
	}
	limit := size
	if len(want) > 0 {
		limit = scanPage
	}
	var rows []*stored
	gap := false
	err = c.each("SELECT "+storedColumns+" FROM checkpoint WHERE key>? AND key<? ORDER BY key DESC LIMIT ?", []any{keyOf(h.line, 0), end, limit},
		func(scan func(...any) error) error {
			r, err := c.scanStored(scan)
			if err != nil {
				return err
			}
			gap = gap || above != 0 && r.key != above-1
			above = r.key
			rows = append(rows, r)
			return nil
		})
	if err != nil {
		return nil, 0, false, err
	}
	gap = gap || len(rows) < limit && above != 0 && above != keyOf(h.line, 1)
	if gap {
		if err := c.tally(h); err != nil {
			return nil, 0, false, err
		}
	}
	rd := db.reading(c, h, q.Thread, q.Namespace)
	rd.loader.shared = true
	next, more = end, len(rows) == limit
	for _, r := range rows {
		if len(page) == size {
			return page, next, true, nil
		}
		next = r.key
		if len(want) > 0 {
			metadata, err := rd.metadata(r)
			if err != nil {
				return nil, 0, false, err
			}
			if !want.Matches(metadata) {
				continue
			}
		}
		cp, err := rd.checkpoint(ctx, r)
		if err != nil {
			return nil, 0, false, err
		}
		page = append(page, cp)
	}
	return page, next, more, nil
}
