package agent

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle/internal/near"
	"github.com/treadle-go/treadle/llm"
)

// check reports problems with a middleware other than its name.
func (m *Middleware) check(s Setup) error {
	var errs []error
	for _, h := range []*Hook{m.BeforeAgent, m.BeforeModel, m.AfterModel, m.AfterAgent} {
		if h != nil && h.node == nil {
			errs = append(errs, errors.New("empty hook: create hooks with NewHook"))
		}
	}
	if m.Fields != nil && (m.Fields.typ == nil || m.Fields.typ.Kind() != reflect.Struct) {
		errs = append(errs, errors.New("invalid Fields: create them with NewFields and a struct type"))
	}
	if m.Check != nil {
		errs = append(errs, m.Check(s))
	}
	var out []error
	for _, err := range errs {
		if err != nil {
			out = append(out, fmt.Errorf("agent: middleware %s: %w", m.Name, err))
		}
	}
	return errors.Join(out...)
}

// invalid returns a Check that reports err, or nil if err is nil.
func invalid(err error) func(Setup) error {
	if err == nil {
		return nil
	}
	return func(Setup) error { return err }
}

// RequireTools returns an error unless the agent has a tool with each of the names.
// The error suggests a similar name. A gate or limit for an unknown tool would
// silently have no effect.
func (s Setup) RequireTools(names ...string) error { return s.require(names, false) }

// RequireOwnTools is like [Setup.RequireTools], but also rejects tools that the
// provider runs. Hooks and WrapTool do not see the calls of these tools in time.
func (s Setup) RequireOwnTools(names ...string) error { return s.require(names, true) }

func (s Setup) require(names []string, own bool) error {
	var errs []error
	for _, name := range names {
		i := slices.IndexFunc(s.Tools, func(t *llm.Tool) bool { return t.Name == name })
		switch {
		case i < 0:
			errs = append(errs, s.unknown(name))
		case own && s.Tools[i].Run == nil:
			errs = append(errs, fmt.Errorf("tool %q is run by the provider: the agent does not see its calls", name))
		}
	}
	return errors.Join(errs...)
}

// unknown returns the error for the name of a missing tool.
func (s Setup) unknown(name string) error {
	if len(s.Tools) == 0 {
		return fmt.Errorf("unknown tool %q: the agent has no tools", name)
	}
	var names []string
	for _, t := range s.Tools {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	if len(names) > maxListed {
		return fmt.Errorf("unknown tool %q: the agent has %d tools%s", name, len(names), near.Hint(name, names))
	}
	return fmt.Errorf("unknown tool %q: the agent's tools are %q%s", name, names, near.Hint(name, names))
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
			errs = append(errs, fmt.Errorf("invalid %s %g: want more than 0, or 0 for no limit", name, n))
		}
	}
	if !set && errs == nil {
		errs = append(errs, fmt.Errorf("no limit: set %s", strings.Join(sorted(named), " or ")))
	}
	if action != "" && !slices.Contains(allowed, action) {
		errs = append(errs, fmt.Errorf("invalid OnLimit %q: want one of %q", action, allowed))
	}
	return errors.Join(errs...)
}

// notNegative returns an error that names each negative option.
func notNegative[T int | float64 | time.Duration](named map[string]T) error {
	var errs []error
	for _, name := range sorted(named) {
		if n := named[name]; n < 0 {
			errs = append(errs, fmt.Errorf("invalid %s %v: want 0 or more", name, n))
		}
	}
	return errors.Join(errs...)
}

func sorted[T any](m map[string]T) []string {
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
		return errors.New("nil model")
	}
	return nil
}
