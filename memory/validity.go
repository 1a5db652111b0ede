package memory

import (
	"fmt"
	"strings"
	"time"

	"github.com/treadle-go/treadle/store"
)

// Validity is the time for which a memory holds. A time that is zero is not known:
// it has always held, or will hold for good.
type Validity struct {
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// with is the validity after what a model says.
func (v Validity) with(r rating) (Validity, error) {
	if r.from != nil {
		v.From = *r.from
	}
	if r.until != nil {
		v.Until = *r.until
	}
	if !v.From.IsZero() && !v.Until.IsZero() && !v.From.Before(v.Until) {
		return v, fmt.Errorf("it would hold from %s until %s: correct %s or %s", dateText(v.From), dateText(v.Until), argFrom, argUntil)
	}
	return v, nil
}

// over reports whether it does not hold any more.
func (v Validity) ended(now time.Time) bool { return !v.Until.IsZero() && !now.Before(v.Until) }

// notLongEnded leaves out what has been over for a day, and leaves in what [Validity]
// has to decide: times of other zones do not sort as texts do.
func notLongEnded(now time.Time) store.Filter {
	return store.Not(store.Meta(store.Lt(metaValidity+".until", now.UTC().Add(-24*time.Hour).Format(time.RFC3339))))
}

// covers reports whether what holds for v need not be noted for w as well. What is
// said without a time is not covered by what has an end.
func (v Validity) covers(w Validity) bool {
	same := v.From.Equal(w.From) && v.Until.Equal(w.Until)
	return same || w == (Validity{}) && v.Until.IsZero()
}

// text is how the times stand behind a date: ", from … until …".
func (v Validity) text() string {
	var b strings.Builder
	if v != (Validity{}) {
		b.WriteByte(',')
	}
	v.each(func(name string, at string) { b.WriteString(" " + name + " " + at) })
	return b.String()
}

// attributes are the times as they stand in a tag.
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

// dateText is a date, or the whole time if it is not one that begins a day. A date
// is one of UTC, as those that models write are.
func dateText(t time.Time) string {
	t = t.UTC()
	if t.Equal(t.Truncate(24 * time.Hour)) {
		return t.Format(time.DateOnly)
	}
	return t.Format(time.RFC3339)
}
