package memtest

import (
	"encoding/json"
	"time"

	"github.com/treadle-go/treadle/llm"
)

// A Case is a story about memories: what is known, what is talked about, and what
// must be known then. Each case runs on a store of its own, in a time of its own:
// it begins on 5 January 2026 at 9:00 UTC, a minute passes with each memory given
// and a day before each session, unless they say when they take place.
type Case struct {
	Name string `json:"name"`
	// Setup tells the functions of [Options] which of several managers or stores
	// the case is for. Without such functions it must be empty.
	Setup string `json:"setup,omitempty"`
	// Vars are the variables of namespaces; see memory.WithVars. "langgraph_user_id"
	// is "user" unless it is set.
	Vars map[string]string `json:"vars,omitempty"`
	// Given are the memories there are in the beginning.
	Given    []Given   `json:"given,omitempty"`
	Sessions []Session `json:"sessions,omitempty"`
	// Then is what must hold in the end.
	Then Checks `json:"then,omitzero"`
}

// Given is a memory that somebody has stored. What it says is one of Text, Content
// and Value.
type Given struct {
	Key string `json:"key"`
	// Text is that of a memory.Memory.
	Text string `json:"text,omitempty"`
	// Content is that of a document of the Kind.
	Kind    string          `json:"kind,omitempty"`
	Content json.RawMessage `json:"content,omitempty"`
	// Value is stored as it is.
	Value json.RawMessage `json:"value,omitempty"`
	Meta  json.RawMessage `json:"meta,omitempty"`
	At    time.Time       `json:"at,omitzero"`
	// Vars are used in place of the case's, by name.
	Vars map[string]string `json:"vars,omitempty"`
}

// A Session is a conversation that the manager reflects upon.
type Session struct {
	Messages llm.Messages `json:"messages"`
	At       time.Time    `json:"at,omitzero"`
	// Vars are used in place of the case's, by name.
	Vars map[string]string `json:"vars,omitempty"`
	// Answers are those of the model, as they were recorded or as one can imagine
	// them. All of them must be asked for, and no more. Without any, the model of
	// the [Options] answers.
	//
	// Where a call names a document, its json_doc_id may be "~" with a text: the
	// document meant is the one of those shown that says this. So a case does not
	// depend on the order in which memories are recalled.
	Answers []llm.Message `json:"answers,omitempty"`
	// Failure is the error of the model when the answers are used up.
	Failure string `json:"failure,omitempty"`
	// Meanwhile is what others store while the model thinks.
	Meanwhile []Given `json:"meanwhile,omitempty"`
	// Shows are texts that stand in the memories which the model is first shown,
	// Hides texts that do not.
	Shows []string `json:"shows,omitempty"`
	Hides []string `json:"hides,omitempty"`
	// Error is a part of the error that the session must end with. Without one it
	// must end well.
	Error string `json:"error,omitempty"`
	// Changes are what was written, in any order: "insert", "update" and "delete".
	// Nil is not checked; empty says that nothing was.
	Changes []string `json:"changes,omitzero"`
	// Then is what must hold after the session, for the one whose Vars it has.
	Then Checks `json:"then,omitzero"`
}

// Checks are what must hold.
type Checks struct {
	// Contains are memories that there must be, Lacks those that there must not.
	Contains []Pattern `json:"contains,omitempty"`
	Lacks    []Pattern `json:"lacks,omitempty"`
	// Total is how many memories there are; nil is not checked.
	Total   *int      `json:"total,omitempty"`
	AsOf    []Past    `json:"as_of,omitempty"`
	History []History `json:"history,omitempty"`
	Recall  []Recall  `json:"recall,omitempty"`
}

// A Pattern describes memories. All that is set must fit.
type Pattern struct {
	Key  string `json:"key,omitempty"`
	Kind string `json:"kind,omitempty"`
	// Content is a part of the memory's content: of objects the members that are
	// named must fit, arrays and all else must be equal, and null is what is not
	// there.
	Content json.RawMessage `json:"content,omitempty"`
	// Text stands in the content, in the value of one of its members.
	Text string `json:"text,omitempty"`
	// Value is a part of the value as it is stored, and Meta of what is stored
	// beside it.
	Value json.RawMessage `json:"value,omitempty"`
	Meta  json.RawMessage `json:"meta,omitempty"`
	// Count is how many memories must fit. Nil is one or more, or none for Lacks.
	Count *int `json:"count,omitempty"`
}

// Past is what the memories were at some time.
type Past struct {
	At       time.Time `json:"at"`
	Contains []Pattern `json:"contains,omitempty"`
	Lacks    []Pattern `json:"lacks,omitempty"`
	Total    *int      `json:"total,omitempty"`
}

// History is what has become of a memory.
type History struct {
	// Key is that of the memory; Of describes it if the key is not known, and must
	// fit exactly one of those there are.
	Key string  `json:"key,omitempty"`
	Of  Pattern `json:"of,omitzero"`
	// Versions, newest first, are each a text that stands in the content, or what
	// else has happened: "(deleted)", "(expired)" or "(forgotten)".
	Versions []string `json:"versions"`
}

// Recall is what a memory.Recaller must bring to mind.
type Recall struct {
	// Query is what is said; Messages, if it takes more than one sentence.
	Query    string       `json:"query,omitempty"`
	Messages llm.Messages `json:"messages,omitempty"`
	// Finds are memories of which each must be among the first K (or anywhere, if
	// that is 0), Omits those that must not be. A Count has no meaning here.
	Finds []Pattern `json:"finds,omitempty"`
	Omits []Pattern `json:"omits,omitempty"`
	K     int       `json:"k,omitempty"`
	// Tokens is how many the block for the prompt may have; 0 is as the options say.
	Tokens int `json:"tokens,omitempty"`
}
