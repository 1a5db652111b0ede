package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/near"
	"github.com/treadle-go/treadle/internal/toolindex"
	"github.com/treadle-go/treadle/internal/turns"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/reduce"
	"github.com/treadle-go/treadle/store"
)

// SearchOptions configures [SearchTools]. A nil *SearchOptions means the defaults.
type SearchOptions struct {
	// Limit is the default number of tools that a search returns; 0 means 5. With Bind,
	// it is the number of tools bound to a call.
	Limit int
	// Max is the maximum number of found tools offered in a call; 0 means 50. If the
	// model has found more, the least recently used leave, except tools whose calls it
	// still sees.
	Max int
	// Bind adds no search tool. Instead, each call offers the tools that fit the newest
	// user message and the response after it best, and the tools whose calls the model
	// still sees.
	Bind bool
	// Allow, if not nil, reports whether the run may use a tool. Other tools are not
	// found, offered, or run.
	Allow func(ctx context.Context, tool *llm.Tool) bool
	// Embedder, if not nil, adds semantic search to the keyword search. It is called for
	// all tools at the first search, and for each query. [store.CacheEmbedder] keeps the
	// vectors of the tools.
	Embedder store.Embedder
}

const (
	toolSearch       = "search_tools"
	defaultFound     = 5
	defaultOffered   = 50
	maxFound         = 20   // tools in a result
	maxDisclosed     = 1000 // names in the state
	maxBindText      = 4 << 10
	foundKey         = "found_tools"       // metadata of a result: the names of the tools
	notOfferedKey    = "calls_not_offered" // metadata of a response: the names of called tools that were not offered
	maxSearchLine    = 300
	maxSignatureArgs = 8
)

// SearchTools gives the agent many tools, up to thousands, of which the model sees only
// those that it finds. It adds the tool search_tools, which searches names, descriptions,
// and arguments without a model; tools can also be selected by their exact names. Found
// tools are offered from the next call on, for the rest of the thread, in the order in
// which they were found, so that a provider's prompt cache remains valid. A call to another
// of the tools gets an error as its result. All other tools of the agent are always offered.
// List the middleware before others that look at the tools of a call, such as [SelectTools]
// and [ClearResults]. Several agents can have the same middleware.
//
// The names of the found tools are the field selected_tool_ids of the thread's state.
func SearchTools(tools []*llm.Tool, opts *SearchOptions) *Middleware {
	s := &searchable{SearchOptions: valueOf(opts), tools: map[string]*llm.Tool{}}
	m := &Middleware{Name: toolSearch, Tools: slices.Clip(tools), Check: invalid(s.check(tools)), WrapModel: s.show, WrapTool: s.gate}
	s.Limit, s.Max = cmp.Or(s.Limit, defaultFound), cmp.Or(s.Max, defaultOffered)
	for _, t := range tools {
		if t != nil {
			s.tools[t.Name] = t
		}
	}
	s.index = sync.OnceValue(func() *toolindex.Index {
		return toolindex.New(slices.Collect(maps.Values(s.tools)), s.Embedder)
	})
	if !s.Bind {
		m.Fields = NewFields[disclosedFields]()
		m.Tools = append(m.Tools, llm.NewTool(toolSearch, "Finds tools for a purpose. You can call the tools that it returns from your next message on. "+
			"Search before you decide that something is impossible.", s.search))
	}
	return m
}

// searchable is the middleware.
type searchable struct {
	SearchOptions
	tools map[string]*llm.Tool
	index func() *toolindex.Index
}

// check reports invalid options.
func (s *searchable) check(tools []*llm.Tool) error {
	var errs []error
	if len(tools) == 0 {
		errs = append(errs, errors.New("no tools to search"))
	}
	for _, t := range tools { // nil tools and duplicate names are reported for all tools of the agent
		if t != nil && t.Run == nil {
			errs = append(errs, fmt.Errorf("tool %q is run by the provider: list it in Options.Tools", t.Name))
		}
	}
	if s.Limit < 0 || s.Limit > maxFound {
		errs = append(errs, fmt.Errorf("invalid Limit %d: want 1 to %d, or 0 for %d", s.Limit, maxFound, defaultFound))
	}
	if s.Max < 0 || s.Max > maxDisclosed {
		errs = append(errs, fmt.Errorf("invalid Max %d: want 1 to %d, or 0 for %d", s.Max, maxDisclosed, defaultOffered))
	}
	if s.Bind && s.Max != 0 {
		errs = append(errs, errors.New("invalid Max: Bind offers Limit tools"))
	}
	return errors.Join(errs...)
}

// disclosed lists the names of found tools in the order in which they were first found.
type disclosed []string

// Reduce adds the names of u. If the list becomes too long, the names found first leave.
func (d disclosed) Reduce(u disclosed) disclosed {
	out := slices.Clone(d)
	for _, name := range u {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for i := 0; len(out) > maxDisclosed && i < len(out); {
		if slices.Contains(u, out[i]) {
			i++
		} else {
			out = slices.Delete(out, i, i+1)
		}
	}
	return out[max(0, len(out)-maxDisclosed):]
}

// Reducer implements the interface of package reduce.
func (disclosed) Reducer() reduce.Reducer {
	return reduce.Func[disclosed, disclosed]{Fn: func(d, u disclosed) (disclosed, error) { return d.Reduce(u), nil }}
}

type disclosedFields struct {
	SelectedToolIDs disclosed `json:"selected_tool_ids"`
}

type disclosedUpdate struct {
	SelectedToolIDs disclosed    `json:"selected_tool_ids"`
	Messages        llm.Messages `json:"messages"`
}

// allowed returns the tool with a name, or nil if the run may not use it.
func (s *searchable) allowed(ctx context.Context, name string) *llm.Tool {
	t := s.tools[name]
	if t == nil || s.Allow != nil && !s.Allow(ctx, t) {
		return nil
	}
	return t
}

// find returns the best tools for a text.
func (s *searchable) find(ctx context.Context, text string, limit int) ([]*llm.Tool, error) {
	var allow func(*llm.Tool) bool
	if s.Allow != nil {
		allow = func(t *llm.Tool) bool { return s.Allow(ctx, t) }
	}
	found, err := s.index().Search(ctx, text, limit, allow)
	if err != nil {
		return nil, fmt.Errorf("agent: search tools: %w", err)
	}
	return found, nil
}

// show offers the found tools, and marks the calls to other tools.
func (s *searchable) show(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
	names, err := s.offered(ctx, call.Messages)
	if err != nil {
		return llm.Message{}, err
	}
	given, offered := map[string]bool{}, map[string]bool{}
	var tools []*llm.Tool
	for _, t := range call.Tools {
		given[t.Name] = true
		if s.tools[t.Name] == nil {
			tools = append(tools, t)
		}
	}
	for _, name := range names {
		if t := s.allowed(ctx, name); t != nil && given[name] && !offered[name] {
			tools, offered[name] = append(tools, t), true
		}
	}
	call.Tools = tools
	answer, err := next(ctx, call)
	if err != nil {
		return answer, err
	}
	var others []string
	for _, c := range answer.ToolCalls {
		if s.tools[c.Name] != nil && !offered[c.Name] {
			others = append(others, c.Name)
		}
	}
	if others != nil {
		answer = noted(answer, notOfferedKey, others)
	}
	return answer, nil
}

// offered returns the names of the tools that a call offers, in order.
func (s *searchable) offered(ctx context.Context, ms llm.Messages) ([]string, error) {
	called, last := s.used(ms)
	if s.Bind {
		found, err := s.find(ctx, about(ms), s.Limit)
		for _, t := range found {
			called = append(called, t.Name)
		}
		return called, err
	}
	f, _ := FieldsFrom[disclosedFields](ctx)
	// Calls whose tools have left the state are older than all tools in it.
	names := slices.DeleteFunc(slices.Clone(called), func(name string) bool { return slices.Contains(f.SelectedToolIDs, name) })
	for _, name := range f.SelectedToolIDs {
		if s.allowed(ctx, name) != nil {
			names = append(names, name)
		}
	}
	keep := map[string]bool{}
	for _, name := range called {
		keep[name] = true
	}
	byUse := slices.Clone(names)
	slices.Reverse(byUse)
	slices.SortStableFunc(byUse, func(a, b string) int { return cmp.Compare(last[b], last[a]) })
	for _, name := range byUse {
		if len(keep) < s.Max {
			keep[name] = true
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !keep[name] }), nil
}

// used returns the tools that were called in messages, by their first call, and where each
// tool was found or called last. Calls that were refused do not count.
func (s *searchable) used(ms llm.Messages) (called []string, last map[string]int) {
	last = map[string]int{}
	for i, m := range ms {
		refused := textList(m.Metadata[notOfferedKey])
		for _, c := range m.ToolCalls {
			if s.tools[c.Name] == nil || slices.Contains(refused, c.Name) {
				continue
			}
			if !slices.Contains(called, c.Name) {
				called = append(called, c.Name)
			}
			last[c.Name] = i + 1
		}
		for _, name := range textList(m.Metadata[foundKey]) {
			last[name] = i + 1
		}
	}
	return called, last
}

// about returns the newest user message and the text of the last response after it.
func about(ms llm.Messages) string {
	human, text := turns.LastHuman(ms), ""
	if human >= 0 {
		text = shorten(ms[human].Text(), maxBindText)
	}
	for i := len(ms) - 1; i > human; i-- {
		if said := ms[i].Text(); ms[i].Role == llm.RoleAI && said != "" {
			return text + "\n" + shorten(said, maxBindText)
		}
	}
	return text
}

// textList returns a list of texts in metadata. After a restart, it is decoded JSON.
func textList(v any) []string {
	switch v := v.(type) {
	case []string:
		return v
	case []any:
		var out []string
		for _, one := range v {
			if text, ok := one.(string); ok {
				out = append(out, text)
			}
		}
		return out
	}
	return nil
}

// gate refuses calls to tools that were not offered.
func (s *searchable) gate(ctx context.Context, call ToolCall, next ToolFunc) (any, error) {
	if call.Tool == nil || s.tools[call.Name] != nil && s.allowed(ctx, call.Name) == nil {
		text := "Error: %s is not a valid tool."
		if !s.Bind {
			text += " Find tools with " + toolSearch + "."
		}
		return llm.Message{Status: llm.StatusError, Content: fmt.Sprintf(text, call.Name)}, nil
	}
	history := historyFrom(ctx)
	if i := lastAI(history); s.tools[call.Name] != nil && i >= 0 && slices.Contains(textList(history[i].Metadata[notOfferedKey]), call.Name) {
		text := "Error: %s is not available."
		if !s.Bind {
			text = "Error: %s is not available yet: find it with " + toolSearch + " first."
		}
		return llm.Message{Status: llm.StatusError, Content: fmt.Sprintf(text, call.Name)}, nil
	}
	return next(ctx, call)
}

type searchArgs struct {
	Query  string   `json:"query,omitempty" jsonschema:"what the tools should do, in a few words"`
	Limit  int      `json:"limit,omitempty" jsonschema:"the maximum number of tools"`
	Select []string `json:"select,omitempty" jsonschema:"exact names of tools, instead of a query"`
}

// search finds tools. It is the function of the search tool.
func (s *searchable) search(ctx context.Context, in searchArgs) (any, error) {
	if strings.TrimSpace(in.Query) == "" && len(in.Select) == 0 {
		return llm.Message{Status: llm.StatusError, Content: "Error: pass a query, or the names of tools in select."}, nil
	}
	var found []*llm.Tool
	var unknown []string
	for _, name := range in.Select[:min(len(in.Select), maxFound)] {
		if t := s.allowed(ctx, name); t == nil {
			unknown = append(unknown, name)
		} else if !slices.Contains(found, t) {
			found = append(found, t)
		}
	}
	if strings.TrimSpace(in.Query) != "" {
		limit := s.Limit
		if in.Limit > 0 {
			limit = min(in.Limit, maxFound)
		}
		best, err := s.find(ctx, in.Query, limit)
		if err != nil {
			return nil, err
		}
		for _, t := range best {
			if !slices.Contains(found, t) {
				found = append(found, t)
			}
		}
	}
	var b strings.Builder
	if len(found) == 0 {
		b.WriteString("No tool found. Try other words.")
	} else {
		b.WriteString("You can call these tools from your next message on:")
	}
	names := make(disclosed, 0, len(found))
	for _, t := range found {
		names = append(names, t.Name)
		fmt.Fprintf(&b, "\n- %s%s: %s", t.Name, signature(t), shorten(plain(t.Description), maxSearchLine))
	}
	if len(unknown) > 0 {
		b.WriteString(s.notFound(ctx, unknown))
	}
	call, _ := llm.CallFrom(ctx)
	result := llm.ToolResult(call, llm.Message{Content: b.String(), Metadata: map[string]any{foundKey: []string(names)}})
	return treadle.Command[disclosedUpdate]{Update: &disclosedUpdate{names, llm.Messages{result}}}, nil
}

// notFound reports unknown names and suggests similar ones.
func (s *searchable) notFound(ctx context.Context, unknown []string) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.tools)) {
		if s.allowed(ctx, name) != nil {
			names = append(names, name)
		}
	}
	var b strings.Builder
	for _, name := range unknown {
		name = shorten(plain(name), 100)
		fmt.Fprintf(&b, "\nUnknown tool %q%s", name, near.Hint(name, names))
	}
	return b.String()
}

// signature returns the arguments of a tool, such as "(city: string, days?: integer)".
func signature(t *llm.Tool) string {
	s := t.Parameters
	if s == nil {
		return "()"
	}
	names := slices.Sorted(maps.Keys(s.Properties))
	optional := func(name string) int {
		if slices.Contains(s.Required, name) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(optional(a), optional(b)) })
	var parts []string
	for i, name := range names {
		if i == maxSignatureArgs {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, shorten(plain(name), 50)+strings.Repeat("?", optional(name))+typeOf(s.Properties[name]))
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func typeOf(s *jsonschema.Schema) string {
	if s == nil {
		return ""
	}
	name := s.Type
	if name == "" {
		name = strings.Join(slices.DeleteFunc(slices.Clone(s.Types), func(t string) bool { return t == "null" }), "|")
	}
	if name == "" {
		return ""
	}
	return ": " + shorten(plain(name), 50)
}

// plain returns a text in one line, without control characters and invisible ones, so that
// the description of a tool cannot imitate the structure of a result.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, shorten(text, 4*maxSearchLine))
	return strings.Join(strings.Fields(text), " ")
}

// shorten cuts a text to n bytes.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
