package database

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"
)

// scrubPage is the number of pages that are scrubbed per transaction, while other writers
// wait.
const scrubPage = 1024

// Scrub writes zeros over the unused parts of all pages and truncates the log. It waits
// for readers of older states.
func (db *DB) Scrub(ctx context.Context, patience time.Duration) error {
	for from := int64(1); ; from += scrubPage {
		more := false
		err := db.Write(ctx, func(c *Conn) (err error) {
			more, err = c.scrubPages(from, from+scrubPage-1)
			return err
		})
		if err != nil {
			return fmt.Errorf("sqlite: scrub %s: %w", db.Path, err)
		}
		if !more {
			break
		}
	}
	if err := db.CutLog(ctx, patience); err != nil {
		return fmt.Errorf("sqlite: scrub %s: %w", db.Path, err)
	}
	return nil
}

// scrubPages writes zeros over the unused parts of a range of pages. It reports whether
// the file has more pages after them.
func (c *Conn) scrubPages(from, to int64) (more bool, err error) {
	var pages, reserved int64
	if _, err := c.Row("PRAGMA page_count", nil, &pages); err != nil {
		return false, err
	}
	if pages >= maxScrubbed {
		return false, fmt.Errorf("file has %d pages, and Scrub supports %d: run VACUUM instead", pages, maxScrubbed)
	}
	var first []byte
	if _, err := c.Row("SELECT data FROM sqlite_dbpage WHERE pgno=1", nil, &first); err != nil {
		return false, err
	}
	if len(first) < fileHeader {
		return false, fmt.Errorf("%w: first page has %d bytes", ErrDamaged, len(first))
	}
	reserved = int64(first[20])
	changed := map[int64][]byte{}
	err = c.Each("SELECT pgno, data FROM sqlite_dbpage WHERE pgno BETWEEN ? AND ?", []any{from, min(to, pages)}, func(scan func(...any) error) error {
		var number int64
		var page []byte
		if err := scan(&number, &page); err != nil {
			return err
		}
		if zeroUnused(page, number == 1, len(page)-int(reserved)) {
			changed[number] = page
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	for number, page := range changed {
		if _, err := c.Change("UPDATE sqlite_dbpage SET data=? WHERE pgno=?", page, number); err != nil {
			return false, err
		}
	}
	return to < pages, nil
}

// For the file format, see https://sqlite.org/fileformat2.html, section 1.6.
const (
	fileHeader = 100 // size of the file header at the start of the first page
	// Pages other than B-tree pages begin with a page number, whose first byte is less
	// than 2 in a file with fewer pages than this.
	maxScrubbed = 2 << 24
)

// zeroUnused writes zeros over the parts of a B-tree page that no cell uses, and reports
// whether it changed any byte. The parameter usable is the number of bytes of the page
// that SQLite uses. Damaged pages are left unchanged.
func zeroUnused(page []byte, first bool, usable int) (changed bool) {
	zero := func(part []byte) {
		for i, b := range part {
			if b != 0 {
				part[i], changed = 0, true
			}
		}
	}
	head := 0
	if first {
		head = fileHeader
	}
	if usable > len(page) || head+12 > usable {
		return false
	}
	at := func(i int) int { return int(binary.BigEndian.Uint16(page[i:])) }
	cells := head + 8
	switch page[head] {
	case 2, 5: // interior pages have one more pointer
		cells += 4
	case 10, 13:
	default:
		return false // an overflow page, a free page, or a page of unknown kind
	}
	begin, end := cells+2*at(head+3), at(head+5)
	if end == 0 {
		end = 1 << 16
	}
	if begin > end || end > usable {
		return false
	}
	// The free blocks among the cells are in ascending order, so this loop terminates.
	for block := at(head + 1); block != 0; {
		next, size := 0, 0
		if block+4 <= usable {
			next, size = at(block), at(block+2)
		}
		if block < end || size < 4 || block+size > usable || next != 0 && next < block+size {
			return false
		}
		zero(page[block+4 : block+size])
		block = next
	}
	zero(page[begin:end])
	return changed
}
