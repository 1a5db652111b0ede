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

// Store groups the methods for the server's store, which keeps data across threads. A
// namespace is a list of labels; a label must not be empty or contain a dot.
type Store struct{ c *Client }

// An Item is an item in the store.
type Item struct {
	Namespace []string        `json:"namespace"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"` // an object
	Created   time.Time       `json:"created_at"`
	Updated   time.Time       `json:"updated_at"`
	Score     float64         `json:"score"` // set by a search with a query
	// On servers of this module: data about the value, such as its source, and the
	// explanation of the item's score, if ItemSearch.Explain is set.
	Meta        json.RawMessage `json:"meta"`
	Explanation json.RawMessage `json:"explanation"`
}

// ItemPut configures [Store.Put].
type ItemPut struct {
	// Index lists the paths of the value to index for semantic search; nil means the
	// server's default.
	Index   []string
	NoIndex bool          // do not index the value for semantic search
	TTL     time.Duration // time to live; 0 means the server's default
	Meta    any           // on servers of this module: data about the value
}

// Put stores a value, which must marshal to a JSON object.
func (s Store) Put(ctx context.Context, namespace []string, key string, value any, opts *ItemPut) error {
	opts = orEmpty(opts)
	body := map[string]any{"namespace": namespace, "key": key, "value": value}
	switch {
	case opts.NoIndex:
		body["index"] = false
	case opts.Index != nil:
		body["index"] = opts.Index
	}
	if opts.TTL != 0 {
		body["ttl"] = opts.TTL.Minutes()
	}
	if opts.Meta != nil {
		body["meta"] = opts.Meta
	}
	return s.c.call(ctx, &request{method: http.MethodPut, path: "/store/items", body: body, repeatable: true}, nil)
}

// ItemGet configures [Store.Get].
type ItemGet struct {
	// Refresh controls whether a read resets the item's TTL; nil means the server's
	// default.
	Refresh *bool
}

// Get returns an item. It returns an error matching [ErrNotFound] if the item does not
// exist.
func (s Store) Get(ctx context.Context, namespace []string, key string, opts *ItemGet) (*Item, error) {
	query, err := itemQuery(namespace, key)
	if err != nil {
		return nil, err
	}
	if opts != nil && opts.Refresh != nil {
		query.Set("refresh_ttl", strconv.FormatBool(*opts.Refresh))
	}
	r := get("/store/items", query)
	var item *Item
	if err := s.c.call(ctx, r, &item); err != nil {
		return nil, err
	}
	if item == nil { // LangGraph's servers send null
		return nil, &Error{Method: r.method, Path: r.path, Status: http.StatusNotFound, Detail: fmt.Sprintf("no item %q in namespace %q", key, strings.Join(namespace, "."))}
	}
	return item, nil
}

// itemQuery returns the query parameters that identify an item, with the labels of the
// namespace joined by dots.
func itemQuery(namespace []string, key string) (url.Values, error) {
	for _, label := range namespace {
		if label == "" || strings.Contains(label, ".") {
			return nil, fmt.Errorf("client: store: invalid namespace %q: empty label, or label with a dot", namespace)
		}
	}
	return url.Values{"namespace": {strings.Join(namespace, ".")}, "key": {key}}, nil
}

// ItemChange is a change to an item.
type ItemChange struct {
	Kind  string          `json:"kind"` // "put", "deleted", "expired", or "forgotten"
	At    time.Time       `json:"at"`
	Value json.RawMessage `json:"value"` // of a put
	Meta  json.RawMessage `json:"meta"`
}

// History returns the changes to an item that the store has kept, newest first. Only
// servers of this module support it.
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

// Delete deletes an item. Deleting a missing item is not an error.
func (s Store) Delete(ctx context.Context, namespace []string, key string) error {
	r := remove("/store/items", nil)
	r.body = map[string]any{"namespace": namespace, "key": key}
	return s.c.call(ctx, r, nil)
}

// ItemSearch configures [Store.Search].
type ItemSearch struct {
	// Filter maps fields to values or operators: {"age": {"$gte": 18}}.
	Filter map[string]any `json:"filter,omitempty"`
	Query  string         `json:"query,omitempty"` // text to rank the items by
	Limit  int            `json:"limit,omitempty"` // at most 1,000; 0 means 10
	Offset int            `json:"offset,omitempty"`
	// Refresh controls whether a read resets the item's TTL; nil means the server's
	// default.
	Refresh *bool `json:"refresh_ttl,omitempty"`
	Explain bool  `json:"explain,omitempty"` // explain the scores, on servers of this module
}

// Search returns items in the namespaces that start with prefix.
func (s Store) Search(ctx context.Context, prefix []string, opts *ItemSearch) ([]Item, error) {
	body := struct {
		Prefix []string `json:"namespace_prefix"`
		*ItemSearch
	}{append([]string{}, prefix...), orEmpty(opts)}
	var answer struct {
		Items []Item `json:"items"`
	}
	err := s.c.call(ctx, read("/store/items/search", &body), &answer)
	return answer.Items, err
}

// NamespaceSearch selects namespaces. A nil *NamespaceSearch, like the zero value,
// selects all.
type NamespaceSearch struct {
	Prefix   []string `json:"prefix,omitempty"`
	Suffix   []string `json:"suffix,omitempty"`
	MaxDepth int      `json:"max_depth,omitempty"` // truncates longer namespaces; 0 means no limit
	Limit    int      `json:"limit,omitempty"`     // at most 1,000; 0 means 100
	Offset   int      `json:"offset,omitempty"`
}

// Namespaces returns the namespaces that contain items.
func (s Store) Namespaces(ctx context.Context, opts *NamespaceSearch) ([][]string, error) {
	var answer struct {
		Namespaces [][]string `json:"namespaces"`
	}
	err := s.c.call(ctx, read("/store/namespaces", orEmpty(opts)), &answer)
	return answer.Namespaces, err
}
