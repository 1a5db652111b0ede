package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/schema"
	"github.com/treadle-go/treadle/ledger"
)

// find finds an assistant by its ID or by the name of its graph.
func (s assistantAPI) find(c *call, name string, f *ledger.Filter) (*ledger.Assistant, error) {
	return s.findWith(c, name, f, s.ledger.Assistant)
}

// findWith is like find, but reads with the given ledger method. A graph can always be used by
// name: if its default assistant was deleted, findWith creates it again.
func (s assistantAPI) findWith(c *call, name string, f *ledger.Filter, find func(context.Context, uuid.UUID, *ledger.Filter) (*ledger.Assistant, error)) (*ledger.Assistant, error) {
	id, err := uuid.Parse(name)
	byName := err != nil || len(name) != 36
	if byName {
		if s.runner.Graph(name) == nil {
			return nil, fail(http.StatusNotFound, "No assistant found for %q. Make sure the assistant ID is for a valid assistant or a valid graph ID. Valid graph IDs are: %s",
				name, strings.Join(s.runner.Graphs(), ", "))
		}
		id = defaultAssistantID(name)
	}
	a, err := find(c.r.Context(), id, f)
	if byName && errors.Is(err, ledger.ErrNotFound) {
		if _, missing := s.ledger.Assistant(c.r.Context(), id, nil); errors.Is(missing, ledger.ErrNotFound) { // and not hidden by the filter
			if err := s.defaultAssistant(c.r.Context(), name); err != nil {
				return nil, err
			}
			a, err = find(c.r.Context(), id, f)
		}
	}
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, fail(http.StatusNotFound, "Assistant %s not found", name)
	}
	return a, err
}

// named returns the assistant named in the path, if the caller may read it.
func (s assistantAPI) named(c *call) (*ledger.Assistant, *ledger.Filter, error) {
	name := c.r.PathValue("assistant_id")
	f, err := c.allow(map[string]any{"assistant_id": name})
	if err != nil {
		return nil, nil, err
	}
	a, err := s.find(c, name, f)
	return a, f, err
}

type assistantBody struct {
	ID          *string       `json:"assistant_id"`
	Graph       *string       `json:"graph_id"`
	Config      ledger.Object `json:"config"`
	Context     ledger.Object `json:"context"`
	Metadata    ledger.Object `json:"metadata"`
	Name        *string       `json:"name"`
	Description *string       `json:"description"`
	IfExists    string        `json:"if_exists"`
}

// decodeAssistant decodes an assistant and removes the keys that only the server sets.
func decodeAssistant(c *call) (*assistantBody, error) {
	var b assistantBody
	if err := c.decode(&b); err != nil {
		return nil, err
	}
	b.Config, b.Context, b.Metadata = unforged(b.Config), unforged(b.Context), unforged(b.Metadata)
	return &b, nil
}

func (s assistantAPI) create(c *call) error {
	b, err := decodeAssistant(c)
	if err != nil {
		return err
	}
	if b.Graph == nil {
		return invalid("graph_id", "required")
	}
	if s.runner.Graph(*b.Graph) == nil {
		return fail(http.StatusNotFound, "graph_id: graph %q is not served: use one of %s", *b.Graph, strings.Join(s.runner.Graphs(), ", "))
	}
	a := &ledger.Assistant{
		Graph:       *b.Graph,
		Name:        "Untitled",
		Description: b.Description,
		Config:      orObject(b.Config),
		Context:     orObject(b.Context),
		Metadata:    orObject(b.Metadata),
	}
	if b.Name != nil {
		a.Name = *b.Name
	}
	a.ID, err = newID("assistant_id", b.ID)
	if err = errors.Join(err, checkIfExists(b.IfExists)); err != nil {
		return err
	}
	value := map[string]any{
		"assistant_id": a.ID.String(),
		"graph_id":     a.Graph,
		"config":       a.Config,
		"metadata":     map[string]any(a.Metadata),
		"name":         a.Name,
		"if_exists":    b.IfExists,
	}
	f, err := c.allow(value)
	if err != nil {
		return err
	}
	a.Metadata = metadataOf(value, a.Metadata)
	mirror(a)
	err = s.ledger.CreateAssistant(c.r.Context(), a)
	if errors.Is(err, ledger.ErrExists) {
		old, getErr := s.ledger.Assistant(c.r.Context(), a.ID, f)
		if b.IfExists != "do_nothing" || getErr != nil {
			return fail(http.StatusConflict, "Assistant %s already exists", a.ID)
		}
		a, err = old, nil
	}
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, a)
}

// mirror copies an assistant's configurable values to its context if the context is empty, and
// vice versa, as LangGraph Platform does.
func mirror(a *ledger.Assistant) {
	conf, _ := a.Config["configurable"].(map[string]any)
	switch {
	case len(conf) > 0 && len(a.Context) == 0:
		a.Context = maps.Clone(conf)
	case len(conf) == 0 && len(a.Context) > 0:
		a.Config = maps.Clone(a.Config)
		a.Config["configurable"] = map[string]any(maps.Clone(a.Context))
	}
}

func orObject(o ledger.Object) ledger.Object {
	if o == nil {
		return ledger.Object{}
	}
	return o
}

// newID returns the ID chosen by the client, or a new one.
func newID(field string, text *string) (uuid.UUID, error) {
	if text == nil || *text == "" {
		return uuid.NewV7()
	}
	return parseID(field, *text)
}

// checkIfExists validates the if_exists field of a request.
func checkIfExists(word string) error {
	if word != "" && word != "raise" && word != "do_nothing" {
		return invalid("if_exists", "want raise or do_nothing, not %q", word)
	}
	return nil
}

func (s assistantAPI) get(c *call) error {
	a, _, err := s.named(c)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, a)
}

func (s assistantAPI) patch(c *call) error {
	b, err := decodeAssistant(c)
	if err != nil {
		return err
	}
	name := c.r.PathValue("assistant_id")
	value := map[string]any{"assistant_id": name, "metadata": map[string]any(orObject(b.Metadata))}
	f, err := c.allow(value)
	if err != nil {
		return err
	}
	a, err := s.find(c, name, f)
	if err != nil {
		return err
	}
	if b.Graph != nil && s.runner.Graph(*b.Graph) == nil {
		return fail(http.StatusNotFound, "graph_id: graph %q is not served", *b.Graph)
	}
	b.Metadata = metadataOf(value, b.Metadata)
	a, err = s.ledger.PatchAssistant(c.r.Context(), a.ID, f, func(a *ledger.Assistant) error {
		if b.Graph != nil {
			a.Graph = *b.Graph
		}
		if b.Name != nil {
			a.Name = *b.Name
		}
		if b.Description != nil {
			a.Description = b.Description
		}
		if b.Config != nil || b.Context != nil {
			a.Config, a.Context = orObject(b.Config), orObject(b.Context)
			mirror(a)
		}
		a.Metadata = maps.Clone(orObject(a.Metadata))
		maps.Copy(a.Metadata, b.Metadata)
		return nil
	})
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, a)
}

func (s assistantAPI) remove(c *call) error {
	a, f, err := s.named(c)
	if err != nil {
		return err
	}
	threads, err := c.query().bool("delete_threads")
	if err != nil {
		return err
	}
	if threads {
		if err := s.removeThreads(c, a); err != nil {
			return err
		}
	}
	if err := s.ledger.DeleteAssistant(c.r.Context(), a.ID, f); err != nil {
		return err
	}
	return c.none()
}

// removeThreads deletes the threads of an assistant that the caller may read. If the caller
// may not delete one of them, none is deleted.
func (s assistantAPI) removeThreads(c *call, a *ledger.Assistant) error {
	value := map[string]any{"metadata": map[string]any{"assistant_id": a.ID.String()}}
	seen, err := c.may("threads", "search", value)
	if err != nil {
		return err
	}
	filter := searchFilter(value, nil, seen)
	filter.Contains = maps.Clone(orObject(filter.Contains))
	filter.Contains["assistant_id"] = a.ID.String() // even if a handler changed it
	list, _, err := s.ledger.Threads(c.r.Context(), &ledger.ThreadQuery{Filter: filter})
	if err != nil {
		return err
	}
	filters := make([]*ledger.Filter, len(list))
	for i, t := range list {
		if filters[i], err = c.may("threads", "delete", map[string]any{"thread_id": t.ID.String()}); err != nil {
			return err
		}
	}
	for i, t := range list {
		if err := s.runner.DeleteThread(c.r.Context(), t.ID, filters[i]); err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
	}
	return nil
}

// searchFilter returns the filter of a search: the request's metadata, as an Auth handler may
// have changed it, and the filter returned by the handler.
func searchFilter(value map[string]any, metadata ledger.Object, f *ledger.Filter) ledger.Filter {
	return ledger.Filter{Contains: metadataOf(value, metadata), Auth: authOf(f)}
}

func authOf(f *ledger.Filter) []ledger.Condition {
	if f == nil {
		return nil
	}
	return f.Auth
}

type searchBody struct {
	Metadata  ledger.Object `json:"metadata"`
	Graph     string        `json:"graph_id"`
	Name      string        `json:"name"`
	Limit     *int          `json:"limit"`
	Offset    int           `json:"offset"`
	SortBy    string        `json:"sort_by"`
	SortOrder string        `json:"sort_order"`
	Select    []string      `json:"select"`
}

// page validates the requested page of a list.
func (b *searchBody) page(sorts ...string) (ledger.Page, error) {
	p := ledger.Page{SortBy: b.SortBy, Offset: b.Offset, Limit: 10}
	if b.Limit != nil {
		p.Limit = *b.Limit
	}
	switch {
	case p.Limit < 1 || p.Limit > 1000:
		return p, invalid("limit", "want a number from 1 to 1000, not %d", p.Limit)
	case p.Offset < 0:
		return p, invalid("offset", "want a number that is not negative, not %d", p.Offset)
	case p.SortBy != "" && !slices.Contains(sorts, p.SortBy):
		return p, invalid("sort_by", "want one of %s, not %q", strings.Join(sorts, ", "), p.SortBy)
	}
	switch strings.ToLower(b.SortOrder) {
	case "", "desc":
	case "asc":
		p.Ascending = true
	default:
		return p, invalid("sort_order", "want asc or desc, not %q", b.SortOrder)
	}
	return p, nil
}

// list responds to a search. The headers contain a lower bound of the total count and the
// offset of the next page.
func list[T any](c *call, objects []T, total int, p ledger.Page, fields []string) error {
	c.w.Header().Set("X-Pagination-Total", strconv.Itoa(total))
	if p.Offset+len(objects) < total {
		c.w.Header().Set("X-Pagination-Next", strconv.Itoa(p.Offset+len(objects)))
	}
	if objects == nil {
		objects = []T{}
	}
	if len(fields) == 0 {
		return c.json(http.StatusOK, objects)
	}
	out, err := selected(objects, fields)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, out)
}

// selected returns the objects with only the given fields.
func selected[T any](objects []T, fields []string) ([]map[string]json.RawMessage, error) {
	out := make([]map[string]json.RawMessage, len(objects))
	for i, o := range objects {
		raw, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &out[i]); err != nil {
			return nil, err
		}
		maps.DeleteFunc(out[i], func(name string, _ json.RawMessage) bool { return !slices.Contains(fields, name) })
	}
	return out, nil
}

func assistantQuery(c *call) (*ledger.AssistantQuery, *searchBody, error) {
	var b searchBody
	if err := c.decode(&b); err != nil {
		return nil, nil, err
	}
	p, err := b.page("assistant_id", "graph_id", "name", "created_at", "updated_at")
	if err != nil {
		return nil, nil, err
	}
	value := map[string]any{"metadata": map[string]any(orObject(b.Metadata)), "graph_id": b.Graph}
	f, err := c.allow(value)
	if err != nil {
		return nil, nil, err
	}
	return &ledger.AssistantQuery{Filter: searchFilter(value, b.Metadata, f), Graph: b.Graph, Name: b.Name, Page: p}, &b, nil
}

func (s assistantAPI) search(c *call) error {
	q, b, err := assistantQuery(c)
	if err != nil {
		return err
	}
	found, total, err := s.ledger.Assistants(c.r.Context(), q)
	if err != nil {
		return err
	}
	return list(c, found, total, q.Page, b.Select)
}

func (s assistantAPI) count(c *call) error {
	q, _, err := assistantQuery(c)
	if err != nil {
		return err
	}
	q.Page = ledger.Page{Limit: 1}
	_, total, err := s.ledger.Assistants(c.r.Context(), q)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, total)
}

func (s assistantAPI) versions(c *call) error {
	var b searchBody
	if err := c.decode(&b); err != nil {
		return err
	}
	p, err := b.page()
	if err != nil {
		return err
	}
	a, f, err := s.named(c)
	if err != nil {
		return err
	}
	found, err := s.ledger.Versions(c.r.Context(), a.ID, &ledger.Filter{Contains: b.Metadata, Auth: authOf(f)}, p)
	if err != nil {
		return err
	}
	if found == nil {
		found = []*ledger.Assistant{}
	}
	return c.json(http.StatusOK, found)
}

type latestBody struct {
	Version *int `json:"version"`
}

func (s assistantAPI) setLatest(c *call) error {
	var b latestBody
	if err := c.decode(&b); err != nil {
		return err
	}
	if b.Version == nil {
		return invalid("version", "required")
	}
	a, f, err := s.named(c)
	if err != nil {
		return err
	}
	a, err = s.ledger.SetLatest(c.r.Context(), a.ID, f, *b.Version)
	if errors.Is(err, ledger.ErrNotFound) {
		return fail(http.StatusNotFound, "version: assistant has no version %d", *b.Version)
	}
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, a)
}

func (s assistantAPI) graph(c *call) error {
	a, _, err := s.named(c)
	if err != nil {
		return err
	}
	depth, err := xray(c)
	if err != nil {
		return err
	}
	g := s.runner.Graph(a.Graph)
	if g == nil {
		return fail(http.StatusNotFound, "graph %q is not served", a.Graph)
	}
	shape := g.Shape()
	if depth != 0 {
		shape = shape.Expand(depth)
	}
	return c.json(http.StatusOK, shape)
}

// xray returns the depth to which subgraphs are expanded; negative means without limit.
func xray(c *call) (int, error) {
	text := c.query().Get("xray")
	if n, err := strconv.Atoi(text); err == nil && n > 1 {
		return n, nil
	}
	all, err := c.query().bool("xray")
	if all {
		return -1, err
	}
	return 0, err
}

func (s assistantAPI) schemas(c *call) error {
	a, _, err := s.named(c)
	if err != nil {
		return err
	}
	g := s.runner.Graph(a.Graph)
	if g == nil {
		return fail(http.StatusNotFound, "graph %q is not served", a.Graph)
	}
	out, err := schemasOf(g)
	if err != nil {
		return err
	}
	out["graph_id"] = a.Graph
	return c.json(http.StatusOK, out)
}

func schemasOf(g treadle.AnyGraph) (map[string]any, error) {
	s, err := g.Schemas()
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for name, one := range map[string]*jsonschema.Schema{"input_schema": s.Input, "output_schema": s.Output, "state_schema": s.State, "context_schema": s.Context, "config_schema": s.Context} {
		if out[name], err = schema.Marshal(one); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s assistantAPI) subgraphs(c *call) error {
	a, _, err := s.named(c)
	if err != nil {
		return err
	}
	recurse, err := c.query().bool("recurse")
	if err != nil {
		return err
	}
	g := s.runner.Graph(a.Graph)
	if g == nil {
		return fail(http.StatusNotFound, "graph %q is not served", a.Graph)
	}
	only := strings.ReplaceAll(c.r.PathValue("namespace"), "|", "/")
	out := map[string]any{}
	for path, inner := range g.Subgraphs() {
		deep := strings.Contains(path, "/")
		if only != "" && path != only && (!recurse || !strings.HasPrefix(path, only+"/")) || only == "" && deep && !recurse {
			continue
		}
		schemas, err := schemasOf(inner)
		if err != nil {
			return err
		}
		schemas["graph_id"] = inner.Name()
		out[strings.ReplaceAll(path, "/", "|")] = schemas
	}
	return c.json(http.StatusOK, out)
}
