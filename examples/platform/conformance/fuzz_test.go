package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Requests that schemathesis makes from the API's description are answered as it says, and never
// with a failure of the server. Streams and what waits for runs may take as long as a run does, so
// they are left out.
func TestResponsesConformToDescription(t *testing.T) {
	t.Parallel()
	program, err := filepath.Abs("fuzz/.venv/bin/st")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: run .ci/python first", err)
	}
	cmd := exec.CommandContext(t.Context(), program, "run", serve(t)+"/openapi.json", "--no-color",
		"--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
		"--exclude-path-regex", "stream|join|wait|/agui/[^/]+$", "--phases", "coverage,fuzzing", "--max-examples", "5",
		"--seed", "1", "--generation-database", "none")
	cmd.Dir = t.TempDir()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
