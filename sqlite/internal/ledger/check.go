package ledger

import (
	"fmt"

	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// mayNotBe contains queries that must return no rows.
var mayNotBe = map[string]string{
	"body without a ledger row": "SELECT row FROM server_body WHERE row NOT IN (SELECT seq FROM server_row)",
	"term without a ledger row": "SELECT t.created FROM server_term t WHERE NOT EXISTS (SELECT 1 FROM server_row r WHERE r.kind=t.kind AND r.id=t.id AND r.created=t.created)",
}

// Check reads and verifies every row of the ledger, if the file has one, and checks
// that its terms are indexed.
func Check(c *database.Conn) error {
	if has, err := hasTables(c); !has || err != nil {
		return err
	}
	if err := c.NoneOf(mayNotBe); err != nil {
		return err
	}
	var terms [][]any
	err := c.Each("SELECT "+rowColumns+rowBody+" FROM server_row r LEFT JOIN server_body b ON b.row=r.seq", nil, func(scan func(...any) error) error {
		r, err := scanRow(scan, true)
		if err != nil {
			return err
		}
		for _, t := range r.Terms {
			terms = append(terms, []any{int64(r.Kind), int64(t), micros(r.Created), r.ID[:]})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range terms {
		var kind int
		ok, err := c.Row("SELECT kind FROM server_term WHERE kind=? AND term=? AND created=? AND id=?", t, &kind)
		if err == nil && !ok {
			err = fmt.Errorf("%w: ledger row of kind %d, ID %x: missing from the term index", database.ErrDamaged, t[0], t[3])
		}
		if err != nil {
			return err
		}
	}
	var n int
	if _, err := c.Row("SELECT count(*) FROM server_term", nil, &n); err != nil {
		return err
	}
	if n != len(terms) {
		return fmt.Errorf("%w: ledger has %d index terms, want %d", database.ErrDamaged, n, len(terms))
	}
	return c.Each("SELECT thread, run, first, last, data, sum FROM server_event", nil, func(scan func(...any) error) error {
		_, err := scanEvents(scan)
		return err
	})
}
