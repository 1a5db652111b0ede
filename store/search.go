package store

import (
	"fmt"
	"slices"
	"strings"
)

// fusionDepth is the minimum Depth of a hybrid search: an item with a low semantic rank
// may still have a high keyword rank.
const fusionDepth = 100

func (p *plan) addSearch(op SearchOp) error {
	if err := op.Prefix.check(true); err != nil {
		return err
	}
	limit, err := bounds(op.Limit, op.Offset, defaultLimit)
	if err != nil {
		return err
	}
	q := &Query{Prefix: slices.Clone(op.Prefix), Limit: limit, Offset: op.Offset, Refresh: p.refreshes(op.NoRefresh), explain: op.Explain}
	if q.filter, err = compile(op.Filter); err != nil {
		return err
	}
	q.hide = len(q.Prefix) == 0
	ranking := op.Ranking
	if err := checkRanking(ranking, p.store.opts.Embedder); err != nil {
		return err
	}
	if strings.TrimSpace(op.Query) != "" {
		p.addQuery(q, op.Query, ranking, op.Document)
	}
	i := len(p.batch.Searches)
	p.batch.Searches = append(p.batch.Searches, q)
	p.finish = append(p.finish, func(r *Results) Result { return Result{Items: itemsOf(q, r.Searches[i])} })
	return nil
}

// addQuery sets the terms and the depth of a query. Its vector is set later, after all
// texts have been embedded.
func (p *plan) addQuery(q *Query, query string, ranking Ranking, document bool) {
	if ranking == Auto {
		ranking = p.store.opts.Ranking
	}
	if ranking == Auto {
		ranking = Keyword
		if p.store.opts.Embedder != nil {
			ranking = Semantic
		}
	}
	if p.queries == nil {
		p.queries = map[*Query]queryText{}
	}
	p.queries[q] = queryText{}
	q.Stamp = p.store.stamp
	if ranking != Semantic {
		p.store.opts.setTerms(q, query)
	}
	if ranking != Keyword {
		_, q.lexical = p.store.opts.Embedder.(lexical)
		q.Depth = q.Limit + q.Offset
		if ranking == Hybrid {
			q.Depth = max(q.Depth, fusionDepth)
		}
		p.queries[q] = p.embedQuery(ends(query, maxEmbeddedQuery), document)
	}
}

// itemsOf returns the items of a search. Without a query, they are ordered from oldest
// to newest.
func itemsOf(q *Query, found []Found) []*Item {
	items := make([]*Item, len(found))
	for i, f := range found {
		items[i] = itemOf(f.Record)
		items[i].Score, items[i].Explanation = f.Ranked.Score, f.Ranked.Explanation
	}
	if q.ByNewest() {
		slices.Reverse(items)
	}
	return items
}

// maxBound is far beyond any practical limit, and adding two such values does not
// overflow.
const maxBound = 1 << 30

func bounds(limit, offset, standard int) (int, error) {
	switch {
	case limit > maxBound || offset > maxBound:
		return 0, &InvalidError{What: "limit", Reason: fmt.Sprintf("%d or offset %d exceeds %d", limit, offset, maxBound)}
	case limit < 0:
		return 0, &InvalidError{What: "limit", Reason: fmt.Sprintf("%d is invalid: want 1 or more, or 0 for %d", limit, standard)}
	case offset < 0:
		return 0, &InvalidError{What: "offset", Reason: fmt.Sprintf("%d is invalid: want 0 or more", offset)}
	case limit == 0:
		return standard, nil
	}
	return limit, nil
}

func (p *plan) addNamespaces(op NamespacesOp) error {
	for _, pattern := range []Namespace{op.Prefix, op.Suffix} {
		if err := pattern.check(true); err != nil {
			return err
		}
	}
	limit, err := bounds(op.Limit, op.Offset, defaultNamespaces)
	if err != nil {
		return err
	}
	if op.MaxDepth < 0 {
		return &InvalidError{What: "max depth", Reason: fmt.Sprintf("%d is invalid: want 1 or more, or 0 for no limit", op.MaxDepth)}
	}
	literal := slices.Clone(op.Prefix)
	if i := slices.Index(literal, "*"); i >= 0 {
		literal = literal[:i]
	}
	i := len(p.batch.Namespaces)
	p.batch.Namespaces = append(p.batch.Namespaces, literal)
	p.finish = append(p.finish, func(r *Results) Result {
		return Result{Namespaces: page(listed(r.Namespaces[i], &op.NamespacesOptions), limit, op.Offset)}
	})
	return nil
}

// listed returns the matching namespaces, truncated, sorted, and without duplicates.
func listed(namespaces []Namespace, opts *NamespacesOptions) []Namespace {
	var fit []Namespace
	for _, n := range namespaces {
		if isBranch(n) || len(opts.Prefix) > len(n) || len(opts.Suffix) > len(n) ||
			!fits(n[:len(opts.Prefix)], opts.Prefix) || !fits(n[len(n)-len(opts.Suffix):], opts.Suffix) {
			continue
		}
		if opts.MaxDepth > 0 {
			n = n[:min(opts.MaxDepth, len(n))]
		}
		fit = append(fit, slices.Clone(n))
	}
	slices.SortFunc(fit, func(a, b Namespace) int { return slices.Compare(a, b) })
	return slices.CompactFunc(fit, func(a, b Namespace) bool { return slices.Equal(a, b) })
}

// fits reports whether segments match a pattern of the same length.
func fits(segments, pattern Namespace) bool {
	for i, want := range pattern {
		if want != "*" && want != segments[i] {
			return false
		}
	}
	return true
}

func page[T any](all []T, limit, offset int) []T {
	all = all[min(offset, len(all)):]
	return all[:min(limit, len(all))]
}
