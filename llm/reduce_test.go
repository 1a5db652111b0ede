package llm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/reduce"
)

func human(id, text string) llm.Message {
	return llm.Message{Role: llm.RoleHuman, ID: id, Content: text}
}

// short returns a conversation as "id:text" for each message.
func short(ms llm.Messages) string {
	parts := make([]string, len(ms))
	for i, m := range ms {
		parts[i] = m.ID + ":" + m.Content
	}
	return strings.Join(parts, " ")
}

// Parity: 197, 198. Of 198 our way: providers' forms are made by their adapters, and a node streams a message by returning it.
func TestReduceMergesByID(t *testing.T) {
	old := llm.Messages{human("1", "a"), human("2", "b"), human("3", "c")}
	for _, test := range []struct {
		name   string
		update llm.Messages
		want   string
	}{
		{"nothing", nil, "1:a 2:b 3:c"},
		{"append", llm.Messages{human("4", "d")}, "1:a 2:b 3:c 4:d"},
		{"replace in place", llm.Messages{human("2", "B")}, "1:a 2:B 3:c"},
		{"replace and append", llm.Messages{human("4", "d"), human("1", "A")}, "1:A 2:b 3:c 4:d"},
		{"remove", llm.Messages{llm.Remove("2")}, "1:a 3:c"},
		{"remove several", llm.Messages{llm.Remove("1"), llm.Remove("3")}, "2:b"},
		{"remove twice", llm.Messages{llm.Remove("1"), llm.Remove("1")}, "2:b 3:c"},
		{"remove and append", llm.Messages{llm.Remove("1"), human("4", "d")}, "2:b 3:c 4:d"},
		{"remove and put back", llm.Messages{llm.Remove("2"), human("2", "B")}, "1:a 2:B 3:c"},
		{"replace and remove", llm.Messages{human("2", "B"), llm.Remove("2")}, "1:a 3:c"},
		{"append and remove", llm.Messages{human("4", "d"), llm.Remove("4")}, "1:a 2:b 3:c"},
		{"the same id twice", llm.Messages{human("4", "d"), human("4", "D")}, "1:a 2:b 3:c 4:D"},
		{"remove all", llm.Messages{llm.RemoveAll()}, ""},
		{"remove all and start over", llm.Messages{llm.RemoveAll(), human("1", "x"), human("9", "y")}, "1:x 9:y"},
		{"what comes before remove-all goes too", llm.Messages{human("8", "w"), llm.RemoveAll(), human("9", "y")}, "9:y"},
		{"the last remove-all counts", llm.Messages{llm.RemoveAll(), human("8", "w"), llm.RemoveAll(), human("9", "y")}, "9:y"},
		{"remove after remove-all", llm.Messages{llm.RemoveAll(), human("8", "w"), human("9", "y"), llm.Remove("8")}, "9:y"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := short(old)
			got, err := old.Reduce(test.update)
			if err != nil {
				t.Fatal(err)
			}
			if short(got) != test.want {
				t.Errorf("the conversation is %q, want %q", short(got), test.want)
			}
			if short(old) != before {
				t.Errorf("the old conversation is now %q", short(old))
			}
			if cap(got) != len(got) {
				t.Errorf("capacity for %d more messages: an append would write into the shared array", cap(got)-len(got))
			}
		})
	}
}

// Parity: 197.
func TestReduceRejectsRemovalOfUnknownID(t *testing.T) {
	for name, update := range map[string]llm.Messages{
		"unknown":          {llm.Remove("9")},
		"after remove-all": {llm.RemoveAll(), llm.Remove("1")},
	} {
		got, err := (llm.Messages{human("1", "a")}).Reduce(update)
		if err == nil || !strings.Contains(err.Error(), "cannot be removed") || got != nil {
			t.Errorf("%s: got %v, %v; want an error that says it cannot be removed", name, got, err)
		}
	}
}

// Parity: 197.
func TestReduceGivesIDs(t *testing.T) {
	update := llm.Messages{llm.User("a"), llm.User("a"), human("x", "b"), llm.User("a")}
	first, err := llm.Messages{llm.User("old")}.Reduce(update)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, m := range first {
		ids[m.ID] = true
	}
	if len(ids) != 5 || ids[""] || first[3].ID != "x" {
		t.Errorf("the ids are %v, want five different ones, x among them", ids)
	}
	again, err := llm.Messages{llm.User("old")}.Reduce(update)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the same update again", first, again)
	if update[0].ID != "" {
		t.Error("the caller's own message was changed")
	}
	other, err := llm.Messages{llm.User("old")}.Reduce(llm.Messages{llm.User("b")})
	if err != nil || other[1].ID == first[1].ID {
		t.Errorf("two branches gave different messages the same id %s (%v)", other[1].ID, err)
	}
}

// A place that was taken, freed and is taken again gets another id while the old
// message is still there.
func TestReduceAssignsUniqueIDs(t *testing.T) {
	ms, err := llm.Messages{human("q", "q"), human("c", "c")}.Reduce(llm.Messages{llm.User("x")})
	if err != nil {
		t.Fatal(err)
	}
	made := ms[2].ID
	// Now [made, c]: a new x would be third after c, like the first x.
	moved := llm.Messages{ms[2], human("c", "c")}
	got, err := moved.Reduce(llm.Messages{llm.User("x")})
	if err != nil || len(got) != 3 || got[2].ID == made {
		t.Errorf("the conversation is %q (%v), want a third message with an id of its own", short(got), err)
	}
}

// The engine's way to merge gives what Reduce gives, whatever was done to other
// versions of the conversation before.
func TestEngineReducerMatchesReduce(t *testing.T) {
	type version struct {
		val  llm.Messages
		acc  any
		want string
	}
	rapid.Check(t, func(t *rapid.T) {
		r := llm.Messages(nil).Reducer()
		versions := []version{{}}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			v := versions[len(versions)-1]
			if rapid.IntRange(0, 3).Draw(t, "fork") == 0 {
				v = rapid.SampledFrom(versions).Draw(t, "version")
			}
			var update llm.Messages
			for range rapid.IntRange(0, 6).Draw(t, "size") {
				id := rapid.SampledFrom([]string{"", "", "", "a", "b", "c", "d"}).Draw(t, "id")
				m := human(id, rapid.StringMatching(`[xy]{0,2}`).Draw(t, "text"))
				switch rapid.IntRange(0, 12).Draw(t, "kind") {
				case 0:
					m = llm.RemoveAll()
				case 1:
					m = llm.Remove(id)
				}
				update = append(update, m)
			}
			want, wantErr := v.val.Reduce(update)
			var val any = v.val
			if v.val == nil {
				val = nil
			}
			claim := rapid.Bool().Draw(t, "claim")
			got, acc, err := r.Reduce(val, v.acc, update, claim)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("the engine's error is %v, Reduce's is %v", err, wantErr)
			}
			if err != nil {
				continue
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("the engine's conversation (-Reduce +engine):\n%s", d)
			}
			kept := r.(reduce.Rewriter).Kept(v.val, got)
			if d := cmp.Diff(v.val[:kept], got.(llm.Messages)[:kept], cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("%d messages are said to be kept, but:\n%s", kept, d)
			}
			versions = append(versions, version{got.(llm.Messages), acc, short(want)})
			for i, v := range versions {
				if short(v.val) != v.want {
					t.Fatalf("version %d is now %q, want %q", i, short(v.val), v.want)
				}
			}
		}
	})
}

// A saver returns the conversation of the run, even if messages were replaced and removed.
func TestSavedConversationsAreUnchanged(t *testing.T) {
	saver := checkpoint.NewMemory()
	type step struct{ Messages llm.Messages }
	build := func() *treadle.Graph[llm.Chat, llm.Chat] {
		b := treadle.New[llm.Chat]("chat")
		treadle.AddNode(b, "echo", func(_ context.Context, c llm.Chat) (step, error) {
			return step{llm.Messages{llm.Assistant("re: " + c.Messages[len(c.Messages)-1].Content)}}, nil
		})
		b.Edge(treadle.Start, "echo")
		return treadle.Must(b.Compile(&treadle.Options{Saver: saver}))
	}
	ctx := t.Context()
	g := build()
	var last llm.Messages
	for i, update := range []llm.Messages{
		{human("1", "a")}, {human("2", "b")}, {human("1", "A")}, {llm.Remove("2"), human("3", "c")}, {human("4", "d")}, {llm.RemoveAll(), human("5", "e")}, {human("6", "f")},
	} {
		out, err := g.Thread("t").Run(ctx, llm.Chat{Messages: update})
		if err != nil {
			t.Fatal(err)
		}
		last = out.Messages
		snap, err := build().Thread("t").State(ctx) // another process
		if err != nil {
			t.Fatal(err)
		}
		var stored llm.Chat
		if err := snap.Read(&stored); err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprintf("after turn %d", i), last, stored.Messages)
	}
	if got := len(last); got != 4 {
		t.Errorf("the conversation has %d messages, want 4", got)
	}
}

func TestChatIsReadFromJSON(t *testing.T) {
	var c llm.Chat
	if err := json.Unmarshal([]byte(`{"messages": [{"role": "user", "content": "hi"}]}`), &c); err != nil {
		t.Fatal(err)
	}
	same(t, "the chat", llm.Chat{Messages: llm.Messages{llm.User("hi")}}, c)
	raw, err := json.Marshal(llm.Chat{})
	if err != nil || string(raw) != `{"messages":[]}` {
		t.Errorf("an empty chat is %s, %v", raw, err)
	}
}

// Servers show a graph's schema to people, so it must match the JSON that they write.
func TestChatSchemaMatchesJSON(t *testing.T) {
	b := treadle.New[llm.Chat]("chat")
	treadle.AddNode(b, "n", func(context.Context, llm.Chat) (struct{}, error) { return struct{}{}, nil })
	b.Edge(treadle.Start, "n")
	schemas, err := treadle.Must(b.Compile(nil)).Schemas()
	if err != nil {
		t.Fatal(err)
	}
	r, err := schemas.Input.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(llm.Chat{Messages: llm.Messages{llm.User("hi", llm.ImageURL("u")), calls("a"), result("a", "x"), llm.Remove("1"), llm.System("s")}})
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(v); err != nil {
		t.Errorf("%s does not match the schema: %v", raw, err)
	}
	if err := r.Validate(map[string]any{"messages": []any{map[string]any{"Role": "human"}}}); err == nil {
		t.Error("the schema allows Go's own names")
	}
}

// Branches of a conversation are merged at the same time, while others read what
// they share. The race detector checks that no goroutine writes what another reads.
func TestConcurrentForksOfConversation(t *testing.T) {
	r := llm.Messages(nil).Reducer()
	for round := range 50 {
		base, acc, err := r.Reduce(nil, nil, longChat(1+round%9), true)
		if err != nil {
			t.Fatal(err)
		}
		before := short(base.(llm.Messages))
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				val, acc := base, acc
				for k := range 4 {
					update := llm.Messages{human(fmt.Sprintf("branch%d-%d", i, k), "x"), llm.User("y")}
					want, err := val.(llm.Messages).Reduce(update)
					if err != nil {
						t.Error(err)
					}
					if val, acc, err = r.Reduce(val, acc, update, true); err != nil || short(want) != short(val.(llm.Messages)) {
						t.Errorf("branch %d is %q (%v), want %q", i, short(val.(llm.Messages)), err, short(want))
					}
				}
			})
		}
		wg.Wait()
		if short(base.(llm.Messages)) != before {
			t.Fatalf("what they share is now %q", short(base.(llm.Messages)))
		}
	}
}
