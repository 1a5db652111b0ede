package langgraphimport

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
)

// The tables of LangGraph 0.1 have no namespaces or types. A subgraph's checkpoints are
// saved in a separate thread, named after the parent's thread, "-", and the node. They
// have the IDs of the checkpoints that the node runs from.

// A nestedThread is the thread of a subgraph.
type nestedThread struct {
	name  string
	nodes []string // path from the root graph to the subgraph's node
}

// nestedThreads returns the threads, each with the threads of its subgraphs.
func nestedThreads(ctx context.Context, c *sql.Conn) (_ map[string][]nestedThread, err error) {
	rows, err := c.QueryContext(ctx, "SELECT thread_id, thread_ts FROM checkpoints")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	ids := map[string]map[string]bool{}
	for rows.Next() {
		var name, id string
		if err := rows.Scan(&name, &id); err != nil {
			return nil, err
		}
		if ids[name] == nil {
			ids[name] = map[string]bool{}
		}
		ids[name][id] = true
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	// around returns the parent graph's thread.
	around := func(name string) (string, bool) {
		for i := len(name) - 1; i > 0; i-- {
			if name[i] != '-' {
				continue
			}
			for id := range ids[name[:i]] {
				if ids[name][id] {
					return name[:i], true
				}
			}
		}
		return "", false
	}
	out := map[string][]nestedThread{}
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		root, nodes := name, []string(nil)
		for up, ok := around(root); ok; up, ok = around(root) {
			nodes = append(nodes, strings.TrimPrefix(root, up+"-"))
			root = up
		}
		slices.Reverse(nodes)
		if len(nodes) > 0 {
			out[root] = append(out[root], nestedThread{name, nodes})
		} else if out[root] == nil {
			out[root] = []nestedThread{}
		}
	}
	return out, nil
}

// oldThread reads a thread of LangGraph 0.1 and its subgraphs.
func (s *sqliteSource) oldThread(ctx context.Context, name string, yield func(*rawPoint)) error {
	if err := s.oldPoints(ctx, name, yield); err != nil {
		return err
	}
	for _, in := range s.inner[name] {
		err := s.oldPoints(ctx, in.name, func(p *rawPoint) {
			p.parent = "" // a subgraph has one checkpoint per checkpoint of its parent graph
			p.parents = map[string]string{}
			for _, node := range in.nodes {
				p.parents[p.ns] = p.id
				if p.ns != "" {
					p.ns += "|"
				}
				p.ns += node + ":" + p.id
			}
			yield(p)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// oldPoints reads the checkpoints of one thread of LangGraph 0.1.
func (s *sqliteSource) oldPoints(ctx context.Context, name string, yield func(*rawPoint)) (err error) {
	writes, err := s.conn.QueryContext(ctx, "SELECT thread_ts, task_id, idx, channel, value FROM writes WHERE thread_id = ?", name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, writes.Close()) }()
	by := map[string][]rawWrite{}
	for writes.Next() {
		var at string
		var w rawWrite
		if err := writes.Scan(&at, &w.task, &w.idx, &w.channel, &w.value.data); err != nil {
			return err
		}
		w.value.kind = oldKind(w.value.data)
		by[at] = append(by[at], w)
	}
	if err := writes.Err(); err != nil {
		return err
	}
	rows, err := s.conn.QueryContext(ctx, "SELECT thread_ts, coalesce(parent_ts, ''), checkpoint, metadata FROM checkpoints WHERE thread_id = ? ORDER BY thread_ts", name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		p := &rawPoint{old: true}
		if err := rows.Scan(&p.id, &p.parent, &p.body.data, &p.meta); err != nil {
			return err
		}
		p.body.kind, p.writes = oldKind(p.body.data), by[p.id]
		yield(p)
	}
	return rows.Err()
}

// oldKind returns the type of a LangGraph 0.1 value. The first releases wrote pickles.
func oldKind(data []byte) string {
	if bytes.HasPrefix(data, []byte{0x80}) && bytes.HasSuffix(data, []byte(".")) {
		return "pickle"
	}
	return "json"
}
