package treadle_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// A parityDefect is a defect of LangGraph, and a test shows that Treadle does not have it.
// Section is the section of our notes on it. Seen is how it was confirmed: by running
// LangGraph ("run"), by reading its code ("read"), or from reports (""). Reason explains
// why it has no test.
type parityDefect struct {
	Section string `json:"section"`
	Part    string `json:"part"`
	Seen    string `json:"seen"`
	Defect  string `json:"defect"`
	Reason  string `json:"reason"`
}

// id returns the defect's name in annotations.
func (d parityDefect) id() string { return "§" + d.Section + " " + d.Defect }

var defectLine = regexp.MustCompile(`^(§[0-9]+(?:\.[0-9]+)? \S.*)\.$`)

// defectID reads an annotation. It has one defect, whose text may have commas.
func defectID(line string) ([]string, error) {
	m := defectLine.FindStringSubmatch(line)
	if m == nil {
		return nil, errors.New("it is not a section, a text and a dot, as in '§2.2 the defect.'")
	}
	return m[1:], nil
}

// problem returns the reason that the entry is incomplete, or "" if it is complete.
func (d parityDefect) problem(marks []parityMark) string {
	switch {
	case d.Section == "" || d.Part == "" || d.Defect == "":
		return fmt.Sprintf("%s: the defect %+v lacks its section, its part or its text", parityData, d)
	case d.Seen != "" && d.Seen != "run" && d.Seen != "read":
		return fmt.Sprintf("%s: the defect %q was seen by %q: want run, read or nothing", parityData, d.id(), d.Seen)
	case len(testsOf(marks, d.id())) == 0 && d.Reason == "":
		return fmt.Sprintf("the defect %q has neither a test nor a reason", d.id())
	}
	return ""
}

func (table *parityTable) defects(marks []parityMark) string {
	var out strings.Builder
	held := 0
	for _, d := range table.Defects {
		tests := testsOf(marks, d.id())
		if len(tests) > 0 {
			held++
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", d.Section, cell(d.Part), cell(d.Defect), d.Seen, cell(answer(tests, d.Reason)))
	}
	return fmt.Sprintf("%d of %d defects have a test.\n\n| § | part | defect | seen | test |\n|---|---|---|---|---|\n", held, len(table.Defects)) + out.String()
}
