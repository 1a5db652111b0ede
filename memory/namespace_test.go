package memory

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/store"
)

type who struct {
	User  string  `json:"user_id"`
	Team  int     `json:"team"`
	Share float64 `json:"share"`
	Empty string  `json:"empty"`
	Plain string
}

// resolveIn resolves a template within a run that has a context.
func resolveIn(t *testing.T, c any, vars map[string]string, segments ...string) (store.Namespace, error) {
	t.Helper()
	tmpl, err := newTemplate(segments)
	if err != nil {
		t.Fatal(err)
	}
	var got store.Namespace
	g, err := treadle.NewWorkflow("resolve", func(ctx context.Context, _ string) (string, error) {
		if vars != nil {
			ctx = WithVars(ctx, vars)
		}
		var err error
		got, err = tmpl.resolve(ctx)
		return "", err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.With(treadle.Context(c)).Run(t.Context(), "")
	return got, err
}

// Upstream takes a segment as a variable only if it starts with a brace, looks
// "{a}_x" up as "a}_x", and lets numbers leak into the namespace.
//
// Defect: §3.4 a variable within a segment stays literal.
// Defect: §3.4 what follows a variable becomes part of its name.
// Defect: §3.4 numbers leak into the namespace.
// Defect: §3.4 a list of segments is taken as one segment.
func TestNamespaceVariablesStandAnywhereInASegment(t *testing.T) {
	c := who{User: "ann", Team: 7, Plain: "p"}
	tests := []struct {
		segments []string
		vars     map[string]string
		want     store.Namespace
	}{
		{[]string{"memories", "{user_id}"}, nil, store.Namespace{"memories", "ann"}},
		{[]string{"user-{user_id}", "{team}_x"}, nil, store.Namespace{"user-ann", "7_x"}},
		{[]string{"{user_id}{team}{Plain}"}, nil, store.Namespace{"ann7p"}},
		{[]string{"{{user_id}}", "a}}b{{"}, nil, store.Namespace{"{user_id}", "a}b{"}},
		{[]string{"{user_id}", "{project}"}, map[string]string{"user_id": "bob", "project": "x"}, store.Namespace{"bob", "x"}},
		{nil, map[string]string{"langgraph_user_id": "u1"}, store.Namespace{"memories", "u1"}},
	}
	for _, test := range tests {
		got, err := resolveIn(t, c, test.vars, test.segments...)
		if err != nil {
			t.Errorf("%q: %v", test.segments, err)
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", test.segments, d)
		}
	}
}

func TestNamespaceVariablesAreGivenOutsideOfRuns(t *testing.T) {
	tmpl, err := newTemplate([]string{"{a}", "{b}"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := WithVars(WithVars(t.Context(), map[string]string{"a": "1", "b": "2"}), map[string]string{"b": "3"})
	got, err := tmpl.resolve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(store.Namespace{"1", "3"}, got); d != "" {
		t.Error(d)
	}
}

func TestNamespaceSaysWhichVariablesThereAre(t *testing.T) {
	_, err := resolveIn(t, who{}, map[string]string{"zone": "eu"}, "{user}")
	ve, ok := errors.AsType[*VarError](err)
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	if d := cmp.Diff(&VarError{Var: "user", Have: []string{"Plain", "empty", "share", "team", "user_id", "zone"}}, ve); d != "" {
		t.Error(d)
	}
	if !strings.Contains(ve.Error(), `"user": there are Plain, empty`) {
		t.Errorf("the message is %v", ve)
	}
	for name, reason := range map[string]string{"empty": "it is empty", "share": "neither a text nor a whole number"} {
		_, err := resolveIn(t, who{Share: 0.5}, nil, "{"+name+"}")
		if ve, ok := errors.AsType[*VarError](err); !ok || ve.Var != name || !strings.Contains(ve.Error(), reason) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, reason)
		}
	}
	if _, err := resolveIn(t, "just a text", nil, "{a}"); err == nil || !strings.Contains(err.Error(), "there are none") {
		t.Errorf("the error is %v", err)
	}
}

func TestNamespaceTemplatesAreCheckedWhenMade(t *testing.T) {
	for bad, want := range map[string]string{"": "empty", "{a": "without a }", "a}": "without a {", "{}": "without a name", "{a{b}": "without a }"} {
		if _, err := newTemplate([]string{bad}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want one with %q", bad, err, want)
		}
	}
}

// A context often has what is no data, such as a logger, beside the user.
func TestContextWithoutJSONSaysSo(t *testing.T) {
	_, err := resolveIn(t, struct {
		User string `json:"user"`
		Log  func(string)
	}{User: "ann"}, nil, "{user}")
	e, ok := errors.AsType[*VarError](err)
	if !ok || e.Var != "user" || !strings.Contains(e.Reason, "func(string)") || !strings.Contains(e.Reason, `json:"-"`) {
		t.Errorf("the error is %v, want one that names the type and what to do", err)
	}
	got, err := resolveIn(t, struct {
		User string       `json:"user"`
		Log  func(string) `json:"-"`
	}{User: "ann"}, nil, "{user}")
	if err != nil || !slices.Equal(got, store.Namespace{"ann"}) {
		t.Errorf("%v: the namespace is %v", err, got)
	}
}
