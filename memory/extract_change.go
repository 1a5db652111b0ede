package memory

import "encoding/json"

// Op is the kind of a change.
type Op string

// The kinds of changes.
const (
	Insert Op = "insert"
	Update Op = "update"
	Delete Op = "delete"
	Keep   Op = "keep"
)

// Change is a change of one document.
type Change struct {
	Op   Op     `json:"op"`
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Before is the content before the change; nil for an Insert. After is the content
	// after it; nil for a Delete. For Keep they are equal.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	// Patch has the edits of an Update.
	Patch []PatchOp `json:"patch,omitempty"`
	// Reason is the model's reason for an Update.
	Reason string `json:"reason,omitempty"`
	// Confidence is how sure the model is of an Insert or Update, from 0 to 1.
	// Importance is how much the document will matter later, from 0 to 1. They are nil
	// if the model did not give them: see [ExtractOptions].Rate.
	Confidence *float64 `json:"confidence,omitempty"`
	Importance *float64 `json:"importance,omitempty"`
	// Validity is the time for which the document is true; see [ExtractOptions].Rate.
	Validity Validity `json:"validity,omitzero"`
}

// ChangeSet has one change for each existing document, in their order, and then one
// for each new document. It is a proposal: nothing is stored yet.
type ChangeSet []Change

// Documents returns the documents as they are after the changes.
func (cs ChangeSet) Documents() []Document {
	var out []Document
	for _, c := range cs {
		if c.Op != Delete {
			out = append(out, Document{ID: c.ID, Kind: c.Kind, Content: c.After, Validity: c.Validity})
		}
	}
	return out
}

// Changed returns the changes other than Keep.
func (cs ChangeSet) Changed() ChangeSet {
	var out ChangeSet
	for _, c := range cs {
		if c.Op != Keep {
			out = append(out, c)
		}
	}
	return out
}
