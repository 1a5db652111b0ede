package sqlite

import (
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/sqlite/internal/items"
	rows "github.com/treadle-go/treadle/sqlite/internal/ledger"
)

// check reads the whole file and returns an error if anything is wrong. It detects damage
// that reads cannot, because they never see it: a row missing from all lists, or an index
// that does not match its table.
func check(c *database.Conn) error {
	if err := c.Sound(); err != nil {
		return err
	}
	if err := complete(c); err != nil {
		return err
	}
	if err := c.NoneOf(mayNotBe); err != nil {
		return err
	}
	if err := checkThreads(c); err != nil {
		return err
	}
	if err := items.Check(c); err != nil {
		return err
	}
	return rows.Check(c)
}

// mayNotBe contains queries that must return no rows.
var mayNotBe = map[string]string{
	"line with wrong counters": `SELECT id FROM line l WHERE
		count<>(SELECT count(*) FROM checkpoint WHERE key BETWEEN l.id<<32 AND l.id<<32|0xffffffff) OR
		bytes<>(SELECT coalesce(sum(length(record)),0) FROM checkpoint WHERE key BETWEEN l.id<<32 AND l.id<<32|0xffffffff)+(SELECT coalesce(sum(length(data)),0) FROM chunk WHERE line=l.id)`,
	"line without its head":                `SELECT id FROM line l WHERE NOT EXISTS (SELECT 1 FROM checkpoint WHERE key=(l.id<<32|l.at) AND id=l.head)`,
	"line with an outdated head":           `SELECT id FROM line l WHERE at<>(SELECT max(key)&0xffffffff FROM checkpoint WHERE key BETWEEN l.id<<32 AND l.id<<32|0xffffffff) OR at>last`,
	"line not marked open":                 `SELECT id FROM line l WHERE open=0 AND EXISTS (SELECT 1 FROM pending WHERE checkpoint=(l.id<<32|l.at) AND kind=x'646f6e65')`,
	"duplicate thread ID":                  `SELECT id FROM thread GROUP BY id HAVING count(*)>1`,
	"thread or line with an unreserved ID": `SELECT id FROM thread WHERE id>(SELECT threads FROM meta) UNION ALL SELECT id FROM line WHERE id>(SELECT lines FROM meta)`,
	"missing row of reserved IDs":          `SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM meta)`,
	"line without a thread":                `SELECT id FROM line WHERE thread NOT IN (SELECT id FROM thread)`,
	"checkpoint without a line":            `SELECT key FROM checkpoint WHERE key>>32 NOT IN (SELECT id FROM line)`,
	"checkpoint out of order":              `SELECT a.key FROM checkpoint a JOIN checkpoint b ON b.key=(SELECT min(key) FROM checkpoint WHERE key>a.key) WHERE a.key>>32=b.key>>32 AND a.id>=b.id`,
	"chunk without a line":                 `SELECT line FROM chunk WHERE line NOT IN (SELECT id FROM line)`,
	"pending write without its checkpoint": `SELECT checkpoint FROM pending WHERE checkpoint NOT IN (SELECT key FROM checkpoint)`,
	"checkpoint without its run":           `SELECT key FROM checkpoint c WHERE run<>0 AND NOT EXISTS (SELECT 1 FROM run WHERE line=c.key>>32 AND run=c.run)`,
	"run without a checkpoint":             `SELECT run FROM run r WHERE NOT EXISTS (SELECT 1 FROM checkpoint WHERE key BETWEEN r.line<<32 AND r.line<<32|0xffffffff AND run=r.run)`,
	"line with an unassigned chain or run": `SELECT id FROM line l WHERE EXISTS (SELECT 1 FROM chunk WHERE line=l.id AND chain>=l.next) OR EXISTS (SELECT 1 FROM run WHERE line=l.id AND run>=l.next)`,
	"chunk in two rows":                    `SELECT a.line FROM chunk a JOIN chunk b ON a.line=b.line AND a.chain=b.chain AND a.seq<b.seq AND a.seq+a.n>b.seq`,
}

// checkThreads reads and verifies every row of every thread.
func checkThreads(c *database.Conn) error {
	threads, err := names(c, "thread", "name")
	if err != nil {
		return err
	}
	for tid, name := range threads {
		if _, _, err := threadRow(c, name); err != nil {
			return inThread(name, err)
		}
		lines, err := linesIn(c, tid)
		if err != nil {
			return err
		}
		for _, l := range lines {
			if err := checkLine(c, l); err != nil {
				return inThread(name, err)
			}
		}
	}
	shapes, err := names(c, "shape", "names")
	if err != nil {
		return err
	}
	for id := range shapes {
		if _, err := namesOf(c, id); err != nil {
			return err
		}
	}
	return nil
}

// names returns a column of a table, by row ID.
func names(c *database.Conn, table, column string) (map[int64]string, error) {
	names := map[int64]string{}
	err := c.Each("SELECT id, "+column+" FROM "+table, nil, func(scan func(...any) error) error {
		var id int64
		var name string
		err := scan(&id, &name)
		names[id] = name
		return err
	})
	return names, err
}

func checkLine(c *database.Conn, l lineRow) error {
	h, err := verifyLine(c, l.id)
	if err != nil {
		return err
	}
	if err := audit(c, h); err != nil {
		return err
	}
	needed, err := liveChunks(c, l.id)
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
	err = c.Each("SELECT "+storedColumns+" FROM checkpoint WHERE key>? AND key<=?", []any{keyOf(l.id, 0), keyOf(l.id, maxOrdinal)}, func(scan func(...any) error) error {
		r, err := scanStored(scan)
		if err == nil {
			shapes[r.m.Shape] = true
		}
		return err
	})
	for shape := range shapes {
		if err == nil {
			_, err = namesOf(c, shape)
		}
	}
	if err != nil {
		return err
	}
	var runs []int64
	err = c.Each("SELECT run FROM run WHERE line=?", []any{l.id}, func(scan func(...any) error) error {
		var run int64
		err := scan(&run)
		runs = append(runs, run)
		return err
	})
	if err != nil {
		return err
	}
	for _, run := range runs {
		if _, err := runRow(c, l.id, run); err != nil {
			return err
		}
	}
	return c.Each("SELECT checkpoint, task, kind, data, sum FROM pending WHERE checkpoint>? AND checkpoint<=?", []any{keyOf(l.id, 0), keyOf(l.id, maxOrdinal)}, func(scan func(...any) error) error {
		var key int64
		var task string
		var kind, data []byte
		var sum int64
		if err := scan(&key, &task, &kind, &data, &sum); err != nil {
			return err
		}
		if !database.Intact(sum, pendingSum(key, task, kind, data)) {
			return database.Changed("pending write of task %q", task)
		}
		return nil
	})
}
