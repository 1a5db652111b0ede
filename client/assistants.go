package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/draw"
)

// Assistants groups the methods for assistants. Where a method takes an assistant ID, a
// graph name means the assistant that the server creates for that graph.
type Assistants struct{ c *Client }

// An Assistant is a graph with a configuration.
type Assistant struct {
	ID          string         `json:"assistant_id"`
	Graph       string         `json:"graph_id"`
	Version     int            `json:"version"` // version of the configuration, starting at 1
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Config      map[string]any `json:"config"`
	Context     map[string]any `json:"context"`
	Metadata    map[string]any `json:"metadata"`
	Created     time.Time      `json:"created_at"`
	Updated     time.Time      `json:"updated_at"` // zero in a list of versions
}

// AssistantCreate describes an assistant to create, or the changes that Update makes.
type AssistantCreate struct {
	Graph       string         `json:"graph_id,omitempty"`
	ID          string         `json:"assistant_id,omitempty"` // a UUID; "" means a new one
	Config      map[string]any `json:"config,omitempty"`
	Context     map[string]any `json:"context,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"` // in an update, merged into the existing metadata
	Name        string         `json:"name,omitempty"`
	Description string         `json:"description,omitempty"`
	// IfExists is "raise", the default, or "do_nothing", which returns an existing
	// assistant. Updates ignore it.
	IfExists string `json:"if_exists,omitempty"`
}

// graphNamespace is the UUID namespace of the IDs of assistants that servers create for
// their graphs.
var graphNamespace = uuid.MustParse("6ba7b821-9dad-11d1-80b4-00c04fd430c8")

// assistantPath returns a path for an assistant. LangGraph's Python server accepts only
// IDs there.
func assistantPath(id string, parts ...string) string {
	if _, err := uuid.Parse(id); id != "" && err != nil {
		id = uuid.NewSHA1(graphNamespace, []byte(id)).String()
	}
	return pathOf(append([]string{"assistants", id}, parts...)...)
}

// Create creates an assistant.
func (s Assistants) Create(ctx context.Context, opts *AssistantCreate) (*Assistant, error) {
	body := *orEmpty(opts)
	if body.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		body.ID, body.IfExists = id.String(), "do_nothing" // the ID is unique
	}
	r := write("/assistants", &body)
	r.repeatable = body.IfExists == "do_nothing"
	return object[Assistant](ctx, s.c, r)
}

// Get returns an assistant.
func (s Assistants) Get(ctx context.Context, id string) (*Assistant, error) {
	return object[Assistant](ctx, s.c, get(assistantPath(id), nil))
}

// Update changes an assistant, creating a new version of it. Empty fields of opts are left
// unchanged.
func (s Assistants) Update(ctx context.Context, id string, opts *AssistantCreate) (*Assistant, error) {
	body := *orEmpty(opts)
	body.ID, body.IfExists = "", ""
	return object[Assistant](ctx, s.c, &request{method: http.MethodPatch, path: assistantPath(id), body: &body})
}

// Delete deletes an assistant and, if threads is set, the threads on which it was used.
func (s Assistants) Delete(ctx context.Context, id string, threads bool) error {
	return s.c.call(ctx, remove(assistantPath(id), url.Values{"delete_threads": {strconv.FormatBool(threads)}}), nil)
}

// AssistantSearch selects assistants. A nil *AssistantSearch, like the zero value,
// selects all.
type AssistantSearch struct {
	Metadata map[string]any `json:"metadata,omitempty"` // must be contained in the assistant's metadata
	Graph    string         `json:"graph_id,omitempty"`
	Name     string         `json:"name,omitempty"` // substring of the name
	Page
}

// Search returns matching assistants, newest first by default.
func (s Assistants) Search(ctx context.Context, opts *AssistantSearch) ([]Assistant, error) {
	return list[Assistant](ctx, s.c, read("/assistants/search", orEmpty(opts)))
}

// Count returns the number of assistants that Search would find without a limit.
func (s Assistants) Count(ctx context.Context, opts *AssistantSearch) (int, error) {
	opts = orEmpty(opts)
	return number(ctx, s.c, read("/assistants/count", &AssistantSearch{Metadata: opts.Metadata, Graph: opts.Graph, Name: opts.Name}))
}

// Versions returns the versions of an assistant, newest first. It uses only the
// metadata, the limit, and the offset of opts.
func (s Assistants) Versions(ctx context.Context, id string, opts *AssistantSearch) ([]Assistant, error) {
	opts = orEmpty(opts)
	body := &AssistantSearch{Metadata: opts.Metadata, Page: Page{Limit: opts.Limit, Offset: opts.Offset}}
	return list[Assistant](ctx, s.c, read(assistantPath(id, "versions"), body))
}

// SetLatest makes an earlier version of an assistant current again.
func (s Assistants) SetLatest(ctx context.Context, id string, version int) (*Assistant, error) {
	return object[Assistant](ctx, s.c, read(assistantPath(id, "latest"), map[string]int{"version": version}))
}

// Graph returns the diagram of an assistant's graph. It expands subgraphs to a depth of
// xray; 0 expands none, and a negative depth expands all.
func (s Assistants) Graph(ctx context.Context, id string, xray int) (draw.Shape, error) {
	depth := "false"
	switch {
	case xray < 0:
		depth = "true"
	case xray > 0:
		depth = strconv.Itoa(xray)
	}
	var drawn struct {
		Nodes []struct {
			ID       string          `json:"id"`
			Data     json.RawMessage `json:"data"`
			Metadata map[string]any  `json:"metadata"`
		} `json:"nodes"`
		Edges []struct {
			draw.Edge
			Label any `json:"data"` // not always a string
		} `json:"edges"`
	}
	if err := s.c.call(ctx, get(assistantPath(id, "graph"), url.Values{"xray": {depth}}), &drawn); err != nil {
		return draw.Shape{}, err
	}
	out := draw.Shape{}
	for _, n := range drawn.Nodes {
		var data struct {
			Name string `json:"name"`
		}
		_ = json.Unmarshal(n.Data, &data) // the start node has a schema there, or nothing
		out.Nodes = append(out.Nodes, draw.Node{ID: n.ID, Name: data.Name, Metadata: n.Metadata})
	}
	for _, e := range drawn.Edges {
		e.Edge.Label, _ = e.Label.(string)
		out.Edges = append(out.Edges, e.Edge)
	}
	return out, nil
}

// Schemas contains the JSON schemas of a graph. Missing schemas are null.
type Schemas struct {
	Graph   string          `json:"graph_id"`
	Input   json.RawMessage `json:"input_schema"`
	Output  json.RawMessage `json:"output_schema"`
	State   json.RawMessage `json:"state_schema"`
	Config  json.RawMessage `json:"config_schema"`
	Context json.RawMessage `json:"context_schema"`
}

// Schemas returns the schemas of an assistant's graph.
func (s Assistants) Schemas(ctx context.Context, id string) (*Schemas, error) {
	return object[Schemas](ctx, s.c, get(assistantPath(id, "schemas"), nil))
}

// Subgraphs returns the schemas of the subgraphs in an assistant's graph, by the node
// that runs them. With recurse, it includes all depths. With a namespace, it returns
// only the subgraph of that node.
func (s Assistants) Subgraphs(ctx context.Context, id, namespace string, recurse bool) (map[string]Schemas, error) {
	path := assistantPath(id, "subgraphs")
	if namespace != "" {
		path = assistantPath(id, "subgraphs", namespace)
	}
	var out map[string]Schemas
	err := s.c.call(ctx, get(path, url.Values{"recurse": {strconv.FormatBool(recurse)}}), &out)
	return out, err
}
