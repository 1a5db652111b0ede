package postgres

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint"
)

// Whatever is done, the database says what a Memory says. Two handles take
// turns, one of them pooler-safe, so that what one remembers is often behind
// what the other has done.
//
// TREADLE_SEEDS=n runs n further seeds.
func TestDatabaseBehavesLikeMemory(t *testing.T) {
	seeds := uint64(4)
	if env := os.Getenv("TREADLE_SEEDS"); env != "" {
		n, err := strconv.ParseUint(env, 10, 16)
		if err != nil {
			t.Fatalf("TREADLE_SEEDS: %v", err)
		}
		seeds += n
	}
	url := quick(t)
	for seed := uint64(1); seed <= seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := &world{T: t, rnd: rand.New(rand.NewPCG(seed, 7)), url: url, mem: checkpoint.NewMemory(), start: time.Now().Add(-500 * time.Hour)}
			first := fresh(t, url, Options{})
			w.schema = first.schema
			w.handles = []*DB{first, open(t, url, &Options{Schema: w.schema, PoolerSafe: true})}
			for range 10 {
				for range 30 {
					w.step()
				}
				w.compare()
			}
		})
	}
}

// world does the same to a Memory and to a database.
type world struct {
	*testing.T
	rnd         *rand.Rand
	url, schema string
	mem         *checkpoint.Memory
	handles     []*DB
	start       time.Time
	tick        int // of the last id
	epoch       map[string]uint64
	log         []string
}

// both is what savers under comparison can do.
type both interface {
	checkpoint.Saver
	checkpoint.Pruner
	checkpoint.Copier
	checkpoint.RunDeleter
	checkpoint.Sizer
	checkpoint.ThreadLister
	checkpoint.Fencer
}

func (w *world) pick(words ...string) string { return words[w.rnd.IntN(len(words))] }

func (w *world) thread() string { return w.pick("a", "b", "c\x00\xff") }

func (w *world) space() string { return w.pick("", "", "", "node:1", "node:1|child:2") }

// id is the next id, a minute after the one before.
func (w *world) id() (id checkpoint.ID) {
	w.tick++
	at := uint64(w.start.Add(time.Duration(w.tick)*time.Minute).UnixNano())/100 + 0x01B21DD213814000
	binary.BigEndian.PutUint64(id[:8], at<<4&^0xffff|6<<12|at&0xfff)
	binary.BigEndian.PutUint64(id[8:], 0x8000<<48|uint64(w.rnd.Uint32()))
	return id
}

// text is now and then long, and often has been seen before.
func (w *world) text() []byte {
	n := []int{0, 3, inlineMax, inlineMax + 1, 300, 3000}[w.rnd.IntN(6)]
	return bytes.Repeat([]byte{byte('a' + w.rnd.IntN(4)), byte(w.rnd.IntN(256))}, (n+1)/2)[:n]
}

func (w *world) change() checkpoint.Change {
	c := checkpoint.Change{Channel: w.pick("list", "list", "log", "x", "y", "z", "v1", "v2", "v3", "v4", ""), Version: w.rnd.Uint64N(300)}
	switch {
	case w.rnd.IntN(12) == 0:
		c.Clear = true
	case c.Channel == "list", c.Channel == "log", w.rnd.IntN(8) == 0:
		c.List = true
		if w.rnd.IntN(4) == 0 {
			c.Drop = w.rnd.IntN(6)
		}
		if w.rnd.IntN(20) == 0 {
			c.Drop = 1000
		}
		for range w.rnd.IntN(4) {
			c.Items = append(c.Items, w.text())
		}
	default:
		c.Data = w.text()
	}
	return c
}

// line reads a line from the Memory, newest first.
func (w *world) line(thread, space string) (cps []*checkpoint.Checkpoint) {
	for cp, err := range w.mem.List(w.Context(), checkpoint.Query{Thread: thread, Namespace: space}) {
		if err != nil {
			w.Fatal(err)
		}
		cps = append(cps, cp)
	}
	return cps
}

// writes are pending writes; in a Put, each is of another task and kind.
func (w *world) writes(distinct bool) (ws []checkpoint.Write) {
	for range w.rnd.IntN(4) {
		one := checkpoint.Write{Task: w.pick("t", "u", "v\x00\xff"), Kind: checkpoint.WriteKind(w.pick("done", "done", "error", "interrupt", "resume", "other")), Data: w.text()}
		if distinct && slices.ContainsFunc(ws, func(o checkpoint.Write) bool { return o.Task == one.Task && o.Kind == one.Kind }) {
			continue
		}
		ws = append(ws, one)
	}
	return ws
}

func (w *world) put() *checkpoint.Put {
	p := &checkpoint.Put{Key: checkpoint.Key{Thread: w.thread(), Namespace: w.space(), ID: w.id()}, Step: w.rnd.IntN(50) - 1,
		Source: checkpoint.Source(w.pick("input", "loop", "update", "fork", "other")), RunID: w.pick("", "r1", "r2", "r3", "0190a6e2-6f3b-7000-8000-00000000000"+w.pick("1", "2"))}
	if m := w.pick("", `{"user":"ada"}`, `{"user":"bob","n":1}`); m != "" {
		p.Metadata = json.RawMessage(m)
	}
	line := w.line(p.Thread, p.Namespace)
	if len(line) > 0 {
		p.Head, p.Parent = line[0].ID, line[0].ID
		switch w.rnd.IntN(10) {
		case 0, 1: // a fork
			p.Parent = line[w.rnd.IntN(len(line))].ID
		case 2: // from the beginning
			if w.rnd.IntN(3) == 0 {
				p.Parent = checkpoint.ID{}
			}
		}
	}
	for range w.rnd.IntN(5) {
		p.Changes = append(p.Changes, w.change())
	}
	if len(line) > 0 && w.rnd.IntN(2) == 0 { // what the parent's control says
		p.Changes = append(p.Changes, checkpoint.Change{Channel: "list", Version: 7, List: true, Items: [][]byte{line[0].Control}})
	}
	if w.rnd.IntN(5) == 0 {
		p.Pending = w.writes(true)
	}
	switch w.rnd.IntN(4) {
	case 0:
		p.Control = w.text()
	case 2: // an input, often
		p.Control = fmt.Appendf(nil, `{"start":%s, "next": %d}`, bytes.Repeat(w.text(), 2), w.tick)
	case 1:
		p.Control = []byte(`{"next":["a"]}`)
	}
	p.Fence = w.epoch[p.Thread]
	switch w.rnd.IntN(40) {
	case 0:
		p.Head = w.id()
	case 1:
		p.Parent = w.id()
	case 2:
		p.ID = checkpoint.ID{}
	case 3:
		p.ID = p.Head
	case 4:
		p.Fence -= min(1, p.Fence)
	case 5:
		p.Fence++
	}
	return p
}

// do runs one operation on both and compares how it went.
func (w *world) do(what string, op func(both) (int, error)) {
	w.Helper()
	h := w.rnd.IntN(len(w.handles))
	w.log = append(w.log, fmt.Sprintf("handle %d: %s", h, what))
	wantN, want := op(w.mem)
	gotN, got := op(w.handles[h])
	for _, sentinel := range []error{checkpoint.ErrConflict, checkpoint.ErrFenced, checkpoint.ErrNotFound} {
		if errors.Is(want, sentinel) != errors.Is(got, sentinel) {
			w.fatal("the database says %v, memory %v", got, want)
		}
	}
	if (want == nil) != (got == nil) || wantN != gotN {
		w.fatal("the database says %d, %v; memory %d, %v", gotN, got, wantN, want)
	}
}

func (w *world) fatal(format string, args ...any) {
	w.Helper()
	w.Fatalf(format+"\nafter %s", append(args, strings.Join(w.log, "\n"))...)
}

func (w *world) step() {
	ctx := w.Context()
	switch n := w.rnd.IntN(100); {
	case n < 70:
		p := w.put()
		w.do(fmt.Sprintf("put %q %q %s after %s, head %s, fence %d, run %q", p.Thread, p.Namespace, p.ID, p.Parent, p.Head, p.Fence, p.RunID), func(s both) (int, error) {
			return 0, s.Put(ctx, p)
		})
	case n < 84:
		key := checkpoint.Key{Thread: w.thread(), Namespace: w.space()}
		if line := w.line(key.Thread, key.Namespace); len(line) > 0 && w.rnd.IntN(4) > 0 {
			key.ID = line[w.rnd.IntN(len(line))].ID
		}
		ws, fence := w.writes(false), w.epoch[key.Thread]
		switch w.rnd.IntN(20) {
		case 0:
			fence -= min(1, fence)
		case 1:
			fence++
		}
		w.do(fmt.Sprintf("%d writes at %v, fence %d", len(ws), key, fence), func(s both) (int, error) { return 0, s.PutWrites(ctx, key, fence, ws) })
	case n < 88:
		thread := w.thread()
		keep := checkpoint.Retention{KeepLast: w.rnd.IntN(12), KeepInterrupted: w.rnd.IntN(2) == 0}
		if w.rnd.IntN(3) == 0 { // up to the middle between two ids
			keep.MaxAge = time.Since(w.start.Add(time.Duration(w.rnd.IntN(w.tick+1))*time.Minute + 30*time.Second))
		}
		w.do(fmt.Sprintf("prune %q %+v", thread, keep), func(s both) (int, error) { return s.Prune(ctx, thread, keep) })
	case n < 91:
		runs := []string{w.pick("", "r1", "r2", "r3"), "0190a6e2-6f3b-7000-8000-000000000001"}[:1+w.rnd.IntN(2)]
		w.do(fmt.Sprintf("delete runs %q", runs), func(s both) (int, error) { return s.DeleteRuns(ctx, runs...) })
	case n < 94:
		from, to := w.thread(), w.pick("copy", "a", "b")
		if len(w.line(from, "")) == 0 { // a thread of a fence alone is as good as none
			return
		}
		if w.rnd.IntN(2) == 0 {
			w.do("delete copy", func(s both) (int, error) { return 0, s.DeleteThread(ctx, "copy") })
		}
		w.do(fmt.Sprintf("copy %q to %q", from, to), func(s both) (int, error) { return 0, s.CopyThread(ctx, from, to) })
	case n < 96:
		thread := w.thread()
		w.do(fmt.Sprintf("delete %q", thread), func(s both) (int, error) { return 0, s.DeleteThread(ctx, thread) })
	case n < 98:
		thread, epoch := w.thread(), 1+w.rnd.Uint64N(8)
		w.do(fmt.Sprintf("fence %q %d", thread, epoch), func(s both) (int, error) { return 0, s.Fence(ctx, thread, epoch) })
	case n < 99:
		i := w.rnd.IntN(len(w.handles))
		w.log = append(w.log, fmt.Sprintf("reopen handle %d", i))
		if err := w.handles[i].Close(); err != nil {
			w.fatal("close: %v", err)
		}
		w.handles[i] = open(w, w.url, &Options{Schema: w.schema, PoolerSafe: i == 1})
	default: // a burst
		for range 40 {
			line := w.line("a", "")
			p := &checkpoint.Put{Key: checkpoint.Key{Thread: "a", ID: w.id()}, Fence: w.epoch["a"], RunID: "r1",
				Changes: []checkpoint.Change{{Channel: "list", Version: 1, List: true, Items: [][]byte{w.text()}}}}
			if len(line) > 0 {
				p.Parent, p.Head = line[0].ID, line[0].ID
			}
			w.do(fmt.Sprintf("put %s of a burst", p.ID), func(s both) (int, error) { return 0, s.Put(ctx, p) })
		}
	}
	w.learnEpochs()
}

// learnEpochs finds the epochs by what is refused, from the Memory.
func (w *world) learnEpochs() {
	w.epoch = map[string]uint64{}
	for _, thread := range []string{"a", "b", "c\x00\xff", "copy"} {
		for e := uint64(0); ; e++ {
			// Nothing is at this id, so this writes nothing and moves no fence.
			err := w.mem.PutWrites(w.Context(), checkpoint.Key{Thread: thread, ID: checkpoint.ID{1}}, e, nil)
			if !errors.Is(err, checkpoint.ErrFenced) {
				w.epoch[thread] = e
				break
			}
		}
	}
}

// likeness takes what is empty for nil. Bytes are compared as a whole, or it
// would take minutes.
var likeness = cmp.Options{
	cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) }),
	cmp.FilterPath(func(p cmp.Path) bool {
		t := p.Last().Type()
		return t.Kind() != reflect.Slice || t.Elem().Kind() != reflect.Uint8
	}, cmpopts.EquateEmpty()),
}

// compare reads everything from both.
func (w *world) compare() {
	w.Helper()
	ctx := w.Context()
	threads := func(s both) (out []checkpoint.Thread) {
		for th, err := range s.Threads(ctx) {
			if err != nil {
				w.fatal("threads: %v", err)
			}
			th.Bytes = 0 // each counts in its own way
			out = append(out, th)
		}
		return out
	}
	for i, db := range w.handles {
		all := threads(w.mem)
		if d := cmp.Diff(all, threads(db), likeness); d != "" {
			w.fatal("threads of handle %d (-memory +database):\n%s", i, d)
		}
		for _, th := range all {
			for _, space := range []string{"", "node:1", "node:1|child:2"} {
				line := w.line(th.Name, space)
				var got []*checkpoint.Checkpoint
				q := checkpoint.Query{Thread: th.Name, Namespace: space}
				for cp, err := range db.List(ctx, q) {
					if err != nil {
						w.fatal("list: %v", err)
					}
					got = append(got, cp)
				}
				if d := cmp.Diff(line, got, likeness); d != "" {
					w.fatal("line %q %q of handle %d (-memory +database):\n%s", th.Name, space, i, d)
				}
				w.compareQueries(db, q, line)
				for _, want := range line {
					if w.rnd.IntN(3) > 0 {
						continue
					}
					cp, err := db.Get(ctx, want.Key)
					if err != nil {
						w.fatal("get: %v", err)
					}
					if d := cmp.Diff(want, cp, likeness); d != "" {
						w.fatal("checkpoint %v of handle %d (-memory +database):\n%s", want.Key, i, d)
					}
				}
			}
		}
	}
	checkTables(w, w.handles[0])
}

// compareQueries lists with a limit, a bound and a filter.
func (w *world) compareQueries(db *DB, q checkpoint.Query, line []*checkpoint.Checkpoint) {
	w.Helper()
	if len(line) == 0 {
		return
	}
	q.Limit, q.Before = w.rnd.IntN(30), line[w.rnd.IntN(len(line))].ID
	if w.rnd.IntN(2) == 0 {
		q.Metadata = map[string]any{"user": w.pick("ada", "bob", "eve")}
	}
	ids := func(s checkpoint.Saver) (out []checkpoint.ID) {
		for cp, err := range s.List(w.Context(), q) {
			if err != nil {
				w.fatal("list: %v", err)
			}
			out = append(out, cp.ID)
		}
		return out
	}
	if want, got := ids(w.mem), ids(db); !slices.Equal(want, got) {
		w.fatal("list %+v gives %v, want %v", q, got, want)
	}
}

// checkTables checks what the tables promise each other.
func checkTables(t testing.TB, db *DB) {
	t.Helper()
	for what, query := range map[string]string{
		"line whose count or bytes are wrong": `SELECT id FROM {schema}.line l WHERE
			checkpoints<>(SELECT count(*) FROM {schema}.checkpoint WHERE line=l.id) OR
			bytes<>(SELECT coalesce(sum(length(record)+coalesce(length(control),length(echo),0)+coalesce(length(metadata),0)),0) FROM {schema}.checkpoint WHERE line=l.id)
				+(SELECT coalesce(sum(length(data)),0) FROM {schema}.chunk WHERE line=l.id)`,
		"line whose head is not its newest":    `SELECT id FROM {schema}.line l WHERE head IS DISTINCT FROM (SELECT c.id FROM {schema}.checkpoint c WHERE line=l.id ORDER BY c.id DESC LIMIT 1)`,
		"line without a thread":                `SELECT id FROM {schema}.line WHERE thread NOT IN (SELECT id FROM {schema}.thread)`,
		"checkpoint without a line":            `SELECT line FROM {schema}.checkpoint WHERE line NOT IN (SELECT id FROM {schema}.line)`,
		"chunk without a line":                 `SELECT line FROM {schema}.chunk WHERE line NOT IN (SELECT id FROM {schema}.line)`,
		"pending write without its checkpoint": `SELECT line FROM {schema}.pending p WHERE NOT EXISTS (SELECT FROM {schema}.checkpoint c WHERE c.line=p.line AND c.id=p.id)`,
		"checkpoint without its run": `SELECT c.line FROM {schema}.checkpoint c JOIN {schema}.line l ON l.id=c.line
			WHERE c.run IS NOT NULL AND NOT EXISTS (SELECT FROM {schema}.run r WHERE r.thread=l.thread AND r.id=c.run)`,
		"run without a thread":           `SELECT id FROM {schema}.run WHERE thread NOT IN (SELECT id FROM {schema}.thread)`,
		"chain that was never given out": `SELECT line FROM {schema}.chunk k WHERE chain>=(SELECT next FROM {schema}.line l WHERE l.id=k.line)`,
		"item whose record is not the current one": `SELECT i.seq FROM {schema}.store_item i WHERE NOT EXISTS (SELECT FROM {schema}.store_record r WHERE r.seq=i.seq AND r.name=i.name AND r.kind=1
			AND NOT EXISTS (SELECT FROM {schema}.store_record n WHERE n.name=r.name AND n.key=r.key AND n.seq>r.seq))`,
		"current record without its item": `SELECT r.seq FROM {schema}.store_record r WHERE r.kind=1 AND NOT EXISTS (SELECT FROM {schema}.store_item i WHERE i.seq=r.seq)
			AND NOT EXISTS (SELECT FROM {schema}.store_record n WHERE n.name=r.name AND n.key=r.key AND n.seq>r.seq)`,
		"life without a record":   `SELECT seq FROM {schema}.store_life WHERE seq NOT IN (SELECT seq FROM {schema}.store_record)`,
		"vector without a record": `SELECT seq FROM {schema}.store_vector WHERE seq NOT IN (SELECT seq FROM {schema}.store_record)`,
		"record that is over without its end, or the other way round": `SELECT r.seq FROM {schema}.store_record r LEFT JOIN {schema}.store_life l ON l.seq=r.seq
			WHERE (l.ended IS NULL)<>EXISTS (SELECT FROM {schema}.store_item i WHERE i.seq=r.seq)`,
		"vector of an item with the wrong name": `SELECT v.seq FROM {schema}.store_vector v LEFT JOIN {schema}.store_item i ON i.seq=v.seq WHERE v.name IS DISTINCT FROM i.name`,
		"number that was never given out":       `SELECT seq FROM {schema}.store_record WHERE seq>(SELECT seq FROM {schema}.store_state)`,
		"run that no checkpoint is of": `SELECT r.id FROM {schema}.run r
			WHERE NOT EXISTS (SELECT FROM {schema}.checkpoint c JOIN {schema}.line l ON l.id=c.line WHERE l.thread=r.thread AND c.run=r.id)`,
	} {
		var id int64
		err := db.pool.QueryRow(t.Context(), strings.ReplaceAll(query, "{schema}", db.quoted)).Scan(&id)
		if err == nil {
			t.Errorf("there is a %s: %d", what, id)
		} else if !errors.Is(err, pgx.ErrNoRows) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	checkGarbage(t, db)
}

// checkGarbage looks for chunks beyond what any checkpoint of the line needs.
func checkGarbage(t testing.TB, db *DB) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), db.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(t.Context(), "SELECT id FROM "+db.quoted+".line")
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		r := &remover{db, t.Context(), tx}
		for _, line := range lines {
			live, err := r.liveChunks(line)
			if err != nil {
				return err
			}
			rows, err := tx.Query(t.Context(), db.sql.chunkPlaces, line)
			if err != nil {
				return err
			}
			var chain, seq int64
			_, err = pgx.ForEachRow(rows, []any{&chain, &seq}, func() error {
				if hi, ok := live[chain]; !ok || seq > hi {
					t.Errorf("nothing needs chunk %d of chain %d in line %d", seq, chain, line)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
