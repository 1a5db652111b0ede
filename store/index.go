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
func (s *Store) indexes(w *Write, o *PutOptions) ([]text, error) {
	switch {
	case o.NoIndex && o.Index != nil:
		return nil, fmt.Errorf("has paths and NoIndex: they exclude each other")
	case o.NoIndex:
		w.Indexed.Paths = noPaths
	case o.Index != nil:
		if len(o.Index) == 0 {
			return nil, fmt.Errorf("has no paths: set NoIndex to hide an item from queries")
		}
		for _, p := range o.Index {
			if _, err := parsePath(p); err != nil {
				return nil, fmt.Errorf("path %.80q %w", p, err)
			}
		}
		raw, err := json.Marshal(o.Index)
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
			return nil, fmt.Errorf("has the note %q of what to index: %w", note, err)
		}
		paths = mustPaths(given)
	}
	return textsOf(value, paths)
}

// index embeds all texts of the plan in one call and adds the results to its writes and
// queries.
func (p *plan) index(ctx context.Context) error {
	if p.store.opts.Embedder != nil {
		for _, texts := range p.puts {
			for _, t := range texts {
				p.embed.add(t.text)
			}
		}
		if err := p.store.embed(ctx, &p.embed); err != nil {
			return err
		}
	}
	for i, texts := range p.puts {
		w := &p.batch.Writes[i].Indexed
		*w = p.store.indexed(w.Paths, texts, &p.embed)
	}
	for q, query := range p.queries {
		if query != "" {
			q.Vector = p.embed.vectors[query]
		}
	}
	return nil
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
