//go:build unix

package studiotest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/internal/test/browsertest"
	"github.com/treadle-go/treadle/internal/test/langgraphtest"
)

// notThere lists the flows that do not depend on the server: the speed, the size, and the
// looks of the page, and the number of its requests to Treadle's routes.
var notThere = []string{"budget", "chatspeed", "figures", "looks", "prompt", "sizes"}

// The flows run with LangGraph's own server, opened with ?baseUrl=. Checks with the option
// deviates are left out, because that server differs.
func TestFlowsOnLangGraphsServer(t *testing.T) {
	t.Parallel()
	url := langgraphtest.Start(t, "../../../../examples/platform/conformance/official", "official")
	studio := serve(t, "official")
	for _, script := range append([]string{"official.mjs"}, flows(t)...) {
		view := strings.TrimSuffix(filepath.Base(script), ".mjs")
		if slices.Contains(notThere, view) {
			continue
		}
		// One at a time: that server lists the runs of the threads that changed last.
		t.Run(view, func(t *testing.T) { browsertest.Run(t, script, studio, "", url) })
	}
}

// The table about LangGraph's server in docs/studio.md has a row for each reason why a check
// does not run there, and no others.
func TestStudioPageListsDeviations(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/studio.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## On LangGraph's server\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows, reasons []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+?) \|`).FindAllStringSubmatch(section, -1) {
		rows = append(rows, row[1])
	}
	for _, script := range flows(t) {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range regexp.MustCompile(`deviates: "([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			reasons = append(reasons, tag[1])
		}
	}
	if len(rows) == 0 {
		t.Fatal("no table")
	}
	rows = rows[1:] // without its head
	slices.Sort(reasons)
	for _, reason := range slices.Compact(reasons) {
		if !slices.Contains(rows, reason) {
			t.Errorf("no row for %q", reason)
		}
	}
	for _, row := range rows {
		if !slices.Contains(reasons, row) {
			t.Errorf("row %q without a check", row)
		}
	}
}
