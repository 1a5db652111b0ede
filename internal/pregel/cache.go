package pregel

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"weak"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/caught"
)

// Func identifies a function in a cache, so that functions do not receive each
// other's results.
type Func struct {
	name string // the same in every process
	id   any    // distinguishes functions with the same name within the process; comparable
	own  *checkpoint.MemoryCache
}

// NewFunc returns the identity of fn, which is a function or a *Plan.
func NewFunc(fn any) *Func {
	f := &Func{own: checkpoint.NewMemoryCache()}
	if p, ok := fn.(*Plan); ok {
		f.name, f.id = "graph "+p.name, p
		return f
	}
	v := reflect.ValueOf(fn)
	f.name = runtime.FuncForPC(v.Pointer()).Name() + " " + v.Type().String()
	// A function value is a pointer to its code and its captured variables. All
	// closures of one literal share the code, but not the pointer.
	holder := reflect.New(v.Type())
	holder.Elem().Set(v)
	f.id = *(**byte)(holder.UnsafePointer())
	return f
}

// claim records the function that owns a place in a cache. A place consists of the
// name of a node or task and the name of its function.
type claim struct {
	mu      sync.RWMutex
	by      any  // the id of a Func
	several bool // used by several closures of one literal, which share their name
}

// claims holds the claims of all caches. It does not keep the caches alive.
var claims = struct {
	mu sync.Mutex
	of map[any]map[string]*claim
}{of: map[any]map[string]*claim{}}

func claimOf(cache checkpoint.Cache, place string) *claim {
	claims.mu.Lock()
	defer claims.mu.Unlock()
	var key any
	v := reflect.ValueOf(cache)
	switch {
	case v.Kind() == reflect.Pointer:
		ptr := (*byte)(v.UnsafePointer())
		at := weak.Make(ptr)
		key = at
		if claims.of[key] == nil {
			runtime.AddCleanup(ptr, func(at weak.Pointer[byte]) {
				claims.mu.Lock()
				defer claims.mu.Unlock()
				delete(claims.of, at)
			}, at)
		}
	case v.Comparable():
		key = cache
	default:
		key = v.Type()
	}
	if claims.of[key] == nil {
		claims.of[key] = map[string]*claim{}
	}
	c := claims.of[key][place]
	if c == nil {
		c = &claim{}
		claims.of[key][place] = c
	}
	return c
}

// take claims the place for a function. If another function owns it, their results
// could not be distinguished after a restart. In that case take clears them, and
// each function uses a private cache from then on.
func (c *claim) take(id any, wipe func() error) error {
	c.mu.RLock()
	settled := c.several || c.by == id
	c.mu.RUnlock()
	if settled {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.by {
	case id:
	case nil:
		c.by = id
	default:
		if err := wipe(); err != nil {
			return err
		}
		c.several = true
	}
	return nil
}

// A lookup is a task's lookup of a cached result. It is nil for a task without a
// cache.
type lookup struct {
	task   *Task
	claim  *claim // nil if the user's key function decides which inputs are equal
	space  string
	key    string
	flight *flight // the flight that other tasks wait for
}

// flight is a running task whose result is awaited by other tasks of the same run
// with the same input.
type flight struct {
	by   *Task
	of   flightKey
	done chan struct{}
	raw  []byte // nil: it failed, and a waiting task takes over
}

// flights holds the running tasks whose results are cached.
type flights struct {
	mu sync.Mutex
	of map[flightKey]*flight
}

type flightKey struct {
	fn         any
	space, key string
}

// lookUp returns a result for the same input: a cached result, or the result of
// another running task of the run. raw is nil if there is none.
func (t *Task) lookUp(sc *scope, space string) (l *lookup, raw []byte, err error) {
	c := t.node.Cache
	if c == nil || t.run.set.Cache == nil {
		return nil, nil, nil
	}
	l = &lookup{task: t, space: space}
	if l.key, err = t.cacheKey(); err != nil {
		return nil, nil, err
	}
	wanted := flightKey{space: space, key: l.key}
	if c.Key == nil {
		l.key = t.node.fn.name + "\n" + l.key
		wanted = flightKey{fn: t.node.fn.id, space: space, key: l.key}
		l.claim = claimOf(t.run.set.Cache, space+"\n"+t.node.fn.name)
		if err := l.claim.take(wanted.fn, func() error { return l.clearSpace(sc) }); err != nil {
			return nil, nil, t.noteFault(fmt.Errorf("cache: %w", err))
		}
	}
	if raw, err := l.join(sc, wanted); raw != nil || err != nil {
		return l, raw, err
	}
	var ok bool
	if l.local() {
		raw, ok, err = t.node.fn.own.Get(sc, space, l.key)
	} else {
		raw, ok, err = t.run.set.Cache.Get(sc, space, l.key)
	}
	if err != nil {
		return l, nil, t.noteFault(fmt.Errorf("cache: %w", err))
	}
	if !ok {
		return l, nil, nil
	}
	return l, raw, nil
}

// cacheKey derives the cache key from the task's input.
func (t *Task) cacheKey() (string, error) {
	in := t.input()
	if c := t.node.Cache; c.Key != nil {
		return c.keyOf(in)
	}
	if t.node.nest != nil && t.packet == nil {
		in = t.inputRecord() // every inherited field, even if the input type saves it in another form
	}
	raw, err := toJSON(in)
	if err != nil {
		return "", fmt.Errorf("cache: cannot encode input as JSON for the key: %w", err)
	}
	return string(raw), nil
}

// clearSpace clears a place that is used by two functions.
func (l *lookup) clearSpace(ctx context.Context) error {
	set := l.task.run.set
	if set.Logger != nil {
		set.Logger.WarnContext(ctx, "treadle: closures of one function literal share a cache name, so each keeps its results in this process only: "+
			"give the graphs or tasks different names, or use CacheBy with different keys",
			"graph", l.task.run.plan.name, "node", l.task.Name(), "function", l.task.node.fn.name)
	}
	return set.Cache.Clear(ctx, l.space)
}

// local reports whether the function uses a private cache.
func (l *lookup) local() bool {
	if l.claim == nil {
		return false
	}
	l.claim.mu.RLock()
	defer l.claim.mu.RUnlock()
	return l.claim.several
}

// join waits for a task of the run with the same input and returns its result. If
// there is none, or if it fails, this task becomes the task that others wait for,
// so only one task at a time processes an input.
func (l *lookup) join(ctx context.Context, wanted flightKey) ([]byte, error) {
	under := &l.task.run.shared.flights
	for {
		under.mu.Lock()
		f := under.of[wanted]
		if f == nil {
			if under.of == nil {
				under.of = map[flightKey]*flight{}
			}
			l.flight = &flight{by: l.task, of: wanted, done: make(chan struct{})}
			under.of[wanted] = l.flight
		}
		under.mu.Unlock()
		if f == nil || l.task.inside(f.by) { // a task cannot wait for a task that contains it
			return nil, nil
		}
		select {
		case <-f.done:
			if f.raw != nil {
				return f.raw, nil
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// put caches the task's result. Only successes are cached.
func (l *lookup) put(ctx context.Context, raw []byte) error {
	if l == nil {
		return nil
	}
	set, ttl := l.task.run.set, l.task.node.Cache.TTL
	cache := set.Cache
	if l.claim != nil {
		// Another function that claims the place clears it after this put.
		l.claim.mu.RLock()
		defer l.claim.mu.RUnlock()
		if l.claim.several {
			cache = l.task.node.fn.own
		}
	}
	if err := cache.Set(ctx, l.space, l.key, raw, ttl); err != nil {
		return l.task.noteFault(fmt.Errorf("cache: %w", err))
	}
	l.setResult(raw)
	return nil
}

// setResult sets the result for the waiting tasks.
func (l *lookup) setResult(raw []byte) {
	if l != nil && l.flight != nil {
		l.flight.raw = raw
	}
}

// finish wakes the waiting tasks.
func (l *lookup) finish() {
	if l == nil || l.flight == nil {
		return
	}
	under := &l.task.run.shared.flights
	under.mu.Lock()
	delete(under.of, l.flight.of)
	under.mu.Unlock()
	close(l.flight.done)
}

// inside reports whether t is up or runs inside it.
func (t *Task) inside(up *Task) bool {
	for t != nil {
		if t == up {
			return true
		}
		if t.caller != nil {
			t = t.caller
		} else {
			t = t.run.parent()
		}
	}
	return false
}

// fromCache looks up a result for the same input.
func (t *Task) fromCache(sc *scope) (l *lookup, hit bool, err error) {
	if t.node.Cache == nil {
		return nil, false, nil
	}
	l, raw, err := t.lookUp(sc, CacheSpace(t.run.plan.name, t.node.Name))
	if err != nil || raw == nil {
		return l, false, err
	}
	if whole, err := t.readResult(raw); err != nil || !whole {
		t.out.clear()
		return l, false, nil //nolint:nilerr // another version of the graph wrote it, so the node runs
	}
	l.setResult(raw)
	return l, true, nil
}

// keyOf calls the user's key function.
func (c *CachePolicy) keyOf(in any) (key string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = caught.New("cache key: ", p)
		}
	}()
	return c.Key(in), nil
}

// CacheSpace returns the cache namespace of a node's results.
func CacheSpace(graph, node string) string { return "node/" + graph + "/" + node }

// toCache caches a result.
func (t *Task) toCache(sc *scope, l *lookup) error {
	if l == nil {
		return nil
	}
	raw, err := t.encodeResult(false)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	return l.put(sc, raw)
}

// ForgetOwn clears the private caches of the named nodes' functions.
func (p *Plan) ForgetOwn(ctx context.Context, nodes ...string) {
	for _, name := range nodes {
		if n := p.byName[name]; n != nil && n.fn != nil {
			_ = n.fn.own.Clear(ctx) // a memory cache cannot fail
		}
	}
}
