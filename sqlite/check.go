package sqlite

import (
	"fmt"
	"maps"
	"slices"
)

// check reads the whole file and returns an error if anything is wrong. It detects damage
// that reads cannot, because they never see it: a row missing from all lists, or an index
// that does not match its table.
func (c *conn) check() error {
	if err := c.sound(); err != nil {
		return err
	}
	if err := c.complete(); err != nil {
		return err
	}
	if err := c.noneOf(mayNotBe); err != nil {
		return err
	}
	if err := c.checkThreads(); err != nil {
		return err
	}
	if err := c.checkStore(); err != nil {
		return err
	}
	return c.checkLedger()
}

// noneOf returns an error if one of the queries returns a row. The queries are keyed by a
// description of what they look for.
func (c *conn) noneOf(queries map[string]string) error {
	for _, what := range slices.Sorted(maps.Keys(queries)) {
		var id int64
		ok, err := c.row(queries[what], nil, &id)
		if err == nil && ok {
			err = fmt.Errorf("%w: there is a %s: %d", ErrDamaged, what, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// distinct returns an error if two tables or indexes share a root page, because one would
// then be mistaken for the other.
func (c *conn) distinct() error {
	var twice int
	_, err := c.row("SELECT count(rootpage)-count(DISTINCT rootpage) FROM sqlite_schema WHERE rootpage>0", nil, &twice)
	if err == nil && twice != 0 {
		err = fmt.Errorf("%w: a table is in the place of another", ErrDamaged)
	}
	return err
}

// sound runs SQLite's integrity check.
func (c *conn) sound() error {
	var verdict string
	_, err := c.row("PRAGMA integrity_check(1)", nil, &verdict)
	if err == nil && verdict != "ok" {
		err = fmt.Errorf("%w: %s", ErrDamaged, verdict)
	}
	return err
}

// Subqueries for the current records of all keys, and for those that are items.
const (
	currentRecords = "(SELECT max(seq) seq FROM store_record WHERE key<>x'' GROUP BY space, key)"
	itemRecords    = "(SELECT r.seq, r.space, r.words, r.stamp FROM " + currentRecords + " m JOIN store_record r ON r.seq=m.seq WHERE r.kind=1)"
)

// mayNotBe contains queries that must return no rows.
var mayNotBe = map[string]string{
	"line whose count or bytes are wrong": `SELECT id FROM line l WHERE
		count<>(SELECT count(*) FROM checkpoint WHERE key BETWEEN l.id<<32 AND l.id<<32|0xffffffff) OR
		bytes<>(SELECT coalesce(sum(length(record)),0) FROM checkpoint WHERE key BETWEEN l.id<<32 AND l.id<<32|0xffffffff)+(SELECT coalesce(sum(length(data)),0) FROM chunk WHERE line=l.id)`,
	"line without its head":                `SELECT id FROM line l WHERE NOT EXISTS (SELECT 1 FROM checkpoint WHERE key=(l.id<<32|l.at) AND id=l.head)`,
	"line whose head is not its newest":    `SELECT id FROM line l WHERE at<>(SELECT max(key)&0xffffffff FROM checkpoint WHERE key BETWEEN l.id<<32 AND l.id<<32|0xffffffff) OR at>last`,
	"line that should be open":             `SELECT id FROM line l WHERE open=0 AND EXISTS (SELECT 1 FROM pending WHERE checkpoint=(l.id<<32|l.at) AND kind=x'646f6e65')`,
	"number of two threads":                `SELECT id FROM thread GROUP BY id HAVING count(*)>1`,
	"thread or line of a number to come":   `SELECT id FROM thread WHERE id>(SELECT threads FROM meta) UNION ALL SELECT id FROM line WHERE id>(SELECT lines FROM meta)`,
	"line without a thread":                `SELECT id FROM line WHERE thread NOT IN (SELECT id FROM thread)`,
	"checkpoint without a line":            `SELECT key FROM checkpoint WHERE key>>32 NOT IN (SELECT id FROM line)`,
	"checkpoint out of order":              `SELECT a.key FROM checkpoint a JOIN checkpoint b ON b.key=(SELECT min(key) FROM checkpoint WHERE key>a.key) WHERE a.key>>32=b.key>>32 AND a.id>=b.id`,
	"chunk without a line":                 `SELECT line FROM chunk WHERE line NOT IN (SELECT id FROM line)`,
	"pending write without its checkpoint": `SELECT checkpoint FROM pending WHERE checkpoint NOT IN (SELECT key FROM checkpoint)`,
	"checkpoint without its run":           `SELECT key FROM checkpoint c WHERE run<>0 AND NOT EXISTS (SELECT 1 FROM run WHERE line=c.key>>32 AND run=c.run)`,
	"run without a checkpoint":             `SELECT run FROM run r WHERE NOT EXISTS (SELECT 1 FROM checkpoint WHERE key BETWEEN r.line<<32 AND r.line<<32|0xffffffff AND run=r.run)`,
	"number that was never given out":      `SELECT id FROM line l WHERE EXISTS (SELECT 1 FROM chunk WHERE line=l.id AND chain>=l.next) OR EXISTS (SELECT 1 FROM run WHERE line=l.id AND run>=l.next)`,
	"chunk that is in two rows":            `SELECT a.line FROM chunk a JOIN chunk b ON a.line=b.line AND a.chain=b.chain AND a.seq<b.seq AND a.seq+a.n>b.seq`,

	"record without a namespace":            "SELECT seq FROM store_record WHERE space NOT IN (SELECT id FROM store_space)",
	"life of nothing":                       "SELECT seq FROM store_life WHERE seq NOT IN (SELECT seq FROM store_record)",
	"item that has ended":                   "SELECT seq FROM store_life WHERE ended IS NOT NULL AND seq IN (SELECT seq FROM " + itemRecords + ")",
	"record of the past that has not ended": "SELECT seq FROM store_record WHERE seq NOT IN (SELECT seq FROM " + itemRecords + ") AND seq NOT IN (SELECT seq FROM store_life WHERE ended IS NOT NULL)",
	"item that is not listed at all":        "SELECT seq FROM " + itemRecords + " WHERE seq NOT IN (SELECT seq FROM store_under WHERE space=0)",
	"item that is not in its namespace":     "SELECT seq FROM " + itemRecords + " i WHERE NOT EXISTS (SELECT 1 FROM store_key WHERE space=i.space AND seq=i.seq)",
	"item that is not under its namespace":  "SELECT seq FROM " + itemRecords + " i WHERE NOT EXISTS (SELECT 1 FROM store_under WHERE space=-i.space AND seq=i.seq)",
	"item that is not under those above it": `SELECT i.seq FROM ` + itemRecords + ` i JOIN store_space n ON n.id=i.space JOIN store_space s ON length(s.name)<length(n.name) AND substr(n.name,1,length(s.name))=s.name
		WHERE NOT EXISTS (SELECT 1 FROM store_under WHERE space=-s.id AND seq=i.seq)`,
	"listing of what is no item":          "SELECT seq FROM store_under WHERE seq NOT IN (SELECT seq FROM " + itemRecords + ")",
	"key of what is no item":              "SELECT seq FROM store_key WHERE seq NOT IN (SELECT seq FROM " + itemRecords + ")",
	"listing in no namespace":             "SELECT seq FROM store_under WHERE space<>0 AND -space NOT IN (SELECT id FROM store_space)",
	"vector of nothing":                   "SELECT seq FROM store_vector WHERE seq NOT IN (SELECT seq FROM store_record)",
	"vector of an item that is history":   "SELECT seq FROM store_vector WHERE id<0 AND seq IN (SELECT seq FROM " + itemRecords + ")",
	"vector of history that is an item's": "SELECT seq FROM store_vector WHERE id>0 AND seq NOT IN (SELECT seq FROM " + itemRecords + ")",
	"vector with another stamp":           "SELECT v.seq FROM store_vector v JOIN store_record r ON r.seq=v.seq WHERE v.stamp IS NOT r.stamp",

	"namespace for nothing": "SELECT id FROM store_space s WHERE NOT EXISTS (SELECT 1 FROM store_record r JOIN store_space n ON n.id=r.space WHERE substr(n.name,1,length(s.name))=s.name) AND EXISTS (SELECT 1 FROM store_under WHERE space=-s.id)",
}

// checkThreads reads and verifies every row of every thread.
func (c *conn) checkThreads() error {
	threads, err := c.names("thread", "name")
	if err != nil {
		return err
	}
	for tid, name := range threads {
		if _, _, err := c.threadRow(name); err != nil {
			return inThread(name, err)
		}
		lines, err := c.lines(tid)
		if err != nil {
			return err
		}
		for _, l := range lines {
			if err := c.checkLine(l); err != nil {
				return inThread(name, err)
			}
		}
	}
	shapes, err := c.names("shape", "names")
	if err != nil {
		return err
	}
	for id := range shapes {
		if _, err := c.namesOf(id); err != nil {
			return err
		}
	}
	return nil
}

// names returns a column of a table, by row ID.
func (c *conn) names(table, column string) (map[int64]string, error) {
	names := map[int64]string{}
	err := c.each("SELECT id, "+column+" FROM "+table, nil, func(scan func(...any) error) error {
		var id int64
		var name string
		err := scan(&id, &name)
		names[id] = name
		return err
	})
	return names, err
}

func (c *conn) checkLine(l lineRow) error {
	h, err := c.verifyLine(l.id)
	if err != nil {
		return err
	}
	if err := c.audit(h); err != nil {
		return err
	}
	needed, err := c.liveChunks(l.id)
	if err != nil {
		return err
	}
	loader := newLoader(c, l.id)
	for chain, hi := range needed {
		if err := loader.fetch(chain, hi); err != nil {
			return err
		}
	}
	shapes := map[int64]bool{}
	err = c.each("SELECT "+storedColumns+" FROM checkpoint WHERE key>? AND key<=?", []any{keyOf(l.id, 0), keyOf(l.id, maxOrdinal)}, func(scan func(...any) error) error {
		r, err := c.scanStored(scan)
		if err == nil {
			shapes[r.m.Shape] = true
		}
		return err
	})
	for shape := range shapes {
		if err == nil {
			_, err = c.namesOf(shape)
		}
	}
	if err != nil {
		return err
	}
	var runs []int64
	err = c.each("SELECT run FROM run WHERE line=?", []any{l.id}, func(scan func(...any) error) error {
		var run int64
		err := scan(&run)
		runs = append(runs, run)
		return err
	})
	if err != nil {
		return err
	}
	for _, run := range runs {
		if _, err := c.runRow(l.id, run); err != nil {
			return err
		}
	}
	return c.each("SELECT checkpoint, task, kind, data, sum FROM pending WHERE checkpoint>? AND checkpoint<=?", []any{keyOf(l.id, 0), keyOf(l.id, maxOrdinal)}, func(scan func(...any) error) error {
		var key int64
		var task string
		var kind, data []byte
		var sum sum
		if err := scan(&key, &task, &kind, &data, &sum); err != nil {
			return err
		}
		if !c.intact(sum, pendingSum(key, task, kind, data)) {
			return changed("what task %q left", task)
		}
		return nil
	})
}

// checkStore reads and verifies every row of the store.
func (c *conn) checkStore() error {
	if _, err := c.lastSeq(); err != nil {
		return err
	}
	if _, _, err := c.storeState(); err != nil {
		return err
	}
	if _, err := c.records("SELECT " + recordColumns + " FROM " + recordTables); err != nil {
		return err
	}
	for table, column := range map[string]string{"store_space": "name", "store_stamp": "text"} {
		err := c.each("SELECT id, "+column+", sum FROM "+table, nil, func(scan func(...any) error) error {
			var id int64
			var name []byte
			var sum sum
			if err := scan(&id, &name, &sum); err != nil {
				return err
			}
			if !c.intact(sum, nameSum(id, name)) {
				return changed("row %d of %s", id, table)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	err := c.each("SELECT r.seq, r.words, r.terms, (SELECT hash FROM store_key k WHERE k.space=r.space AND k.seq=r.seq), r.key FROM store_record r", nil, func(scan func(...any) error) error {
		var seq, hash int64
		var words int
		var terms []byte
		var key string
		if err := scan(&seq, &words, &terms, &hash, &key); err != nil {
			return err
		}
		if hash != 0 && hash != keyHash(key) {
			return fmt.Errorf("%w: record %d of the store is found by another key than %q", ErrDamaged, seq, key)
		}
		_, err := c.openTerms(seq, words, terms)
		return err
	})
	if err != nil {
		return err
	}
	return c.each("SELECT seq, stamp, data, sum FROM store_vector", nil, func(scan func(...any) error) error {
		var seq, stamp int64
		var data []byte
		var sum sum
		if err := scan(&seq, &stamp, &data, &sum); err != nil {
			return err
		}
		if !c.intact(sum, vectorSum(seq, stamp, data)) {
			return changed("the vectors of record %d of the store", seq)
		}
		return nil
	})
}

// ledgerMayNotHave is like mayNotBe, but for the ledger.
var ledgerMayNotHave = map[string]string{
	"body without a row of the ledger": "SELECT row FROM server_body WHERE row NOT IN (SELECT seq FROM server_row)",
	"term without a row of the ledger": "SELECT t.created FROM server_term t WHERE NOT EXISTS (SELECT 1 FROM server_row r WHERE r.kind=t.kind AND r.id=t.id AND r.created=t.created)",
}

// checkLedger reads and verifies every row of the ledger, if the file has one, and checks
// that its terms are indexed.
func (c *conn) checkLedger() error {
	if has, err := c.hasLedger(); !has || err != nil {
		return err
	}
	if err := c.noneOf(ledgerMayNotHave); err != nil {
		return err
	}
	var terms [][]any
	err := c.each("SELECT "+serverColumns+serverBody+" FROM server_row r LEFT JOIN server_body b ON b.row=r.seq", nil, func(scan func(...any) error) error {
		r, err := scanLedgerRow(scan, true)
		if err != nil {
			return err
		}
		for _, t := range r.Terms {
			terms = append(terms, []any{int64(r.Kind), int64(t), ledgerMicros(r.Created), r.ID[:]})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range terms {
		var kind int
		ok, err := c.row("SELECT kind FROM server_term WHERE kind=? AND term=? AND created=? AND id=?", t, &kind)
		if err == nil && !ok {
			err = fmt.Errorf("%w: the row of kind %d and id %x of the ledger is not found by its terms", ErrDamaged, t[0], t[3])
		}
		if err != nil {
			return err
		}
	}
	var n int
	if _, err := c.row("SELECT count(*) FROM server_term", nil, &n); err != nil {
		return err
	}
	if n != len(terms) {
		return fmt.Errorf("%w: the ledger has %d terms, and its rows have %d", ErrDamaged, n, len(terms))
	}
	return c.each("SELECT thread, run, first, last, data, sum FROM server_event", nil, func(scan func(...any) error) error {
		_, err := scanEvents(scan)
		return err
	})
}
