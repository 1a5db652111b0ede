package items

import (
	"fmt"

	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// Subqueries for the current records of all keys, and for those that are items.
const (
	currentRecords = "(SELECT max(seq) seq FROM store_record WHERE key<>x'' GROUP BY space, key)"
	itemRecords    = "(SELECT r.seq, r.space, r.words, r.stamp FROM " + currentRecords + " m JOIN store_record r ON r.seq=m.seq WHERE r.kind=1)"
)

// mayNotBe contains queries that must return no rows.
var mayNotBe = map[string]string{
	"record without a namespace":        "SELECT seq FROM store_record WHERE space NOT IN (SELECT id FROM store_space)",
	"lifetime without a record":         "SELECT seq FROM store_life WHERE seq NOT IN (SELECT seq FROM store_record)",
	"current record marked as ended":    "SELECT seq FROM store_life WHERE ended IS NOT NULL AND seq IN (SELECT seq FROM " + itemRecords + ")",
	"past record not marked as ended":   "SELECT seq FROM store_record WHERE seq NOT IN (SELECT seq FROM " + itemRecords + ") AND seq NOT IN (SELECT seq FROM store_life WHERE ended IS NOT NULL)",
	"unlisted record":                   "SELECT seq FROM " + itemRecords + " WHERE seq NOT IN (SELECT seq FROM store_under WHERE space=0)",
	"record missing from the key index": "SELECT seq FROM " + itemRecords + " i WHERE NOT EXISTS (SELECT 1 FROM store_key WHERE space=i.space AND seq=i.seq)",
	"record unlisted in its namespace":  "SELECT seq FROM " + itemRecords + " i WHERE NOT EXISTS (SELECT 1 FROM store_under WHERE space=-i.space AND seq=i.seq)",
	"record unlisted in a parent namespace": `SELECT i.seq FROM ` + itemRecords + ` i JOIN store_space n ON n.id=i.space JOIN store_space s ON length(s.name)<length(n.name) AND substr(n.name,1,length(s.name))=s.name
		WHERE NOT EXISTS (SELECT 1 FROM store_under WHERE space=-s.id AND seq=i.seq)`,
	"listing of a past or missing record":     "SELECT seq FROM store_under WHERE seq NOT IN (SELECT seq FROM " + itemRecords + ")",
	"indexed key of a past or missing record": "SELECT seq FROM store_key WHERE seq NOT IN (SELECT seq FROM " + itemRecords + ")",
	"listing in a missing namespace":          "SELECT seq FROM store_under WHERE space<>0 AND -space NOT IN (SELECT id FROM store_space)",
	"vector without a record":                 "SELECT seq FROM store_vector WHERE seq NOT IN (SELECT seq FROM store_record)",
	"current record with a past vector":       "SELECT seq FROM store_vector WHERE id<0 AND seq IN (SELECT seq FROM " + itemRecords + ")",
	"past record with a current vector":       "SELECT seq FROM store_vector WHERE id>0 AND seq NOT IN (SELECT seq FROM " + itemRecords + ")",
	"vector with another stamp":               "SELECT v.seq FROM store_vector v JOIN store_record r ON r.seq=v.seq WHERE v.stamp IS NOT r.stamp",

	"unused namespace": "SELECT id FROM store_space s WHERE NOT EXISTS (SELECT 1 FROM store_record r JOIN store_space n ON n.id=r.space WHERE substr(n.name,1,length(s.name))=s.name) AND EXISTS (SELECT 1 FROM store_under WHERE space=-s.id)",
}

// Check reads and verifies every row of the store.
func Check(c *database.Conn) error {
	if err := c.NoneOf(mayNotBe); err != nil {
		return err
	}
	if _, err := lastSeq(c); err != nil {
		return err
	}
	if _, _, err := storeState(c); err != nil {
		return err
	}
	if _, err := readRecords(c, "SELECT "+recordColumns+" FROM "+recordTables); err != nil {
		return err
	}
	for table, column := range map[string]string{"store_space": "name", "store_stamp": "text"} {
		err := c.Each("SELECT id, "+column+", sum FROM "+table, nil, func(scan func(...any) error) error {
			var id int64
			var name []byte
			var sum int64
			if err := scan(&id, &name, &sum); err != nil {
				return err
			}
			if !database.Intact(sum, database.NameSum(id, name)) {
				return database.Changed("row %d of table %s", id, table)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	err := c.Each("SELECT r.seq, r.words, r.terms, (SELECT hash FROM store_key k WHERE k.space=r.space AND k.seq=r.seq), r.key FROM store_record r", nil, func(scan func(...any) error) error {
		var seq, hash int64
		var words int
		var terms []byte
		var key string
		if err := scan(&seq, &words, &terms, &hash, &key); err != nil {
			return err
		}
		if hash != 0 && hash != keyHash(key) {
			return fmt.Errorf("%w: store record %d: key index has another key than %q", database.ErrDamaged, seq, key)
		}
		_, err := openTerms(seq, words, terms)
		return err
	})
	if err != nil {
		return err
	}
	return c.Each("SELECT seq, stamp, data, sum FROM store_vector", nil, func(scan func(...any) error) error {
		var seq, stamp int64
		var data []byte
		var sum int64
		if err := scan(&seq, &stamp, &data, &sum); err != nil {
			return err
		}
		if !database.Intact(sum, vectorSum(seq, stamp, data)) {
			return database.Changed("vectors of store record %d", seq)
		}
		return nil
	})
}
