package ledger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Page selects a part of a sorted list.
type Page struct {
	SortBy        string // the JSON name of a field; "" means created_at
	Ascending     bool
	Offset, Limit int // a Limit of 0 means no limit
	// Ahead limits how many matches after the page are counted, if the list is sorted by
	// creation time and has a Limit; 0 means no limit. A total that reaches that far is a lower
	// bound. Counting all matches takes time proportional to the number of rows.
	Ahead int
}

// errEnough stops the iteration over rows.
var errEnough = errors.New("ledger: enough rows read")

// cut returns the elements of a sorted list that are on the page.
func cut[T any](list []T, p Page) []T {
	list = list[min(max(p.Offset, 0), len(list)):]
	if p.Limit > 0 {
		list = list[:min(p.Limit, len(list))]
	}
	return list
}

// has reports whether the element at index i of the sorted list is on the page.
func (p Page) has(i int) bool {
	return i >= p.Offset && (p.Limit <= 0 || i < p.Offset+p.Limit)
}

// listing describes how to list objects of one kind.
type listing[T any] struct {
	query  Query
	filter *Filter
	// plain is set if every row selected by the query and the filter's terms belongs to the
	// list, so rows can be counted without decoding them.
	plain  bool
	decode func(*Row) (T, error)
	match  func(T) (bool, error)
	id     func(T) uuid.UUID
	fields map[string]func(a, b T) int
}

// list returns a page of the matching rows, and the number of all matches.
func list[T any](ctx context.Context, b Backend, s *listing[T], p Page) (page []T, total int, err error) {
	compare, ok := s.fields[p.SortBy]
	byCreation := p.SortBy == "" || p.SortBy == "created_at"
	if !ok && !byCreation {
		return nil, 0, fmt.Errorf("ledger: cannot sort by %q", p.SortBy)
	}
	s.query.Order = NewestFirst
	if p.Ascending && byCreation {
		s.query.Order = OldestFirst
	}
	err = eachRow(ctx, b, s.query, filterTerms(s.filter), func(r *Row) error {
		if byCreation && p.Ahead > 0 && p.Limit > 0 && total >= p.Offset+p.Limit+p.Ahead {
			return errEnough
		}
		if s.plain && byCreation && !p.has(total) {
			total++
			return nil
		}
		v, err := s.decode(r)
		if err != nil {
			return err
		}
		if ok, err := s.match(v); !ok || err != nil {
			return err
		}
		if !byCreation || p.has(total) {
			page = append(page, v)
		}
		total++
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err != nil || byCreation {
		return page, total, err
	}
	slices.SortFunc(page, func(a, b T) int {
		if !p.Ascending {
			a, b = b, a
		}
		ia, ib := s.id(a), s.id(b)
		return cmp.Or(compare(a, b), bytes.Compare(ia[:], ib[:]))
	})
	return cut(page, p), total, nil
}

// eachRow calls do for each row of a query that has the given terms, or moreTerm instead, in
// the query's order. The order must be by creation.
func eachRow(ctx context.Context, b Backend, q Query, terms []uint64, do func(*Row) error) error {
	var large []*Row
	if len(terms) > 0 {
		other := q
		other.Terms = append(slices.Clip(q.Terms), moreTerm)
		for r, err := range b.Find(ctx, &other) {
			if err != nil {
				return err
			}
			large = append(large, r)
		}
		q.Terms = append(slices.Clip(q.Terms), terms...)
	}
	for r, err := range b.Find(ctx, &q) {
		if err != nil {
			return err
		}
		for len(large) > 0 && precedes(large[0], r, q.Order) {
			if err := do(large[0]); err != nil {
				return err
			}
			large = large[1:]
		}
		if err := do(r); err != nil {
			return err
		}
	}
	for _, r := range large {
		if err := do(r); err != nil {
			return err
		}
	}
	return nil
}

// precedes reports whether row a comes before row b.
func precedes(a, b *Row, o Order) bool {
	if o == NewestFirst {
		a, b = b, a
	}
	return cmp.Or(a.Created.Compare(b.Created), bytes.Compare(a.ID[:], b.ID[:])) < 0
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// compareTimes orders nil before any time.
func compareTimes(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return a.Compare(*b)
}
