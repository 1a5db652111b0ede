package scripttest_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/internal/scripttest"
)

func TestFailedChecksAreResults(t *testing.T) {
	results, err := run(t, `echo '{"name":"a","ok":true}'; echo '{"name":"b","error":"broken"}'; exit 1`)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 2 || !results[0].OK || results[1].OK || results[1].Error != "broken" {
		t.Errorf("results %+v", results)
	}
}

func TestScriptsThatDoNotEndWellAreErrors(t *testing.T) {
	for script, want := range map[string]string{
		`echo '{"name":"a","ok":true}'; echo no end >&2; exit 1`: "no end",
		`echo '{"name":"a"}'; echo crash >&2; exit 2`:            "crash",
		`echo hello`: "not the result of a check: hello",
	} {
		if _, err := run(t, script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func run(t *testing.T, script string) ([]scripttest.Result, error) {
	t.Helper()
	return scripttest.Run(exec.CommandContext(t.Context(), "bash", "-c", script))
}
