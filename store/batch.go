package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/treadle-go/treadle/internal/observe"
)

// MaxValue is the maximum size, in bytes of JSON, of a value and of a meta.
const MaxValue = 16 << 20

// plan is a batch under construction.
type plan struct {
	store   *Store
	batch   Batch
	embed   embedding
	asked   embedding      // the queries of a QueryEmbedder
	puts    map[int][]text // the texts of each write
	queries map[*Query]queryText
	writes  map[string]int // by encoded namespace and key
	finish  []func(*Results) Result
}

// do checks and encodes the operations, embeds their texts, and calls the backend. It
// reads and writes nothing until all operations have been checked.
func (s *Store) do(ctx context.Context, at time.Time, ops ...Op) ([]Result, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if t := observe.TracerOf(ctx); t != nil {
		return s.traced(ctx, t, at, ops)
	}
	return s.perform(ctx, at, ops)
}

// traced is like perform, but records a span.
func (s *Store) traced(ctx context.Context, t *observe.Tracer, at time.Time, ops []Op) (out []Result, err error) {
	kept := append(make([]Op, 0, len(ops)), ops...) // so that ops itself stays on the caller's stack
	ctx, span := t.Start(ctx, &observe.Op{Kind: observe.Store, Name: nameOf(ops), Count: len(ops), Input: kept})
	defer func() { span.End(out, err) }()
	return s.perform(ctx, at, ops)
}

// nameOf returns the span name of a batch.
func nameOf(ops []Op) string {
	if len(ops) != 1 {
		return "batch"
	}
	switch ops[0].(type) {
	case GetOp:
		return "get"
	case PutOp:
		return "put"
	case DeleteOp:
		return "delete"
	case SearchOp:
		return "search"
	case NamespacesOp:
		return "namespaces"
	case forgetOp:
		return "forget"
	}
	return "batch"
}

func (s *Store) perform(ctx context.Context, at time.Time, ops []Op) ([]Result, error) {
	p := &plan{store: s, batch: Batch{Now: s.now(), AsOf: at}}
	for i, op := range ops {
		if err := p.add(op); err != nil {
			if len(ops) > 1 {
				err = fmt.Errorf("operation %d: %w", i, err)
			}
			return nil, err
		}
	}
	if len(p.puts) > 0 || len(p.queries) > 0 {
		if err := s.compareModels(ctx); err != nil {
			return nil, err
		}
	}
	if err := p.index(ctx); err != nil {
		return nil, err
	}
	if len(p.queries) > 0 {
		if err := s.ensureFresh(ctx); err != nil {
			return nil, err
		}
	}
	results, err := s.backend.Do(ctx, &p.batch)
	if err != nil {
		return nil, err
	}
	out := make([]Result, len(ops))
	for i, finish := range p.finish {
		out[i] = finish(results)
	}
	return out, nil
}

func (p *plan) add(op Op) error {
	switch op := op.(type) {
	case GetOp:
		return p.addGet(op)
	case PutOp:
		return p.addPut(op)
	case DeleteOp:
		return p.addDelete(op)
	case SearchOp:
		return p.addSearch(op)
	case NamespacesOp:
		return p.addNamespaces(op)
	case forgetOp:
		return p.addForget(op)
	}
	if op == nil {
		return &InvalidError{What: "operation", Reason: "is nil"}
	}
	return &InvalidError{What: "operation", Reason: fmt.Sprintf("is a %T: pass it by value", op)}
}

func (p *plan) refreshes(no bool) bool {
	return !no && !p.store.opts.NoRefresh && !p.batch.Past()
}

func (p *plan) addGet(op GetOp) error {
	if err := checkKey(op.Namespace, op.Key); err != nil {
		return err
	}
	i := len(p.batch.Gets)
	p.batch.Gets = append(p.batch.Gets, Lookup{slices.Clone(op.Namespace), op.Key, p.refreshes(op.NoRefresh)})
	p.finish = append(p.finish, func(r *Results) Result { return Result{Item: itemOf(r.Gets[i])} })
	return nil
}

func (p *plan) addPut(op PutOp) error {
	if err := checkKey(op.Namespace, op.Key); err != nil {
		return err
	}
	where := fmt.Sprintf("of key %q in namespace %v", op.Key, op.Namespace)
	w := Write{Namespace: slices.Clone(op.Namespace), Key: op.Key, Kind: Put, Keep: p.store.opts.History}
	var err error
	if w.Value, err = object(op.Value); err != nil {
		return &InvalidError{What: "value " + where, Reason: err.Error()}
	}
	if op.Meta != nil {
		if w.Meta, err = object(op.Meta); err != nil {
			return &InvalidError{What: "meta " + where, Reason: err.Error()}
		}
	}
	if w.TTL, err = p.store.ttl(op.TTL); err != nil {
		return &InvalidError{What: "TTL " + where, Reason: err.Error()}
	}
	if w.If, err = condition(op.IfVersion, op.IfAbsent); err != nil {
		return &InvalidError{What: "put " + where, Reason: err.Error()}
	}
	texts, err := p.store.indexes(&w, &op.PutOptions)
	if err != nil {
		return &InvalidError{What: "index " + where, Reason: err.Error()}
	}
	i, err := p.addWrite(w)
	if err != nil {
		return err
	}
	if p.puts == nil {
		p.puts = map[int][]text{}
	}
	p.puts[i] = texts
	p.finish = append(p.finish, func(r *Results) Result { return Result{Item: itemOf(r.Writes[i])} })
	return nil
}

func (p *plan) addDelete(op DeleteOp) error {
	if err := checkKey(op.Namespace, op.Key); err != nil {
		return err
	}
	w := Write{Namespace: slices.Clone(op.Namespace), Key: op.Key, Kind: Deleted, Keep: p.store.opts.History}
	var err error
	if w.If, err = condition(op.IfVersion, false); err != nil {
		return &InvalidError{What: fmt.Sprintf("delete of key %q in namespace %v", op.Key, op.Namespace), Reason: err.Error()}
	}
	i, err := p.addWrite(w)
	delete(p.puts, i)
	p.finish = append(p.finish, func(*Results) Result { return Result{} })
	return err
}

func (p *plan) addForget(op forgetOp) error {
	if !op.branch {
		err := checkKey(op.namespace, op.key)
		if op.all {
			err = op.namespace.check(false)
		}
		if err != nil {
			return err
		}
	}
	_, err := p.addWrite(Write{Namespace: slices.Clone(op.namespace), Key: op.key, Kind: Forgotten, Keep: 1})
	p.finish = append(p.finish, func(*Results) Result { return Result{} })
	return err
}

// addWrite adds a write, replacing an earlier write to the same key.
func (p *plan) addWrite(w Write) (int, error) {
	id := append(slices.Clone(w.Namespace), w.Key).Encode()
	if i, ok := p.writes[id]; ok {
		if w.If != nil || p.batch.Writes[i].If != nil {
			return 0, &InvalidError{What: fmt.Sprintf("key %q in namespace %v", w.Key, w.Namespace),
				Reason: "is written twice in one batch with a version condition: write it once"}
		}
		p.batch.Writes[i] = w
		return i, nil
	}
	if p.writes == nil {
		p.writes = map[string]int{}
	}
	p.writes[id] = len(p.batch.Writes)
	p.batch.Writes = append(p.batch.Writes, w)
	return len(p.batch.Writes) - 1, nil
}

// object marshals v to a JSON object.
func object(v any) (json.RawMessage, error) {
	raw, err := marshal(v)
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be encoded as JSON: %w", err)
	case raw[0] != '{':
		return nil, fmt.Errorf("is not a JSON object: %.40s", raw)
	case !utf8.Valid(raw):
		return nil, fmt.Errorf("contains invalid UTF-8")
	case len(raw) > MaxValue:
		return nil, fmt.Errorf("has %d bytes: the limit is %d", len(raw), MaxValue)
	}
	return raw, nil
}

func (s *Store) ttl(ttl time.Duration) (time.Duration, error) {
	switch {
	case ttl == Forever:
		return 0, nil
	case ttl == 0:
		return s.opts.TTL.Truncate(time.Microsecond), nil
	case ttl < time.Microsecond:
		return 0, fmt.Errorf("is %v: want 1µs or more, or Forever", ttl)
	}
	return ttl.Truncate(time.Microsecond), nil
}

func condition(version int64, absent bool) (*int64, error) {
	switch {
	case version < 0:
		return nil, fmt.Errorf("has an invalid IfVersion %d: want 1 or more, or 0 for any", version)
	case version > 0 && absent:
		return nil, fmt.Errorf("sets both IfVersion and IfAbsent: set only one")
	case version > 0 || absent:
		return &version, nil
	}
	return nil, nil
}

// itemOf returns a copy of a record for the caller.
func itemOf(r *Record) *Item {
	if r == nil {
		return nil
	}
	return &Item{
		Namespace: slices.Clone(r.Namespace), Key: r.Key, Version: r.Seq,
		Value: bytes.Clone(r.Value), Meta: bytes.Clone(r.Meta),
		Created: r.Created, Updated: r.Updated, Expires: r.Expires, TTL: r.TTL,
	}
}

func changeOf(r *Record) Change {
	c := Change{Version: r.Seq, Kind: r.Kind, At: r.Updated, Namespace: slices.Clone(r.Namespace), Key: r.Key}
	if r.Kind == Put {
		c.Item = itemOf(r)
	}
	return c
}
