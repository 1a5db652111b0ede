package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A difference is a difference between a response and the captured one. Its path leads to
// the value, without list indexes, such as "body.tasks[].id". If one of the responses
// lacks the value, the path ends with "extra" if the captured one lacks it, "missing" if
// ours does, or "empty" if the other has only null or an empty value.
type difference struct {
	path, got, want string
}

// A comparison compares responses to captured ones. IDs may differ, but where an ID occurs
// twice in the captured responses, an ID must occur twice in ours. Times may differ too.
type comparison struct {
	ours, theirs map[string]string // ids, by the captured ones and by ours
	found        []difference
}

func newComparison() *comparison {
	return &comparison{ours: map[string]string{}, theirs: map[string]string{}}
}

func (c *comparison) clone() *comparison {
	return &comparison{ours: maps.Clone(c.ours), theirs: maps.Clone(c.theirs)}
}

func (c *comparison) differ(path string, got, want any) {
	c.found = append(c.found, difference{path, show(got), show(want)})
}

func show(v any) string {
	if v == nil {
		return "nothing"
	}
	if s, ok := v.(string); ok {
		return s
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

// null is a JSON null, which differs from no value.
const null = "null"

// value compares two values of JSON.
func (c *comparison) value(path string, got, want any) {
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			c.object(path, got, want)
			return
		}
	case []any:
		if got, ok := got.([]any); ok {
			c.list(path, got, want)
			return
		}
	case string:
		if got, ok := got.(string); ok && c.text(got, want) {
			return
		}
	case json.Number:
		if got, ok := got.(json.Number); ok && (got == want || isTime(got) && isTime(want)) {
			return
		}
	default:
		if got == want {
			return
		}
	}
	c.differ(path, orNull(got), orNull(want))
}

func orNull(v any) any {
	if v == nil {
		return null
	}
	return v
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

func (c *comparison) object(path string, got, want map[string]any) {
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		g, has := got[key]
		w, wanted := want[key]
		at := path + "." + ids.ReplaceAllString(key, "{id}")
		switch {
		case has && wanted && (key == "event_id" || key == "seq"):
			if !c.same(key+" "+show(g), key+" "+show(w)) {
				c.differ(at, g, w)
			}
		case has && wanted:
			c.value(at, g, w)
		case wanted && ids.MatchString(key):
			c.keyed(at, got, want, key, w)
		case wanted && isEmpty(w), !wanted && isEmpty(g):
			c.differ(at+" empty", orNull(g), orNull(w))
		case wanted:
			c.differ(at+" missing", nil, w)
		case !ids.MatchString(key):
			c.differ(at+" extra", g, nil)
		}
	}
}

// keyed compares the value at a key that is an ID.
func (c *comparison) keyed(path string, got, want map[string]any, key string, value any) {
	for other, g := range got {
		if _, both := want[other]; !both && c.text(other, key) {
			c.value(path, g, value)
			return
		}
	}
	c.differ(path, nil, value)
}

func (c *comparison) list(path string, got, want []any) {
	if len(got) != len(want) {
		c.differ(path+"[]", got, want)
		return
	}
	for i := range want {
		c.value(path+"[]", got[i], want[i])
	}
}

var (
	ids   = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b`)
	times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	hosts = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

// isTime reports whether a number is a time of this century, in milliseconds.
func isTime(n json.Number) bool {
	ms, err := n.Int64()
	return err == nil && ms > 1_000_000_000_000 && ms < 5_000_000_000_000
}

// text compares two strings.
func (c *comparison) text(got, want string) bool {
	plain := func(s string) string {
		return hosts.ReplaceAllString(times.ReplaceAllString(ids.ReplaceAllString(s, "{id}"), "{time}"), "{host}")
	}
	if plain(got) != plain(want) {
		return false
	}
	ours := ids.FindAllString(got, -1)
	for i, theirs := range ids.FindAllString(want, -1) {
		if !c.same(ours[i], theirs) {
			return false
		}
	}
	return true
}

// same compares two ids.
func (c *comparison) same(ours, theirs string) bool {
	if known, ok := c.ours[theirs]; ok {
		return known == ours
	}
	if _, taken := c.theirs[ours]; taken {
		return false
	}
	c.ours[theirs], c.theirs[ours] = ours, theirs
	return true
}

// forget forgets the ids of frames that are numbers.
func (c *comparison) forget() {
	for theirs, ours := range c.ours {
		if _, err := strconv.Atoi(theirs); err == nil {
			delete(c.ours, theirs)
			delete(c.theirs, ours)
		}
	}
}

// translate replaces captured ids by ours.
func (c *comparison) translate(text string) string {
	return ids.ReplaceAllStringFunc(text, func(theirs string) string {
		return cmp.Or(c.ours[theirs], theirs)
	})
}

// answer compares two answers.
func (c *comparison) answer(got, want *answer, frames func(*answer) []captured) {
	if got.status != want.status {
		c.differ("status", fmt.Sprint(got.status, " ", strings.TrimSpace(got.body)), fmt.Sprint(want.status, " ", strings.TrimSpace(want.body)))
		return
	}
	for name, values := range want.header {
		if name == "Connection" || name == "Transfer-Encoding" {
			continue // net/http's own
		}
		if v := got.header.Get(name); !c.text(v, values[0]) {
			c.differ("header "+strings.ToLower(name), v, values[0])
		}
	}
	switch {
	case want.shortened():
	case want.isStream() && got.isStream():
		c.frames(frames(got), frames(want))
	default:
		c.value("body", got.value(), want.value())
	}
}

// frames compares the events of two streams: their order, and the events of each name in
// sequence. If one of the streams has no event of a name, that is a difference, but it
// does not affect the order of the others.
func (c *comparison) frames(got, want []captured) {
	c.absent(want, got, "extra")
	c.absent(got, want, "missing")
	if g, w := names(got, want), names(want, got); !c.text(g, w) {
		c.differ("frames", g, w)
	}
	byName := map[string][]captured{}
	for _, f := range got {
		name := f.plain()
		byName[name] = append(byName[name], f)
	}
	for _, w := range want {
		name := w.plain()
		if len(byName[name]) == 0 {
			continue // the difference is in the order
		}
		g := byName[name][0]
		byName[name] = byName[name][1:]
		if w.id != "" && !c.same(g.id, w.id) {
			c.differ("ID of "+name, g.id, w.id)
		}
		c.value(name, g.data, w.data)
	}
}

// absent records the names of events that only one stream has.
func (c *comparison) absent(in, of []captured, how string) {
	seen := map[string]bool{}
	for _, f := range of {
		if name := f.plain(); !seen[name] && !contains(in, name) {
			seen[name] = true
			c.differ("frame "+name+" "+how, f.data, nil)
		}
	}
}

// plain returns the name of an event without IDs.
func (f captured) plain() string { return ids.ReplaceAllString(f.name, "{id}") }

func contains(frames []captured, name string) bool {
	return slices.ContainsFunc(frames, func(f captured) bool { return f.plain() == name })
}

// names returns the names of the events that the other stream also has.
func names(frames, other []captured) string {
	var out []string
	for _, f := range frames {
		if contains(other, f.plain()) {
			out = append(out, f.name)
		}
	}
	return strings.Join(out, " ")
}
