package pregel

import (
	"encoding/json"
	"fmt"
)

// fromCache looks for an earlier result of the same input.
func (t *Task) fromCache(sc *scope) (hit bool, key string, err error) {
	c := t.node.Cache
	if c == nil || t.run.set.Cache == nil {
		return false, "", nil
	}
	in := t.input()
	if c.Key != nil {
		key = c.Key(in)
	} else {
		if t.node.nest != nil && t.packet == nil {
			in = t.inputRecord() // all that the graph inherits, also what its input type holds otherwise
		}
		raw, err := json.Marshal(in)
		if err != nil {
			return false, "", fmt.Errorf("cache: the input has no JSON to make a key of: %w", err)
		}
		key = string(raw)
	}
	raw, ok, err := t.run.set.Cache.Get(sc, t.cacheSpace(), key)
	if err != nil || !ok {
		return false, key, err
	}
	if whole, err := t.readResult(raw); err != nil || !whole {
		t.out.clear()
		return false, key, nil //nolint:nilerr // written by another version of the graph: the node runs
	}
	return true, key, nil
}

func (t *Task) cacheSpace() string { return CacheSpace(t.run.plan.name, t.node.Name) }

// CacheSpace is where the cached results of a node are.
func CacheSpace(graph, node string) string { return "node/" + graph + "/" + node }

// toCache stores a result; only a success is ever stored.
func (t *Task) toCache(sc *scope, key string) error {
	c := t.node.Cache
	if c == nil || t.run.set.Cache == nil {
		return nil
	}
	raw, err := t.encodeResult(false)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	return t.run.set.Cache.Set(sc, t.cacheSpace(), key, raw, c.TTL)
}
