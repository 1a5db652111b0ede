package store

import (
	"context"
	"encoding/json"
	"fmt"
)

// Indexed.Paths is empty for the store's Fields, noPaths for an item that is not
// indexed, or a JSON array of paths.
const noPaths = "none"

// indexes sets w.Indexed.Paths and returns the texts to index.
func (s *Store) indexes(w *Write, opts *PutOptions) ([]text, error) {
	switch {
	case opts.NoIndex && opts.Index != nil:
		return nil, fmt.Errorf("has both paths and NoIndex: set only one")
	case opts.NoIndex:
		w.Indexed.Paths = noPaths
	case opts.Index != nil:
		if len(opts.Index) == 0 {
			return nil, fmt.Errorf("has no paths: set NoIndex to hide an item from queries")
		}
		for _, p := range opts.Index {
			if _, err := parsePath(p); err != nil {
				return nil, fmt.Errorf("path %.80q %w", p, err)
			}
		}
		raw, err := json.Marshal(opts.Index)
		if err != nil {
			return nil, err
		}
		w.Indexed.Paths = string(raw)
	}
	return s.texts(w.Value, w.Indexed.Paths)
}

// texts returns the texts of a value at the paths that note, an Indexed.Paths, encodes.
func (s *Store) texts(value json.RawMessage, note string) ([]text, error) {
	paths := s.fields
	switch note {
	case "":
	case noPaths:
		return nil, nil
	default:
		var given []string
		if err := json.Unmarshal([]byte(note), &given); err != nil {
			return nil, fmt.Errorf("has invalid paths %q: %w", note, err)
		}
		paths = mustPaths(given)
	}
	return textsOf(value, paths)
}

// index embeds all texts of the plan, in one call unless queries need their own, and adds
// the results to its writes and queries.
func (p *plan) index(ctx context.Context) error {
	if p.store.opts.Embedder != nil {
		for _, texts := range p.puts {
			for _, t := range texts {
				p.embed.add(t.text)
			}
		}
		for _, e := range []*embedding{&p.embed, &p.asked} {
			if err := p.store.embed(ctx, e); err != nil {
				return err
			}
		}
	}
	for i, texts := range p.puts {
		w := &p.batch.Writes[i].Indexed
		*w = p.store.indexed(w.Paths, texts, &p.embed)
	}
	for q, query := range p.queries {
		if query.in != nil {
			q.Vector = query.in.vectors[query.text]
		}
	}
	return nil
}

// queryText is the text of a query, and the embedding that it belongs to, which is nil
// for a query by keywords.
type queryText struct {
	text string
	in   *embedding
}

// embedQuery adds the text of a query to the texts to embed.
func (p *plan) embedQuery(text string, document bool) queryText {
	in := &p.embed
	if _, ok := p.store.opts.Embedder.(QueryEmbedder); ok && !document {
		in = &p.asked
		in.queries = true
	}
	in.add(text)
	return queryText{text, in}
}

// indexed returns the index entry of a record with the given texts.
func (s *Store) indexed(note string, texts []text, e *embedding) Indexed {
	x := Indexed{Paths: note}
	if note == noPaths {
		return x
	}
	x.Stamp = s.stamp
	x.Terms = s.opts.termsOf(texts)
	if s.opts.Embedder != nil {
		for _, t := range texts {
			x.Vectors = append(x.Vectors, Vector{t.field, e.vectors[t.text]})
		}
	}
	return x
}
