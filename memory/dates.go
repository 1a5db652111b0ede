package memory

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// period is a time span mentioned in a text. A zero from or to means that the span is open
// on that side.
type period struct{ from, to time.Time }

var (
	months = []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}
	// shortMonths count as months only next to a number, as do "may" and "march".
	shortMonths = map[string]time.Month{"jan": 1, "feb": 2, "mar": 3, "apr": 4, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "sept": 9, "oct": 10, "nov": 11, "dec": 12}
	weekdays    = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}
	amounts     = map[string]int{"a": 1, "an": 1, "one": 1, "two": 2, "couple": 2, "three": 3, "few": 3, "four": 4, "five": 5, "six": 6,
		"seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12}
	// datePrepositions may precede a month or a year.
	datePrepositions = []string{"in", "on", "of", "since", "before", "after", "by", "until", "till", "during", "early", "mid", "late", "last",
		"this", "next", "past", "from", "around", "to"}
)

// dateStarts contains the words, other than numbers, that can start a period.
var dateStarts = func() map[string]bool {
	out := map[string]bool{"today": true, "tonight": true, "yesterday": true, "tomorrow": true, "last": true, "past": true, "previous": true,
		"this": true, "next": true}
	for _, w := range slices.Concat(months, weekdays, slices.Collect(maps.Keys(shortMonths)), slices.Collect(maps.Keys(amounts))) {
		out[w] = true
	}
	return out
}()

// maxDateWords limits the number of words searched for dates.
const maxDateWords = 2000

// periodsIn returns the time spans that an English text mentions, relative to now, such as
// "last week", "in March", or "on 3 May 2024". It ignores anything that is not clearly a
// time, so in other languages it finds only numeric dates.
func periodsIn(text string, now time.Time) []period {
	now = now.UTC()
	p := dateReader{now: now, words: dateWords(text)}
	var out []period
	for p.at < len(p.words) {
		start := p.at
		found, ok := p.read()
		if !ok {
			p.at = start + 1
			continue
		}
		out = append(out, p.directed(found, start))
	}
	return out
}

// dateWords returns the words and numbers of a text in lower case. A numeric date is one
// word.
func dateWords(text string) []string {
	var out []string
	for field := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '.'
	}) {
		if field = strings.Trim(field, "-."); len(out) >= maxDateWords {
			break
		}
		if _, ok := digitDate(field); ok {
			out = append(out, field)
			continue
		}
		for word := range strings.FieldsFuncSeq(field, func(r rune) bool { return r == '-' || r == '.' }) {
			out = append(out, word)
		}
	}
	return out
}

// digitDate parses dates such as 2024-05-03 and 3.5.2024.
func digitDate(word string) (time.Time, bool) {
	if len(word) < len("1.1.2006") || word[0] < '0' || word[0] > '9' {
		return time.Time{}, false
	}
	for _, layout := range []string{time.DateOnly, "2.1.2006"} {
		if t, err := time.Parse(layout, word); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// dateReader parses periods from words.
type dateReader struct {
	now   time.Time
	words []string
	at    int
}

func (p *dateReader) word(i int) string {
	if i < 0 || i >= len(p.words) {
		return ""
	}
	return p.words[i]
}

// directed applies the preposition before a period.
func (p *dateReader) directed(found period, start int) period {
	switch p.word(start - 1) {
	case "before":
		return period{to: found.from}
	case "until", "till", "by":
		return period{to: found.to}
	case "after":
		return period{from: found.to}
	case "since":
		return period{from: found.from}
	}
	return found
}

// read parses a period at the current word and advances past it.
func (p *dateReader) read() (period, bool) {
	if w := p.word(p.at); !dateStarts[w] && (w[0] < '0' || w[0] > '9') {
		return period{}, false
	}
	for _, read := range []func() (period, bool){p.digits, p.relative, p.ago, p.calendar, p.year} {
		start := p.at
		if found, ok := read(); ok {
			return found, true
		}
		p.at = start
	}
	return period{}, false
}

// digits parses a numeric date.
func (p *dateReader) digits() (period, bool) {
	t, ok := digitDate(p.word(p.at))
	if !ok {
		return period{}, false
	}
	p.at++
	return day(t), true
}

// relative parses "yesterday", "last week", "this month", and "next Monday".
func (p *dateReader) relative() (period, bool) {
	today := day(p.now)
	first, second := p.word(p.at), p.word(p.at+1)
	p.at++
	switch first {
	case "today", "tonight":
		return today, true
	case "yesterday":
		return today.days(-1), true
	case "tomorrow":
		return today.days(1), true
	case "last", "past", "previous", "this", "next":
	default:
		if w := slices.Index(weekdays, first); w >= 0 { // the most recent one
			return day(p.now.AddDate(0, 0, -daysSince(p.now, time.Weekday(w)))), true
		}
		return period{}, false
	}
	p.at++
	n := -1
	switch first {
	case "this":
		n = 0
	case "next":
		n = 1
	}
	if w := slices.Index(weekdays, second); w >= 0 {
		since := daysSince(p.now, time.Weekday(w))
		if n >= 0 {
			since -= 7
		}
		return day(p.now.AddDate(0, 0, -since)), true
	}
	if m := slices.Index(months, second); m >= 0 {
		found := month(p.now.Year(), time.Month(m+1))
		for n < 0 && found.to.After(p.now) {
			found = period{found.from.AddDate(-1, 0, 0), found.to.AddDate(-1, 0, 0)}
		}
		for n > 0 && found.from.Before(p.now) {
			found = period{found.from.AddDate(1, 0, 0), found.to.AddDate(1, 0, 0)}
		}
		return found, true
	}
	monday := today.days(-daysSinceOrToday(p.now, time.Monday)).from.AddDate(0, 0, 7*n)
	switch second {
	case "night", "evening":
		if n < 0 {
			return today.days(-1), true
		}
		return today, true
	case "morning", "afternoon":
		return today.days(min(n, 0)), true
	case "week":
		return period{monday, monday.AddDate(0, 0, 7)}, true
	case "weekend":
		return period{monday.AddDate(0, 0, 5), monday.AddDate(0, 0, 7)}, true
	case "month":
		return month(p.now.Year(), p.now.Month()+time.Month(n)), true
	case "year":
		return years(p.now.Year()+n, 1), true
	}
	return period{}, false
}

// ago parses "two weeks ago" and "3 days ago".
func (p *dateReader) ago() (period, bool) {
	n, ok := amounts[p.word(p.at)]
	if number, err := strconv.Atoi(p.word(p.at)); err == nil && number >= 0 && number <= 1000 {
		n, ok = number, true
	}
	p.at++
	for p.word(p.at) == "few" || p.word(p.at) == "couple" || p.word(p.at) == "of" { // a couple of, a few
		n = max(n, amounts[p.word(p.at)])
		p.at++
	}
	unit := strings.TrimSuffix(p.word(p.at), "s")
	if !ok || p.word(p.at+1) != "ago" {
		return period{}, false
	}
	p.at += 2
	switch unit {
	case "day":
		return day(p.now.AddDate(0, 0, -n)), true
	case "week":
		middle := day(p.now.AddDate(0, 0, -7*n))
		return period{middle.from.AddDate(0, 0, -3), middle.to.AddDate(0, 0, 3)}, true
	case "month":
		middle := p.now.AddDate(0, -n, 0)
		return period{middle.AddDate(0, 0, -15), middle.AddDate(0, 0, 15)}, true
	case "year":
		middle := p.now.AddDate(-n, 0, 0)
		return period{middle.AddDate(0, -6, 0), middle.AddDate(0, 6, 0)}, true
	}
	return period{}, false
}

// calendar parses "May 3, 2024", "3 May", "March 2024", and "in March".
func (p *dateReader) calendar() (period, bool) {
	before := p.word(p.at - 1)
	dayOfMonth, ahead := dayNumber(p.word(p.at))
	if ahead {
		p.at++
		if p.word(p.at) == "of" {
			p.at++
		}
	}
	name := p.word(p.at)
	m := time.Month(slices.Index(months, name) + 1)
	sure := m > 0 && name != "may" && name != "march"
	if m == 0 {
		m = shortMonths[name]
	}
	if m == 0 {
		return period{}, false
	}
	p.at++
	behind := false
	if !ahead {
		if dayOfMonth, behind = dayNumber(p.word(p.at)); behind {
			p.at++
		}
	}
	year, hasYear := yearNumber(p.word(p.at))
	if hasYear {
		p.at++
	}
	if !sure && !ahead && !behind && !hasYear && (shortMonths[name] > 0 || !slices.Contains(datePrepositions, before)) {
		return period{}, false
	}
	if !hasYear {
		year = p.now.Year()
		if time.Date(year, m, max(1, dayOfMonth), 0, 0, 0, 0, time.UTC).After(p.now) {
			year--
		}
	}
	if ahead || behind {
		return day(time.Date(year, m, dayOfMonth, 0, 0, 0, 0, time.UTC)), true
	}
	return month(year, m), true
}

// year parses "in 2023".
func (p *dateReader) year() (period, bool) {
	y, ok := yearNumber(p.word(p.at))
	if !ok || !slices.Contains(datePrepositions, p.word(p.at-1)) {
		return period{}, false
	}
	p.at++
	return years(y, 1), true
}

func dayNumber(word string) (int, bool) {
	for _, ending := range []string{"st", "nd", "rd", "th"} {
		word = strings.TrimSuffix(word, ending)
	}
	n, err := strconv.Atoi(word)
	return n, err == nil && n >= 1 && n <= 31
}

func yearNumber(word string) (int, bool) {
	n, err := strconv.Atoi(word)
	return n, err == nil && n >= 1900 && n < 2100
}

func day(t time.Time) period {
	t = time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	return period{t, t.AddDate(0, 0, 1)}
}

func month(year int, m time.Month) period {
	t := time.Date(year, m, 1, 0, 0, 0, 0, time.UTC)
	return period{t, t.AddDate(0, 1, 0)}
}

func years(year, n int) period {
	return period{time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(year+n, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// days returns the period shifted by n days.
func (p period) days(n int) period { return period{p.from.AddDate(0, 0, n), p.to.AddDate(0, 0, n)} }

// daysSince returns the number of days since weekday w last occurred before today, from 1
// to 7.
func daysSince(now time.Time, w time.Weekday) int {
	return (int(now.Weekday())-int(w)+6)%7 + 1
}

// daysSinceOrToday is like daysSince, but returns 0 if today is weekday w.
func daysSinceOrToday(now time.Time, w time.Weekday) int { return daysSince(now, w) % 7 }

// overlaps reports whether a memory was valid at some time in p.
func (p period) overlaps(v Validity) bool {
	return (p.to.IsZero() || v.From.IsZero() || v.From.Before(p.to)) && (p.from.IsZero() || v.Until.IsZero() || v.Until.After(p.from))
}

// closeness returns how close other is to p, from 0 to 1. It returns 1 if they overlap. The
// value halves with each gap of half of p's length, or of two days if that is longer.
func (p period) closeness(other period) float64 {
	var gap time.Duration
	switch {
	case !p.to.IsZero() && !other.from.IsZero() && !other.from.Before(p.to):
		gap = other.from.Sub(p.to)
	case !p.from.IsZero() && !other.to.IsZero() && !other.to.After(p.from):
		gap = p.from.Sub(other.to)
	default:
		return 1
	}
	scale := 2 * 24 * time.Hour
	if !p.from.IsZero() && !p.to.IsZero() {
		scale = max(scale, p.to.Sub(p.from)/2)
	}
	return math.Exp2(-float64(gap) / float64(scale))
}
