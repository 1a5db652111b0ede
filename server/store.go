package server

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/store"
)

type itemBody struct {
	Namespace []string        `json:"namespace"`
	Key       *string         `json:"key"`
	Value     json.RawMessage `json:"value"`
	Index     json.RawMessage `json:"index"`
	TTL       *float64        `json:"ttl"`
	Meta      json.RawMessage `json:"meta"`
}

// itemJSON is an item as sent to clients.
type itemJSON struct {
	Namespace store.Namespace `json:"namespace"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	Created   time.Time       `json:"created_at"`
	Updated   time.Time       `json:"updated_at"`
	Score     *float64        `json:"score,omitempty"`
	Meta      json.RawMessage `json:"meta,omitempty"` // such as memory.Provenance; omitted if there is none
	Why       *explanation    `json:"explanation,omitempty"`
}

// explanation explains a score. A rank of zero means that the search method did not find the
// item.
type explanation struct {
	Similarity     float64  `json:"similarity,omitempty"`
	SimilarityRank int      `json:"similarity_rank,omitempty"`
	Field          string   `json:"field,omitempty"`
	Keyword        float64  `json:"keyword,omitempty"`
	KeywordRank    int      `json:"keyword_rank,omitempty"`
	Terms          []string `json:"terms,omitempty"`
}

// namespace checks that the caller may use a namespace, and returns the namespace that a handler
// may have substituted.
func (storeAPI) namespace(c *call, ns []string, more map[string]any) (store.Namespace, error) {
	if ns == nil {
		ns = []string{}
	}
	for _, label := range ns {
		if label == "" || strings.Contains(label, ".") {
			return nil, invalid("namespace", "label %q is empty or contains a dot", label)
		}
	}
	value := map[string]any{"namespace": ns}
	maps.Copy(value, more)
	f, err := c.allow(value)
	if err != nil {
		return nil, err
	}
	if f != nil { // items have no metadata, so the filter would match everything
		return nil, fail(http.StatusForbidden, "store does not support filters: an Auth handler for \"store\" must change the namespace instead")
	}
	switch changed := value["namespace"].(type) {
	case []string:
		return changed, nil
	case store.Namespace:
		return changed, nil
	}
	return nil, errors.New("server: Auth handler set the namespace to a value other than []string")
}

func (s storeAPI) put(c *call) error {
	var b itemBody
	if err := c.decode(&b); err != nil {
		return err
	}
	if b.Key == nil {
		return invalid("key", "required")
	}
	if len(b.Namespace) == 0 {
		return fail(http.StatusBadRequest, "namespace: want at least one label")
	}
	var object ledger.Object
	if err := json.Unmarshal(b.Value, &object); err != nil || object == nil {
		return invalid("value", "want an object")
	}
	o := &store.PutOptions{}
	if err := b.index(o); err != nil {
		return err
	}
	if b.TTL != nil {
		if *b.TTL <= 0 || *b.TTL > maxMinutes {
			return invalid("ttl", "want minutes above 0 and up to %d, not %v", maxMinutes, *b.TTL)
		}
		o.TTL = time.Duration(*b.TTL * float64(time.Minute))
	}
	if err := b.meta(o); err != nil {
		return err
	}
	ns, err := s.namespace(c, b.Namespace, map[string]any{"key": *b.Key, "value": map[string]any(object)})
	if err != nil {
		return err
	}
	if err := s.store.Put(c.r.Context(), ns, *b.Key, b.Value, o); err != nil {
		return err
	}
	return c.none()
}

// index parses which parts of a value are indexed for semantic search.
func (b *itemBody) index(opts *store.PutOptions) error {
	if len(b.Index) == 0 || string(b.Index) == "null" {
		return nil
	}
	var on bool
	if json.Unmarshal(b.Index, &on) == nil {
		opts.NoIndex = !on
		return nil
	}
	if json.Unmarshal(b.Index, &opts.Index) != nil {
		return invalid("index", "want false or a list of paths")
	}
	return nil
}

// meta parses an item's metadata. A put without metadata removes that of the old item.
func (b *itemBody) meta(opts *store.PutOptions) error {
	if len(b.Meta) == 0 || string(b.Meta) == "null" {
		return nil
	}
	var object ledger.Object
	if err := json.Unmarshal(b.Meta, &object); err != nil {
		return invalid("meta", "want an object")
	}
	opts.Meta = b.Meta
	return nil
}

// named returns the key in the query and the namespace to use for the namespace in the
// query.
func (s storeAPI) named(c *call) (key string, in store.Namespace, err error) {
	q := c.query()
	key = q.Get("key")
	var ns []string
	if text := q.Get("namespace"); text != "" {
		ns = strings.Split(text, ".")
	}
	in, err = s.namespace(c, ns, map[string]any{"key": key})
	return key, in, err
}

func (s storeAPI) get(c *call) error {
	q := c.query()
	key, in, err := s.named(c)
	if err != nil {
		return err
	}
	o := &store.GetOptions{}
	if q.Has("refresh_ttl") {
		refresh, err := q.bool("refresh_ttl")
		if err != nil {
			return err
		}
		o.NoRefresh = !refresh
	}
	item, err := s.store.Get(c.r.Context(), in, key, o)
	if errors.Is(err, store.ErrNotFound) {
		return c.json(http.StatusOK, json.RawMessage("null")) // as LangGraph's servers do; its Python client returns None
	}
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, itemOf(item, false))
}

// changeJSON is a change of an item as sent to clients.
type changeJSON struct {
	Kind  store.Kind      `json:"kind"`
	At    time.Time       `json:"at"`
	Value json.RawMessage `json:"value,omitempty"` // only for a put
	Meta  json.RawMessage `json:"meta,omitempty"`
}

// history returns the changes of an item. LangGraph's servers have no equivalent.
func (s storeAPI) history(c *call) error {
	key, in, err := s.named(c)
	if err != nil {
		return err
	}
	changes, err := s.store.History(c.r.Context(), in, key)
	if err != nil {
		return err
	}
	out := make([]changeJSON, len(changes))
	for i, change := range changes {
		out[i] = changeJSON{Kind: change.Kind, At: change.At}
		if item := change.Item; item != nil {
			out[i].Value, out[i].Meta = item.Value, item.Meta
		}
	}
	return c.json(http.StatusOK, map[string]any{"changes": out})
}

func itemOf(item *store.Item, scored bool) *itemJSON {
	out := &itemJSON{
		Namespace: item.Namespace,
		Key:       item.Key,
		Value:     item.Value,
		Created:   item.Created,
		Updated:   item.Updated,
		Meta:      item.Meta,
	}
	if scored {
		out.Score = &item.Score
	}
	if e := item.Explanation; e != nil {
		out.Why = &explanation{
			Similarity:     e.Similarity,
			SimilarityRank: e.SimilarityRank,
			Field:          e.Field,
			Keyword:        e.Keyword,
			KeywordRank:    e.KeywordRank,
			Terms:          e.Terms,
		}
	}
	return out
}

func (s storeAPI) remove(c *call) error {
	var b itemBody
	if err := c.decode(&b); err != nil {
		return err
	}
	if b.Key == nil { // some clients send parameters instead
		if key := c.query().Get("key"); key != "" {
			b.Key, b.Namespace = &key, strings.Split(c.query().Get("namespace"), ".")
		} else {
			return invalid("key", "required")
		}
	}
	ns, err := s.namespace(c, b.Namespace, map[string]any{"key": *b.Key})
	if err != nil {
		return err
	}
	if err := s.store.Delete(c.r.Context(), ns, *b.Key, nil); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return c.none()
}

type itemSearch struct {
	Prefix []string        `json:"namespace_prefix"`
	Filter json.RawMessage `json:"filter"`
	Limit  *int            `json:"limit"`
	Offset int             `json:"offset"`
	Query  string          `json:"query"`
	Renew  *bool           `json:"refresh_ttl"`

	Explain bool `json:"explain"` // explain the scores
}

func (s storeAPI) search(c *call) error {
	var b itemSearch
	if err := c.decode(&b); err != nil {
		return err
	}
	o := &store.SearchOptions{Query: b.Query, Limit: 10, Offset: b.Offset, NoRefresh: b.Renew != nil && !*b.Renew, Explain: b.Explain && b.Query != ""}
	if b.Limit != nil {
		o.Limit = *b.Limit
	}
	if o.Limit < 1 || o.Limit > 1000 {
		return invalid("limit", "want a number from 1 to 1000, not %d", o.Limit)
	}
	if o.Offset < 0 {
		return invalid("offset", "want a number that is not negative, not %d", o.Offset)
	}
	if len(b.Filter) > 0 && string(b.Filter) != "null" {
		f, err := store.ParseFilter(b.Filter)
		if err != nil {
			return invalid("filter", "%v", err)
		}
		o.Filter = f
	}
	ns, err := s.namespace(c, b.Prefix, map[string]any{"query": b.Query})
	if err != nil {
		return err
	}
	items, err := s.store.Search(c.r.Context(), ns, o)
	if err != nil {
		return err
	}
	out := make([]*itemJSON, len(items))
	for i, item := range items {
		out[i] = itemOf(item, b.Query != "")
	}
	return c.json(http.StatusOK, map[string]any{"items": out})
}

type namespaceSearch struct {
	Prefix   []string `json:"prefix"`
	Suffix   []string `json:"suffix"`
	MaxDepth int      `json:"max_depth"`
	Limit    *int     `json:"limit"`
	Offset   int      `json:"offset"`
}

func (s storeAPI) namespaces(c *call) error {
	var b namespaceSearch
	if err := c.decode(&b); err != nil {
		return err
	}
	o := &store.NamespacesOptions{Suffix: b.Suffix, MaxDepth: b.MaxDepth, Limit: 100, Offset: b.Offset}
	if b.Limit != nil {
		o.Limit = *b.Limit
	}
	if o.Limit < 1 || o.Limit > 1000 || o.Offset < 0 || o.MaxDepth < 0 {
		return invalid("limit", "want a limit from 1 to 1000, and neither offset nor max_depth negative")
	}
	ns, err := s.namespace(c, b.Prefix, map[string]any{"suffix": b.Suffix, "max_depth": b.MaxDepth})
	if err != nil {
		return err
	}
	o.Prefix = ns
	found, err := s.store.Namespaces(c.r.Context(), o)
	if err != nil {
		return err
	}
	if found == nil {
		found = []store.Namespace{}
	}
	return c.json(http.StatusOK, map[string]any{"namespaces": found})
}
