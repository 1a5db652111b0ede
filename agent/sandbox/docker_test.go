//go:build linux

package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/agent/sandbox"
	"github.com/treadle-go/treadle/agent/sandbox/sandboxtest"
)

// engine returns the program that stands for Docker, and the directory with its state.
func engine(t *testing.T) (program, state string) {
	t.Helper()
	program, err := filepath.Abs(filepath.Join("testdata", "docker"))
	if err != nil {
		t.Fatal(err)
	}
	state = t.TempDir()
	t.Setenv("FAKE_DOCKER", state)
	return program, state
}

func calls(t *testing.T, state string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(state, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func container(t *testing.T, image string, o sandbox.DockerOptions) (*sandbox.Docker, error) {
	t.Helper()
	s, err := sandbox.NewDocker(t.Context(), t.TempDir(), image, &o)
	if err == nil {
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return s, err
}

func docker(t *testing.T, limits sandbox.Limits) sandbox.Sandbox {
	program, _ := engine(t)
	s, err := container(t, "alpine", sandbox.DockerOptions{Engine: program, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDocker(t *testing.T)          { sandboxtest.Run(t, docker) }
func TestDockerSnapshots(t *testing.T) { sandboxtest.Snapshots(t, docker) }

func TestContainersAreConfined(t *testing.T) {
	program, state := engine(t)
	for _, o := range []sandbox.DockerOptions{{}, {Network: true, User: "7:8", Env: []string{"A=b"},
		Limits: sandbox.Limits{CPU: -1, Memory: -1, Processes: -1, FileSize: -1}}} {
		o.Engine = program
		s, err := container(t, "alpine", o)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := s.Exec(t.Context(), sandbox.Command{Script: "true"}); err != nil || r.Code != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	all := strings.Split(strings.TrimSpace(calls(t, state)), "\n")
	want := func(line string, parts ...string) {
		t.Helper()
		for _, part := range append(parts, "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--pull=never") {
			if !strings.Contains(line+" ", " "+part+" ") {
				t.Errorf("%s lacks %s", line, part)
			}
		}
	}
	want(all[2], "--network=none", "--memory=1073741824", "--memory-swap=1073741824", "--pids-limit=128", "--ulimit=cpu=120:120", "--ulimit=fsize=104857600:104857600",
		"--mount=type=tmpfs,destination=/tmp,tmpfs-size=104857600", "--user=1000:1000")
	want(all[5], "--user=7:8", "--env=A=b", "--mount=type=tmpfs,destination=/tmp")
	for _, flag := range []string{"--network", "--memory", "--pids-limit", "cpu=", "fsize="} {
		if strings.Contains(all[5], flag) {
			t.Errorf("%s has %s", all[5], flag)
		}
	}
}

func TestLeftContainersAreRemoved(t *testing.T) {
	program, state := engine(t)
	if err := os.WriteFile(filepath.Join(state, "left"), []byte("id1\nid2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := container(t, "alpine", sandbox.DockerOptions{Engine: program}); err != nil {
		t.Fatal(err)
	}
	if all := calls(t, state); !strings.Contains(all, "rm --force id1 id2\n") {
		t.Errorf("calls:\n%s", all)
	}
}

func TestEngineFailures(t *testing.T) {
	program, _ := engine(t)
	for image, want := range map[string]string{"": `invalid image ""`, "--privileged": "invalid image", "missing": "No such image: missing"} {
		if _, err := container(t, image, sandbox.DockerOptions{Engine: program}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", image, err)
		}
	}
	if _, err := container(t, "alpine", sandbox.DockerOptions{Engine: "no-such-engine"}); err == nil || !strings.Contains(err.Error(), "no-such-engine") {
		t.Errorf("got %v", err)
	}
	s, err := container(t, "broken", sandbox.DockerOptions{Engine: program})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exec(t.Context(), sandbox.Command{Script: "true"}); err == nil || !strings.Contains(err.Error(), "out of disk") {
		t.Errorf("got %v", err)
	}
}
