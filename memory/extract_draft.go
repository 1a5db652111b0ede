package memory

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
)

// draftSet contains the documents of an extraction. Models refer to them by short IDs (m1,
// m2, …), because long IDs cost tokens and models misspell them.
type draftSet struct {
	drafts []*draft
}

// draft is a document with its old and new content.
type draft struct {
	short    string
	id, kind string
	before   json.RawMessage // nil if new
	now      json.RawMessage // nil if removed
	patch    []PatchOp
	reason   string
	rating   rating
	// held is the old validity, and holds is the new one.
	held, holds Validity
}

func newDraftSet(existing []Document) (*draftSet, error) {
	d := &draftSet{}
	seen := map[string]bool{}
	for _, doc := range existing {
		if doc.ID == "" {
			doc.ID = newID()
		}
		if seen[doc.ID] {
			return nil, fmt.Errorf("memory: duplicate document ID %q", doc.ID)
		}
		seen[doc.ID] = true
		if !json.Valid(doc.Content) {
			return nil, fmt.Errorf("memory: document %q: content is not JSON", doc.ID)
		}
		d.add(&draft{id: doc.ID, kind: doc.Kind, before: doc.Content, now: doc.Content, held: doc.Validity, holds: doc.Validity})
	}
	return d, nil
}

func (d *draftSet) add(w *draft) {
	w.short = fmt.Sprintf("m%d", len(d.drafts)+1)
	d.drafts = append(d.drafts, w)
}

func (d *draftSet) insert(kind string, content json.RawMessage) *draft {
	w := &draft{id: newID(), kind: kind, now: content}
	d.add(w)
	return w
}

// live returns the drafts that have not been removed.
func (d *draftSet) live() []*draft {
	var out []*draft
	for _, w := range d.drafts {
		if w.now != nil {
			out = append(out, w)
		}
	}
	return out
}

// find returns the draft with a short ID. Its error is written for the model.
func (d *draftSet) find(short string) (*draft, error) {
	var ids []string
	for _, w := range d.live() {
		if w.short == strings.TrimSpace(short) {
			return w, nil
		}
		ids = append(ids, w.short)
	}
	if ids == nil {
		return nil, fmt.Errorf("unknown document %q: no documents exist", short)
	}
	return nil, fmt.Errorf("unknown document %q: want one of %s", short, strings.Join(ids, ", "))
}

// twin returns a draft with the same kind and content, or nil. If isNew is set, it
// considers only new drafts.
func (d *draftSet) twin(kind string, content json.RawMessage, isNew bool) *draft {
	for _, w := range d.live() {
		if w.kind == kind && sameJSON(w.now, content) && (w.before == nil || !isNew) {
			return w
		}
	}
	return nil
}

// changes compares the drafts with the existing documents. A document that was inserted and
// then removed is omitted, and a document that was changed and then restored is a Keep.
func (d *draftSet) changes() ChangeSet {
	var out ChangeSet
	for _, w := range d.drafts {
		c := Change{ID: w.id, Kind: w.kind, Before: w.before, After: w.now, Validity: w.holds}
		switch {
		case w.before == nil && w.now == nil:
			continue
		case w.before == nil:
			c.Op = Insert
		case w.now == nil:
			c.Op = Delete
		case sameJSON(w.before, w.now) && w.held == w.holds:
			c.Op, c.After = Keep, w.before
		default:
			c.Op, c.Patch, c.Reason = Update, w.patch, w.reason
		}
		if c.Op == Insert || c.Op == Update {
			c.Confidence, c.Importance = w.rating.confidence, w.rating.importance
		}
		out = append(out, c)
	}
	return out
}

// render renders the documents for the model.
func (d *draftSet) render() string {
	var b strings.Builder
	for _, w := range d.live() {
		fmt.Fprintf(&b, "<document id=%q kind=%q%s>\n%s\n</document>\n", w.short, w.kind, w.holds.attributes(), visible(string(w.now), ' '))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// newID returns a random UUID, the form of a memory's key.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
