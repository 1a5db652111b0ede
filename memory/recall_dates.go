package memory

import (
	"regexp"
	"strings"
	"time"

	"github.com/treadle-go/treadle/store"
)

// timing is what a message says about the time of the memories that it asks for.
type timing struct {
	periods []period
	// events are clauses such as "before I moved". Their time is that of the memory that
	// fits them best.
	events []event
	// asked is true for a question after a time, which a memory with a time answers.
	asked bool
}

// event is a clause that names a time by something that happened.
type event struct {
	after bool // or before
	text  string
}

var (
	eventClause = regexp.MustCompile(`(?i)\b(before|after|since)\s+([^.?!,;\n]+)`)
	askedTime   = regexp.MustCompile(`(?i)^\W*(when|since when|how long ago|(?:on |in )?(?:what|which) (?:day|date|week|month|year))\b`)
)

// maxEvents bounds the searches for events.
const maxEvents = 2

func timingOf(text string, now time.Time) timing {
	t := timing{periods: periodsIn(text, now), asked: askedTime.MatchString(text)}
	for _, m := range eventClause.FindAllStringSubmatch(text, maxEvents) {
		if clause := strings.TrimSpace(m[2]); len(strings.Fields(clause)) > 1 && len(periodsIn(m[0], now)) == 0 {
			t.events = append(t.events, event{after: !strings.EqualFold(m[1], "before"), text: clause})
		}
	}
	return t
}

// none reports whether the message says nothing about time.
func (t timing) none() bool { return len(t.periods) == 0 && len(t.events) == 0 && !t.asked }

// resolve adds the periods of the events, given the memory that fits each best, or
// nil.
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

// fit returns how well a memory fits the times, from 0 to 1.
func (t timing) fit(item *store.Item) float64 {
	if t.none() {
		return 0
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

// timesOf returns the times of a memory: for which it is true, if that is known,
// what its text mentions, and last when it was noted.
func timesOf(item *store.Item) []period {
	var out []period
	if v := validityOf(item); v != (Validity{}) {
		out = append(out, period{v.From, v.Until})
	}
	noted := notedAt(item)
	out = append(out, periodsIn(string(item.Value), noted)...)
	return append(out, period{noted, noted})
}
