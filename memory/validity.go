package memory

import (
	"fmt"
	"strings"
	"time"

	"github.com/treadle-go/treadle/store"
)

// Validity is the period during which a memory is true. A zero From means that it has
// always been true, and a zero Until means that no end is known.
type Validity struct {
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// with returns the validity with the times of a rating applied. It returns an error if From
// would not be before Until.
func (v Validity) with(r rating) (Validity, error) {
	if r.from != nil {
		v.From = *r.from
	}
	if r.until != nil {
		v.Until = *r.until
	}
	if !v.From.IsZero() && !v.Until.IsZero() && !v.From.Before(v.Until) {
		return v, fmt.Errorf("validity would be from %s until %s: correct %s or %s", dateText(v.From), dateText(v.Until), argFrom, argUntil)
	}
	return v, nil
}

// ended reports whether the validity has ended at time now.
func (v Validity) ended(now time.Time) bool { return !v.Until.IsZero() && !now.Before(v.Until) }

// notLongEnded returns a filter that excludes memories whose validity ended more than a day
// ago. It keeps all others, because times in different zones do not sort as text; callers
// check these with [Validity].
func notLongEnded(now time.Time) store.Filter {
	return store.Not(store.Meta(store.Lt(metaValidity+".until", now.UTC().Add(-24*time.Hour).Format(time.RFC3339))))
}

// covers reports whether a memory with validity w would add nothing to an equal memory with
// validity v. A statement without a time is not covered by one that ends.
func (v Validity) covers(w Validity) bool {
	same := v.From.Equal(w.From) && v.Until.Equal(w.Until)
	return same || w == (Validity{}) && v.Until.IsZero()
}

// text returns the times in the form ", from … until …", to follow a date.
func (v Validity) text() string {
	var b strings.Builder
	if v != (Validity{}) {
		b.WriteByte(',')
	}
	v.each(func(name string, at string) { b.WriteString(" " + name + " " + at) })
	return b.String()
}

// attributes returns the times as attributes of a tag.
func (v Validity) attributes() string {
	var b strings.Builder
	v.each(func(name string, at string) { fmt.Fprintf(&b, " valid_%s=%q", name, at) })
	return b.String()
}

func (v Validity) each(do func(name, at string)) {
	if !v.From.IsZero() {
		do("from", dateText(v.From))
	}
	if !v.Until.IsZero() {
		do("until", dateText(v.Until))
	}
}

// dateText returns a time as a date in UTC, or in full if it is not midnight. Models write
// dates in UTC too.
func dateText(t time.Time) string {
	t = t.UTC()
	if t.Equal(t.Truncate(24 * time.Hour)) {
		return t.Format(time.DateOnly)
	}
	return t.Format(time.RFC3339)
}
