package memory

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// now is a Wednesday.
var datesNow = time.Date(2024, 5, 15, 14, 30, 0, 0, time.UTC)

func periodsText(ps []period) string {
	var out []string
	date := func(t time.Time) string {
		if t.IsZero() {
			return "…"
		}
		return t.Format(time.DateOnly)
	}
	for _, p := range ps {
		out = append(out, date(p.from)+" "+date(p.to))
	}
	return strings.Join(out, ", ")
}

func TestParseTimesInText(t *testing.T) {
	for text, want := range map[string]string{
		"What did I say yesterday?":           "2024-05-14 2024-05-15",
		"today or tomorrow":                   "2024-05-15 2024-05-16, 2024-05-16 2024-05-17",
		"Where was I last week?":              "2024-05-06 2024-05-13",
		"this week":                           "2024-05-13 2024-05-20",
		"next week":                           "2024-05-20 2024-05-27",
		"the last weekend":                    "2024-05-11 2024-05-13",
		"last month":                          "2024-04-01 2024-05-01",
		"last year":                           "2023-01-01 2024-01-01",
		"last night":                          "2024-05-14 2024-05-15",
		"on Monday":                           "2024-05-13 2024-05-14",
		"last Wednesday":                      "2024-05-08 2024-05-09",
		"next Friday":                         "2024-05-17 2024-05-18",
		"in March":                            "2024-03-01 2024-04-01",
		"in August":                           "2023-08-01 2023-09-01",
		"last May":                            "2023-05-01 2023-06-01",
		"in May 2022":                         "2022-05-01 2022-06-01",
		"What did Ann adopt in April 2022?":   "2022-04-01 2022-05-01",
		"on May 3, 2023":                      "2023-05-03 2023-05-04",
		"on the 3rd of May":                   "2024-05-03 2024-05-04",
		"by 7 November, 2022":                 "… 2022-11-08",
		"when they met on Aug 15th":           "2023-08-15 2023-08-16",
		"since 2021":                          "2021-01-01 …",
		"before March":                        "… 2024-03-01",
		"after 2024-02-10":                    "2024-02-11 …",
		"am 10.2.2024":                        "2024-02-10 2024-02-11",
		"two weeks ago":                       "2024-04-28 2024-05-05",
		"3 days ago":                          "2024-05-12 2024-05-13",
		"a couple of days ago":                "2024-05-13 2024-05-14",
		"a year ago":                          "2022-11-15 2023-11-15",
		"You may march on":                    "",
		"It may be 12 years old, from seat 2": "",
		"room 2023, 30 people, a sec, dec":    "",
		"Im Mai war es mir zu kalt, seit gestern":     "",
		"3.14 and 99.99.2024 and 2024-13-45":          "",
		"the past is another country; this is a test": "",
		"": "",
	} {
		if got := periodsText(periodsIn(text, datesNow)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestClosenessFallsWithDistance(t *testing.T) {
	march := month(2024, 3)
	at := func(s string) period {
		d, err := time.Parse(time.DateOnly, s)
		if err != nil {
			t.Fatal(err)
		}
		return period{d, d}
	}
	last := 2.0
	for _, s := range []string{"2024-03-31", "2024-04-02", "2024-04-20", "2024-08-01"} {
		got := march.closeness(at(s))
		if got >= last || s == "2024-03-31" && got != 1 {
			t.Errorf("%s: %v after %v", s, got, last)
		}
		last = got
	}
	if got := (period{to: march.from}).closeness(at("2001-01-01")); got != 1 {
		t.Errorf("an open period has an end: %v", got)
	}
	if got := march.closeness(period{}); got != 1 {
		t.Errorf("a memory that is always true is %v near", got)
	}
}

func FuzzTimesOfATextNeverFail(f *testing.F) {
	for _, s := range []string{"last week", "3 May 2024", "a few of of days ago", "in 2023", "2024-02-30"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range periodsIn(text, datesNow) {
			if !p.from.IsZero() && !p.to.IsZero() && !p.from.Before(p.to) {
				t.Error(fmt.Sprintf("%q", text), p)
			}
		}
	})
}
