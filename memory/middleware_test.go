package memory_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

type reminded = treadle.Graph[agent.State, agent.State]

func newAgent(t *testing.T, model llm.Model, o memory.MiddlewareOptions, tools ...*llm.Tool) *reminded {
	t.Helper()
	g, err := agent.New(model, &agent.Options{Prompt: "Be kind.", Tools: tools, Middleware: []*agent.Middleware{memory.Middleware(&o)},
		Graph: treadle.Options{Saver: checkpoint.NewMemory()}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// conversed returns the roles and texts of a conversation.
func conversed(ms llm.Messages) (out []string) {
	for _, m := range ms {
		out = append(out, string(m.Role)+": "+m.Text())
	}
	return out
}

func TestAgentRecallsRelevantMemories(t *testing.T) {
	s := newShelf(t, store.Options{})
	s.note("tea", "Ann drinks green tea", nil)
	s.note("bob", "Bob is tall", nil)
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("clock", `{}`)), llmtest.Say("At five."), llmtest.Say("Hello."), llmtest.Say("Yes."))
	clock := llm.NewTool("clock", "", func(context.Context, struct{}) (string, error) { return "Bob says it is four", nil })
	th := newAgent(t, model, memory.MiddlewareOptions{Recall: s.recaller(memory.RecallerOptions{})}, clock).Thread("1")

	var events []string
	turn := func(text string) {
		for ev, err := range th.Stream(t.Context(), agent.Ask(text), treadle.Modes(treadle.ModeCustom)) {
			if err != nil {
				t.Fatal(err)
			}
			if ev, ok := ev.(treadle.Custom); ok {
				events = append(events, strings.Join(recalledKeys(ev.Value.(*memory.Recollection)), " "))
			}
		}
	}
	turn("when do I get tea?")
	var kept agent.State
	if snap, err := th.State(t.Context()); err != nil || snap.Read(&kept) != nil {
		t.Fatalf("%v: %+v", err, snap)
	}
	if d := cmp.Diff([]string{"human: when do I get tea?", "ai: ", "tool: Bob says it is four", "ai: At five."}, conversed(kept.Messages)); d != "" {
		t.Errorf("the conversation that is kept is another (-want +got):\n%s", d)
	}
	turn("hello")
	turn("is Bob there?")

	var systems []string
	for _, req := range model.Requests() {
		systems = append(systems, req.Messages[0].Text())
	}
	if !strings.HasPrefix(systems[0], "Be kind.\n\n<memories_") || !strings.Contains(systems[0], "Ann drinks green tea") || strings.Contains(systems[0], "Bob") {
		t.Errorf("the first system prompt is %s", systems[0])
	}
	if systems[1] != systems[0] {
		t.Errorf("after a tool call the model is reminded of something else: %s", systems[1])
	}
	if systems[2] != "Be kind." {
		t.Errorf("without relevant memories the system prompt is %s", systems[2])
	}
	if d := cmp.Diff([]string{"tea", "bob"}, events); d != "" {
		t.Errorf("the events are others (-want +got):\n%s", d)
	}
	for _, m := range s.recall(memory.RecallerOptions{}, "tea Bob").Memories {
		if m.Why.Uses != 1 {
			t.Errorf("%q was used %d times, want once", m.Item.Key, m.Why.Uses)
		}
	}
}

func TestRecallErrorFailsModelCall(t *testing.T) {
	r, err := memory.NewRecaller(&memory.RecallerOptions{Namespace: memories})
	if err != nil {
		t.Fatal(err)
	}
	_, err = newAgent(t, llmtest.Scripted(t), memory.MiddlewareOptions{Recall: r}).Thread("1").Run(t.Context(), agent.Ask("tea"))
	if !errors.Is(err, store.ErrNoStore) {
		t.Errorf("the error is %v", err)
	}
}

type account struct {
	User string `json:"user"`
}

// The reflector of the process that had the conversation is gone before the
// conversation has settled.
func TestReflectionInAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, nil)
		learner := llmtest.Scripted(t, llmtest.Turn{Message: llm.Assistant("", note("Ann likes tea")), Expect: []func(*llm.Request) error{
			llmtest.Asked("I like tea"), llmtest.Asked("Noted."), llmtest.Asked("And milk?"), llmtest.Asked("Yes, milk.")}})
		m := newStoreManager(t, s, learner, memory.StoreManagerOptions{Namespace: []string{"m", "{user}"}})
		open := func() *memory.Reflector[memory.Session, []memory.ItemChange] {
			r, err := memory.OpenReflector(t.Context(), s, pendingWork, m.ReflectOn, nil)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		first := open()
		th := newAgent(t, llmtest.Scripted(t, llmtest.Say("Noted."), llmtest.Say("Yes, milk.")),
			memory.MiddlewareOptions{Manager: m, Reflector: first, After: time.Minute}).Thread("7", treadle.Context(account{"ann"}))
		for _, text := range []string{"I like tea", "And milk?"} {
			if _, err := th.Run(t.Context(), agent.Ask(text)); err != nil {
				t.Fatal(err)
			}
			<-time.After(30 * time.Second)
		}
		if err := first.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := open() // without the run and its context
		if err := second.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		items, err := s.Search(t.Context(), store.Namespace{"m", "ann"}, nil)
		if err != nil || len(items) != 1 || string(items[0].Value) != `{"kind":"Memory","content":{"content":"Ann likes tea"}}` {
			t.Fatalf("%v: the store holds %v", err, items)
		}
		var meta struct{ Provenance memory.Provenance }
		if err := items[0].DecodeMeta(&meta); err != nil || meta.Provenance.Thread != "7" || meta.Provenance.Run == "" || len(meta.Provenance.Messages) != 4 {
			t.Errorf("%v: it comes from %+v", err, meta.Provenance)
		}
		if err := second.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAgentLearnsWithoutReflector(t *testing.T) {
	s := newStore(t, nil)
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(note("Ann likes tea"))), memory.StoreManagerOptions{})
	var changes []string
	g := newAgent(t, llmtest.Scripted(t, llmtest.Say("Noted.")), memory.MiddlewareOptions{Manager: m})
	for ev, err := range g.Stream(t.Context(), agent.Ask("I like tea"), treadle.Modes(treadle.ModeCustom)) {
		if err != nil {
			t.Fatal(err)
		}
		if ev, ok := ev.(treadle.Custom); ok {
			changes = append(changes, string(ev.Value.(memory.ItemChange).Op))
		}
	}
	if d := cmp.Diff([]string{"insert"}, changes); d != "" {
		t.Error(d)
	}
	wantStored(t, s, teaItem)
}

func TestAgentLearnsFromEndOfConversation(t *testing.T) {
	for name, c := range map[string]struct {
		tokens int
		said   []string
		want   []string
		not    string
	}{
		"whole turns from its end":    {40, []string{strings.Repeat("tea ", 100), "and milk"}, []string{"and milk", "two"}, "tea tea"},
		"a turn that is too long too": {5, []string{"first", strings.Repeat("tea ", 100)}, []string{"tea tea", "two"}, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			learner := llmtest.Scripted(t, llmtest.Ask(done()), llmtest.Ask(done()))
			m := newStoreManager(t, newStore(t, nil), learner, memory.StoreManagerOptions{})
			th := newAgent(t, llmtest.Scripted(t, llmtest.Say("one"), llmtest.Say("two")), memory.MiddlewareOptions{Manager: m, MaxTokens: c.tokens}).Thread("1")
			for _, text := range c.said {
				if _, err := th.Run(t.Context(), agent.Ask(text)); err != nil {
					t.Fatal(err)
				}
			}
			read := learner.Requests()[1].Messages[1].Text()
			for _, want := range c.want {
				if !strings.Contains(read, want) {
					t.Errorf("%q is not read: %s", want, read)
				}
			}
			if strings.Contains(read, c.not) {
				t.Errorf("%q is read: %s", c.not, read)
			}
		})
	}
}

// A thread may be used by several people, whose memories are their own.
func TestSessionsAreSeparatePerOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, nil)
		m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(note("likes tea")), llmtest.Ask(note("likes milk"))), memory.StoreManagerOptions{Namespace: []string{"m", "{user}"}})
		var keys []string
		r, err := memory.NewReflector(m.ReflectOn, &memory.ReflectorOptions[memory.Session, []memory.ItemChange]{Workers: 1,
			Done: func(key string, _ []memory.ItemChange, err error) { keys = append(keys, key) }})
		if err != nil {
			t.Fatal(err)
		}
		g := newAgent(t, llmtest.Scripted(t, llmtest.Say("Yes."), llmtest.Say("No.")), memory.MiddlewareOptions{Manager: m, Reflector: r, After: time.Minute})
		for _, user := range []string{"ann/a", "bob"} {
			if _, err := g.Thread("1 2", treadle.Context(account{user})).Run(t.Context(), agent.Ask("hi")); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		if err := errors.Join(r.Drain(t.Context()), r.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"1%202/ann%2Fa", "1%202/bob"}, keys); d != "" {
			t.Errorf("the keys are others (-want +got):\n%s", d)
		}
		for user, want := range map[string]string{"ann/a": "likes tea", "bob": "likes milk"} {
			items, err := s.Search(t.Context(), store.Namespace{"m", user}, nil)
			if err != nil || len(items) != 1 || !strings.Contains(string(items[0].Value), want) {
				t.Errorf("%v: of %s is known %v, want %q", err, user, items, want)
			}
		}
	})
}

func TestInvalidMiddlewareFailsBuild(t *testing.T) {
	m := newStoreManager(t, newStore(t, nil), llmtest.Scripted(t), memory.StoreManagerOptions{})
	r, err := memory.NewReflector(m.ReflectOn, nil)
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]*memory.MiddlewareOptions{
		"agent: middleware memory: memory: Reflector requires Manager":                   {Reflector: r},
		"agent: middleware memory: memory: invalid MiddlewareOptions.MaxTokens -1: want": {Manager: m, MaxTokens: -1},
	} {
		_, err := agent.New(llmtest.Scripted(t), &agent.Options{Middleware: []*agent.Middleware{memory.Middleware(o)}})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestReflectorRequiresStore(t *testing.T) {
	m, err := memory.NewStoreManager(llmtest.Scripted(t), &memory.StoreManagerOptions{Namespace: memories})
	if err != nil {
		t.Fatal(err)
	}
	r, err := memory.NewReflector(m.ReflectOn, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = newAgent(t, llmtest.Scripted(t, llmtest.Say("Hello.")), memory.MiddlewareOptions{Manager: m, Reflector: r}).Thread("1").Run(t.Context(), agent.Ask("hi"))
	if err == nil || !strings.Contains(err.Error(), "Reflector requires a store: set StoreManagerOptions.Store") {
		t.Errorf("the error is %v", err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestManagerErrorKeepsResponse(t *testing.T) {
	s := newStore(t, nil)
	no := errors.New("no secrets")
	manager := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(note("the pin is 1234")), llmtest.Ask(done())), memory.StoreManagerOptions{
		Guard: func(context.Context, *memory.ItemChange) error { return no }})
	th := newAgent(t, llmtest.Scripted(t, llmtest.Say("I see."), llmtest.Say("Bye.")), memory.MiddlewareOptions{Manager: manager}).Thread("1")
	out, err := th.Run(t.Context(), agent.Ask("My pin is 1234"))
	if !errors.Is(err, no) || agent.Answer(out) != "I see." {
		t.Errorf("the answer is %q and the error %v", agent.Answer(out), err)
	}
	out, err = th.Run(t.Context(), agent.Ask("Goodbye"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"human: My pin is 1234", "ai: I see.", "human: Goodbye", "ai: Bye."}, conversed(out.Messages)); d != "" {
		t.Error(d)
	}
}

// remembering returns an agent for Ann with a profile and a collection, both in the store
// of its graph. Neither manager has a store when it is created.
func remembering(t *testing.T, s *store.Store, reflect bool) (*reminded, []*memory.Reflector[memory.Session, []memory.ItemChange]) {
	t.Helper()
	var all []*agent.Middleware
	var reflectors []*memory.Reflector[memory.Session, []memory.ItemChange]
	for _, kind := range []string{"profile", "notes"} {
		m, err := memory.NewStoreManager(llmtest.NewScript(llmtest.Ask(note("Ann's "+kind))), &memory.StoreManagerOptions{Namespace: []string{"users", "ann", kind}})
		if err != nil {
			t.Fatal(err)
		}
		o := &memory.MiddlewareOptions{Manager: m, After: time.Hour}
		if reflect {
			if o.Reflector, err = memory.NewReflector(m.ReflectOn, nil); err != nil {
				t.Fatal(err)
			}
			reflectors = append(reflectors, o.Reflector)
		}
		all = append(all, memory.Middleware(o))
	}
	g, err := agent.New(llmtest.NewScript(llmtest.Say("Hello.")), &agent.Options{Middleware: all, Graph: treadle.Options{Saver: checkpoint.NewMemory(), Store: s}})
	if err != nil {
		t.Fatal(err)
	}
	return g, reflectors
}

func TestMiddlewareCanBeUsedTwice(t *testing.T) {
	for name, reflect := range map[string]bool{"in the run": false, "in the background": true} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, nil)
			g, reflectors := remembering(t, s, reflect)
			if _, err := g.Thread("1").Run(t.Context(), agent.Ask("hi")); err != nil {
				t.Fatal(err)
			}
			for _, r := range reflectors {
				if err := errors.Join(r.Flush(t.Context()), r.Close(t.Context())); err != nil {
					t.Error(err)
				}
			}
			if got := textUnder(t, s, "users", "ann"); !strings.Contains(got, "Ann's profile") || !strings.Contains(got, "Ann's notes") {
				t.Errorf("remembered: %s", got)
			}
		})
	}
}

// The Manager has no Store: the graph provides it while the process lives, and the
// reflector after a restart.
func TestReflectorUsesStoreAfterRestart(t *testing.T) {
	s := newStore(t, nil)
	g, before := remembering(t, s, true)
	for i, r := range before {
		if err := r.Open(t.Context(), s, store.Namespace{"pending", strconv.Itoa(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Thread("1").Run(t.Context(), agent.Ask("hi")); err != nil {
		t.Fatal(err)
	}
	_, after := remembering(t, s, true)
	for i, r := range before {
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := after[i].Open(t.Context(), s, store.Namespace{"pending", strconv.Itoa(i)}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(after[i].Flush(t.Context()), after[i].Close(t.Context())); err != nil {
			t.Error(err)
		}
	}
	if got := textUnder(t, s, "users", "ann"); !strings.Contains(got, "Ann's profile") || !strings.Contains(got, "Ann's notes") {
		t.Errorf("remembered: %s", got)
	}
}

func TestReflectorRejectsOtherStore(t *testing.T) {
	g, reflectors := remembering(t, newStore(t, nil), true)
	other := newStore(t, nil)
	for i, r := range reflectors {
		if err := r.Open(t.Context(), other, store.Namespace{"pending", strconv.Itoa(i)}); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close(context.Background()) }()
	}
	if _, err := g.Thread("1").Run(t.Context(), agent.Ask("hi")); err == nil || !strings.Contains(err.Error(), "Reflector and graph use different stores") {
		t.Errorf("the error is %v", err)
	}
}

func TestReflectorOpensOnce(t *testing.T) {
	s := newStore(t, nil)
	work := func(context.Context, string, int) (int, error) { return 0, nil }
	open := func(r *memory.Reflector[int, int], want string) {
		t.Helper()
		if err := r.Open(t.Context(), s, store.Namespace{"pending"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	r := treadle.Must(memory.OpenReflector(t.Context(), s, store.Namespace{"pending"}, work, nil))
	open(r, "already open")
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	open(r, "closed")
	r = treadle.Must(memory.NewReflector(work, nil))
	if _, err := r.Submit(t.Context(), "k", 1, time.Hour); err != nil {
		t.Fatal(err)
	}
	open(r, "Open called after Submit")
	if err := errors.Join(r.Flush(t.Context()), r.Close(t.Context())); err != nil {
		t.Error(err)
	}
}
