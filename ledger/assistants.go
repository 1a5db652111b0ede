package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// AssistantQuery selects assistants.
type AssistantQuery struct {
	Filter
	Graph string
	Name  string // a substring of the name, ignoring case
	Page
}

// assistantDoc is the document in an assistant's row.
type assistantDoc struct {
	*Assistant
	Top int `json:"top,omitempty"` // the greatest version so far
}

func graphTerm(graph string) uint64 { return term("graph", graph) }

func decodeAssistant(r *Row) (*assistantDoc, error) {
	d := &assistantDoc{Assistant: &Assistant{}}
	if err := json.Unmarshal(r.Doc, d); err != nil {
		return nil, fmt.Errorf("ledger: decode assistant %s: %w", r.ID, err)
	}
	return d, nil
}

func (d *assistantDoc) put(tx Tx) error {
	doc, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("ledger: encode assistant %s: %w", d.ID, err)
	}
	return tx.Put(&Row{
		Kind: Assistants, ID: d.ID, Created: d.Created, Doc: doc,
		Terms: metadataTerms([]uint64{graphTerm(d.Graph)}, d.Metadata),
	})
}

// versionID returns the row ID of a version of an assistant.
func versionID(assistant uuid.UUID, version int) uuid.UUID {
	return uuid.NewSHA1(assistant, []byte("version "+strconv.Itoa(version)))
}

// putVersion stores the assistant as its current version.
func (d *assistantDoc) putVersion(tx Tx) error {
	v := *d.Assistant
	v.Created, v.Updated = tx.Now(), time.Time{}
	doc, err := json.Marshal(&v)
	if err != nil {
		return fmt.Errorf("ledger: encode assistant %s: %w", d.ID, err)
	}
	return tx.Put(&Row{Kind: Versions, ID: versionID(d.ID, d.Version), Parent: d.ID, Created: v.Created, Doc: doc})
}

// CreateAssistant stores an assistant as version 1 and sets its times, and its ID if it is
// zero. It returns ErrExists if the ID is taken.
func (l *Ledger) CreateAssistant(ctx context.Context, a *Assistant) error {
	made := *a
	if made.ID == uuid.Nil {
		id, err := newID()
		if err != nil {
			return err
		}
		made.ID = id
	}
	err := l.b.Update(ctx, made.ID, func(tx Tx) error {
		if r, err := tx.Get(Assistants, made.ID); r != nil || err != nil {
			return cmp.Or(err, exists("assistant", made.ID))
		}
		made.Version = 1
		made.Created, made.Updated = tx.Now(), tx.Now()
		d := &assistantDoc{Assistant: &made, Top: 1}
		return cmp.Or(d.put(tx), d.putVersion(tx))
	})
	if err == nil {
		*a = made
	}
	return err
}

// Assistant returns an assistant. It returns ErrNotFound if the assistant does not exist or the
// filter rejects it.
func (l *Ledger) Assistant(ctx context.Context, id uuid.UUID, f *Filter) (*Assistant, error) {
	r, err := l.b.Get(ctx, Assistants, id)
	if err != nil {
		return nil, err
	}
	d, err := seenAssistant(r, id, f)
	if err != nil {
		return nil, err
	}
	d.doc = r.Doc
	return d.Assistant, nil
}

// Recall is like [Ledger.Assistant], but returns a cached assistant if possible. The assistant
// may have been changed or deleted since; [Ledger.CreateRun] detects that for [NewRun].As. The
// caller must not modify the result.
func (l *Ledger) Recall(ctx context.Context, id uuid.UUID, f *Filter) (*Assistant, error) {
	if a := l.assistants.get(id); a != nil && f.Match(a.Metadata) {
		return a, nil
	}
	a, err := l.Assistant(ctx, id, f) // the filter may accept the current version
	if err == nil {
		l.assistants.put(a.ID, a, len(a.doc))
	}
	return a, err
}

// unchanged returns ErrStale if an assistant has changed since it was read.
func unchanged(tx Tx, a *Assistant) error {
	r, err := tx.Get(Assistants, a.ID)
	if err == nil && (r == nil || !bytes.Equal(r.Doc, a.doc)) {
		err = fmt.Errorf("%w: %s", ErrStale, a.ID)
	}
	return err
}

// seenAssistant decodes a row. It returns ErrNotFound if the row is nil or the filter rejects
// it.
func seenAssistant(r *Row, id uuid.UUID, f *Filter) (*assistantDoc, error) {
	if r == nil {
		return nil, notFound("assistant", id)
	}
	d, err := decodeAssistant(r)
	if err != nil {
		return nil, err
	}
	if !f.Match(d.Metadata) {
		return nil, notFound("assistant", id)
	}
	return d, nil
}

// Assistants returns a page of the matching assistants, and the number of all matches.
func (l *Ledger) Assistants(ctx context.Context, q *AssistantQuery) (page []*Assistant, total int, err error) {
	s := &listing[*Assistant]{
		query:  Query{Kind: Assistants},
		filter: &q.Filter,
		plain:  q.Filter.empty() && q.Name == "",
		decode: func(r *Row) (*Assistant, error) {
			d, err := decodeAssistant(r)
			if err != nil {
				return nil, err
			}
			return d.Assistant, nil
		},
		match: func(a *Assistant) (bool, error) {
			return (q.Graph == "" || a.Graph == q.Graph) && has(a.Name, q.Name) && q.Match(a.Metadata), nil
		},
		id: func(a *Assistant) uuid.UUID { return a.ID },
		fields: map[string]func(a, b *Assistant) int{
			"assistant_id": func(a, b *Assistant) int { return compareIDs(a.ID, b.ID) },
			"graph_id":     func(a, b *Assistant) int { return strings.Compare(a.Graph, b.Graph) },
			"name":         func(a, b *Assistant) int { return strings.Compare(a.Name, b.Name) },
			"updated_at":   func(a, b *Assistant) int { return a.Updated.Compare(b.Updated) },
		},
	}
	if q.Graph != "" {
		s.query.Terms = []uint64{graphTerm(q.Graph)}
	}
	return list(ctx, l.b, s, q.Page)
}

// updateAssistant changes an assistant in a transaction.
func (l *Ledger) updateAssistant(ctx context.Context, id uuid.UUID, f *Filter, change func(Tx, *assistantDoc) error) (*Assistant, error) {
	var d *assistantDoc
	err := l.b.Update(ctx, id, func(tx Tx) error {
		r, err := tx.Get(Assistants, id)
		if err != nil {
			return err
		}
		if d, err = seenAssistant(r, id, f); err != nil {
			return err
		}
		created := d.Created
		if err := change(tx, d); err != nil {
			return err
		}
		d.ID, d.Created, d.Updated = id, created, tx.Now()
		return d.put(tx)
	})
	if err != nil {
		return nil, err
	}
	return d.Assistant, nil
}

// PatchAssistant calls change with a copy of the assistant and stores the result as
// the next version. change may be called more than once.
func (l *Ledger) PatchAssistant(ctx context.Context, id uuid.UUID, f *Filter, change func(*Assistant) error) (*Assistant, error) {
	return l.updateAssistant(ctx, id, f, func(tx Tx, d *assistantDoc) error {
		if err := change(d.Assistant); err != nil {
			return err
		}
		d.Top++
		d.ID, d.Version = id, d.Top
		return d.putVersion(tx)
	})
}

// SetLatest makes an earlier version of an assistant the current one. It returns ErrNotFound if
// the version does not exist.
func (l *Ledger) SetLatest(ctx context.Context, id uuid.UUID, f *Filter, version int) (*Assistant, error) {
	return l.updateAssistant(ctx, id, f, func(tx Tx, d *assistantDoc) error {
		r, err := tx.Get(Versions, versionID(id, version))
		if err != nil {
			return err
		}
		if r == nil {
			return fmt.Errorf("%w: version %d of assistant %s", ErrNotFound, version, id)
		}
		old, err := decodeAssistant(r)
		if err != nil {
			return err
		}
		old.Created = d.Created
		d.Assistant = old.Assistant
		return nil
	})
}

// Versions returns the versions of an assistant, newest first. The filter's Auth applies to the
// assistant, and its Contains to the versions.
func (l *Ledger) Versions(ctx context.Context, id uuid.UUID, f *Filter, p Page) ([]*Assistant, error) {
	if f == nil {
		f = &Filter{}
	}
	if _, err := l.Assistant(ctx, id, &Filter{Auth: f.Auth}); err != nil {
		return nil, err
	}
	versions := &Filter{Contains: f.Contains}
	var found []*Assistant
	for r, err := range l.b.Find(ctx, &Query{Kind: Versions, Parent: id}) {
		if err != nil {
			return nil, err
		}
		d, err := decodeAssistant(r)
		if err != nil {
			return nil, err
		}
		if versions.Match(d.Metadata) {
			found = append(found, d.Assistant)
		}
	}
	slices.SortFunc(found, func(a, b *Assistant) int { return cmp.Compare(b.Version, a.Version) })
	return cut(found, p), nil
}

// DeleteAssistant deletes an assistant, its versions, and its crons. It keeps the assistant's
// runs and threads.
func (l *Ledger) DeleteAssistant(ctx context.Context, id uuid.UUID, f *Filter) error {
	return l.b.Update(ctx, id, func(tx Tx) error {
		r, err := tx.Get(Assistants, id)
		if err != nil {
			return err
		}
		if _, err := seenAssistant(r, id, f); err != nil {
			return err
		}
		if err := deleteAll(tx, &Query{Kind: Versions, Parent: id}); err != nil {
			return err
		}
		if err := deleteAll(tx, &Query{Kind: Crons, Terms: []uint64{assistantTerm(id)}}); err != nil {
			return err
		}
		l.assistants.forget(id)
		return tx.Delete(Assistants, id)
	})
}

// deleteAll deletes the rows that a query selects.
func deleteAll(tx Tx, q *Query) error {
	rows, err := tx.Find(q)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := tx.Delete(r.Kind, r.ID); err != nil {
			return err
		}
	}
	return nil
}

func assistantTerm(id uuid.UUID) uint64 { return term("assistant", string(id[:])) }
