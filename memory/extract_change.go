package memory

import "encoding/json"

// An Op says what a change does.
type Op string

// The changes there are.
const (
	Insert Op = "insert"
	Update Op = "update"
	Delete Op = "delete"
	Keep   Op = "keep"
)

// A Change is what is to become of one document.
type Change struct {
	Op   Op     `json:"op"`
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Before is nil for an Insert, After for a Delete; of what is kept they are
	// the same.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	// Patch is how an Update came about.
	Patch []PatchOp `json:"patch,omitempty"`
	// Reason is what the model gave as the reason of an Update.
	Reason string `json:"reason,omitempty"`
	// Confidence is how sure the model is of an Insert or Update, and Importance
	// how much it will matter later, from 0 to 1. They are nil if it did not say:
	// see [ExtractOptions].Rate.
	Confidence *float64 `json:"confidence,omitempty"`
	Importance *float64 `json:"importance,omitempty"`
	// Validity is when the document holds from now on; see [ExtractOptions].Rate.
	Validity Validity `json:"validity,omitzero"`
}

// A ChangeSet has one change for each document there was, in their order, then
// those that are new. It is a proposal: nothing is written anywhere.
type ChangeSet []Change

// Documents is what there is once the changes are made.
func (cs ChangeSet) Documents() []Document {
	var out []Document
	for _, c := range cs {
		if c.Op != Delete {
			out = append(out, Document{ID: c.ID, Kind: c.Kind, Content: c.After, Validity: c.Validity})
		}
	}
	return out
}

// Changed is the set without what is kept.
func (cs ChangeSet) Changed() ChangeSet {
	var out ChangeSet
	for _, c := range cs {
		if c.Op != Keep {
			out = append(out, c)
		}
	}
	return out
}
