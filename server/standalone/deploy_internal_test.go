package standalone

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/server/internal/config"
)

// deployed is a process of this program in a file of deploy/.
type deployed struct {
	file  string
	args  []string
	env   map[string]string
	grace time.Duration // from SIGTERM to SIGKILL
	paths []string      // of probes
}

// documents decodes the documents of a YAML file.
func documents[T any](t *testing.T, path string) (all []T) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	d := yaml.NewDecoder(f)
	for {
		var v T
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, v)
	}
}

// composed returns the processes of the file for Docker Compose.
func composed(t *testing.T) (all []deployed) {
	path := filepath.Join("..", "..", "deploy", "compose.yaml")
	type compose struct {
		Services map[string]struct {
			Build       string
			Command     []string
			Environment map[string]string
			Grace       string         `yaml:"stop_grace_period"`
			Depends     map[string]any `yaml:"depends_on"`
		}
	}
	for _, c := range documents[compose](t, path) {
		for name, s := range c.Services {
			for other := range s.Depends {
				if _, ok := c.Services[other]; !ok {
					t.Errorf("%s: %s depends on %s, which is not there", path, name, other)
				}
			}
			if s.Build == "" {
				continue // Postgres or NATS
			}
			grace, err := time.ParseDuration(s.Grace)
			if err != nil {
				t.Errorf("%s: %s: %v", path, name, err)
			}
			all = append(all, deployed{file: path + ": " + name, args: s.Command, env: s.Environment, grace: grace})
		}
	}
	return all
}

// orchestrated returns the processes of the files for Kubernetes.
func orchestrated(t *testing.T) (all []deployed) {
	dir := filepath.Join("..", "..", "deploy", "kubernetes")
	type probe struct {
		Get struct{ Path string } `yaml:"httpGet"`
	}
	type object struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			Template struct {
				Spec struct {
					Grace      int `yaml:"terminationGracePeriodSeconds"`
					Containers []struct {
						Args      []string
						Env       []struct{ Name, Value string }
						Readiness probe `yaml:"readinessProbe"`
						Liveness  probe `yaml:"livenessProbe"`
					}
				}
			}
		}
	}
	for _, list := range documents[struct{ Resources []string }](t, filepath.Join(dir, "kustomization.yaml")) {
		for _, file := range list.Resources {
			path := filepath.Join(dir, file)
			for _, o := range documents[object](t, path) {
				if o.Kind == "" || o.Metadata.Name == "" {
					t.Errorf("%s has an object without a kind or a name", path)
				}
				for _, c := range o.Spec.Template.Spec.Containers {
					d := deployed{file: path, args: c.Args, env: map[string]string{}, grace: time.Duration(o.Spec.Template.Spec.Grace) * time.Second,
						paths: []string{c.Readiness.Get.Path, c.Liveness.Get.Path}}
					for _, e := range c.Env {
						d.env[e.Name] = e.Value
					}
					all = append(all, d)
				}
			}
		}
	}
	return all
}

// The files of deploy/ can be read, and name only arguments, variables and routes that the
// program has.
func TestDeployFilesMatchProgram(t *testing.T) {
	all := slices.Concat(composed(t), orchestrated(t))
	if len(all) != 4 {
		t.Errorf("%d processes are deployed, want api and worker in two ways", len(all))
	}
	for _, d := range all {
		t.Run(d.file, func(t *testing.T) { d.check(t) })
	}
}

func (d *deployed) check(t *testing.T) {
	var defaults settings
	before, err := defaults.flags()
	if err != nil {
		t.Fatal(err)
	}
	if d.grace <= defaults.grace {
		t.Errorf("it has %v to end, and --grace is %v", d.grace, defaults.grace)
	}
	for name, value := range d.env {
		t.Setenv(name, value)
		var s settings
		after, err := s.flags()
		if err != nil {
			t.Fatal(err)
		}
		changed := false
		after.VisitAll(func(f *flag.Flag) { changed = changed || f.DefValue == value && before.Lookup(f.Name) != nil })
		if !changed {
			t.Errorf("the variable %s sets no flag", name)
		}
	}
	t.Setenv("DATABASE_URI", "postgres://of.the.secret/treadle")
	t.Setenv("NATS_URL", "nats://of.the.secret")
	var s settings
	if err := s.parse(d.args); err != nil {
		t.Errorf("the arguments %q: %v", d.args, err)
	}
	if s.role == "all" || s.nats == "" || s.host != "0.0.0.0" || s.format != "json" {
		t.Errorf("it is %+v", s)
	}
	worker := &server.Options{}
	config.Server.Extend(worker, &config.Extras{Quiet: true})
	routes, _ := config.Server.OpenAPI(worker)["paths"].(map[string]map[string]any)
	for _, path := range d.paths {
		path, _, _ = strings.Cut(path, "?")
		if routes[path]["get"] == nil {
			t.Errorf("a worker does not answer the probe %q", path)
		}
	}
}
