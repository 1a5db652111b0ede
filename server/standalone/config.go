package standalone

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/envfile"
	"github.com/treadle-go/treadle/internal/near"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/server/internal/config"
	"github.com/treadle-go/treadle/server/internal/runs"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/ui"
)

// file represents a configuration file: treadle.json or LangGraph's langgraph.json, which
// have the same keys.
type file struct {
	name   string
	env    envfile.Env
	graphs map[string]string // descriptions by name

	embed  *string
	dims   int
	fields []string

	items, threads ttlConfig
	refresh        *bool
	strategy       string
	sweepLimit     int

	cors         *server.CORS
	originRegex  string
	prefix       string
	disabled     map[string]bool
	configurable *config.HeaderRule
	logged       *config.HeaderRule

	components map[string]fs.FS // by graph
	security   config.Security

	hooks      *server.Webhooks
	loopback   *bool
	hookPrefix string

	ignored []string // keys that have no effect here
}

// ttlConfig is a lifetime and the interval at which expired data is removed, both in minutes; 0
// means the default.
type ttlConfig struct{ minutes, sweep float64 }

type readKey func(*file, json.RawMessage) error

// configKeys maps key paths to their readers. A key of langgraph.json that is missing here is
// rejected.
var configKeys = map[string]readKey{
	"$schema": func(*file, json.RawMessage) error { return nil },
	"graphs":  (*file).readGraphs,
	"env":     field(func(c *file) any { return &c.env }),

	"store.index.embed":                field(func(c *file) any { return &c.embed }),
	"store.index.dims":                 field(func(c *file) any { return &c.dims }),
	"store.index.fields":               field(func(c *file) any { return &c.fields }),
	"store.ttl.default_ttl":            minutes(func(c *file) *float64 { return &c.items.minutes }),
	"store.ttl.refresh_on_read":        field(func(c *file) any { return &c.refresh }),
	"store.ttl.sweep_interval_minutes": minutes(func(c *file) *float64 { return &c.items.sweep }),
	"store.path":                       refuse("stores are not loaded from files: pass server.New a Database whose Store method returns yours"),

	"checkpointer.ttl.strategy":               oneOf(func(c *file) *string { return &c.strategy }, "delete", "keep_latest"),
	"checkpointer.ttl.default_ttl":            minutes(func(c *file) *float64 { return &c.threads.minutes }),
	"checkpointer.ttl.sweep_interval_minutes": minutes(func(c *file) *float64 { return &c.threads.sweep }),
	"checkpointer.ttl.sweep_limit":            field(func(c *file) any { return &c.sweepLimit }),
	"checkpointer.path":                       refuse("savers are not loaded from files: pass server.New your own Database"),
	"checkpointer.serde":                      ignore("checkpointer.serde"),

	"auth.path":                refuse("modules are not loaded at run time: set Options.Auth in the main function"),
	"auth.disable_studio_auth": ignore("auth.disable_studio_auth"),
	"auth.cache":               ignore("auth.cache"),

	"auth.openapi.securitySchemes": field(func(c *file) any { return &c.security.Schemes }),
	"auth.openapi.security":        field(func(c *file) any { return &c.security.Required }),
	"auth.openapi.paths":           field(func(c *file) any { return &c.security.Paths }),

	"http.app":                           refuse("modules are not loaded at run time: create a server with server.New and mount it in a mux with your routes"),
	"http.middleware_order":              ignore("http.middleware_order"),
	"http.enable_custom_route_auth":      ignore("http.enable_custom_route_auth"),
	"http.mount_prefix":                  field(func(c *file) any { return &c.prefix }),
	"http.configurable_headers.includes": field(func(c *file) any { return &made(&c.configurable).Includes }),
	"http.configurable_headers.excludes": field(func(c *file) any { return &made(&c.configurable).Excludes }),
	"http.logging_headers.includes":      field(func(c *file) any { return &made(&c.logged).Includes }),
	"http.logging_headers.excludes":      field(func(c *file) any { return &made(&c.logged).Excludes }),
	"http.cors.allow_origins":            field(func(c *file) any { return &made(&c.cors).Origins }),
	"http.cors.allow_methods":            field(func(c *file) any { return &made(&c.cors).Methods }),
	"http.cors.allow_headers":            field(func(c *file) any { return &made(&c.cors).Headers }),
	"http.cors.expose_headers":           field(func(c *file) any { return &made(&c.cors).Expose }),
	"http.cors.allow_credentials":        field(func(c *file) any { return &made(&c.cors).Credentials }),
	"http.cors.max_age":                  field(func(c *file) any { return &made(&c.cors).MaxAge }),
	"http.cors.allow_origin_regex":       field(func(c *file) any { made(&c.cors); return &c.originRegex }),
	"http.disable_assistants":            disable("assistants"),
	"http.disable_threads":               disable("threads"),
	"http.disable_runs":                  disable("runs"),
	"http.disable_store":                 disable("store"),
	"http.disable_meta":                  disable("meta"),
	"http.disable_mcp":                   disable("mcp"),
	"http.disable_a2a":                   disable("a2a"),
	"http.disable_agui":                  disable("agui"),
	"http.disable_ui":                    disable("ui"),
	"http.disable_webhooks":              field(func(c *file) any { return &made(&c.hooks).Disable }),

	"webhooks.env_prefix":           field(func(c *file) any { return &c.hookPrefix }),
	"webhooks.headers":              field(func(c *file) any { return &made(&c.hooks).Headers }),
	"webhooks.url.require_https":    field(func(c *file) any { return &made(&c.hooks).RequireHTTPS }),
	"webhooks.url.allowed_domains":  field(func(c *file) any { return &made(&c.hooks).Domains }),
	"webhooks.url.allowed_ports":    field(func(c *file) any { return &made(&c.hooks).Ports }),
	"webhooks.url.max_url_length":   field(func(c *file) any { return &made(&c.hooks).MaxURL }),
	"webhooks.url.disable_loopback": field(func(c *file) any { return &c.loopback }),

	"priority.path":        ignore("priority.path"),
	"encryption":           refuse("keys are not loaded from files: pass them to sqlite.Open, and serve that database with server.New"),
	"ui":                   (*file).readComponents,
	"ui_config":            ignore("ui_config"),
	"dependencies":         ignore("dependencies"),
	"python_version":       ignore("python_version"),
	"node_version":         ignore("node_version"),
	"node_loader":          ignore("node_loader"),
	"api_version":          ignore("api_version"),
	"base_image":           ignore("base_image"),
	"image_distro":         ignore("image_distro"),
	"_INTERNAL_docker_tag": ignore("_INTERNAL_docker_tag"),
	"dockerfile_lines":     ignore("dockerfile_lines"),
	"docker_compose_file":  ignore("docker_compose_file"),
	"pip_config_file":      ignore("pip_config_file"),
	"pip_installer":        ignore("pip_installer"),
	"keep_pkg_tools":       ignore("keep_pkg_tools"),
	"source":               ignore("source"),
}

// made returns *p, which it allocates first if it is nil.
func made[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

func field(dst func(*file) any) readKey {
	return func(c *file, raw json.RawMessage) error { return decodeKey(raw, dst(c)) }
}

func minutes(dst func(*file) *float64) readKey {
	return func(c *file, raw json.RawMessage) error {
		p := dst(c)
		if err := decodeKey(raw, p); err != nil {
			return err
		}
		if *p <= 0 || *p > 100*365*24*60 {
			return fmt.Errorf("want minutes above 0, not %v", *p)
		}
		return nil
	}
}

func oneOf(dst func(*file) *string, words ...string) readKey {
	return func(c *file, raw json.RawMessage) error {
		p := dst(c)
		if err := decodeKey(raw, p); err != nil {
			return err
		}
		if !slices.Contains(words, *p) {
			return fmt.Errorf("want %s, not %q", strings.Join(words, " or "), *p)
		}
		return nil
	}
}

func disable(group string) readKey {
	return func(c *file, raw json.RawMessage) error {
		var off bool
		err := decodeKey(raw, &off)
		if off {
			c.disabled[group] = true
		}
		return err
	}
}

func refuse(instead string) readKey {
	return func(*file, json.RawMessage) error { return fmt.Errorf("%s, and remove the key", instead) }
}

func ignore(key string) readKey {
	return func(c *file, _ json.RawMessage) error {
		c.ignored = append(c.ignored, key)
		return nil
	}
}

// decodeKey decodes the value of a key. Its error names the expected type.
func decodeKey(raw json.RawMessage, dst any) error {
	err := json.Unmarshal(raw, dst)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("want %s, not a JSON %s", runs.JSONType(wrong.Type), wrong.Value)
	}
	return err
}

// readFile reads the configuration file called name; "" means an empty configuration.
func readFile(name string) (*file, error) {
	c := &file{name: name, disabled: map[string]bool{}}
	if name == "" {
		return c, nil
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(raw, new(any))); ok {
		line := 1 + bytes.Count(raw[:min(int(syntax.Offset), len(raw))], []byte("\n"))
		return nil, fmt.Errorf("%s: line %d: %w", name, line, syntax)
	}
	return c, c.inFile(c.read("", raw))
}

// inFile adds the file name to each error and joins the errors.
func (c *file) inFile(errs []error) error {
	for i, err := range errs {
		errs[i] = fmt.Errorf("%s: %w", filepath.Base(c.name), err)
	}
	return errors.Join(errs...)
}

// read reads the keys of an object. path is "" or the path of the object with a trailing dot.
func (c *file) read(path string, raw json.RawMessage) (errs []error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return []error{fmt.Errorf("%s: want an object", cmp.Or(strings.TrimSuffix(path, "."), "file"))}
	}
	known := keysUnder(path)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		at, value := path+key, object[key]
		switch read := configKeys[at]; {
		case string(value) == "null" && slices.Contains(known, key): // same as a missing key
		case read != nil:
			if err := read(c, value); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", at, err))
			}
		case slices.Contains(known, key):
			errs = append(errs, c.read(at+".", value)...)
		default:
			errs = append(errs, fmt.Errorf("%s: unknown key%s", at, cmp.Or(near.Hint(key, known), ": use one of "+strings.Join(known, ", "))))
		}
	}
	return errs
}

// keysUnder returns the valid keys of the object at path.
func keysUnder(path string) []string {
	set := map[string]bool{}
	for key := range configKeys {
		if rest, ok := strings.CutPrefix(key, path); ok {
			key, _, _ := strings.Cut(rest, ".")
			set[key] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// readGraphs reads {"name": "path"} and {"name": {"path": "…", "description": "…"}}. Paths are
// ignored: the program provides the graphs.
func (c *file) readGraphs(raw json.RawMessage) error {
	var all map[string]json.RawMessage
	if err := decodeKey(raw, &all); err != nil {
		return err
	}
	c.graphs = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c.graphs[name] = ""
		if json.Unmarshal(all[name], new(string)) == nil {
			continue
		}
		var entry map[string]json.RawMessage
		if json.Unmarshal(all[name], &entry) != nil {
			return fmt.Errorf("%s: want a string, or an object with a description", name)
		}
		known := []string{"description", "path"}
		for key, value := range entry {
			var text string
			if !slices.Contains(known, key) {
				return fmt.Errorf("%s.%s: unknown key%s", name, key, cmp.Or(near.Hint(key, known), ": use description or path"))
			}
			if err := decodeKey(value, &text); err != nil {
				return fmt.Errorf("%s.%s: %w", name, key, err)
			}
			if key == "description" {
				c.graphs[name] = text
			}
		}
	}
	return nil
}

// setEnv sets the variables that are not yet set in the environment. It returns a notice if the
// env file does not exist, as in an image that gets its environment in another way.
func (c *file) setEnv() (notice string, err error) {
	vars, err := c.env.Load(filepath.Dir(c.name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("%s: env: missing file %s", filepath.Base(c.name), c.env.File), nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: env: %w", filepath.Base(c.name), err)
	}
	for name, value := range vars {
		if _, ok := os.LookupEnv(name); ok {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return "", fmt.Errorf("%s: env: %s: %w", filepath.Base(c.name), name, err)
		}
	}
	return "", nil
}

// apply applies the file to the options and returns the settings that are not part of the
// options. It does not modify values that opts points to.
func (c *file) apply(opts *server.Options, graphs []treadle.AnyGraph) (*config.Extras, error) {
	var errs []error
	for _, err := range []error{c.checkGraphs(graphs), c.applyStore(opts), c.applyCORS(opts), c.applyHooks(opts), c.checkHTTP(), c.checkSecurity(opts)} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	extras := &config.Extras{Descriptions: c.graphs, Disabled: c.disabled, Prefix: c.prefix, Configurable: c.configurable, Logged: c.logged,
		Sweep: inMinutes(c.threads.sweep), SweepLimit: c.sweepLimit, StoreSweep: inMinutes(c.items.sweep), Security: c.security}
	if c.threads.minutes > 0 {
		extras.ThreadTTL = &config.TTL{Minutes: c.threads.minutes, Strategy: c.strategy}
	} else if c.strategy != "" {
		errs = append(errs, errors.New("checkpointer.ttl.strategy: requires default_ttl"))
	}
	if c.sweepLimit < 0 {
		errs = append(errs, fmt.Errorf("checkpointer.ttl.sweep_limit: want a number above 0, not %d", c.sweepLimit))
	}
	if len(c.components) > 0 && !c.disabled["ui"] {
		var err error
		if extras.Components, err = c.applyComponents(graphs); err != nil {
			errs = append(errs, err)
		}
	}
	return extras, c.inFile(errs)
}

// checkSecurity checks that the required credentials are described. Without Options.Auth, nothing
// requires them, so the description would be false.
func (c *file) checkSecurity(opts *server.Options) error {
	needed := map[string][]map[string][]string{"security": c.security.Required}
	for path, methods := range c.security.Paths {
		for method, list := range methods {
			needed["paths."+path+"."+method] = list
		}
	}
	for _, at := range slices.Sorted(maps.Keys(needed)) {
		for _, one := range needed[at] {
			for name := range one {
				if c.security.Schemes[name] == nil {
					return fmt.Errorf("auth.openapi.%s: unknown scheme %q: add it to auth.openapi.securitySchemes", at, name)
				}
			}
		}
	}
	if len(c.security.Schemes) > 0 && opts.Auth == nil {
		c.ignored = append(c.ignored, "auth.openapi")
	}
	return nil
}

// sources are the extensions of files from which a bundler builds components.
var sources = []string{".js", ".jsx", ".ts", ".tsx"}

// readComponents reads the folders of the components of graphs. LangGraph's files name their sources
// instead, which are ignored, because nothing builds them here.
func (c *file) readComponents(raw json.RawMessage) error {
	var all map[string]string
	if err := decodeKey(raw, &all); err != nil {
		return err
	}
	c.components = map[string]fs.FS{}
	for _, graph := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(sources, filepath.Ext(all[graph])) {
			c.ignored = append(c.ignored, "ui."+graph)
			continue
		}
		folder := all[graph]
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(filepath.Dir(c.name), folder)
		}
		c.components[graph] = os.DirFS(folder)
	}
	return nil
}

// applyComponents returns a handler of the components. A source file that is ignored may belong to a graph
// of another program, but a folder is meant for this one.
func (c *file) applyComponents(graphs []treadle.AnyGraph) (http.Handler, error) {
	for _, graph := range slices.Sorted(maps.Keys(c.components)) {
		if !slices.ContainsFunc(graphs, func(g treadle.AnyGraph) bool { return g.Name() == graph }) {
			return nil, fmt.Errorf("ui.%s: graph is not served", graph)
		}
	}
	h, err := ui.Handler(c.components)
	if err != nil {
		return nil, fmt.Errorf("ui: want folders of built components: %w", err)
	}
	return h, nil
}

func inMinutes(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }

func (c *file) checkGraphs(graphs []treadle.AnyGraph) error {
	var served []string
	for _, g := range graphs {
		served = append(served, g.Name())
	}
	for _, name := range slices.Sorted(maps.Keys(c.graphs)) {
		if !slices.Contains(served, name) {
			return fmt.Errorf("graphs.%s: graph is not served: the program serves %s", name, strings.Join(served, ", "))
		}
	}
	return nil
}

func (c *file) applyStore(opts *server.Options) error {
	items := store.Options{}
	if opts.Store != nil {
		items = *opts.Store
	}
	if c.embed != nil {
		e := opts.Embedders[*c.embed]
		if e == nil {
			have := cmp.Or(strings.Join(slices.Sorted(maps.Keys(opts.Embedders)), ", "), "none")
			return fmt.Errorf("store.index.embed: unknown embedder %q: add it to Options.Embedders, which has %s", *c.embed, have)
		}
		items.Embedder = e
	}
	if c.dims != 0 && (items.Embedder == nil || items.Embedder.Dimension() != c.dims) {
		if items.Embedder == nil {
			return errors.New("store.index.dims: requires embed")
		}
		return fmt.Errorf("store.index.dims: embedder has dimension %d, not %d", items.Embedder.Dimension(), c.dims)
	}
	if c.fields != nil {
		items.Fields = c.fields
	}
	if c.items.minutes > 0 {
		items.TTL = inMinutes(c.items.minutes)
	}
	if c.refresh != nil {
		items.NoRefresh = !*c.refresh
	}
	opts.Store = &items
	return nil
}

func (c *file) applyCORS(opts *server.Options) error {
	if c.cors == nil {
		return nil
	}
	if c.originRegex != "" {
		pattern, err := regexp.Compile(`^(?:` + c.originRegex + `)$`)
		if err != nil {
			return fmt.Errorf("http.cors.allow_origin_regex: %w", err)
		}
		c.cors.Pattern = pattern
	}
	switch {
	case c.cors.Credentials && slices.Contains(c.cors.Origins, "*"):
		return errors.New(`http.cors.allow_credentials: browsers reject credentials with the origin "*": list the origins`)
	case c.cors.MaxAge < 0:
		return fmt.Errorf("http.cors.max_age: want seconds from 0, not %d", c.cors.MaxAge)
	}
	for _, list := range []*[]string{&c.cors.Methods, &c.cors.Headers} { // nil means all
		if slices.Contains(*list, "*") {
			*list = nil
		}
	}
	opts.CORS = c.cors
	return nil
}

func (c *file) checkHTTP() error {
	if p := c.prefix; p != "" && (!strings.HasPrefix(p, "/") || strings.HasSuffix(p, "/") || strings.ContainsAny(p, " {}?#")) {
		return fmt.Errorf("http.mount_prefix: want a path such as /agents, not %q", p)
	}
	return nil
}

// hookVar matches an environment variable in a webhook header.
var hookVar = regexp.MustCompile(`\$\{\{\s*env\.(\w+)\s*\}\}`)

func (c *file) applyHooks(opts *server.Options) error {
	if c.hooks == nil && c.loopback == nil {
		return nil
	}
	h := *made(&c.hooks)
	if opts.Webhooks != nil {
		h.Secret, h.AllowPrivate = opts.Webhooks.Secret, opts.Webhooks.AllowPrivate
	}
	h.AllowLoopback = c.loopback != nil && !*c.loopback
	if h.MaxURL < 0 {
		return fmt.Errorf("webhooks.url.max_url_length: want a number above 0, not %d", h.MaxURL)
	}
	h.Headers = maps.Clone(h.Headers)
	for name, value := range h.Headers {
		text, err := c.expand(value)
		if err != nil {
			return fmt.Errorf("webhooks.headers.%s: %w", name, err)
		}
		h.Headers[name] = text
	}
	opts.Webhooks = &h
	return nil
}

// expand replaces the variables in a header. It accepts only variables with the prefix, so that
// the file cannot send other secrets.
func (c *file) expand(value string) (text string, err error) {
	prefix := cmp.Or(c.hookPrefix, "LG_WEBHOOK_")
	text = hookVar.ReplaceAllStringFunc(value, func(s string) string {
		name := hookVar.FindStringSubmatch(s)[1]
		v, ok := os.LookupEnv(name)
		switch {
		case !strings.HasPrefix(name, prefix):
			err = fmt.Errorf("variable %s does not start with %s", name, prefix)
		case !ok:
			err = fmt.Errorf("variable %s is not set", name)
		}
		return v
	})
	return text, err
}
