package memory_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
)

// Triple is a fact: a subject, a relation, and an object.
type Triple struct {
	Subject   string  `json:"subject"`
	Predicate string  `json:"predicate"`
	Object    string  `json:"object"`
	Context   *string `json:"context,omitempty"`
}

const aboutTriples = "Store all new facts, preferences and relationships as triples."

func triple(subject, predicate, object string) llm.ToolCall {
	return llmtest.ToolCall("Triple", Triple{Subject: subject, Predicate: predicate, Object: object})
}

func removal(id string) llm.ToolCall {
	return llmtest.ToolCall("RemoveDoc", map[string]string{"json_doc_id": id})
}

// A manager proposes changes of memories after a conversation. The program stores the
// documents where it likes.
//
// Sample: E3.
func Example_triplesWithoutStorage() {
	ctx := context.Background()
	model := llmtest.NewScript(
		llmtest.Ask(triple("Alice", "manages", "ML_team"), triple("Alice", "mentors", "Bob"), triple("Bob", "is_member_of", "ML_team")),
		llmtest.Ask(removal("m1"), triple("Bob", "leads", "ML_team"), triple("Bob", "leads", "NLP_project")),
		llmtest.Ask(removal("m1")),
	)
	manager, err := memory.NewManager(model, &memory.ManagerOptions{
		ExtractOptions: memory.ExtractOptions{Kinds: []memory.Kind{memory.NewKind[Triple](aboutTriples)}, Deletes: true},
		Instructions:   "Extract user preferences and any other useful information",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var known []memory.Document
	for _, said := range []string{
		"Alice manages the ML team and mentors Bob, who is also on the team.",
		"Bob now leads the ML team and the NLP project.",
		"Alice left the company.",
	} {
		changes, err := manager.Reflect(ctx, []llm.Message{llm.User(said)}, known)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(said)
		for _, c := range changes {
			content := c.After
			if c.Op == memory.Delete {
				content = c.Before
			}
			fmt.Printf("  %-6s %s\n", c.Op, content)
		}
		known = changes.Documents()
		fmt.Println("  known:", len(known))
	}

	// Output:
	// Alice manages the ML team and mentors Bob, who is also on the team.
	//   insert {"subject":"Alice","predicate":"manages","object":"ML_team"}
	//   insert {"subject":"Alice","predicate":"mentors","object":"Bob"}
	//   insert {"subject":"Bob","predicate":"is_member_of","object":"ML_team"}
	//   known: 3
	// Bob now leads the ML team and the NLP project.
	//   delete {"subject":"Alice","predicate":"manages","object":"ML_team"}
	//   keep   {"subject":"Alice","predicate":"mentors","object":"Bob"}
	//   keep   {"subject":"Bob","predicate":"is_member_of","object":"ML_team"}
	//   insert {"subject":"Bob","predicate":"leads","object":"ML_team"}
	//   insert {"subject":"Bob","predicate":"leads","object":"NLP_project"}
	//   known: 4
	// Alice left the company.
	//   delete {"subject":"Alice","predicate":"mentors","object":"Bob"}
	//   keep   {"subject":"Bob","predicate":"is_member_of","object":"ML_team"}
	//   keep   {"subject":"Bob","predicate":"leads","object":"ML_team"}
	//   keep   {"subject":"Bob","predicate":"leads","object":"NLP_project"}
	//   known: 3
}
