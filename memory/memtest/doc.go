// Package memtest tests which memories a memory manager keeps of conversations.
//
// A [Case] is written in Go or in a JSON file. It has the memories that exist at the
// beginning, the conversations (sessions), and the checks of the memories afterwards.
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
// [Load] reads such files and [Run] runs them in go test, without a network: the answers
// of the model are part of the case, and the store is in memory. So you see how a change
// of the manager, of its kinds or of recalling affects memories:
//
//	func TestMemories(t *testing.T) {
//		cases, err := memtest.Load("testdata/*.json")
//		if err != nil {
//			t.Fatal(err)
//		}
//		memtest.Run(t, cases, &memtest.Options{Manager: newManager})
//	}
//
// A session without answers asks the model of the [Options], with which you can compare
// prompts and models. With an llmtest.Cassette, its answers are recorded and replayed.
//
// A session can also be something else than a conversation: a consolidation, edits of
// blocks, erasing the user, or moving the user's memories to another store by an export
// and an import. A session with a branch takes place there; see [Session].
//
// An answer may call the kinds by their names, with a document as the arguments, and
// PatchDoc, RemoveDoc and Done; see memory.Extract, and memory.ExtractOptions for
// ratings.
//
// The [Report] has measurements: recall@k, the tokens of recalled memories, and the times
// of reflecting and recalling.
package memtest
