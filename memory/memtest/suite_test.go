package memtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/memory/memtest"
	"github.com/treadle-go/treadle/store"
)

// A Profile is the known information about a user.
type Profile struct {
	Name      string   `json:"name"`
	Age       int      `json:"age,omitempty"`
	Home      Address  `json:"home"`
	Languages []string `json:"languages"`
	Diet      string   `json:"diet,omitempty"`
	Tone      string   `json:"tone" default:"friendly"`
	Notes     string   `json:"notes,omitempty"`
}

type Address struct {
	City   string `json:"city"`
	Street string `json:"street,omitempty"`
}

// Validate checks conditions that a schema cannot express.
func (p *Profile) Validate() error {
	if p.Age < 0 || p.Age > 130 {
		return fmt.Errorf("nobody is %d years old", p.Age)
	}
	return nil
}

// A Triple is a relation between two things.
type Triple struct {
	Subject   string `json:"subject"`
	Predicate string `json:"predicate"`
	Object    string `json:"object"`
	Context   string `json:"context,omitempty"`
}

// An Appointment has a time.
type Appointment struct {
	What  string `json:"what"`
	When  string `json:"when" jsonschema:"as in 2026-05-01T15:00:00Z"`
	Where string `json:"where,omitempty"`
}

// Validate rejects invalid times.
func (a *Appointment) Validate() error {
	if _, err := time.Parse(time.RFC3339, a.When); err != nil {
		return errors.New("when must be a time such as 2026-05-01T15:00:00Z")
	}
	return nil
}

// A Contact was a Person with a full_name in an earlier version of the program.
type Contact struct {
	First string `json:"first"`
	Last  string `json:"last"`
}

func splitName(content json.RawMessage) (json.RawMessage, error) {
	var was struct {
		FullName *string `json:"full_name"`
	}
	if err := json.Unmarshal(content, &was); err != nil || was.FullName == nil {
		return content, err
	}
	first, last, _ := strings.Cut(*was.FullName, " ")
	return json.Marshal(Contact{first, last})
}

var (
	notes        = memory.NewKind[memory.Memory]("Remember something.")
	profiles     = memory.NewKind[Profile]("What is known of the user.")
	triples      = memory.NewKind[Triple]("A relation between people and things.")
	appointments = memory.NewKind[Appointment]("What the user is to do at some time.")
	contacts     = memory.NewKind[Contact]("Somebody the user knows.").Migrate(splitName, "Person")
)

// setup returns the manager options that cases of the suite select by name.
func setup(name string) (memory.StoreManagerOptions, error) {
	o := memory.StoreManagerOptions{}
	o.Deletes = true
	switch name {
	case "", "by keyword", "by meaning", "encrypted":
	case "no deletes":
		o.Deletes = false
	case "no updates":
		o.NoUpdates = true
	case "one attempt":
		o.Attempts = 1
	case "rated":
		o.Rate = true
	case "similar":
		o.Similar, o.Limit = 0.9, 1
	case "guarded":
		o.Guard = guard
	case "three steps":
		o.Steps = 3
	case "narrow", "asking":
		o.Limit = 1
	case "wide":
		o.Limit = 10
	case "overwrite":
		o.Overwrite = true
	case "profile":
		o.Kinds, o.NoInserts = []memory.Kind{profiles}, true
	case "profile with default":
		o.Kinds, o.NoInserts = []memory.Kind{profiles}, true
		o.Default = Profile{Name: "unknown", Languages: []string{}, Tone: "formal"}
	case "default note":
		o.Default, o.Limit = "Answer in short sentences", 2
	case "triples":
		o.Kinds = []memory.Kind{triples}
	case "migrated":
		o.Kinds = []memory.Kind{contacts}
	case "all kinds":
		o.Kinds = []memory.Kind{notes, profiles, triples, appointments}
	case "consolidating":
		o.Phases = []memory.Phase{{}}
	case "two phases":
		o.Phases = []memory.Phase{{NoInserts: true}, {Instructions: "Name people in full.", IncludeMessages: true, NoDeletes: true}}
	case "team":
		o.Namespace = []string{"teams", "{team}", "{user}"}
	default:
		return o, fmt.Errorf("unknown setup %q", name)
	}
	return o, nil
}

var longNumber = regexp.MustCompile(`\d{12,}`)

// guard removes long numbers, rejects secrets, and rejects the removal of contracts.
func guard(_ context.Context, c *memory.ItemChange) error {
	switch {
	case bytes.Contains(c.After, []byte("password")):
		return errors.New("no secrets")
	case c.Op == memory.Delete && bytes.Contains(c.Before, []byte("Contract")):
		return errors.New("contracts stay")
	case c.Op != memory.Delete:
		c.After = longNumber.ReplaceAll(c.After, []byte("[number]"))
	}
	return nil
}

func newManager(c *memtest.Case, model llm.Model, s *store.Store) (*memory.StoreManager, error) {
	o, err := setup(c.Setup)
	if err != nil {
		return nil, err
	}
	o.Store = s
	if c.Setup == "asking" {
		o.QueryModel = model
	}
	return memory.NewStoreManager(model, &o)
}

func newStore(c *memtest.Case, now func() time.Time) (*store.Store, error) {
	o := store.Options{Now: now}
	switch c.Setup {
	case "by keyword":
	case "by meaning":
		o.Embedder = thesaurus{}
	case "encrypted":
		o.Keys = []checkpoint.EncryptionKey{{ID: 1, Secret: []byte("thirty-two bytes of a secret key")}}
	default:
		o.Embedder, o.Ranking = store.NewHashEmbedder(256), store.Hybrid
	}
	return store.NewMemory(&o)
}

// thesaurus is an embedder with groups of synonyms.
type thesaurus struct{}

var synonyms = [][]string{
	{"car", "vehicle", "drive", "drives", "automobile", "volvo"},
	{"meal", "eat", "eats", "food", "vegetarian", "dinner", "meat"},
	{"job", "work", "works", "profession", "living", "carpenter"},
	{"pet", "dog", "animal", "terrier", "cat"},
	{"music", "violin", "instrument", "plays", "orchestra"},
	{"ill", "health", "doctor", "allergy", "allergic", "pollen"},
}

// Model names it.
func (thesaurus) Model() string { return "thesaurus" }

// Dimension returns one dimension for each group of words, and one for all others.
func (thesaurus) Dimension() int { return len(synonyms) + 1 }

// Embed counts the words of each group.
func (thesaurus) Embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = make([]float32, len(synonyms)+1)
		out[i][len(synonyms)] = 0.1
		for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' }) {
			for g, group := range synonyms {
				for _, w := range group {
					if w == word {
						out[i][g]++
					}
				}
			}
		}
	}
	return out, nil
}

// TestSuite checks the behavior of memories: see the files in testdata.
func TestSuite(t *testing.T) {
	cases, err := memtest.Load("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	cases = append(cases, crowd())
	if len(cases) < 60 {
		t.Errorf("there are %d cases, want 60 at least", len(cases))
	}
	report := memtest.Run(t, cases, &memtest.Options{Manager: newManager, Store: newStore})
	if got := report.RecallAt(5); got < 1 {
		t.Errorf("recall@5 is %.3f, want 1", got)
	}
}

// What a case says in Go it says in JSON, so that one can be written as the other.
func TestCasesRoundTripJSON(t *testing.T) {
	cases, err := memtest.Load("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	var again []memtest.Case
	if err := json.Unmarshal(raw, &again); err != nil {
		t.Fatal(err)
	}
	second, err := json.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(raw), string(second)); d != "" {
		t.Errorf("they have changed (-want +got):\n%s", d)
	}
}

// crowd returns a case with 200 memories, of which the right one must be found.
func crowd() memtest.Case {
	c := memtest.Case{Name: "recall/the right one of 200"}
	names := []string{"Ada", "Ben", "Cleo", "Dan", "Ella", "Finn", "Gwen", "Hugo", "Iris", "Jon"}
	facts := []string{
		"%s collects stamps from Peru", "%s plays the cello", "%s is allergic to walnuts", "%s drives a red van", "%s studied chemistry in Graz",
		"%s keeps bees on the roof", "%s runs marathons", "%s is afraid of heights", "%s bakes rye bread", "%s speaks Finnish",
		"%s has a sister in Quebec", "%s writes crime novels", "%s sails on Lake Garda", "%s works night shifts", "%s paints with watercolours",
		"%s repairs old clocks", "%s hates coriander", "%s owns a parrot", "%s teaches yoga", "%s votes by post",
	}
	for _, name := range names {
		for _, fact := range facts {
			c.Given = append(c.Given, memtest.Given{Key: fmt.Sprintf("%s-%d", name, len(c.Given)), Text: fmt.Sprintf(fact, name)})
		}
	}
	find := func(query, text string) {
		c.Then.Recall = append(c.Then.Recall, memtest.Recall{Query: query, K: 3, Tokens: 120, Finds: []memtest.Pattern{{Text: text}}})
	}
	find("Can Iris eat walnuts, or is she allergic?", "Iris is allergic to walnuts")
	find("Who keeps bees? Was it Hugo?", "Hugo keeps bees on the roof")
	find("Did Dan study chemistry?", "Dan studied chemistry in Graz")
	find("I want to hear Gwen play the cello.", "Gwen plays the cello")
	find("What does Ben's sister in Quebec do?", "Ben has a sister in Quebec")
	find("Ask Cleo about her crime novels.", "Cleo writes crime novels")
	c.Sessions = []memtest.Session{{
		Messages: llm.Messages{llm.User("Jon has sold his red van and drives a bicycle now.")},
		Answers: []llm.Message{llm.Assistant("", llm.ToolCall{Name: "PatchDoc", Args: []byte(`{"json_doc_id":"~Jon drives a red van",
			"planned_edits":"the van is sold","patches":[{"op":"replace","path":"/content","value":"Jon rides a bicycle; he has sold his red van"}]}`)})},
		Changes: []string{"update"},
	}}
	c.Then.Total = new(200)
	return c
}
