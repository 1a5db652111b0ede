// Package memtest tests which memories a memory manager keeps from conversations.
//
// A [Case] is written in Go or in a JSON file. It consists of the initial memories, the
// conversations (sessions), and checks of the resulting memories.
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
// [Load] reads such files, and [Run] runs them under go test, without a network: the
// model's responses are part of the case, and the store is in memory. The results show how
// a change to the manager, its kinds, or recall affects memories:
//
//	func TestMemories(t *testing.T) {
//		cases, err := memtest.Load("testdata/*.json")
//		if err != nil {
//			t.Fatal(err)
//		}
//		memtest.Run(t, cases, &memtest.Options{Manager: newManager})
//	}
//
// A session without answers calls the model of the [Options], which lets you compare
// prompts and models. Use an llmtest.Cassette to record and replay its responses.
//
// A session can also be an operation other than a conversation: consolidation, block edits,
// erasing the user, or moving the user's memories to another store by export and import. A
// session can take place in a store branch; see [Session].
//
// An answer can call the kinds by name, with a document as the arguments, and PatchDoc,
// RemoveDoc, and Done; see memory.Extract, and memory.ExtractOptions for ratings.
//
// The [Report] contains measurements: recall@k, the number of tokens per recall, and the
// durations of reflection and recall.
package memtest
