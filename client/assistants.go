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

// Assistants has the requests about assistants. Where a method takes the id of an
// assistant, the name of a graph means the assistant that the server makes for it.
type Assistants struct{ c *Client }

// Assistant is a graph with a configuration.
type Assistant struct {
	ID          string         `json:"assistant_id"`
	Graph       string         `json:"graph_id"`
	Version     int            `json:"version"` // of the configuration, from 1
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Config      map[string]any `json:"config"`
	Context     map[string]any `json:"context"`
	Metadata    map[string]any `json:"metadata"`
	Created     time.Time      `json:"created_at"`
	Updated     time.Time      `json:"updated_at"` // zero in a list of versions
}

// AssistantCreate says how an assistant is created, or what Update changes of it.
type AssistantCreate struct {
	Graph       string         `json:"graph_id,omitempty"`
	ID          string         `json:"assistant_id,omitempty"` // a UUID; "" for a new one
	Config      map[string]any `json:"config,omitempty"`
	Context     map[string]any `json:"context,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"` // in an update, merged into those there are
	Name        string         `json:"name,omitempty"`
	Description string         `json:"description,omitempty"`
	// IfExists is "raise", the default, or "do_nothing", which returns an assistant that
	// exists. Updates do not have it.
	IfExists string `json:"if_exists,omitempty"`
}

// graphNamespace is that of the ids of assistants that servers make for their graphs.
var graphNamespace = uuid.MustParse("6ba7b821-9dad-11d1-80b4-00c04fd430c8")

// assistantPath is a path about an assistant. LangGraph's Python server takes only ids there.
func assistantPath(id string, parts ...string) string {
	if _, err := uuid.Parse(id); id != "" && err != nil {
		id = uuid.NewSHA1(graphNamespace, []byte(id)).String()
	}
	return pathOf(append([]string{"assistants", id}, parts...)...)
}

// Create creates an assistant.
func (s Assistants) Create(ctx context.Context, o *AssistantCreate) (*Assistant, error) {
	body := *orEmpty(o)
	if body.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		body.ID, body.IfExists = id.String(), "do_nothing" // nobody else has this id
	}
	r := write("/assistants", &body)
	r.repeatable = body.IfExists == "do_nothing"
	return object[Assistant](ctx, s.c, r)
}

// Get returns an assistant.
func (s Assistants) Get(ctx context.Context, id string) (*Assistant, error) {
	return object[Assistant](ctx, s.c, get(assistantPath(id), nil))
}

// Update changes an assistant, which makes a new version of it. Fields of o that are empty
// stay as they are.
func (s Assistants) Update(ctx context.Context, id string, o *AssistantCreate) (*Assistant, error) {
	body := *orEmpty(o)
	body.ID, body.IfExists = "", ""
	return object[Assistant](ctx, s.c, &request{method: http.MethodPatch, path: assistantPath(id), body: &body})
}

// Delete deletes an assistant, and with threads also the threads that it was used on.
func (s Assistants) Delete(ctx context.Context, id string, threads bool) error {
	return s.c.call(ctx, remove(assistantPath(id), url.Values{"delete_threads": {strconv.FormatBool(threads)}}), nil)
}

// AssistantSearch says which assistants are wanted. The zero value, and nil, find all.
type AssistantSearch struct {
	Metadata map[string]any `json:"metadata,omitempty"` // what an assistant's metadata contain
	Graph    string         `json:"graph_id,omitempty"`
	Name     string         `json:"name,omitempty"` // a part of the name
	Page
}

// Search finds assistants, the newest first by default.
func (s Assistants) Search(ctx context.Context, o *AssistantSearch) ([]Assistant, error) {
	return list[Assistant](ctx, s.c, read("/assistants/search", orEmpty(o)))
}

// Count counts the assistants that Search would find with no limit.
func (s Assistants) Count(ctx context.Context, o *AssistantSearch) (int, error) {
	o = orEmpty(o)
	return number(ctx, s.c, read("/assistants/count", &AssistantSearch{Metadata: o.Metadata, Graph: o.Graph, Name: o.Name}))
}

// Versions returns the versions of an assistant, newest first. Of o only the metadata, the
// limit and the offset matter.
func (s Assistants) Versions(ctx context.Context, id string, o *AssistantSearch) ([]Assistant, error) {
	o = orEmpty(o)
	body := &AssistantSearch{Metadata: o.Metadata, Page: Page{Limit: o.Limit, Offset: o.Offset}}
	return list[Assistant](ctx, s.c, read(assistantPath(id, "versions"), body))
}

// SetLatest goes back to a version of an assistant.
func (s Assistants) SetLatest(ctx context.Context, id string, version int) (*Assistant, error) {
	return object[Assistant](ctx, s.c, read(assistantPath(id, "latest"), map[string]int{"version": version}))
}

// Graph returns the drawing of an assistant's graph. Nested graphs are opened to a depth of
// xray; 0 leaves them closed, and a negative one opens all.
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
			Label any `json:"data"` // not always a text
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
		_ = json.Unmarshal(n.Data, &data) // the start has a schema there, or nothing
		out.Nodes = append(out.Nodes, draw.Node{ID: n.ID, Name: data.Name, Metadata: n.Metadata})
	}
	for _, e := range drawn.Edges {
		e.Edge.Label, _ = e.Label.(string)
		out.Edges = append(out.Edges, e.Edge)
	}
	return out, nil
}

// Schemas are the JSON schemas of a graph. Those that it does not have are null.
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

// Subgraphs returns the schemas of the graphs that are nested in an assistant's graph, by the
// node that runs them, in all depths with recurse. With a namespace it returns the one of that
// node.
func (s Assistants) Subgraphs(ctx context.Context, id, namespace string, recurse bool) (map[string]Schemas, error) {
	path := assistantPath(id, "subgraphs")
	if namespace != "" {
		path = assistantPath(id, "subgraphs", namespace)
	}
	var out map[string]Schemas
	err := s.c.call(ctx, get(path, url.Values{"recurse": {strconv.FormatBool(recurse)}}), &out)
	return out, err
}
