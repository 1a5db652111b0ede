package memtest

import (
	"encoding/json"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
)

// A Case is a memory test: the initial memories, the conversations, and the checks. Each
// case has its own store and clock. The clock starts on January 5, 2026 at 9:00 UTC. It
// advances by one minute for each given memory and by one day before each session, unless
// these set At.
type Case struct {
	Name string `json:"name"`
	// Setup tells the functions of [Options] which manager or store to create. It must be
	// empty if [Options] sets no such functions.
	Setup string `json:"setup,omitempty"`
	// Vars contains the namespace variables; see memory.WithVars. "langgraph_user_id"
	// defaults to "user".
	Vars map[string]string `json:"vars,omitempty"`
	// Blocks lists the user's memory blocks; see memory.Blocks.
	Blocks []memory.Block `json:"blocks,omitempty"`
	// Given lists the initial memories.
	Given    []Given   `json:"given,omitempty"`
	Sessions []Session `json:"sessions,omitempty"`
	// Then contains the checks at the end.
	Then Checks `json:"then,omitzero"`
}

// Given is a stored memory. Set exactly one of Text, Content, and Value.
type Given struct {
	Key string `json:"key"`
	// Text is the text of a memory.Memory.
	Text string `json:"text,omitempty"`
	// Content is the content of a document of kind Kind.
	Kind    string          `json:"kind,omitempty"`
	Content json.RawMessage `json:"content,omitempty"`
	// Value is stored verbatim.
	Value json.RawMessage `json:"value,omitempty"`
	Meta  json.RawMessage `json:"meta,omitempty"`
	At    time.Time       `json:"at,omitzero"`
	// Vars overrides variables of the case.
	Vars map[string]string `json:"vars,omitempty"`
}

// A Session is a conversation that the manager reflects on. If Consolidate, Edits, or Do is
// set, it is another operation on the memories, and Messages must be empty.
type Session struct {
	Messages llm.Messages `json:"messages,omitempty"`
	// Consolidate, if not nil, makes the manager consolidate its memories with these
	// options. Answers call Merge with ids and a content, and Outdated with id and by, and
	// refer to memories as m1, m2, and so on, oldest first. Changes then covers all change
	// sets.
	Consolidate *memory.ConsolidateOptions `json:"consolidate,omitempty"`
	// Undo immediately reverts the change sets of the consolidation, last first.
	Undo bool `json:"undo,omitempty"`
	// Edits lists the arguments of the model's calls to memory.Blocks.Tool. The first call
	// that fails ends the session with its error.
	Edits []json.RawMessage `json:"edits,omitempty"`
	// Do is "erase", which erases the user in Vars with a memory.Erasure; "move", which
	// exports the user's memories and blocks and imports them into an empty store that the
	// rest of the case uses; or "look", which only checks Then.
	Do string    `json:"do,omitempty"`
	At time.Time `json:"at,omitzero"`
	// Vars overrides variables of the case.
	Vars map[string]string `json:"vars,omitempty"`
	// Answers lists the model's responses, recorded or written by hand. The manager must
	// request exactly these. Without answers, the session uses the model of the [Options].
	//
	// The json_doc_id of a call may be "~" followed by a text. It refers to the document
	// shown to the model that contains the text, so that a case does not depend on the
	// order of the recalled memories.
	Answers []llm.Message `json:"answers,omitempty"`
	// Failure is the error that the model returns after the answers.
	Failure string `json:"failure,omitempty"`
	// Branch, if not empty, is the store branch in which the session takes place; the first
	// session with this name creates the branch. Then checks the memories in the branch.
	// End is "merge" or "discard", applied to the branch after the session, or empty.
	Branch string `json:"branch,omitempty"`
	End    string `json:"end,omitempty"`
	// Meanwhile lists memories that another writer stores during the model call.
	Meanwhile []Given `json:"meanwhile,omitempty"`
	// Shows lists texts that must appear in the memories of the model's first request, and
	// Hides lists texts that must not.
	Shows []string `json:"shows,omitempty"`
	Hides []string `json:"hides,omitempty"`
	// Error is a substring of the error that the session must return; empty means that the
	// session must succeed.
	Error string `json:"error,omitempty"`
	// Changes lists the changes that must be written, in any order: "insert", "update", and
	// "delete". Nil means no check; empty means no changes.
	Changes []string `json:"changes,omitzero"`
	// Then contains the checks after the session, with its Vars.
	Then Checks `json:"then,omitzero"`
}

// Checks describes the expected memories.
type Checks struct {
	// Contains lists memories that must exist, and Lacks lists memories that must not.
	Contains []Pattern `json:"contains,omitempty"`
	Lacks    []Pattern `json:"lacks,omitempty"`
	// Total is the number of memories; nil means no check.
	Total   *int      `json:"total,omitempty"`
	AsOf    []Past    `json:"as_of,omitempty"`
	History []History `json:"history,omitempty"`
	Recall  []Recall  `json:"recall,omitempty"`
	// Blocks maps block labels to their expected texts, which must also appear in the
	// prompt.
	Blocks map[string]string `json:"blocks,omitempty"`
}

// A Pattern describes memories. All fields that are set must match.
type Pattern struct {
	Key  string `json:"key,omitempty"`
	Kind string `json:"kind,omitempty"`
	// Content is a part of the memory's content. Members of an object must match, and other
	// members may exist; arrays and other values must be equal; null matches a missing
	// member.
	Content json.RawMessage `json:"content,omitempty"`
	// Text must occur in a value of the content.
	Text string `json:"text,omitempty"`
	// Value is a part of the stored value, and Meta a part of the item's Meta.
	Value json.RawMessage `json:"value,omitempty"`
	Meta  json.RawMessage `json:"meta,omitempty"`
	// Count is the number of memories that must match. Nil means at least one, or none in
	// Lacks.
	Count *int `json:"count,omitempty"`
}

// Past checks the memories as of an earlier time.
type Past struct {
	At       time.Time `json:"at"`
	Contains []Pattern `json:"contains,omitempty"`
	Lacks    []Pattern `json:"lacks,omitempty"`
	Total    *int      `json:"total,omitempty"`
}

// History checks the versions of a memory.
type History struct {
	// Key is the key of the memory. If the key is unknown, Of describes the memory and must
	// match exactly one.
	Key string  `json:"key,omitempty"`
	Of  Pattern `json:"of,omitzero"`
	// Versions lists the versions, newest first. Each is a text in the content, or
	// "(deleted)", "(expired)", or "(forgotten)".
	Versions []string `json:"versions"`
}

// Recall checks the result of a memory.Recaller.
type Recall struct {
	// Query is the user's message. Use Messages for a longer conversation.
	Query    string       `json:"query,omitempty"`
	Messages llm.Messages `json:"messages,omitempty"`
	// Finds lists memories that must be among the first K recalled, and Omits lists
	// memories that must not. K 0 means all. Count is ignored.
	Finds []Pattern `json:"finds,omitempty"`
	Omits []Pattern `json:"omits,omitempty"`
	K     int       `json:"k,omitempty"`
	// Tokens is the maximum number of tokens in the block; 0 means the value in the
	// options.
	Tokens int `json:"tokens,omitempty"`
}
