package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The quarantine lists flaky tests, one per line, with the date on which the test was
// quarantined, the issue about it, and its package:
//
//	2026-11-18 https://github.com/treadle-go/treadle/issues/7 github.com/treadle-go/treadle/server TestCancel
//
// For a week, a failure of the test or of its subtests does not fail the run. After that
// week, the line itself fails every run until the test is fixed or deleted and the line
// removed. A line also fails the run if it is malformed or its test does not exist.

// quarantineDays is the number of days after its date that a line is valid.
const quarantineDays = 7

const modulePath = "github.com/treadle-go/treadle"

// quarantined is a line of the quarantine.
type quarantined struct {
	date  time.Time
	issue string
	pkg   string
	test  string
}

// until returns the last day of the quarantine.
func (q *quarantined) until() time.Time { return q.date.AddDate(0, 0, quarantineDays) }

// readQuarantine returns the valid lines of a quarantine file and the problems of the
// other lines. The parent of the file's directory is the root of the repository.
func readQuarantine(file string, now time.Time) (valid []quarantined, problems []string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, []string{err.Error()}
	}
	root := filepath.Dir(filepath.Dir(file))
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		q, err := parseQuarantined(line, root, now)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s:%d: %v", file, n, err))
			continue
		}
		valid = append(valid, q)
	}
	return valid, problems
}

var (
	issueURL = regexp.MustCompile(`^https://github\.com/[^/]+/[^/]+/issues/[0-9]+$`)
	testName = regexp.MustCompile(`^(Test|Example|Fuzz)[\pL\pN_]*$`)
)

func parseQuarantined(line, root string, now time.Time) (q quarantined, err error) {
	fields := strings.Fields(line)
	if len(fields) != 4 {
		return q, fmt.Errorf("malformed line %q: want date, issue, package, and test", line)
	}
	q = quarantined{issue: fields[1], pkg: fields[2], test: fields[3]}
	q.date, err = time.Parse(time.DateOnly, fields[0])
	today := now.UTC().Truncate(24 * time.Hour)
	switch {
	case err != nil || q.date.After(today.AddDate(0, 0, 1)): // tomorrow has begun in some time zones
		return q, fmt.Errorf("invalid date %q: want the day of quarantine, such as %s", fields[0], today.Format(time.DateOnly))
	case !issueURL.MatchString(q.issue):
		return q, fmt.Errorf("invalid issue %q: want a URL such as https://%s/issues/7", q.issue, modulePath)
	case !testName.MatchString(q.test):
		return q, fmt.Errorf("invalid test %q: want the name of a test function, which includes its subtests", q.test)
	case today.After(q.until()):
		return q, fmt.Errorf("quarantine of %s expired on %s: fix or delete the test, and remove the line", q.test, q.until().Format(time.DateOnly))
	}
	found, err := exists(root, q)
	if err == nil && !found {
		err = fmt.Errorf("unknown test %s in %s: remove the line", q.test, q.pkg)
	}
	return q, err
}

// exists reports whether a quarantined test is in the source of its package.
func exists(root string, q quarantined) (bool, error) {
	dir, ok := strings.CutPrefix(q.pkg+"/", modulePath+"/")
	if !ok {
		return false, nil
	}
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		return false, err
	}
	declaration := regexp.MustCompile(`(?m)^func ` + q.test + `\(`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		if declaration.Match(text) {
			return true, nil
		}
	}
	return false, nil
}

// quarantined returns the line about a failed test, or nil if its failure counts. If the
// process ended before its tests did, other tests did not run, and the failure counts.
func (r *report) quarantined(p *testedPackage, t *test) *quarantined {
	if !slices.Contains(p.output, "FAIL\n") { // which package testing prints after the last test
		return nil
	}
	name, _, _ := strings.Cut(t.name, "/")
	for i, q := range r.quarantine {
		if q.pkg == p.name && q.test == name {
			return &r.quarantine[i]
		}
	}
	return nil
}
