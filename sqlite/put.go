package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

var (
	// errStale means that the cached head is outdated or incomplete.
	errStale = errors.New("sqlite: stale head")
	// errUnstored means that a put cannot be prepared before the preceding puts are
	// saved.
	errUnstored = errors.New("sqlite: head not saved yet")
)

// Put implements [checkpoint.Saver].
func (db *DB) Put(ctx context.Context, p *checkpoint.Put) error {
	err := db.conn.WriteKeeping(ctx, func(c *database.Conn) error { return db.putAll(c, []*checkpoint.Put{p}) })
	return inThread(p.Thread, err)
}

// PutAll implements [checkpoint.Batcher].
func (db *DB) PutAll(ctx context.Context, puts []*checkpoint.Put) error {
	if len(puts) == 0 {
		return nil
	}
	err := db.conn.WriteKeeping(ctx, func(c *database.Conn) error { return db.putAll(c, puts) })
	return inThread(puts[0].Thread, err)
}

// putAll saves puts, grouping consecutive puts to the same line. If it fails, its writes
// are rolled back: see internal/database/commit.go.
func (db *DB) putAll(c *database.Conn, puts []*checkpoint.Put) error {
	for len(puts) > 0 {
		name := lineName{puts[0].Thread, puts[0].Namespace}
		n := 1
		for n < len(puts) && puts[n].Thread == name.thread && puts[n].Namespace == name.path {
			n++
		}
		n, err := db.putNext(c, name, puts[:n])
		if err != nil {
			return err
		}
		puts = puts[n:]
	}
	return nil
}

// putNext saves puts after the head of their line and returns how many it saved: those
// that can be prepared before one of them is saved.
func (db *DB) putNext(c *database.Conn, name lineName, puts []*checkpoint.Put) (int, error) {
	if h, ok := db.known.heads.Get(name); ok {
		n, err := db.put(c, name, h, puts, h.as == db.sight(c))
		if !errors.Is(err, errStale) {
			return n, err
		}
		db.known.heads.Delete(name)
	}
	h := db.newHead(c, name)
	if h == nil {
		var err error
		if h, err = loadHead(c, name); err != nil {
			return 0, err
		}
	}
	return db.put(c, name, h, puts, true)
}

// put is like putNext, but after h. If fresh is set, h is current: it was read in this transaction,
// or nothing has changed since it was read. Otherwise h comes from the cache: the first
// write is then the compare-and-set, and any mismatch returns errStale with nothing
// written.
func (db *DB) put(c *database.Conn, name lineName, h *head, puts []*checkpoint.Put, fresh bool) (int, error) {
	var space [2]step // there are usually one or two
	steps := space[:0]
	for _, p := range puts {
		var before *step
		if n := len(steps); n > 0 {
			before = &steps[n-1]
			h = before.after
		}
		s, err := db.step(c, name, h, p, before, fresh)
		if errors.Is(err, errUnstored) {
			break
		}
		if err != nil {
			return 0, err
		}
		steps = append(steps, s)
	}
	if err := moveHead(c, steps, fresh); err != nil {
		return 0, err
	}
	for i := range steps {
		if err := steps[i].store(db, c); err != nil {
			return 0, err
		}
	}
	last := &steps[len(steps)-1]
	last.after.as = db.sight(c)
	last.after.written, last.after.kept = int64(len(last.Pending)), true
	last.after.keepWrites(last.Pending)
	db.known.heads.Set(name, last.after, last.after.size())
	return len(steps), nil
}

// step prepares p after h. If before is not nil, it is the step that leads to h and is
// not saved yet.
func (db *DB) step(c *database.Conn, name lineName, h *head, p *checkpoint.Put, before *step, fresh bool) (step, error) {
	g, err := growthOf(c, h, p, before != nil)
	if err != nil {
		if !fresh && !errors.Is(err, errUnstored) {
			err = errStale
		}
		return step{}, err
	}
	s := step{Put: p, g: g, before: h, isNew: h.line == 0, id: p.ID[:]}
	return s, s.prepare(db, c, name, before, fresh) // creates the line if it does not exist
}

// store saves the step after the head has moved.
func (s *step) store(db *DB, c *database.Conn) error {
	if err := s.storeRun(c); err != nil {
		return err
	}
	if err := s.storeCheckpoint(c); err != nil {
		return err
	}
	if err := s.storeChunks(c); err != nil {
		return err
	}
	if err := s.consumeResults(c); err != nil {
		return err
	}
	return s.raiseEpoch(db, c)
}

// A step is the data that a put adds to a line, ready to be saved.
type step struct {
	*checkpoint.Put
	g             *growth
	before, after *head
	isNew         bool // the line was created for this step
	id            any  // the checkpoint ID as a statement argument
	newRun        bool
	record        []byte
	parentRecord  []byte // the parent's record with an echo, if that is shorter: see echo.go
	size          int    // number of bytes added to the line
}

// prepare encodes an accepted put.
func (s *step) prepare(db *DB, c *database.Conn, name lineName, before *step, fresh bool) (err error) {
	h, p, g := s.before, s.Put, s.g
	s.after = &head{thread: h.thread, epoch: max(h.epoch, p.Fence), line: h.line, id: p.ID, at: h.last + 1, last: h.last + 1, rev: h.rev,
		open: saved.HasResults(p.Pending), names: g.Names, base: g.base, m: g.m}
	if s.after.last > maxOrdinal {
		return fmt.Errorf("sqlite: thread %q full: all %d checkpoint numbers used", p.Thread, h.last)
	}
	if s.isNew {
		if err := db.makeLine(c, name, s.after); err != nil {
			return err
		}
	}
	s.chooseRun()
	s.after.next = g.Next
	if g.m.Shape == 0 && len(g.Names) > 0 {
		if g.m.Shape, err = db.shapeOf(c, g.Names, fresh); err != nil {
			return err
		}
	}
	s.encode()
	var old []byte
	if before != nil {
		old = before.record
	}
	var less int
	if s.parentRecord, less, err = echoOf(c, h, old, p.Parent, g); err != nil {
		return err
	}
	if before != nil && s.parentRecord != nil {
		before.record, s.parentRecord = s.parentRecord, nil // saved in this form from the start
	}
	s.size = len(s.record) - less
	for _, k := range g.Chunks {
		s.size += len(k.Data)
	}
	return nil
}

// chooseRun assigns the head's run or a new run to the step.
func (s *step) chooseRun() {
	s.newRun = s.RunID != "" && s.before.run.name != s.RunID
	switch {
	case s.newRun:
		s.after.run = run{number: s.g.Next, name: s.RunID, metadata: bytes.Clone(s.Metadata)}
		s.g.Next++
	case s.RunID != "":
		s.after.run = s.before.run
	}
}

// encode encodes the record and keeps in the manifest only what the next put needs.
func (s *step) encode() {
	m := s.g.m
	m.Rev = s.before.rev
	m.Parent = s.Parent
	m.Step = s.Step
	m.Source = s.Source
	m.control, m.metadata = s.Control, s.Metadata
	m.shared = len(s.Metadata) > 0 && bytes.Equal(s.Metadata, s.after.run.metadata)
	s.record = m.append(make([]byte, 0, 128+len(s.Control)+len(s.Metadata)), s.ID)
	m.control, m.metadata, m.patches = nil, nil, nil
	s.after.echoes = worthEcho(s.Control)
	if n := len(s.record); n <= keptRecordMost || n <= maxRecord && s.after.echoes {
		s.after.record = s.record
	}
}

// moveHead advances the head from the step before the first to the last one with a
// compare-and-set. For a new line, it inserts the line's row.
func moveHead(c *database.Conn, steps []step, fresh bool) error {
	first, last := &steps[0], &steps[len(steps)-1]
	h, after := first.before, last.after
	size := 0
	for i := range steps {
		size += steps[i].size
	}
	sum := after.sum() + countSum(int64(len(steps)), int64(size))
	if first.isNew {
		_, err := c.Change("INSERT INTO line(id,thread,path,head,at,last,next,rev,open,count,bytes,sum) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)",
			after.line, after.thread, []byte(first.Namespace), last.id, after.at, after.last, after.next, int64(after.rev), after.open, len(steps), size,
			(sum+lineSum(after.line, after.thread, first.Namespace))&saved.SumMask)
		return err
	}
	const update = "UPDATE line SET head=?, at=?, last=?, next=?, open=?, count=count+?, bytes=bytes+?, sum=(sum+?)&0x7fffffff WHERE id=?"
	var n int64
	var err error
	if fresh {
		n, err = c.Change(update, last.id, after.at, after.last, after.next, after.open, len(steps), size, sum-h.sum(), after.line)
	} else {
		n, err = c.Change(update+" AND head=? AND rev=? AND open=? AND (SELECT fence FROM thread WHERE name=?)=?",
			last.id, after.at, after.last, after.next, after.open, len(steps), size, sum-h.sum(), after.line,
			h.id[:], int64(h.rev), h.open, []byte(first.Thread), int64(h.epoch))
	}
	switch {
	case err != nil:
		return err
	case n == 1:
		return nil
	case fresh:
		return fmt.Errorf("%w: missing line %d", ErrDamaged, after.line)
	}
	return errStale
}

func (s *step) storeRun(c *database.Conn) error {
	if !s.newRun {
		return nil
	}
	line, r, name := s.after.line, s.after.run, packName(s.RunID)
	_, err := c.Change("INSERT INTO run(line,run,name,metadata,sum) VALUES(?,?,?,?,?)", line, r.number, name, r.metadata, runSum(line, r.number, name, r.metadata))
	return err
}

// storeCheckpoint saves the checkpoint with its pending writes, and its parent's record
// if that has become shorter.
func (s *step) storeCheckpoint(c *database.Conn) error {
	key, run := keyOf(s.after.line, s.after.at), s.after.run.number
	if _, err := c.Change("INSERT INTO checkpoint(key,id,run,record,sum) VALUES(?,?,?,?,?)", key, s.id, run, s.record, checkpointSum(key, s.ID, run, s.record)); err != nil {
		return err
	}
	if _, err := addPending(c, key, 0, s.Pending); err != nil {
		return err
	}
	if s.parentRecord == nil {
		return nil
	}
	h := s.before
	key = keyOf(h.line, h.at)
	_, err := c.Change("UPDATE checkpoint SET record=?, sum=? WHERE key=?", s.parentRecord, checkpointSum(key, h.id, h.run.number, s.parentRecord), key)
	return err
}

func (s *step) storeChunks(c *database.Conn) error {
	line := s.after.line
	for _, k := range s.g.Chunks {
		if _, err := c.Change("INSERT INTO chunk(line,chain,seq,n,data,sum) VALUES(?,?,?,1,?,?)", line, k.Chain, k.Seq, k.Data, chunkSum(line, k.Chain, k.Seq, 1, k.Data)); err != nil {
			return err
		}
		if (k.Seq+1)%packSize == 0 {
			if err := pack(c, line, k.Chain, k.Seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// consumeResults removes the results that the parent's tasks left. The head has results
// only if its line is open; any other parent may have some.
func (s *step) consumeResults(c *database.Conn) error {
	if s.g.parent == 0 || !s.before.open && s.g.parent == keyOf(s.before.line, s.before.at) {
		return nil
	}
	_, err := c.Change("DELETE FROM pending WHERE checkpoint=? AND kind=?", s.g.parent, []byte(checkpoint.Done))
	return err
}

func (s *step) raiseEpoch(db *DB, c *database.Conn) error {
	if s.Fence <= s.before.epoch {
		return nil
	}
	return db.setEpoch(c, s.Thread, s.before.epoch, s.Fence)
}

// growthOf derives the manifest of p after h, or rejects p. If ahead is set, h is not saved
// yet, so data that p needs from the file may be missing; growthOf then returns errUnstored.
func growthOf(c *database.Conn, h *head, p *checkpoint.Put, ahead bool) (*growth, error) {
	if p.Fence < h.epoch {
		return nil, saved.Fenced(p.Thread, h.epoch, p.Fence)
	}
	if h.id != p.Head {
		return nil, saved.NotAtHead(p, h.id)
	}
	if ahead && !p.Parent.IsZero() && p.Parent != h.id {
		return nil, errUnstored
	}
	g := &growth{m: &manifest{}}
	g.Short = true
	g.Next, g.Load = h.next, func(s *saved.Slot) ([][]byte, error) {
		if ahead {
			return nil, errUnstored
		}
		return newLoader(c, h.line).elements(s)
	}
	if !p.Parent.IsZero() {
		if err := inherit(c, g, h, p); err != nil {
			return nil, err
		}
	}
	if p.ID.IsZero() || bytes.Compare(p.ID[:], h.id[:]) <= 0 {
		return nil, saved.NotAfter(p, h.id)
	}
	if err := g.Apply(p.Changes); err != nil {
		return nil, err
	}
	if g.More {
		g.m.Shape = 0 // still to be looked up
	}
	g.settle()
	return g, nil
}

// inherit initializes g from the parent's manifest.
func inherit(c *database.Conn, g *growth, h *head, p *checkpoint.Put) error {
	parent, names, base := h.m, h.names, h.base
	isHead := p.Parent == h.id
	g.parent = keyOf(h.line, h.at)
	if !isHead || parent == nil {
		r, err := find(c, h, p.Parent)
		if err != nil {
			return err
		}
		if r == nil {
			return saved.NoParent(p)
		}
		if names, err = namesOf(c, r.m.Shape); err != nil {
			return err
		}
		if base, err = r.m.resolve(newLoader(c, h.line)); err != nil {
			return err
		}
		if isHead {
			if h.run, err = runRow(c, h.line, r.run); err != nil {
				return err
			}
			h.echoes = r.m.echo == nil && worthEcho(r.m.control)
		}
		g.parent, parent = r.key, r.m
		saved.Detach(parent.slots)
	}
	g.Inherit(names, parent.slots, isHead && parent.Rev == h.rev)
	g.base, g.m.Shape = base, parent.Shape
	g.m.based, g.m.base, g.m.repeated = parent.based, parent.base, parent.repeated
	return nil
}
