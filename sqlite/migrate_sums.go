package sqlite

import "github.com/treadle-go/treadle/internal/saved"

// sumOldRows adds checksums to the rows of an older file that can change later or that
// other rows are found by. The remaining rows are read without a checksum.
func (c *conn) sumOldRows() error {
	type row struct {
		id   int64
		name string
	}
	each := func(table, column string, do func(row) error) error {
		var rows []row
		err := c.each("SELECT id, "+column+" FROM "+table, nil, func(scan func(...any) error) error {
			var r row
			err := scan(&r.id, &r.name)
			rows = append(rows, r)
			return err
		})
		for _, r := range rows {
			if err == nil {
				err = do(r)
			}
		}
		return err
	}
	err := each("thread", "name", func(r row) error {
		var epoch uint64
		if _, err := c.row("SELECT fence FROM thread WHERE id=?", []any{r.id}, &epoch); err != nil {
			return err
		}
		if _, err := c.change("UPDATE thread SET sum=? WHERE id=?", threadSum(r.id, r.name, epoch)&saved.SumMask, r.id); err != nil {
			return err
		}
		return c.addWitness(threadHash(r.name))
	})
	if err != nil {
		return err
	}
	err = each("line", "path", func(r row) error {
		h, err := c.wholeLine(r.id)
		if err != nil {
			return err
		}
		if err := c.updateLineSum(r.id); err != nil {
			return err
		}
		return c.addWitness(lineHash(h.thread, r.name))
	})
	if err != nil {
		return err
	}
	for _, table := range []struct {
		name, column string
		hash         func(string) int64
	}{{"shape", "names", nil}, {"store_space", "name", spaceHash}, {"store_stamp", "text", stampHash}} {
		err := each(table.name, table.column, func(r row) error {
			if _, err := c.change("UPDATE "+table.name+" SET sum=? WHERE id=?", nameSum(r.id, []byte(r.name)), r.id); err != nil || table.hash == nil {
				return err
			}
			return c.addWitness(table.hash(r.name))
		})
		if err != nil {
			return err
		}
	}
	return c.sumOldStore()
}

// sumOldStore does the same for the store.
func (c *conn) sumOldStore() error {
	type item struct {
		space, seq int64
		key        string
	}
	var items []item
	err := c.each("SELECT u.space, u.seq, r.key FROM store_under u JOIN store_record r ON r.seq=u.seq WHERE u.space>0", nil, func(scan func(...any) error) error {
		var i item
		err := scan(&i.space, &i.seq, &i.key)
		items = append(items, i)
		return err
	})
	if err != nil {
		return err
	}
	for _, i := range items {
		if _, err := c.change("INSERT INTO store_key(space,hash,seq) VALUES(?,?,?)", i.space, keyHash(i.key), i.seq); err != nil {
			return err
		}
	}
	if _, err := c.change("DELETE FROM store_under WHERE space>0"); err != nil {
		return err
	}
	var folded, compacted int64
	if _, err := c.row("SELECT folded, compacted FROM store_state", nil, &folded, &compacted); err != nil {
		return err
	}
	return c.setStoreState(folded, compacted)
}
