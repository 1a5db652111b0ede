package pregel

import (
	"fmt"

	"github.com/treadle-go/treadle/internal/caught"
)

// fromCache looks for an earlier result of the same input.
func (t *Task) fromCache(sc *scope) (hit bool, key string, err error) {
	c := t.node.Cache
	if c == nil || t.run.set.Cache == nil {
		return false, "", nil
	}
	in := t.input()
	if c.Key != nil {
		if key, err = c.keyOf(in); err != nil {
			return false, "", err
		}
	} else {
		if t.node.nest != nil && t.packet == nil {
			in = t.inputRecord() // all that the graph inherits, also what its input type holds otherwise
		}
		raw, err := toJSON(in)
		if err != nil {
			return false, "", fmt.Errorf("cache: the input has no JSON to make a key of: %w", err)
		}
		key = string(raw)
	}
	raw, ok, err := t.run.set.Cache.Get(sc, t.cacheSpace(), key)
	if err != nil {
		return false, key, t.fails(fmt.Errorf("cache: %w", err))
	}
	if !ok {
		return false, key, nil
	}
	if whole, err := t.readResult(raw); err != nil || !whole {
		t.out.clear()
		return false, key, nil //nolint:nilerr // written by another version of the graph: the node runs
	}
	return true, key, nil
}

// keyOf asks the user's function for the key of an input.
func (c *CachePolicy) keyOf(in any) (key string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught.New("cache key: ", p)
		}
	}()
	return c.Key(in), nil
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
	if err := t.run.set.Cache.Set(sc, t.cacheSpace(), key, raw, c.TTL); err != nil {
		return t.fails(fmt.Errorf("cache: %w", err))
	}
	return nil
}
