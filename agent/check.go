package agent

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// check reports problems with a middleware other than its name. All tools that it
// names must be among the agent's tools, because a gate or limit for an unknown
// tool would silently have no effect.
func (m *Middleware) check(tools []*llm.Tool) error {
	errs := []error{m.err}
	for _, h := range []*Hook{m.BeforeAgent, m.BeforeModel, m.AfterModel, m.AfterAgent} {
		if h != nil && h.node == nil {
			errs = append(errs, errors.New("a hook is empty: make it with NewHook"))
		}
	}
	for _, name := range m.names {
		errs = append(errs, m.known(name, tools))
	}
	var out []error
	for _, err := range errs {
		if err != nil {
			out = append(out, fmt.Errorf("agent: middleware %s: %w", m.Name, err))
		}
	}
	return errors.Join(out...)
}

// known returns an error if no tool has the name, with a suggestion if a similar
// one exists.
func (m *Middleware) known(name string, tools []*llm.Tool) error {
	var names []string
	for _, t := range tools {
		if t == nil {
			continue
		}
		if t.Name == name {
			if t.Run == nil && m.runs {
				return fmt.Errorf("it names the tool %q, which the provider runs: the agent does not see its calls", name)
			}
			return nil
		}
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return fmt.Errorf("it names the tool %q, but the agent has no tools", name)
	}
	slices.Sort(names)
	hint := ""
	if near := nearest(name, names); near != "" {
		hint = fmt.Sprintf(": do you mean %q?", near)
	}
	return fmt.Errorf("it names the tool %q, which is not one of the agent's tools %q%s", name, names, hint)
}

// nearest returns the most similar name, or "" if none is similar enough.
func nearest(name string, names []string) string {
	best, found := len(name)/2+1, ""
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < best {
			best, found = d, n
		}
	}
	return found
}

// distance returns the edit distance of a and b in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := last
			if a[i] != b[j] {
				change++
			}
			last = row[j+1]
			row[j+1] = min(change, last+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// valueOf returns the options that o points to, or their zero value.
func valueOf[T any](o *T) (v T) {
	if o != nil {
		v = *o
	}
	return v
}

// bounds checks limits: none may be negative, and at least one must be set.
func bounds(action OnLimit, allowed []OnLimit, named map[string]float64) error {
	var errs []error
	set := false
	for _, name := range sorted(named) {
		n := named[name]
		set = set || n > 0
		if n < 0 || math.IsNaN(n) {
			errs = append(errs, fmt.Errorf("%s is %g: it must be positive, or 0 for no bound", name, n))
		}
	}
	if !set && errs == nil {
		errs = append(errs, fmt.Errorf("it bounds nothing: set %s", strings.Join(sorted(named), " or ")))
	}
	if action != "" && !slices.Contains(allowed, action) {
		errs = append(errs, fmt.Errorf("OnLimit is %q: want one of %q", action, allowed))
	}
	return errors.Join(errs...)
}

func sorted(m map[string]float64) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// noModel returns an error if a model is nil.
func noModel(models ...llm.Model) error {
	if slices.Contains(models, nil) {
		return errors.New("its model is nil")
	}
	return nil
}
