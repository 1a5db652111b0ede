package memoryimport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle/store"
)

// Report describes the results of an import.
type Report struct {
	Items int // number of added items
	Same  int // number of items that existed already
	// Pinned lists the keys of memories that the other system always shows to its model.
	// To always recall them, pass them as memory.RecallerOptions.Pinned.
	Pinned   []string
	Problems []Problem
}

// A Problem describes an entry that was skipped or imported only in part.
type Problem struct {
	Item string // position in the file, or namespace and key
	Text string
}

// ErrFormat is returned when a file is not in a supported format.
var ErrFormat = errors.New("unsupported format: want a mem0 export (a list of memories, or an object with results), a Letta agent file (.af), or a list of Letta passages")

// Run imports the memories in a file into s, under prefix. If s is nil, it only reports
// what it would import.
func Run(ctx context.Context, data []byte, s *store.Store, prefix store.Namespace) (*Report, error) {
	in := &importing{store: s, prefix: prefix, report: &Report{}}
	file, err := parse(data)
	if err != nil {
		return in.report, err
	}
	in.report.Problems = append(in.report.Problems, file.problems...)
	for _, e := range file.entries {
		if err := in.add(ctx, e); err != nil {
			return in.report, err
		}
	}
	slices.Sort(in.report.Pinned)
	in.report.Pinned = slices.Compact(in.report.Pinned)
	return in.report, nil
}

type importing struct {
	store  *store.Store
	prefix store.Namespace
	report *Report
}

// An entry is a memory in a file.
type entry struct {
	place            string // position in the file
	owner            string // user or agent that the memory belongs to
	key, text        string
	created, updated any
	until            string // last day of its validity
	pinned           bool
	system           string         // name of the other system
	rest             map[string]any // remaining fields
}

func (in *importing) add(ctx context.Context, e *entry) error {
	problem := func(format string, args ...any) {
		in.report.Problems = append(in.report.Problems, Problem{Item: e.place, Text: fmt.Sprintf(format, args...)})
	}
	switch {
	case strings.TrimSpace(e.text) == "":
		problem("memory omitted: no text")
		return nil
	case e.key == "" || e.owner == "":
		problem("memory omitted: missing ID or owner")
		return nil
	}
	meta := map[string]any{}
	if len(e.rest) > 0 {
		meta[e.system] = e.rest
	}
	if e.until != "" {
		day, err := time.Parse(time.DateOnly, e.until)
		if err != nil {
			problem("invalid last day %q omitted", e.until)
		} else {
			meta["validity"] = map[string]time.Time{"until": day.AddDate(0, 0, 1)}
		}
	}
	var value bytes.Buffer
	encoder := json.NewEncoder(&value)
	encoder.SetEscapeHTML(false) // the escapes would be indexed as words
	err := encoder.Encode(map[string]any{"kind": "Memory", "content": map[string]string{"content": e.text}})
	if err != nil {
		return err
	}
	it := &Item{Namespace: append(slices.Clone(in.prefix), e.owner), Key: e.key, Value: value.Bytes()}
	if len(meta) > 0 {
		it.Meta = meta
	}
	if it.Created, err = readTime(e.created); err == nil {
		it.Updated, err = readTime(e.updated)
	}
	if err != nil {
		problem("memory omitted: %v", err)
		return nil
	}
	result := Added
	if in.store != nil {
		result, err = it.Add(ctx, in.store)
		if e, ok := errors.AsType[*store.ImportError](err); ok {
			problem("memory omitted: %v", e.Err)
			return nil
		}
		if err != nil {
			return err
		}
	}
	switch result {
	case Added:
		in.report.Items++
	case Same:
		in.report.Same++
	case Conflict:
		problem("memory left unchanged: it has changed in the target")
	}
	if e.pinned {
		in.report.Pinned = append(in.report.Pinned, e.key)
	}
	return nil
}

// readTime parses a Python timestamp: ISO 8601, in UTC if it has no offset.
func readTime(v any) (time.Time, error) {
	if v == nil {
		return time.Time{}, nil
	}
	text, ok := v.(string)
	if !ok {
		return time.Time{}, fmt.Errorf("time %v is not a string", v)
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("invalid ISO 8601 time %.60q", text)
}

// file is a parsed file.
type file struct {
	entries  []*entry
	problems []Problem // parts that are not entries
}

func (f *file) problem(item, format string, args ...any) {
	f.problems = append(f.problems, Problem{Item: item, Text: fmt.Sprintf(format, args...)})
}

func parse(data []byte) (*file, error) {
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%w: invalid JSON: %w", ErrFormat, err)
	}
	if d.More() {
		return nil, fmt.Errorf("%w: data after the JSON value", ErrFormat)
	}
	switch v := v.(type) {
	case []any:
		return list(v)
	case map[string]any:
		results, ok := v["results"].([]any)
		_, agents := v["agents"].([]any)
		_, core := v["core_memory"].([]any)
		switch {
		case ok:
			return page(v, results)
		case agents:
			return agentFile(v), nil
		case core:
			return oldAgentFile(v), nil
		}
	}
	return nil, ErrFormat
}

// page reads a mem0 response, which may be one of several pages and may contain the edges
// of a graph in addition to memories.
func page(v map[string]any, results []any) (*file, error) {
	f, err := list(results)
	if err != nil {
		return nil, err
	}
	if next, _ := v["next"].(string); next != "" {
		f.problem("next", "more pages follow: export all pages and import each")
	}
	if relations, _ := v["relations"].([]any); len(relations) > 0 {
		f.problem("relations", "%d relations of mem0's graph memory omitted", len(relations))
	}
	return f, nil
}

// list reads mem0 memories or Letta passages.
func list(entries []any) (*file, error) {
	f := &file{}
	for i, v := range entries {
		place := fmt.Sprintf("entry %d", i+1)
		m, ok := v.(map[string]any)
		_, memory := m["memory"]
		_, passage := m["text"]
		switch {
		case ok && memory:
			f.entries = append(f.entries, mem0Entry(place, m))
		case ok && passage:
			f.entries = append(f.entries, passageEntry(place, m))
		default:
			return nil, fmt.Errorf("%w: %s has neither memory nor text", ErrFormat, place)
		}
	}
	return f, nil
}

// take removes a string from a map and returns it.
func take(m map[string]any, name string) string {
	text, ok := m[name].(string)
	if ok {
		delete(m, name)
	}
	return text
}

// rest removes the named and the empty members from m and returns m.
func rest(m map[string]any, without ...string) map[string]any {
	for _, name := range without {
		delete(m, name)
	}
	maps.DeleteFunc(m, func(_ string, v any) bool {
		switch v := v.(type) {
		case nil:
			return true
		case map[string]any:
			return len(v) == 0
		case []any:
			return len(v) == 0
		}
		return false
	})
	return m
}

// mem0Entry reads a mem0 memory. Its owner is the user or, failing that, the agent, the
// app, or the run.
func mem0Entry(place string, m map[string]any) *entry {
	e := &entry{place: place, system: "mem0", created: m["created_at"], updated: m["updated_at"],
		key: take(m, "id"), text: take(m, "memory"), until: take(m, "expiration_date")}
	for _, name := range []string{"user_id", "agent_id", "app_id", "run_id"} {
		if e.owner != "" {
			break
		}
		e.owner = take(m, name)
	}
	e.rest = rest(m, "created_at", "updated_at", "score")
	return e
}

// passageEntry reads a passage from Letta's archival memory.
func passageEntry(place string, m map[string]any) *entry {
	e := &entry{
		place:   place,
		system:  "letta",
		created: m["created_at"],
		updated: m["updated_at"],
		key:     take(m, "id"),
		text:    take(m, "text"),
	}
	for _, name := range []string{"agent_id", "archive_id", "source_id"} {
		if e.owner != "" {
			break
		}
		e.owner = take(m, name)
	}
	if deleted, _ := m["is_deleted"].(bool); deleted {
		e.text = ""
	}
	e.rest = rest(m, "created_at", "updated_at", "embedding", "embedding_config", "is_deleted", "organization_id")
	return e
}

// agentFile reads the memory blocks of all agents in a file. A block without timestamps
// gets the file's timestamp.
func agentFile(v map[string]any) *file {
	f := &file{}
	blocks, used := map[string]map[string]any{}, map[string]bool{}
	list, _ := v["blocks"].([]any)
	for i, b := range list {
		m, ok := b.(map[string]any)
		id, _ := m["id"].(string)
		if _, taken := blocks[id]; !ok || id == "" || taken {
			f.problem(fmt.Sprintf("block %d", i+1), "block omitted: missing or duplicate ID")
			continue
		}
		blocks[id] = m
	}
	agents, _ := v["agents"].([]any)
	for i, a := range agents {
		m, ok := a.(map[string]any)
		if !ok {
			f.problem(fmt.Sprintf("agent %d", i+1), "agent omitted: not an object")
		}
		name, _ := m["name"].(string)
		ids, _ := m["block_ids"].([]any)
		for _, id := range ids {
			text, _ := id.(string)
			used[text] = true
			place := fmt.Sprintf("agent %d, block %s", i+1, text)
			f.entries = append(f.entries, blockEntry(place, name, maps.Clone(blocks[text]), v["created_at"]))
		}
		own, _ := m["memory_blocks"].([]any)
		for k, b := range own {
			block, _ := b.(map[string]any)
			f.entries = append(f.entries, blockEntry(fmt.Sprintf("agent %d, memory block %d", i+1, k+1), name, block, v["created_at"]))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(blocks)) {
		if !used[id] {
			f.problem("block "+id, "block omitted: no agent uses it")
		}
	}
	return f
}

// oldAgentFile reads the core memory from an agent file of Letta 0.6.
func oldAgentFile(v map[string]any) *file {
	f := &file{}
	name, _ := v["name"].(string)
	blocks, _ := v["core_memory"].([]any)
	for i, b := range blocks {
		m, _ := b.(map[string]any)
		f.entries = append(f.entries, blockEntry(fmt.Sprintf("block %d", i+1), name, m, nil))
	}
	return f
}

func blockEntry(place, agent string, m map[string]any, created any) *entry {
	e := &entry{place: place, system: "letta", owner: agent, created: created, pinned: true}
	if m == nil {
		return e // the file refers to a missing block
	}
	if m["created_at"] != nil {
		e.created = m["created_at"]
	}
	e.updated = m["updated_at"]
	e.key, e.text = take(m, "label"), take(m, "value")
	for name, v := range m { // false values carry no information
		if v == false {
			delete(m, name)
		}
	}
	e.rest = rest(m, "id", "created_at", "updated_at")
	return e
}
