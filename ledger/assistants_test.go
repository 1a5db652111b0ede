package ledger_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

func TestAssistantVersions(t *testing.T) {
	f := newFixture(t, nil)
	a := &ledger.Assistant{Graph: "g", Name: "one", Metadata: ledger.Object{"n": "1"}}
	if err := f.CreateAssistant(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if a.ID == uuid.Nil || a.Version != 1 || a.Created.IsZero() || a.Updated != a.Created {
		t.Errorf("got assistant %+v", a)
	}
	if err := f.CreateAssistant(t.Context(), &ledger.Assistant{ID: a.ID}); !errors.Is(err, ledger.ErrExists) {
		t.Errorf("second assistant with the same ID: %v", err)
	}
	rename := func(name string) *ledger.Assistant {
		t.Helper()
		got, err := f.PatchAssistant(t.Context(), a.ID, nil, func(a *ledger.Assistant) error {
			a.Name, a.ID, a.Version = name, uuid.New(), 77
			a.Metadata = ledger.Object{"name": name}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := rename("two"); got.Version != 2 || got.ID != a.ID || got.Created != a.Created {
		t.Errorf("second version: got %+v", got)
	}
	got, err := f.SetLatest(t.Context(), a.ID, nil, 1)
	if err != nil || got.Version != 1 || got.Name != "one" || got.Metadata["n"] != "1" || got.Created != a.Created || got.Updated.IsZero() {
		t.Errorf("return to the first version: got %+v, %v", got, err)
	}
	if got := rename("three"); got.Version != 3 {
		t.Errorf("got version %d after that", got.Version)
	}
	if _, err := f.SetLatest(t.Context(), a.ID, nil, 4); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("missing version: %v", err)
	}
	versions, err := f.Versions(t.Context(), a.ID, nil, ledger.Page{})
	if err != nil || len(versions) != 3 || versions[0].Name != "three" || versions[2].Name != "one" || !versions[0].Updated.IsZero() {
		t.Errorf("got versions %v, %v", versions, err)
	}
	versions, err = f.Versions(t.Context(), a.ID, &ledger.Filter{Contains: ledger.Object{"name": "two"}}, ledger.Page{Limit: 1})
	if err != nil || len(versions) != 1 || versions[0].Version != 2 {
		t.Errorf("versions by name: got %v, %v", versions, err)
	}
	if _, err := f.Versions(t.Context(), uuid.New(), nil, ledger.Page{}); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("versions of a missing assistant: %v", err)
	}
}

func TestDeleteAssistantRemovesAllRows(t *testing.T) {
	f := newFixture(t, nil)
	var made [2]*ledger.Assistant
	for i := range made {
		made[i] = &ledger.Assistant{Graph: "g"}
		if err := f.CreateAssistant(t.Context(), made[i]); err != nil {
			t.Fatal(err)
		}
		if err := f.CreateCron(t.Context(), &ledger.Cron{Assistant: made[i].ID}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.DeleteAssistant(t.Context(), made[0].ID, nil); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []ledger.Kind{ledger.Assistants, ledger.Versions, ledger.Crons} {
		n := 0
		for range f.backend.Find(t.Context(), &ledger.Query{Kind: kind}) {
			n++
		}
		if n != 1 {
			t.Errorf("%d rows of kind %d remain", n, kind)
		}
	}
}

func TestAssistantsByGraphAndName(t *testing.T) {
	f := newFixture(t, nil)
	for _, a := range []ledger.Assistant{{Graph: "a", Name: "Weather"}, {Graph: "a", Name: "News"}, {Graph: "b", Name: "weather too"}} {
		if err := f.CreateAssistant(t.Context(), &a); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		q    ledger.AssistantQuery
		want []string
	}{
		{ledger.AssistantQuery{}, []string{"weather too", "News", "Weather"}},
		{ledger.AssistantQuery{Graph: "a"}, []string{"News", "Weather"}},
		{ledger.AssistantQuery{Name: "WEATHER"}, []string{"weather too", "Weather"}},
		{ledger.AssistantQuery{Page: ledger.Page{SortBy: "name", Ascending: true}}, []string{"News", "Weather", "weather too"}},
		{ledger.AssistantQuery{Graph: "c"}, nil},
	} {
		got, total, err := f.Assistants(t.Context(), &test.q)
		ok := err == nil && total == len(test.want) && len(got) == total
		for i := range got {
			ok = ok && got[i].Name == test.want[i]
		}
		if !ok {
			t.Errorf("%+v: got %v of %d, %v", test.q, got, total, err)
		}
	}
}

func TestCreateRunDetectsStaleAssistant(t *testing.T) {
	f := newFixture(t, nil)
	a := &ledger.Assistant{Graph: "g", Metadata: ledger.Object{"owner": "ann"}}
	if err := f.CreateAssistant(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	recall := func() *ledger.Assistant {
		t.Helper()
		got, err := f.Recall(t.Context(), a.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	create := func(as *ledger.Assistant) error {
		_, err := f.CreateRun(t.Context(), &ledger.NewRun{Run: &ledger.Run{Temporary: true, Assistant: a.ID, Graph: "g"}, As: as})
		return err
	}
	was := recall()
	if err := create(was); err != nil {
		t.Fatalf("run of a current assistant: %v", err)
	}
	if recall() != was {
		t.Error("assistant not cached")
	}
	for _, other := range []string{"bob", "ann"} {
		_, err := f.Recall(t.Context(), a.ID, &ledger.Filter{Contains: ledger.Object{"owner": other}})
		if seen := err == nil; seen != (other == "ann") {
			t.Errorf("cached assistant for %s: %v", other, err)
		}
	}

	if _, err := f.PatchAssistant(t.Context(), a.ID, nil, func(a *ledger.Assistant) error {
		a.Context, a.Metadata = ledger.Object{"k": "v"}, ledger.Object{"owner": "cid"}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Recall(t.Context(), a.ID, &ledger.Filter{Contains: ledger.Object{"owner": "cid"}}); err != nil {
		t.Errorf("caller who gained access: %v", err)
	}
	if err := create(was); !errors.Is(err, ledger.ErrStale) {
		t.Errorf("run of an outdated assistant: %v", err)
	}
	now := recall()
	if now.Context["k"] != "v" {
		t.Errorf("assistant after that: %+v", now)
	}
	if err := create(now); err != nil {
		t.Errorf("run of the new version: %v", err)
	}

	if err := f.DeleteAssistant(t.Context(), a.ID, nil); err != nil {
		t.Fatal(err)
	}
	if err := create(now); !errors.Is(err, ledger.ErrStale) {
		t.Errorf("run of a deleted assistant: %v", err)
	}
	if _, err := f.Recall(t.Context(), a.ID, nil); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("deleted assistant: %v", err)
	}
}
