package code

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/llm"
)

const (
	maxDepth   = 6   // of types
	maxSummary = 200 // characters of a description that the model also sees elsewhere
)

var identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// declarations declares tools in TypeScript.
func declarations(tools []*llm.Tool, whole bool) string {
	if len(tools) == 0 {
		return "No tools can be called now."
	}
	var b strings.Builder
	b.WriteString("declare const tools: {\n")
	for _, t := range tools {
		about := strings.TrimSpace(t.Description)
		if !whole {
			about, _, _ = strings.Cut(about, "\n")
			if len(about) > maxSummary {
				about = strings.ToValidUTF8(about[:maxSummary], "") + "…"
			}
		}
		if about != "" {
			fmt.Fprintf(&b, "  /** %s */\n", strings.ReplaceAll(about, "*/", "* /"))
		}
		fmt.Fprintf(&b, "  %s(%s): Promise<any>;\n", key(t.Name), arguments(t.Parameters))
	}
	b.WriteString("};")
	return b.String()
}

func key(name string) string {
	if identifier.MatchString(name) {
		return name
	}
	raw, _ := json.Marshal(name) // a string
	return string(raw)
}

// arguments returns the parameter of a function.
func arguments(s *jsonschema.Schema) string {
	if s == nil {
		return "args?: Record<string, any>"
	}
	if len(s.Properties) == 0 && s.AdditionalProperties == nil {
		return ""
	}
	mark := ""
	if len(s.Required) == 0 {
		mark = "?"
	}
	return "args" + mark + ": " + typeOf(s, s, 0)
}

// typeOf returns a schema as a type. root contains the definitions.
func typeOf(s, root *jsonschema.Schema, depth int) string {
	if s == nil || depth > maxDepth {
		return "any"
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		return typeOf(root.Defs[name], root, depth+1)
	}
	switch {
	case s.Const != nil:
		return literal(*s.Const)
	case len(s.Enum) > 0:
		var all []string
		for _, v := range s.Enum {
			all = append(all, literal(v))
		}
		return strings.Join(all, " | ")
	case len(s.AnyOf) > 0:
		return union(s.AnyOf, root, depth)
	case len(s.OneOf) > 0:
		return union(s.OneOf, root, depth)
	}
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	var all []string
	for _, t := range types {
		all = append(all, typeNamed(t, s, root, depth))
	}
	if all == nil {
		if len(s.Properties) > 0 {
			return object(s, root, depth)
		}
		return "any"
	}
	return strings.Join(slices.Compact(all), " | ")
}

func typeNamed(name string, s, root *jsonschema.Schema, depth int) string {
	switch name {
	case "integer":
		return "number"
	case "array":
		item := typeOf(s.Items, root, depth+1)
		if strings.ContainsAny(item, "| ") && !strings.HasPrefix(item, "{") {
			item = "(" + item + ")"
		}
		return item + "[]"
	case "object":
		return object(s, root, depth)
	}
	return name // string, number, boolean, null
}

func union(of []*jsonschema.Schema, root *jsonschema.Schema, depth int) string {
	var all []string
	for _, s := range of {
		if t := typeOf(s, root, depth+1); !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return strings.Join(all, " | ")
}

func object(s, root *jsonschema.Schema, depth int) string {
	if len(s.Properties) == 0 {
		return "Record<string, " + typeOf(s.AdditionalProperties, root, depth+1) + ">"
	}
	var b strings.Builder
	b.WriteString("{ ")
	for _, name := range propertyNames(s) {
		mark := "?"
		if slices.Contains(s.Required, name) {
			mark = ""
		}
		p := s.Properties[name]
		fmt.Fprintf(&b, "%s%s: %s", key(name), mark, typeOf(p, root, depth+1))
		if p != nil && p.Description != "" && depth == 0 {
			fmt.Fprintf(&b, " /* %s */", strings.ReplaceAll(strings.Join(strings.Fields(p.Description), " "), "*/", "* /"))
		}
		b.WriteString("; ")
	}
	b.WriteString("}")
	return b.String()
}

// propertyNames returns the names in the order of the schema, and then by name.
func propertyNames(s *jsonschema.Schema) []string {
	var out []string
	for _, name := range s.PropertyOrder {
		if s.Properties[name] != nil {
			out = append(out, name)
		}
	}
	var rest []string
	for name := range s.Properties {
		if !slices.Contains(out, name) {
			rest = append(rest, name)
		}
	}
	slices.Sort(rest)
	return append(out, rest...)
}

func literal(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "any"
	}
	return string(raw)
}
