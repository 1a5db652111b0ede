package memtest

import (
	"encoding/json"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
)

// Case is a test of memories: the memories at the beginning, the conversations, and
// the checks. Each case has its own store and clock. The clock starts on 5 January
// 2026 at 9:00 UTC. It advances by a minute with each given memory, and by a day
// before each session, unless these set At.
type Case struct {
	Name string `json:"name"`
	// Setup tells the functions of [Options] which manager or store to make. Without such
	// functions it must be empty.
	Setup string `json:"setup,omitempty"`
	// Vars are the variables of namespaces; see memory.WithVars. "langgraph_user_id" is
	// "user" unless it is set.
	Vars map[string]string `json:"vars,omitempty"`
	// Blocks are the memory.Blocks of the user.
	Blocks []memory.Block `json:"blocks,omitempty"`
	// Given are the memories at the beginning.
	Given    []Given   `json:"given,omitempty"`
	Sessions []Session `json:"sessions,omitempty"`
	// Then has the checks at the end.
	Then Checks `json:"then,omitzero"`
}

// Given is a stored memory. Set one of Text, Content and Value.
type Given struct {
	Key string `json:"key"`
	// Text is the text of a memory.Memory.
	Text string `json:"text,omitempty"`
	// Content is the content of a document of the Kind.
	Kind    string          `json:"kind,omitempty"`
	Content json.RawMessage `json:"content,omitempty"`
	// Value is stored as it is.
	Value json.RawMessage `json:"value,omitempty"`
	Meta  json.RawMessage `json:"meta,omitempty"`
	At    time.Time       `json:"at,omitzero"`
	// Vars are used in place of the case's, by name.
	Vars map[string]string `json:"vars,omitempty"`
}

// Session is a conversation that the manager reflects on or, if one of Consolidate,
// Edits and Do is set, something else that happens to the memories. There are no
// Messages then.
type Session struct {
	Messages llm.Messages `json:"messages,omitempty"`
	// Consolidate, if not nil, makes the manager consolidate its memories with these
	// options. Answers call Merge with ids and a content and
	// Outdated with id and by, and name memories as m1, m2 and so on, oldest first.
	// Changes are those of all change sets.
	Consolidate *memory.ConsolidateOptions `json:"consolidate,omitempty"`
	// Undo takes the change sets of the consolidation back at once, the last first.
	Undo bool `json:"undo,omitempty"`
	// Edits are the arguments of the model's calls of memory.Blocks.Tool. The first one that
	// fails ends the session with its error.
	Edits []json.RawMessage `json:"edits,omitempty"`
	// Do is "erase", which erases the user of the Vars with a memory.Erasure; "move", which
	// exports the memories and blocks of the user and imports them into an empty store, with
	// which the case goes on; or "look", which only checks Then.
	Do string    `json:"do,omitempty"`
	At time.Time `json:"at,omitzero"`
	// Vars are used in place of the case's, by name.
	Vars map[string]string `json:"vars,omitempty"`
	// Answers are the answers of the model, recorded or written by hand. The manager must
	// ask for exactly these. Without answers, the model of the [Options] is asked.
	//
	// The json_doc_id of a call may be "~" followed by a text. It means the document with
	// that text among those shown to the model, so that a case does not depend on the
	// order in which memories are recalled.
	Answers []llm.Message `json:"answers,omitempty"`
	// Failure is the error that the model returns after the answers.
	Failure string `json:"failure,omitempty"`
	// Branch, if not empty, is the branch of the store in which the session takes place; the
	// first session with this name begins it. Its Then has the checks of the branch. End is
	// what happens to the branch afterwards: "merge", "discard" or nothing.
	Branch string `json:"branch,omitempty"`
	End    string `json:"end,omitempty"`
	// Meanwhile are memories that somebody else stores while the model is working.
	Meanwhile []Given `json:"meanwhile,omitempty"`
	// Shows are texts that must be in the memories of the model's first request, and Hides
	// texts that must not be.
	Shows []string `json:"shows,omitempty"`
	Hides []string `json:"hides,omitempty"`
	// Error is a part of the error that the session must end with; empty means that it must
	// succeed.
	Error string `json:"error,omitempty"`
	// Changes are the changes that must be written, in any order: "insert", "update" and
	// "delete". Nil is not checked; empty means none.
	Changes []string `json:"changes,omitzero"`
	// Then has the checks after the session, with its Vars.
	Then Checks `json:"then,omitzero"`
}

// Checks are checks of memories.
type Checks struct {
	// Contains are memories that must exist, and Lacks those that must not.
	Contains []Pattern `json:"contains,omitempty"`
	Lacks    []Pattern `json:"lacks,omitempty"`
	// Total is the number of memories; nil is not checked.
	Total   *int      `json:"total,omitempty"`
	AsOf    []Past    `json:"as_of,omitempty"`
	History []History `json:"history,omitempty"`
	Recall  []Recall  `json:"recall,omitempty"`
	// Blocks are texts of blocks by their labels. They must be in the prompt, too.
	Blocks map[string]string `json:"blocks,omitempty"`
}

// Pattern describes memories. All fields that are set must match.
type Pattern struct {
	Key  string `json:"key,omitempty"`
	Kind string `json:"kind,omitempty"`
	// Content is a part of the memory's content. The members of an object must match, and
	// others may exist; arrays and other values must be equal; null matches a missing
	// member.
	Content json.RawMessage `json:"content,omitempty"`
	// Text must occur in a value of the content.
	Text string `json:"text,omitempty"`
	// Value is a part of the stored value, and Meta a part of the item's Meta.
	Value json.RawMessage `json:"value,omitempty"`
	Meta  json.RawMessage `json:"meta,omitempty"`
	// Count is how many memories must match. Nil means one or more, or none in Lacks.
	Count *int `json:"count,omitempty"`
}

// Past has checks of the memories at an earlier time.
type Past struct {
	At       time.Time `json:"at"`
	Contains []Pattern `json:"contains,omitempty"`
	Lacks    []Pattern `json:"lacks,omitempty"`
	Total    *int      `json:"total,omitempty"`
}

// History is a check of the versions of a memory.
type History struct {
	// Key is the key of the memory. If it is not known, Of describes the memory, and must
	// match exactly one.
	Key string  `json:"key,omitempty"`
	Of  Pattern `json:"of,omitzero"`
	// Versions are the versions, newest first. Each is a text in the content, or
	// "(deleted)", "(expired)" or "(forgotten)".
	Versions []string `json:"versions"`
}

// Recall is a check of a memory.Recaller.
type Recall struct {
	// Query is the message of the user. Messages are used for a longer conversation.
	Query    string       `json:"query,omitempty"`
	Messages llm.Messages `json:"messages,omitempty"`
	// Finds are memories that must be among the first K recalled, and Omits those that
	// must not be. K 0 means all. Count is ignored.
	Finds []Pattern `json:"finds,omitempty"`
	Omits []Pattern `json:"omits,omitempty"`
	K     int       `json:"k,omitempty"`
	// Tokens is the maximum number of tokens of the block; 0 means that of the options.
	Tokens int `json:"tokens,omitempty"`
}
