package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/caller"
	"github.com/treadle-go/treadle/store"
)

// VarError reports a variable of a namespace or a prompt that has no value or an invalid
// one.
type VarError struct {
	Var    string
	Have   []string // the variables that have a value, sorted
	Reason string   // why the value is invalid; empty if the variable has no value
}

// Error returns a message with the variable and the reason or, if it has no value, the
// variables that have one.
func (e *VarError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("memory: variable %q: %s", e.Var, e.Reason)
	}
	have := "no variables are set"
	if len(e.Have) > 0 {
		have = "variables are " + strings.Join(e.Have, ", ")
	}
	return fmt.Sprintf("memory: no value for variable %q: %s: set it with memory.WithVars, or as a JSON field of treadle.Context", e.Var, have)
}

type varsKey struct{}

// WithVars returns a context with values for the variables of namespaces and prompts. They
// take precedence over the values of the run's context. Variables already set in ctx are
// kept unless vars overrides them.
func WithVars(ctx context.Context, vars map[string]string) context.Context {
	all := maps.Clone(varsOf(ctx))
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, vars)
	return context.WithValue(ctx, varsKey{}, all)
}

func varsOf(ctx context.Context) map[string]string {
	vars, _ := ctx.Value(varsKey{}).(map[string]string)
	return vars
}

// template is a namespace with variables. A variable is a name in braces, anywhere in a
// segment; {{ and }} are literal braces.
type template [][]piece

// piece is a literal text or a variable.
type piece struct{ text, name string }

// defaultNamespace is the default namespace of LangMem.
var defaultNamespace = []string{"memories", "{langgraph_user_id}"}

func newTemplate(segments []string) (template, error) {
	switch {
	case segments == nil:
		segments = defaultNamespace
	case len(segments) == 0:
		return nil, errors.New("memory: empty namespace: set at least one segment, or nil for the default")
	case reserved(segments[0]):
		return nil, fmt.Errorf("memory: namespace segment %q: %s", segments[0], reservedReason)
	}
	var t template
	for _, s := range segments {
		pieces, err := parseSegment(s)
		if err != nil {
			return nil, fmt.Errorf("memory: namespace segment %q: %w", s, err)
		}
		t = append(t, pieces)
	}
	return t, nil
}

const reservedReason = "reserved for the records of package memory: choose another first segment"

// reserved reports whether the package keeps its own records under a first segment. A user
// with such a name could otherwise write the records of other users.
func reserved(segment string) bool {
	return segment == usesRoot || segment == sleepRoot || segment == latchRoot
}

func parseSegment(s string) ([]piece, error) {
	if s == "" {
		return nil, errors.New("empty segment")
	}
	var out []piece
	var text strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c != '{' && c != '}':
			text.WriteByte(c)
		case i+1 < len(s) && s[i+1] == c:
			text.WriteByte(c)
			i++
		case c == '}':
			return nil, errors.New("unpaired }: write }} for a brace")
		default:
			name, _, ok := strings.Cut(s[i+1:], "}")
			if !ok || strings.Contains(name, "{") {
				return nil, errors.New("unpaired {: write {{ for a brace")
			}
			if name == "" {
				return nil, errors.New("variable without a name")
			}
			out = append(out, piece{text: text.String()}, piece{name: name})
			text.Reset()
			i += 1 + len(name)
		}
	}
	return append(out, piece{text: text.String()}), nil
}

// resolve returns the namespace for a call.
func (t template) resolve(ctx context.Context) (store.Namespace, error) {
	if t == nil { // an empty namespace would select all items
		return nil, errors.New("memory: no namespace: create managers, recallers, and instructions with their constructors")
	}
	values, err := t.values(ctx)
	if err != nil {
		return nil, err
	}
	var n store.Namespace
	for _, pieces := range t {
		var segment strings.Builder
		for _, p := range pieces {
			segment.WriteString(p.text)
			segment.WriteString(values[p.name])
		}
		n = append(n, segment.String())
	}
	if reserved(n[0]) {
		return nil, fmt.Errorf("memory: namespace %v: %s", n, reservedReason)
	}
	return n, nil
}

// values returns the values of the variables for a call.
func (t template) values(ctx context.Context) (map[string]string, error) {
	values := map[string]string{}
	for _, p := range slices.Concat(t...) {
		if p.name == "" {
			continue
		}
		v, client, err := variable(ctx, p.name)
		if err != nil {
			return nil, err
		}
		if client && !t.owned() {
			return nil, &VarError{Var: p.name, Reason: "set by the client, which could choose the memories of others: add a segment {user} to the namespace, or use memory.WithVars"}
		}
		if v == "" {
			return nil, &VarError{Var: p.name, Reason: "empty value would mix the memories of different owners"}
		}
		values[p.name] = v
	}
	return values, nil
}

// authUserVar is the variable whose value is always the authenticated user.
const authUserVar = "langgraph_auth_user_id"

// userVars lists the variables that refer to the authenticated user on a server with
// authentication.
var userVars = []string{"user", "user_id", "langgraph_user_id", authUserVar}

// owned reports whether a segment of the namespace is the user, so that the other segments
// select among that user's memories.
func (t template) owned() bool {
	return slices.ContainsFunc(t, func(pieces []piece) bool {
		name := ""
		for _, p := range pieces {
			if p.text != "" || p.name != "" && name != "" {
				return false
			}
			name += p.name
		}
		return slices.Contains(userVars, name)
	})
}

// variable returns the value of a variable for a call. client reports whether a client of a
// server with authentication has set the value.
func variable(ctx context.Context, name string) (v string, client bool, err error) {
	if v, ok := varsOf(ctx)[name]; ok {
		return v, false, nil
	}
	user, authenticated := caller.From(ctx)
	isUser := slices.Contains(userVars, name)
	if authenticated && isUser {
		if user.Identity == "" {
			return "", false, &VarError{Var: name, Reason: "run has no authenticated user"}
		}
		return user.Identity, false, nil
	}
	vars, err := contextVars(ctx)
	if err != nil {
		return "", false, &VarError{Var: name, Reason: fmt.Sprintf(`the run's context has no JSON to find it in: %v; tag such fields json:"-", or use memory.WithVars`, err)}
	}
	raw, ok := vars[name]
	if !ok {
		raw, ok = configVar(ctx, name)
	}
	switch {
	case served(ctx) && isUser && (!ok || name == authUserVar):
		return "", false, &VarError{Var: name, Reason: "no user: server has no Auth, and client sets none in context or configurable"}
	case !ok:
		return "", false, &VarError{Var: name, Have: haveVars(ctx, vars)}
	}
	v, err = segmentText(name, raw)
	return v, authenticated, err
}

// served reports whether a server runs the graph.
func served(ctx context.Context) bool { return treadle.InfoFrom(ctx).Config != nil }

// configVar returns a value from the configurable section of a server run's config.
func configVar(ctx context.Context, name string) (json.RawMessage, bool) {
	conf, _ := treadle.InfoFrom(ctx).Config["configurable"].(map[string]any)
	v, ok := conf[name]
	if !ok {
		return nil, false
	}
	raw, err := json.Marshal(v)
	return raw, err == nil
}

// contextVars returns the fields of the run's context by their JSON names.
func contextVars(ctx context.Context) (map[string]json.RawMessage, error) {
	c, ok := treadle.ContextFrom[any](ctx)
	if !ok {
		return nil, nil
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var vars map[string]json.RawMessage
	_ = json.Unmarshal(raw, &vars) // a context that is not an object has no variables
	return vars, nil
}

func haveVars(ctx context.Context, vars map[string]json.RawMessage) []string {
	names := slices.Collect(maps.Keys(vars))
	for name := range varsOf(ctx) {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// segmentText returns a string verbatim and a whole number as digits. It rejects other
// values, because they have more than one notation, so the same value could yield different
// namespaces.
func segmentText(name string, raw json.RawMessage) (string, error) {
	var s string
	if json.Unmarshal(raw, &s) == nil && raw[0] == '"' {
		return s, nil
	}
	var n int64
	if string(raw) != "null" && json.Unmarshal(raw, &n) == nil {
		return string(raw), nil
	}
	return "", &VarError{Var: name, Reason: fmt.Sprintf("%s is neither a text nor a whole number", raw)}
}
