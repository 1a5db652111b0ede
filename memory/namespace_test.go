package memory

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/internal/caller"
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

// LangMem treats a segment as a variable only if it starts with a brace, looks up "{a}_x"
// as "a}_x", and lets numbers leak into the namespace.
//
// Defect: §3.4 a variable within a segment stays literal.
// Defect: §3.4 what follows a variable becomes part of its name.
// Defect: §3.4 numbers leak into the namespace.
// Defect: §3.4 a list of segments is taken as one segment.
func TestNamespaceVariablesInSegments(t *testing.T) {
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

func TestNamespaceVariablesOutsideRuns(t *testing.T) {
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

func TestMissingVariableError(t *testing.T) {
	_, err := resolveIn(t, who{}, map[string]string{"zone": "eu"}, "{user}")
	ve, ok := errors.AsType[*VarError](err)
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	if d := cmp.Diff(&VarError{Var: "user", Have: []string{"Plain", "empty", "share", "team", "user_id", "zone"}}, ve); d != "" {
		t.Error(d)
	}
	if !strings.Contains(ve.Error(), `"user": variables are Plain, empty`) {
		t.Errorf("the message is %v", ve)
	}
	for name, reason := range map[string]string{"empty": "empty value would mix", "share": "neither a text nor a whole number"} {
		_, err := resolveIn(t, who{Share: 0.5}, nil, "{"+name+"}")
		if ve, ok := errors.AsType[*VarError](err); !ok || ve.Var != name || !strings.Contains(ve.Error(), reason) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, reason)
		}
	}
	if _, err := resolveIn(t, "just a text", nil, "{a}"); err == nil || !strings.Contains(err.Error(), "no variables are set: set it with memory.WithVars, or as a JSON field of treadle.Context") {
		t.Errorf("the error is %v", err)
	}
}

func TestInvalidNamespaceTemplates(t *testing.T) {
	for bad, want := range map[string]string{"": "empty", "{a": "unpaired {", "a}": "unpaired }", "{}": "without a name", "{a{b}": "unpaired {"} {
		if _, err := newTemplate([]string{bad}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want one with %q", bad, err, want)
		}
	}
}

// A context often contains values that cannot be encoded, such as a logger, alongside the
// user.
func TestContextWithoutJSONIsReported(t *testing.T) {
	_, err := resolveIn(t, struct {
		User string `json:"user"`
		Log  func(string)
	}{User: "ann"}, nil, "{user}")
	e, ok := errors.AsType[*VarError](err)
	if !ok || e.Var != "user" || !strings.Contains(e.Reason, "func(string)") || !strings.Contains(e.Reason, `json:"-"`) {
		t.Errorf("the error is %v, want an error that names the type and the remedy", err)
	}
	got, err := resolveIn(t, struct {
		User string       `json:"user"`
		Log  func(string) `json:"-"`
	}{User: "ann"}, nil, "{user}")
	if err != nil || !slices.Equal(got, store.Namespace{"ann"}) {
		t.Errorf("%v: the namespace is %v", err, got)
	}
}

// servedRun is a run of a server, as memory sees it.
type servedRun struct {
	auth         bool   // the server authenticates
	user         string // the authenticated user
	context      any    // the context sent by the client
	configurable map[string]any
	vars         map[string]string // of WithVars
}

func (s servedRun) resolve(t *testing.T, segments ...string) (got store.Namespace, err error) {
	t.Helper()
	tmpl, err := newTemplate(segments)
	if err != nil {
		t.Fatal(err)
	}
	g := treadle.Must(treadle.NewWorkflow("resolve", func(ctx context.Context, _ string) (string, error) {
		var err error
		got, err = tmpl.resolve(WithVars(ctx, s.vars))
		return "", err
	}, nil))
	ctx := t.Context()
	if s.auth {
		ctx = caller.With(ctx, caller.Caller{Identity: s.user})
	}
	_, err = g.With(treadle.Context(s.context), dynamic.Host{Config: map[string]any{"configurable": s.configurable}}.Option()).Run(ctx, "")
	return got, err
}

// forged names another user wherever a client can.
var forged = servedRun{
	context:      map[string]string{"user": "bob", "user_id": "bob", "langgraph_user_id": "bob", "langgraph_auth_user_id": "bob", "project": "x"},
	configurable: map[string]any{"user": "bob", "user_id": "bob", "langgraph_user_id": "bob", "langgraph_auth_user_id": "bob", "zone": "eu"},
}

func TestNamespaceUsesAuthenticatedUser(t *testing.T) {
	ann := forged
	ann.auth, ann.user = true, "ann"
	for _, name := range userVars {
		for _, s := range []servedRun{ann, {auth: true, user: "ann"}} {
			got, err := s.resolve(t, "memories", "{"+name+"}")
			if err != nil || !slices.Equal(got, store.Namespace{"memories", "ann"}) {
				t.Errorf("{%s}: %v, %v", name, got, err)
			}
		}
		s := forged
		s.auth = true
		if got, err := s.resolve(t, "memories", "{"+name+"}"); err == nil || !strings.Contains(err.Error(), "run has no authenticated user") {
			t.Errorf("{%s} without a user: %v, %v", name, got, err)
		}
	}
	ann.vars = map[string]string{"user": "the program's"}
	if got, err := ann.resolve(t, "{user}", "{user_id}"); err != nil || !slices.Equal(got, store.Namespace{"the program's", "ann"}) {
		t.Errorf("with WithVars: %v, %v", got, err)
	}
}

// A client may choose among the memories of its user, and no others.
func TestNamespaceIsolatesUsers(t *testing.T) {
	ann := forged
	ann.auth, ann.user = true, "ann"
	for _, test := range []struct {
		segments []string
		want     store.Namespace // nil means an error
	}{
		{[]string{"memories", "{user}", "{project}"}, store.Namespace{"memories", "ann", "x"}},
		{[]string{"{zone}-{project}", "{user_id}"}, store.Namespace{"eu-x", "ann"}},
		{[]string{"projects", "{project}"}, nil},
		{[]string{"zones", "{zone}"}, nil},
		{[]string{"{user}{project}"}, nil}, // user an, project nx
		{[]string{"of {user}", "{project}"}, nil},
	} {
		got, err := ann.resolve(t, test.segments...)
		if test.want == nil {
			if ve, ok := errors.AsType[*VarError](err); !ok || !strings.Contains(ve.Reason, "set by the client") {
				t.Errorf("%q: %v, %v", test.segments, got, err)
			}
		} else if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%q: %v, %v", test.segments, got, err)
		}
	}
	ann.vars = map[string]string{"project": "y"}
	if got, err := ann.resolve(t, "projects", "{project}"); err != nil || got[1] != "y" {
		t.Errorf("with WithVars: %v, %v", got, err)
	}
}

// Without Auth, a client names its user; a client without a user has no memories.
func TestNamespaceWithoutAuthTrustsClient(t *testing.T) {
	for _, name := range userVars {
		for where, s := range map[string]servedRun{"context": {context: forged.context}, "configurable": {configurable: forged.configurable}, "nowhere": {}} {
			got, err := s.resolve(t, "memories", "{"+name+"}")
			if where == "nowhere" || name == authUserVar {
				if ve, ok := errors.AsType[*VarError](err); !ok || !strings.Contains(ve.Reason, "server has no Auth") {
					t.Errorf("{%s} in %s: %v, %v", name, where, got, err)
				}
			} else if err != nil || !slices.Equal(got, store.Namespace{"memories", "bob"}) {
				t.Errorf("{%s} in %s: %v, %v", name, where, got, err)
			}
		}
	}
}
