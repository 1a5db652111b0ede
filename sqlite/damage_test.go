package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	modernc "modernc.org/sqlite"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/reduce"
	"github.com/treadle-go/treadle/store"
)

// The suite damages copies of one small file, in the ways of a disk and in the
// ways of a program that has no business in the file, and reads all there is.
// Whatever is read is what was stored, or an error that says that the file is
// damaged. What cannot be noticed is in damageUnnoticed, each with its reason.

// damageOnly looks at one case again: the seed of each is its number. (The ids and
// times in the file are others every time.)
var damageOnly = flag.Int64("damage", -1, "the only case of TestDamageIsNeverReadAsData to be looked at")

func TestDamageIsNeverReadAsData(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.db")
	damageFill(t, whole)
	owners := damageOwners(t, whole)
	raw, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	want := damageLook(t.Context(), whole, true, true)
	for what, got := range want {
		if got.err != nil {
			t.Fatalf("before any damage, %s: %v", what, got.err)
		}
	}
	for what, got := range damageLook(t.Context(), damageCopy(t, dir, "again", raw), true, true) { // or all would seem damaged
		if got.text != want[what].text {
			t.Fatalf("without any damage, %s is %q and %q", what, got.text, want[what].text)
		}
	}
	var noticed, harmless, unnoticed atomic.Int64
	var all sync.WaitGroup
	cases := make(chan uint64)
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for seed := range cases {
				path := damageCopy(t, dir, fmt.Sprint(seed), raw)
				d := damageDo(t, rand.New(rand.NewPCG(seed, 1)), path, owners)
				switch lies, saw := d.judge(t.Context(), path, want); {
				case len(lies) > 0:
					t.Errorf("case %d (%s) was not noticed:\n%s", seed, d, strings.Join(lies, "\n"))
				case saw:
					noticed.Add(1)
				case d.allowed:
					unnoticed.Add(1)
				default:
					harmless.Add(1)
				}
				for _, end := range []string{"", "-wal", "-shm", "-journal"} {
					_ = os.Remove(path + end)
				}
			}
		})
	}
	if *damageOnly >= 0 {
		cases <- uint64(*damageOnly)
	} else {
		n := uint64(2000)
		if race.Enabled { // all of them run without it
			n = 200
		}
		for seed := range n {
			cases <- seed
		}
	}
	close(cases)
	all.Wait()
	t.Logf("%d noticed, %d without an effect, %d that cannot be noticed", noticed.Load(), harmless.Load(), unnoticed.Load())
}

// damageState is that of the graphs whose threads are in the file.
type damageState struct {
	Messages reduce.List[string]
	Note     string
}

// damageGraph says each message back; a nested graph asks if the note says so.
func damageGraph(s checkpoint.Saver) (*treadle.Graph[damageState, damageState], error) {
	type note struct{ Note string }
	type messages struct{ Messages reduce.List[string] }
	child := treadle.New[damageState]("child")
	treadle.AddNode(child, "ask", func(ctx context.Context, s damageState) (note, error) {
		if s.Note != "ask" {
			return note{s.Note}, nil
		}
		answer, err := treadle.Interrupt[string](ctx, "what now?")
		return note{answer}, err
	})
	child.Edge(treadle.Start, "ask")
	nested, err := child.Compile(nil)
	if err != nil {
		return nil, err
	}
	b := treadle.New[damageState]("parent")
	treadle.AddNode(b, "say", func(_ context.Context, s damageState) (messages, error) {
		said := s.Messages[len(s.Messages)-1]
		return messages{[]string{"you said " + said}}, nil
	})
	treadle.AddGraph(b, "child", nested)
	b.Edge(treadle.Start, "say")
	b.Edge("say", "child")
	return b.Compile(&treadle.Options{Saver: s})
}

var damageThreads = []string{"plain", "asking", "answered", "pruned", "copy"}

var damagePeople = []string{"ann", "bob"}

func damageStore(db *DB) (*store.Store, error) {
	return db.Store(&store.Options{Fields: []string{"text"}, Embedder: store.NewHashEmbedder(8)})
}

// damageFill makes the file that is damaged.
func damageFill(t *testing.T, path string) {
	t.Helper()
	ctx := t.Context()
	db, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	g, err := damageGraph(db)
	must(err)
	asked := func(err error) error {
		if _, asks := errors.AsType[*treadle.InterruptError](err); asks {
			return nil
		}
		return err
	}
	for _, thread := range damageThreads[:4] {
		for i := range 3 {
			_, err := g.Thread(thread).Run(ctx, damageState{Messages: []string{fmt.Sprint("message ", i, " of ", thread, strings.Repeat(".", 60*i))}})
			must(err)
		}
	}
	for _, thread := range []string{"asking", "answered"} {
		_, err := g.Thread(thread).Run(ctx, damageState{Messages: []string{"one more"}, Note: "ask"})
		must(asked(err))
	}
	_, err = g.Thread("answered").Resume(ctx, "go on")
	must(err)
	_, err = db.Prune(ctx, "pruned", checkpoint.Retention{KeepLast: 3})
	must(err)
	must(db.CopyThread(ctx, "asking", "copy"))
	must(db.Fence(ctx, "answered", 2))
	s, err := damageStore(db)
	must(err)
	for i := range 12 {
		o := &store.PutOptions{}
		if i%3 == 0 {
			o.TTL = 1000 * time.Hour
		}
		must(s.Put(ctx, store.Namespace{"people", damagePeople[i%2]}, fmt.Sprint("key ", i%8), map[string]any{"text": fmt.Sprint("fact number ", i), "n": i}, o))
	}
	must(s.Delete(ctx, store.Namespace{"people", "ann"}, "key 2", nil))
	must(db.Close())
}

// damageOwners says which table or index each page is of.
func damageOwners(t *testing.T, path string) map[int]string {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT pageno, name FROM dbstat")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	owners := map[int]string{}
	for rows.Next() {
		var page int
		var name string
		if err := rows.Scan(&page, &name); err != nil {
			t.Fatal(err)
		}
		owners[page] = name
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return owners
}

func damageCopy(t *testing.T, dir, name string, raw []byte) string {
	path := filepath.Join(dir, name+".db")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Error(err)
	}
	return path
}

// A damage is what was done to a file.
type damage struct {
	what    string
	of      []string // the tables and indexes that it is in
	allowed bool     // it was not noticed, for a reason
}

func (d *damage) String() string { return d.what }

const damagePage = 4096

// damageDo damages a file.
func damageDo(t *testing.T, rnd *rand.Rand, path string, owners map[int]string) *damage {
	if rnd.IntN(2) == 0 {
		return damageRows(t, rnd, path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return &damage{}
	}
	pages := len(raw) / damagePage
	page := func() int { return rnd.IntN(pages) }
	d := &damage{}
	hit := func(pages ...int) {
		for _, p := range pages {
			d.of = append(d.of, owners[p+1])
		}
	}
	switch rnd.IntN(7) {
	case 0, 1:
		at := rnd.IntN(len(raw))
		raw[at] ^= 1 << rnd.IntN(8)
		d.what = fmt.Sprintf("a bit of byte %d", at)
		hit(at / damagePage)
	case 2:
		at, n := rnd.IntN(len(raw)), 1+rnd.IntN(32)
		for i := at; i < min(at+n, len(raw)); i++ {
			raw[i] = byte(rnd.Uint32())
		}
		d.what = fmt.Sprintf("%d bytes from %d", n, at)
		hit(at/damagePage, min(at+n, len(raw)-1)/damagePage)
	case 3:
		p := page()
		clear(raw[p*damagePage : (p+1)*damagePage])
		d.what = fmt.Sprintf("zeros in page %d", p+1)
		hit(p)
	case 4:
		p, q := page(), page()
		for i := range damagePage {
			raw[p*damagePage+i], raw[q*damagePage+i] = raw[q*damagePage+i], raw[p*damagePage+i]
		}
		d.what = fmt.Sprintf("pages %d and %d swapped", p+1, q+1)
		hit(p, q)
	case 5:
		p, q := page(), page()
		copy(raw[p*damagePage:(p+1)*damagePage], raw[q*damagePage:(q+1)*damagePage])
		d.what = fmt.Sprintf("page %d over page %d", q+1, p+1)
		hit(p, q)
	default:
		n := rnd.IntN(len(raw))
		for p := n / damagePage; p < pages; p++ {
			hit(p)
		}
		raw = raw[:n]
		d.what = fmt.Sprintf("cut to %d bytes", n)
	}
	d.what += fmt.Sprintf(" (of %s)", slices.Compact(slices.Sorted(slices.Values(d.of))))
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Error(err)
	}
	return d
}

// damageRows does what only a program can do.
func damageRows(t *testing.T, rnd *rand.Rand, path string) *damage {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Error(err)
		return &damage{}
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx := t.Context()
	texts := func(query string, args ...any) (all []string) {
		rows, err := db.QueryContext(ctx, query, args...)
		if err != nil {
			t.Error(query, err)
			return nil
		}
		defer rows.Close()
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				t.Error(err)
			}
			all = append(all, text)
		}
		if err := rows.Err(); err != nil {
			t.Error(err)
		}
		return all
	}
	pick := func(of []string) string { return of[rnd.IntN(len(of))] }
	table := pick(texts("SELECT name FROM sqlite_schema WHERE type='table' AND name<>'store_words' AND name NOT IN ('sqlite_stat1') ORDER BY name"))
	d := &damage{of: []string{table}}
	columns := texts("SELECT name FROM pragma_table_info(?) ORDER BY cid", table)
	// A row is named by its place, since some tables have no rowid.
	keys := texts("SELECT name FROM pragma_table_info(?) WHERE pk>0 ORDER BY pk", table)
	id := "rowid"
	if table == "thread" || table == "run" || table == "pending" || table == "store_under" || table == "store_key" || table == "server_term" || table == "store_words_idx" || table == "store_words_config" {
		id = strings.Join(keys, "||'/'||")
	}
	ids := texts("SELECT quote(" + id + ") FROM " + table + " ORDER BY 1")
	query := ""
	switch op := rnd.IntN(10); {
	case op == 0 && !strings.HasPrefix(table, "sqlite_"):
		query = "DROP TABLE " + table
	case op == 1:
		query = "DELETE FROM " + table
	case op == 2:
		if indexes := texts("SELECT name FROM sqlite_schema WHERE type='index' AND sql IS NOT NULL ORDER BY name"); len(indexes) > 0 {
			index := pick(indexes)
			d.of, query = []string{index}, "DROP INDEX "+index
		}
	case len(ids) == 0:
		d.what = "nothing in " + table
		return d
	case op <= 4:
		query = fmt.Sprintf("DELETE FROM %s WHERE %s=%s", table, id, pick(ids))
	case op <= 6: // the contents of two rows
		var set []string
		a, b := pick(ids), pick(ids)
		for _, column := range columns {
			if !slices.Contains(keys, column) {
				set = append(set, column)
			}
		}
		if len(set) == 0 || a == b {
			d.what = "nothing in " + table
			return d
		}
		list := strings.Join(set, ",")
		query = fmt.Sprintf("UPDATE %[1]s SET (%[2]s)=(SELECT %[2]s FROM %[1]s AS o WHERE o.%[3]s=CASE WHEN %[1]s.%[3]s=%[4]s THEN %[5]s ELSE %[4]s END) WHERE %[3]s IN (%[4]s,%[5]s)", table, list, id, a, b)
		if id != "rowid" {
			d.what = "nothing in " + table
			return d
		}
	default:
		column := pick(columns)
		value := pick([]string{"NULL", "0", "1", "12345678901", "x'00ff'", "zeroblob(16)", column + "+1", column + "-1", "substr(" + column + ",2)", fmt.Sprintf("(SELECT %s FROM %s LIMIT 1 OFFSET %d)", column, table, rnd.IntN(len(ids)))})
		query = fmt.Sprintf("UPDATE OR IGNORE %s SET %s=%s WHERE %s=%s", table, column, value, id, pick(ids))
	}
	d.what = query
	if _, err := db.ExecContext(ctx, query); err != nil {
		d.what += " (refused: " + err.Error() + ")" // by a constraint, so nothing has changed
	}
	return d
}

// An observation is something that was read.
type observation struct {
	text string
	err  error
}

// parts says whether threads or the store may be affected by a damage.
func (d *damage) parts() (threads, items bool) {
	for _, of := range d.of {
		switch {
		case strings.HasPrefix(of, "store_"), strings.HasPrefix(of, "sqlite_autoindex_store_"):
			items = true
		case slices.Contains([]string{"", "sqlite_schema", "sqlite_sequence", "witness", "meta"}, of):
			return true, true
		default:
			threads = true
		}
	}
	return threads, items
}

// damageLook reads all that a file has of threads and items, and goes on with it.
func damageLook(ctx context.Context, path string, threads, items bool) map[string]observation {
	seen := map[string]observation{}
	db, err := Open(path, nil)
	if err != nil {
		seen["open"] = observation{err: err}
		return seen
	}
	defer db.Close()
	for range cap(db.conn.Readers) - 1 { // one connection does, and has to prepare everything only once
		c := <-db.conn.Readers
		defer func() { db.conn.Readers <- c }()
	}
	see := func(what string, value any, err error) {
		o := observation{err: err}
		if err == nil {
			raw, e := json.Marshal(value)
			o.text, o.err = string(raw), e
		}
		seen[what] = o
	}
	g, err := damageGraph(db)
	if err != nil {
		seen["graph"] = observation{err: err}
		return seen
	}
	if threads {
		damageLookAtThreads(ctx, db, g, see)
		out, err := g.Thread("plain").Run(ctx, damageState{Messages: []string{"hello"}})
		see("thread plain, continued", out, err)
		out, err = g.Thread("asking").Resume(ctx, "the answer")
		see("thread asking, resumed", out, err)
	}
	if items {
		s, err := damageStore(db)
		if err != nil {
			seen["store"] = observation{err: err}
			return seen
		}
		damageLookAtStore(ctx, db, s, see)
		err = s.Put(ctx, store.Namespace{"people", "bob"}, "key 1", map[string]any{"text": "new"}, nil)
		see("store, put", nil, err)
	}
	return seen
}

func damageLookAtThreads(ctx context.Context, db *DB, g *treadle.Graph[damageState, damageState], see func(string, any, error)) {
	var threads []checkpoint.Thread
	var err error
	for t, e := range db.Threads(ctx) {
		threads, err = append(threads, t), e
	}
	see("threads", threads, err)
	for _, name := range damageThreads {
		var all []*checkpoint.Checkpoint
		err = nil
		for cp, e := range db.List(ctx, checkpoint.Query{Thread: name}) {
			all, err = append(all, cp), e
		}
		see("thread "+name+", list", all, err)
		if name == "asking" {
			state, err := g.Thread(name).State(ctx)
			see("thread "+name+", state", state, err)
		}
		cp, err := db.Get(ctx, checkpoint.Key{Thread: name})
		see("thread "+name+", get", cp, err)
		if err != nil {
			continue
		}
		parent, err := db.Get(ctx, checkpoint.Key{Thread: name, ID: cp.Parent})
		see("thread "+name+", parent", parent, err)
	}
}

func damageLookAtStore(ctx context.Context, db *DB, s *store.Store, see func(string, any, error)) {
	for _, who := range damagePeople {
		n := store.Namespace{"people", who}
		for i := range 8 {
			key := fmt.Sprint("key ", i)
			item, err := s.Get(ctx, n, key, &store.GetOptions{NoRefresh: true})
			if errors.Is(err, store.ErrNotFound) {
				item, err = nil, nil
			}
			see("store, get "+who+" "+key, item, err)
		}
		found, err := s.Search(ctx, n, &store.SearchOptions{NoRefresh: true})
		see("store, list "+who, found, err)
		past, err := s.History(ctx, n, "key 2")
		see("store, past "+who, past, err)
	}
	for what, o := range map[string]*store.SearchOptions{
		"list":   {Limit: 50},
		"filter": {Filter: store.Gt("n", 5), Limit: 50},
		"words":  {Query: "fact number 7", Ranking: store.Keyword, Limit: 50},
		"near":   {Query: "fact number 7", Limit: 50},
	} {
		o.NoRefresh = true // reading is not to change what is read
		found, err := s.Search(ctx, nil, o)
		see("store, "+what, found, err)
	}
	names, err := s.Namespaces(ctx, nil)
	see("store, namespaces", names, err)
	records, _, err := db.items.Changes(ctx, nil, 0, 100)
	see("store, watch", records, err)
}

// damageUnnoticed is what a reader cannot notice, by the tables and indexes that
// are damaged and the beginning of what is read; and whether a check of the whole
// file notices it.
var damageUnnoticed = []struct {
	of, seen string
	checked  bool
	reason   string
}{
	{"pending", "thread", false, "a pending write that is missing is as if the process had ended before it was stored: the task runs again, the question is asked again"},
	{"store_under", "store", true, "a list of items that lacks one is a list all the same; the item is found by its key"},
	{"store_key", "store, get", true, "if the index of keys is damaged too, as when a page of each changed places"},
	{"meta", "thread", true, "a file that seems to have given out all numbers says so, when it needs one more"},
	{"line", "thread plain, continued", true, "the same, where the greatest number is that of a line"},
	{"sqlite_schema", "", true, "a table may be looked for in a part of itself, where the rows that are there are what was stored"},
	{"store_key", "store, namespaces", true, "the same of the items of a namespace"},
	{"store_space", "store, namespaces", true, "a namespace that is missing is noticed by whoever reads one of its items, and a list of names reads none"},
	{"sqlite_autoindex_store_space_1", "store, namespaces", true, "the same, where only its place in the index is missing"},
	{"store_vector", "store, near", false, "vectors help to find an item, and not all items have some: it is found by words, filters and its key, and Reindex makes vectors anew"},
	{"sqlite_autoindex_store_vector_1", "store, near", true, "the same"},
	{"store_record", "store, past", true, "the past of an item may be dropped at any time, so what is missing of it may have been"},
	{"store_record", "store, watch", true, "the same"},
	{"store_record_key", "store, past", true, "the same, where only its place in the index is missing"},
}

// unnoticed returns the place in damageUnnoticed of something that was read, or -1.
func (d *damage) unnoticed(what string) int {
	for i, u := range damageUnnoticed {
		if slices.Contains(d.of, u.of) && strings.HasPrefix(what, u.seen) {
			return i
		}
	}
	return -1
}

// judge looks at a damaged file. It returns what was read that is not so, and
// whether somebody was told of the damage.
func (d *damage) judge(ctx context.Context, path string, want map[string]observation) (lies []string, noticed bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			lies = append(lies, fmt.Sprintf("panic: %v", r))
		}
	}()
	asIs, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}, false
	}
	check := sync.OnceValue(func() error {
		if err := os.WriteFile(path, asIs, 0o600); err != nil {
			return err
		}
		db, err := Open(path, &Options{Check: true})
		if err == nil {
			_ = db.Close()
		}
		return err
	})
	threads, items := d.parts()
	for what, got := range damageLook(ctx, path, threads, items) {
		if got.err != nil {
			noticed = true
			thread, _, isThread := strings.Cut(strings.TrimPrefix(what, "thread "), ",")
			switch {
			case !errors.Is(got.err, ErrDamaged) && !fromSQLite(got.err) && what != "open" && d.unnoticed(what) < 0:
				lies = append(lies, fmt.Sprintf("%s: an error that says nothing of it: %v", what, got.err))
			case isThread && strings.HasPrefix(what, "thread ") && errors.Is(got.err, ErrDamaged) && !strings.Contains(got.err.Error(), thread):
				lies = append(lies, fmt.Sprintf("%s: an error that does not name the thread: %v", what, got.err))
			}
			continue
		}
		if w, ok := want[what]; ok && got.text == w.text {
			continue
		}
		lie := fmt.Sprintf("%s:\n  was %s\n  is  %s", what, want[what].text, got.text)
		at := d.unnoticed(what)
		if at < 0 {
			lies = append(lies, lie)
			continue
		}
		d.allowed = true
		if damageUnnoticed[at].checked && check() == nil {
			lies = append(lies, "a check of the file did not find it either: "+lie)
		}
	}
	return lies, noticed
}

// fromSQLite reports whether err is an error of SQLite.
func fromSQLite(err error) bool {
	_, ok := errors.AsType[*modernc.Error](err)
	return ok
}
