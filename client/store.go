package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Store has the requests about the server's store, which remembers across threads. A
// namespace is a list of labels; a label must not be empty or have a dot.
type Store struct{ c *Client }

// Item is an item of the store.
type Item struct {
	Namespace []string        `json:"namespace"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"` // an object
	Created   time.Time       `json:"created_at"`
	Updated   time.Time       `json:"updated_at"`
	Score     float64         `json:"score"` // of a search with a query
	// On servers of this module: data about the value, such as its source, and why a search
	// gave the item its score, if ItemSearch.Explain asks.
	Meta        json.RawMessage `json:"meta"`
	Explanation json.RawMessage `json:"explanation"`
}

// ItemPut says how an item is put.
type ItemPut struct {
	// Index has the paths of the value that are searched by meaning; nil means those of the
	// server.
	Index   []string
	NoIndex bool          // the value is not searched by meaning
	TTL     time.Duration // how long the item is kept; 0 means as the server does
	Meta    any           // on servers of this module: data about the value
}

// Put puts a value, which must be an object as JSON.
func (s Store) Put(ctx context.Context, namespace []string, key string, value any, o *ItemPut) error {
	o = orEmpty(o)
	body := map[string]any{"namespace": namespace, "key": key, "value": value}
	switch {
	case o.NoIndex:
		body["index"] = false
	case o.Index != nil:
		body["index"] = o.Index
	}
	if o.TTL != 0 {
		body["ttl"] = o.TTL.Minutes()
	}
	if o.Meta != nil {
		body["meta"] = o.Meta
	}
	return s.c.call(ctx, &request{method: http.MethodPut, path: "/store/items", body: body, repeatable: true}, nil)
}

// ItemGet says how an item is read.
type ItemGet struct {
	// Refresh says whether reading an item starts its TTL anew; nil means as the server does.
	Refresh *bool
}

// Get returns an item. If there is none, the error is an ErrNotFound.
func (s Store) Get(ctx context.Context, namespace []string, key string, o *ItemGet) (*Item, error) {
	query, err := itemQuery(namespace, key)
	if err != nil {
		return nil, err
	}
	if o != nil && o.Refresh != nil {
		query.Set("refresh_ttl", strconv.FormatBool(*o.Refresh))
	}
	r := get("/store/items", query)
	var item *Item
	if err := s.c.call(ctx, r, &item); err != nil {
		return nil, err
	}
	if item == nil { // LangGraph's servers send null
		return nil, &Error{Method: r.method, Path: r.path, Status: http.StatusNotFound, Detail: fmt.Sprintf("there is no item %q in namespace %q", key, strings.Join(namespace, "."))}
	}
	return item, nil
}

// itemQuery names an item in a query, in which a dot is between two labels.
func itemQuery(namespace []string, key string) (url.Values, error) {
	for _, label := range namespace {
		if label == "" || strings.Contains(label, ".") {
			return nil, fmt.Errorf("client: store: the namespace %q has a label that is empty or has a dot", namespace)
		}
	}
	return url.Values{"namespace": {strings.Join(namespace, ".")}, "key": {key}}, nil
}

// ItemChange is a change of an item.
type ItemChange struct {
	Kind  string          `json:"kind"` // "put", "deleted", "expired" or "forgotten"
	At    time.Time       `json:"at"`
	Value json.RawMessage `json:"value"` // of a put
	Meta  json.RawMessage `json:"meta"`
}

// History returns the changes of an item, newest first, as far as the store keeps them. Only
// servers of this module have it.
func (s Store) History(ctx context.Context, namespace []string, key string) ([]ItemChange, error) {
	query, err := itemQuery(namespace, key)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Changes []ItemChange `json:"changes"`
	}
	err = s.c.call(ctx, get("/store/items/history", query), &answer)
	return answer.Changes, err
}

// Delete deletes an item. It is no error if there is none.
func (s Store) Delete(ctx context.Context, namespace []string, key string) error {
	r := remove("/store/items", nil)
	r.body = map[string]any{"namespace": namespace, "key": key}
	return s.c.call(ctx, r, nil)
}

// ItemSearch says which items are wanted.
type ItemSearch struct {
	// Filter has values of fields, or operators: {"age": {"$gte": 18}}.
	Filter map[string]any `json:"filter,omitempty"`
	Query  string         `json:"query,omitempty"` // a text that the items are ranked by
	Limit  int            `json:"limit,omitempty"` // at most 1,000; 0 means 10
	Offset int            `json:"offset,omitempty"`
	// Refresh says whether reading an item starts its TTL anew; nil means as the server does.
	Refresh *bool `json:"refresh_ttl,omitempty"`
	Explain bool  `json:"explain,omitempty"` // the scores of Query, on servers of this module
}

// Search finds items in the namespaces that begin with prefix.
func (s Store) Search(ctx context.Context, prefix []string, o *ItemSearch) ([]Item, error) {
	body := struct {
		Prefix []string `json:"namespace_prefix"`
		*ItemSearch
	}{append([]string{}, prefix...), orEmpty(o)}
	var answer struct {
		Items []Item `json:"items"`
	}
	err := s.c.call(ctx, read("/store/items/search", &body), &answer)
	return answer.Items, err
}

// NamespaceSearch says which namespaces are wanted. The zero value, and nil, find all.
type NamespaceSearch struct {
	Prefix   []string `json:"prefix,omitempty"`
	Suffix   []string `json:"suffix,omitempty"`
	MaxDepth int      `json:"max_depth,omitempty"` // cuts longer ones; 0 means no bound
	Limit    int      `json:"limit,omitempty"`     // at most 1,000; 0 means 100
	Offset   int      `json:"offset,omitempty"`
}

// Namespaces returns the namespaces that have items.
func (s Store) Namespaces(ctx context.Context, o *NamespaceSearch) ([][]string, error) {
	var answer struct {
		Namespaces [][]string `json:"namespaces"`
	}
	err := s.c.call(ctx, read("/store/namespaces", orEmpty(o)), &answer)
	return answer.Namespaces, err
}
