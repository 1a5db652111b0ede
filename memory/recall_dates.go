package memory

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle/store"
)

// timing describes the time that a message asks about.
type timing struct {
	periods []period
	// events are clauses such as "before I moved". Their time is taken from the
	// best-matching memory.
	events []event
	// asked reports whether the message asks for a time, which a memory with a time
	// answers.
	asked bool
	// past reports whether the message asks about the past in general, such as "where did
	// I live previously".
	past bool
}

// event is a clause that refers to a time by something that happened.
type event struct {
	after bool // otherwise before
	text  string
}

var (
	eventClause = regexp.MustCompile(`(?i)\b(before|after|since)\s+([^.?!,;\n]+)`)
	askedTime   = regexp.MustCompile(`(?i)^\W*(when|since when|how long ago|(?:on |in )?(?:what|which) (?:day|date|week|month|year))\b`)
	askedPast   = regexp.MustCompile(`(?i)\b(used to|previously|formerly|originally|back then|in the past|at first|earlier|(?:did|was|were)\b.*\bbefore\W*$)`)
)

// maxEvents limits the number of searches for events.
const maxEvents = 2

func timingOf(text string, now time.Time) timing {
	t := timing{periods: periodsIn(text, now), asked: askedTime.MatchString(text), past: askedPast.MatchString(text)}
	for _, m := range eventClause.FindAllStringSubmatch(text, maxEvents) {
		if clause := strings.TrimSpace(m[2]); len(strings.Fields(clause)) > 1 && len(periodsIn(m[0], now)) == 0 {
			t.events = append(t.events, event{after: !strings.EqualFold(m[1], "before"), text: clause})
		}
	}
	return t
}

// none reports whether the message does not mention time.
func (t timing) none() bool { return len(t.periods) == 0 && len(t.events) == 0 && !t.asked && !t.past }

// resolve adds the periods of the events, given the best-matching memory for each, or nil.
func (t *timing) resolve(found []*store.Item) {
	for i, item := range found {
		if item == nil {
			continue
		}
		at := timesOf(item)[0]
		if t.events[i].after {
			t.periods = append(t.periods, period{from: at.to})
		} else {
			t.periods = append(t.periods, period{to: at.from})
		}
	}
}

// fit returns how well a memory matches the times, from 0 to 1.
func (t timing) fit(item *store.Item, now time.Time) float64 {
	if t.none() {
		return 0
	}
	if t.past && len(t.periods) == 0 && validityOf(item).ended(now) {
		return 1
	}
	times := timesOf(item)
	var best float64
	for _, p := range t.periods {
		for _, at := range times {
			best = max(best, p.closeness(at))
		}
	}
	if len(t.periods) == 0 && t.asked && len(times) > 1 {
		return 1
	}
	return best
}

// admits reports whether the message asks about a time at which a memory was valid.
func (t timing) admits(v Validity) bool {
	if len(t.periods) == 0 {
		return t.past
	}
	return slices.ContainsFunc(t.periods, func(p period) bool { return p.overlaps(v) })
}

// misses reports whether a memory became valid after all times that the message asks about
// or, if it asks about none, has ended.
func (t timing) misses(v Validity, now time.Time) bool {
	if len(t.periods) == 0 {
		return v.ended(now) && !t.past
	}
	return !t.admits(v) && !slices.ContainsFunc(t.periods, func(p period) bool { return p.to.IsZero() || v.From.Before(p.to) })
}

// since returns the earliest time that the message asks about, at most now. It is zero if
// there is none.
func (t timing) since(now time.Time) time.Time {
	if t.past && len(t.periods) == 0 {
		return time.Time{}
	}
	for _, p := range t.periods {
		if p.from.Before(now) {
			now = p.from
		}
	}
	return now
}

// timesOf returns the times of a memory: its validity, if known, the times that its text
// mentions, and finally the time at which it was noted.
func timesOf(item *store.Item) []period {
	var out []period
	if v := validityOf(item); v != (Validity{}) {
		out = append(out, period{v.From, v.Until})
	}
	noted := notedAt(item)
	out = append(out, periodsIn(string(item.Value), noted)...)
	return append(out, period{noted, noted})
}
