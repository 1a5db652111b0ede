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

// A Change is a change to one document.
type Change struct {
	Op   Op     `json:"op"`
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Before is the content before the change; nil for an Insert. After is the content
	// after the change; nil for a Delete. They are equal for a Keep.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	// Patch lists the edits of an Update.
	Patch []PatchOp `json:"patch,omitempty"`
	// Reason is the model's reason for an Update.
	Reason string `json:"reason,omitempty"`
	// Confidence is the model's confidence in an Insert or Update, from 0 to 1. Importance
	// is the expected future importance of the document, from 0 to 1. They are nil if the
	// model did not rate the document; see [ExtractOptions].Rate.
	Confidence *float64 `json:"confidence,omitempty"`
	Importance *float64 `json:"importance,omitempty"`
	// Validity is the period during which the document is true; see [ExtractOptions].Rate.
	Validity Validity `json:"validity,omitzero"`
}

// A ChangeSet contains one change for each existing document, in order, followed by one for
// each new document. It is a proposal that is not yet stored.
type ChangeSet []Change

// Documents returns the documents that result from the changes.
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
