package bounded

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// survey checks a schema for conditions that make validation endless: cycles of Go
// pointers, references that return to the same schema for the same value, and sizes
// beyond the limits.
func survey(root *jsonschema.Schema) (*Schema, error) {
	if root == nil {
		return nil, errors.New("nil schema")
	}
	w := &surveyor{
		Schema: &Schema{same: map[*jsonschema.Schema][]*jsonschema.Schema{}, patterns: map[*jsonschema.Schema]int{}},
		paths:  map[string]*jsonschema.Schema{}, roots: map[string]string{"": ""}, anchors: map[string]*jsonschema.Schema{},
		bases: map[*jsonschema.Schema]*url.URL{}, dynamic: map[string][]*jsonschema.Schema{},
	}
	if err := w.walk(root, "", &url.URL{}, 0); err != nil {
		return nil, err
	}
	if !w.refs {
		return w.Schema, nil // a tree
	}
	for s, base := range w.bases {
		if err := w.follow(s, base); err != nil {
			return nil, err
		}
	}
	return w.Schema, w.circle()
}

// surveyor is the state of a survey.
type surveyor struct {
	*Schema
	paths   map[string]*jsonschema.Schema   // by JSON pointer from the root
	roots   map[string]string               // JSON pointer of the schema with a URI
	anchors map[string]*jsonschema.Schema   // by URI#anchor
	bases   map[*jsonschema.Schema]*url.URL // base URIs of schemas with references
	dynamic map[string][]*jsonschema.Schema // by dynamic anchor
}

func (w *surveyor) walk(s *jsonschema.Schema, path string, base *url.URL, depth int) error {
	switch {
	case s == nil:
		return fmt.Errorf("null schema at %q", path)
	case depth > maxSchemaDepth:
		return fmt.Errorf("schema nesting exceeds %d levels", maxSchemaDepth)
	}
	w.count++
	if w.count > maxSchemas {
		return fmt.Errorf("more than %d nested schemas", maxSchemas)
	}
	w.paths[path] = s
	if id, err := url.Parse(s.ID); s.ID != "" && err == nil && id.Fragment == "" {
		base = base.ResolveReference(id)
		w.roots[base.String()] = path
	} else if err == nil && id.Fragment != "" { // an anchor in draft 7
		w.anchors[base.String()+"#"+id.Fragment] = s
	}
	for _, anchor := range []string{s.Anchor, s.DynamicAnchor} {
		if anchor != "" {
			w.anchors[base.String()+"#"+anchor] = s
		}
	}
	if s.DynamicAnchor != "" {
		w.dynamic[s.DynamicAnchor] = append(w.dynamic[s.DynamicAnchor], s)
	}
	if s.Ref != "" || s.DynamicRef != "" {
		w.refs = true
		w.bases[s] = base
	}
	if err := w.compile(s); err != nil {
		return err
	}
	for name, sub := range children(s) {
		if err := w.walk(sub, path+"/"+name, base, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// compile determines the size of the schema's patterns. Package jsonschema reports
// invalid patterns.
func (w *surveyor) compile(s *jsonschema.Schema) error {
	for _, pattern := range append(slices.Sorted(maps.Keys(s.PatternProperties)), s.Pattern) {
		re, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			continue
		}
		prog, err := syntax.Compile(re.Simplify())
		if err != nil {
			continue
		}
		w.patterns[s] += len(prog.Inst)
		if w.patterns[s] > maxPattern {
			return fmt.Errorf("pattern too large: %.40q…", pattern)
		}
	}
	return nil
}

// follow records the targets of a schema's references.
func (w *surveyor) follow(s *jsonschema.Schema, base *url.URL) error {
	for _, ref := range []string{s.Ref, s.DynamicRef} {
		if ref == "" {
			continue
		}
		to, err := url.Parse(ref)
		if err != nil {
			return fmt.Errorf("reference %q: %w", ref, err)
		}
		to = base.ResolveReference(to)
		fragment := to.Fragment
		to.Fragment, to.RawFragment = "", ""
		target := w.anchors[to.String()+"#"+fragment]
		if root, ok := w.roots[to.String()]; ok && (fragment == "" || strings.HasPrefix(fragment, "/")) {
			target = w.paths[root+escape(fragment)]
		}
		if target == nil {
			return fmt.Errorf("reference %q does not resolve within the schema", ref)
		}
		w.same[s] = append(w.same[s], target)
		if ref == s.DynamicRef { // may refer to any schema with the anchor
			w.same[s] = append(w.same[s], w.dynamic[fragment]...)
		}
	}
	return nil
}

// escape normalizes a JSON pointer to the form that walk uses.
func escape(pointer string) string {
	if pointer == "" {
		return ""
	}
	parts := strings.Split(pointer, "/")
	for i := range parts {
		parts[i] = segment(strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i]))
	}
	return strings.Join(parts, "/")
}

var segment = strings.NewReplacer("~", "~0", "/", "~1").Replace

// circle returns an error if a schema leads back to itself without descending into the
// value.
func (w *surveyor) circle() error {
	const open, done = 1, 2
	seen := map[*jsonschema.Schema]int{}
	var visit func(s *jsonschema.Schema, ref string) error
	visit = func(s *jsonschema.Schema, ref string) error {
		ref = cmp.Or(s.Ref, s.DynamicRef, ref)
		switch seen[s] {
		case open:
			return fmt.Errorf("endless reference %q: it leads back to itself for the same value", ref)
		case done:
			return nil
		}
		seen[s] = open
		for sub := range w.alike(s) {
			if err := visit(sub, ref); err != nil {
				return err
			}
		}
		seen[s] = done
		return nil
	}
	// Every cycle contains a reference.
	for s := range w.same {
		if err := visit(s, ""); err != nil {
			return err
		}
	}
	return nil
}

// alike returns the schemas that are applied to the same value as of.
func (s *Schema) alike(of *jsonschema.Schema) iter.Seq[*jsonschema.Schema] {
	return func(yield func(*jsonschema.Schema) bool) {
		for _, list := range [][]*jsonschema.Schema{s.same[of], of.AllOf, of.AnyOf, of.OneOf, {of.Not, of.If, of.Then, of.Else}} {
			for _, sub := range list {
				if sub != nil && !yield(sub) {
					return
				}
			}
		}
		for _, named := range []map[string]*jsonschema.Schema{of.DependentSchemas, of.DependencySchemas} {
			for _, sub := range named {
				if !yield(sub) {
					return
				}
			}
		}
	}
}

// children returns the direct subschemas of s, by their JSON pointer from s.
func children(s *jsonschema.Schema) iter.Seq2[string, *jsonschema.Schema] {
	return func(yield func(string, *jsonschema.Schema) bool) {
		for _, one := range []struct {
			name string
			sub  *jsonschema.Schema
		}{
			{"items", s.Items}, {"additionalItems", s.AdditionalItems}, {"contains", s.Contains}, {"unevaluatedItems", s.UnevaluatedItems},
			{"additionalProperties", s.AdditionalProperties}, {"propertyNames", s.PropertyNames}, {"unevaluatedProperties", s.UnevaluatedProperties},
			{"not", s.Not}, {"if", s.If}, {"then", s.Then}, {"else", s.Else}, {"contentSchema", s.ContentSchema},
		} {
			if one.sub != nil && !yield(one.name, one.sub) {
				return
			}
		}
		for _, some := range []struct {
			name string
			subs []*jsonschema.Schema
		}{
			{"items", s.ItemsArray}, {"prefixItems", s.PrefixItems}, {"allOf", s.AllOf}, {"anyOf", s.AnyOf}, {"oneOf", s.OneOf},
		} {
			for i, sub := range some.subs {
				if !yield(some.name+"/"+strconv.Itoa(i), sub) {
					return
				}
			}
		}
		for _, some := range []struct {
			name string
			subs map[string]*jsonschema.Schema
		}{
			{"$defs", s.Defs}, {"definitions", s.Definitions}, {"properties", s.Properties}, {"patternProperties", s.PatternProperties},
			{"dependentSchemas", s.DependentSchemas}, {"dependencies", s.DependencySchemas},
		} {
			for _, name := range slices.Sorted(maps.Keys(some.subs)) {
				if !yield(some.name+"/"+segment(name), some.subs[name]) {
					return
				}
			}
		}
	}
}
