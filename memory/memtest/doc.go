// Package memtest tests what a memory manager makes of conversations.
//
// A [Case] is a story, written in Go or in a file: what is known beforehand, the
// sessions that are held, and what must be known then.
//
//	[{
//	  "name": "a move replaces the old home",
//	  "given": [{"key": "home", "text": "Ann lives in Bonn"}],
//	  "sessions": [{
//	    "messages": ["I have moved to Rome!"],
//	    "answers": [{"role": "assistant", "tool_calls": [{"name": "PatchDoc", "args": {
//	      "json_doc_id": "~Bonn", "planned_edits": "she moved",
//	      "patches": [{"op": "replace", "path": "/content", "value": "Ann lives in Rome"}]}}]}]
//	  }],
//	  "then": {
//	    "contains": [{"key": "home", "text": "Rome"}],
//	    "lacks": [{"text": "Bonn"}],
//	    "as_of": [{"at": "2026-01-05T12:00:00Z", "contains": [{"text": "Bonn"}]}],
//	    "recall": [{"query": "Where do I live?", "finds": [{"key": "home"}], "k": 1, "tokens": 100}]
//	  }
//	}]
//
// [Load] reads such files and [Run] tests them in go test, without a network: the
// answers of the model are part of the case, and the store is in memory. So a
// change of the manager, of its kinds or of how memories are recalled shows what
// it does to memories:
//
//	func TestMemories(t *testing.T) {
//		cases, err := memtest.Load("testdata/*.json")
//		if err != nil {
//			t.Fatal(err)
//		}
//		memtest.Run(t, cases, &memtest.Options{Manager: newManager})
//	}
//
// A case whose sessions have no answers asks the model of the [Options]: that is
// how to compare prompts and models. Give it an llmtest.Cassette, and its answers
// are recorded and replayed from then on.
//
// What an answer may call are the kinds, by their names, with a document as the
// arguments; PatchDoc and RemoveDoc, and Done to change nothing; see memory.Extract
// and, for what is said about a document besides, memory.ExtractOptions.
//
// The [Report] has what is measured on the way: recall@k, the tokens of what is
// recalled, and how long reflecting and recalling take.
package memtest
