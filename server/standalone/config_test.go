package standalone_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/test/platform"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/server/standalone"
	"github.com/treadle-go/treadle/store"
)

// letters is an embedder that counts letters.
type letters struct{}

func (letters) Model() string  { return "letters" }
func (letters) Dimension() int { return 26 }

func (letters) Embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = make([]float32, 26)
		for _, r := range strings.ToLower(text) {
			if 'a' <= r && r <= 'z' {
				out[i][r-'a']++
			}
		}
	}
	return out, nil
}

// configFile writes a configuration.
func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "treadle.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// describe runs the command openapi, which reads the configuration and opens nothing.
func describe(t *testing.T, text string, args ...string) (string, error) {
	t.Helper()
	all, err := platform.All()
	if err != nil {
		t.Fatal(err)
	}
	out := &output{}
	err = standalone.Serve(t.Context(), append([]string{"openapi", "--config", configFile(t, text)}, args...), out,
		&server.Options{Embedders: map[string]store.Embedder{"letters": letters{}}}, all...)
	return out.String(), err
}

// configured starts a server with a configuration.
func configured(t *testing.T, text string, args ...string) (*client, *output) {
	t.Helper()
	c, out, stop := startWith(t, &server.Options{Embedders: map[string]store.Embedder{"letters": letters{}}},
		append(args, "--db", filepath.Join(t.TempDir(), "test.db"), "--config", configFile(t, text))...)
	t.Cleanup(stop)
	return c, out
}

func TestInvalidConfigIsRejected(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                                  `line 1: unexpected end of JSON input`,
		"{\n\n \"env\": nonsense}":           `line 3: invalid character 'o' in literal null (expecting 'u')`,
		`[]`:                                 `file: want an object`,
		`{"grahps":{}}`:                      `grahps: unknown key: did you mean "graphs"?`,
		`{"http":{"cros":{}}}`:               `http.cros: unknown key: did you mean "cors"?`,
		`{"http":{"cors":{"zzz":1}}}`:        `http.cors.zzz: unknown key: use one of allow_credentials, allow_headers, allow_methods, allow_origin_regex, allow_origins, expose_headers, max_age`,
		`{"http":1}`:                         `http: want an object`,
		`{"graphs":{"nosuch":"./a.py:g"}}`:   `graphs.nosuch: graph is not served: the program serves `,
		`{"graphs":{"agent":1}}`:             `graphs: agent: want a string, or an object with a description`,
		`{"graphs":{"agent":{"descr":"x"}}}`: `graphs: agent.descr: unknown key: use description or path`,
		`{"graphs":{"agent":{"pat":"x"}}}`:   `graphs: agent.pat: unknown key: did you mean "path"?`,
		`{"graphs":[]}`:                      `graphs: want an object, not a JSON array`,
		`{"env":1}`:                          `env: want the name of a file, or an object of strings`,

		`{"store":{"index":{"embed":"openai:x"}}}`:                                          `store.index.embed: unknown embedder "openai:x": add it to Options.Embedders, which has letters`,
		`{"store":{"index":{"embed":"letters","dims":9}}}`:                                  `store.index.dims: embedder has dimension 26, not 9`,
		`{"store":{"index":{"dims":9}}}`:                                                    `store.index.dims: requires embed`,
		`{"store":{"ttl":{"default_ttl":0}}}`:                                               `store.ttl.default_ttl: want minutes above 0, not 0`,
		`{"store":{"ttl":{"default_ttl":"5"}}}`:                                             `store.ttl.default_ttl: want a number, not a JSON string`,
		`{"store":{"path":"./s.py:s"}}`:                                                     `store.path: stores are not loaded from files: pass server.New a Database whose Store method returns yours, and remove the key`,
		`{"checkpointer":{"path":"x"}}`:                                                     `checkpointer.path: savers are not loaded from files: pass server.New your own Database, and remove the key`,
		`{"checkpointer":{"ttl":{"strategy":"keep"}}}`:                                      `checkpointer.ttl.strategy: want delete or keep_latest, not "keep"`,
		`{"checkpointer":{"ttl":{"strategy":"delete"}}}`:                                    `checkpointer.ttl.strategy: requires default_ttl`,
		`{"checkpointer":{"ttl":{"sweep_limit":-1}}}`:                                       `checkpointer.ttl.sweep_limit: want a number above 0, not -1`,
		`{"auth":{"path":"./auth.py:auth"}}`:                                                `auth.path: modules are not loaded at run time: set Options.Auth in the main function, and remove the key`,
		`{"auth":{"openapi":{"security":[{"key":[]}]}}}`:                                    `auth.openapi.security: unknown scheme "key": add it to auth.openapi.securitySchemes`,
		`{"auth":{"openapi":{"paths":{"/x":{"get":[{"key":[]}]}}}}}`:                        `auth.openapi.paths./x.get: unknown scheme "key"`,
		`{"auth":{"openapi":{"schemes":{}}}}`:                                               `auth.openapi.schemes: unknown key: use one of paths, security, securitySchemes`,
		`{"http":{"app":"./app.py:app"}}`:                                                   `http.app: modules are not loaded at run time: create a server with server.New and mount it in a mux with your routes, and remove the key`,
		`{"encryption":{"path":"x"}}`:                                                       `encryption: keys are not loaded from files: pass them to sqlite.Open, and serve that database with server.New, and remove the key`,
		`{"http":{"mount_prefix":"agents"}}`:                                                `http.mount_prefix: want a path such as /agents, not "agents"`,
		`{"http":{"cors":{"allow_origin_regex":"("}}}`:                                      "http.cors.allow_origin_regex: error parsing regexp: missing closing ): `^(?:()$`",
		`{"http":{"cors":{"max_age":-1}}}`:                                                  `http.cors.max_age: want seconds from 0, not -1`,
		`{"http":{"disable_mcp":"yes"}}`:                                                    `http.disable_mcp: want true or false, not a JSON string`,
		`{"webhooks":{"headers":{"A":"${{ env.HOME }}"}}}`:                                  `webhooks.headers.A: variable HOME does not start with LG_WEBHOOK_`,
		`{"webhooks":{"headers":{"A":"${{env.LG_WEBHOOK}}"}}}`:                              `webhooks.headers.A: variable LG_WEBHOOK does not start with LG_WEBHOOK_`,
		`{"webhooks":{"headers":{"A":"${{env.LG_WEBHOOK_X}}"}}}`:                            `webhooks.headers.A: variable LG_WEBHOOK_X is not set`,
		`{"ui":{"nobody":"."}}`:                                                             `ui.nobody: graph is not served`,
		`{"ui":{"agent":"no-such-folder"}}`:                                                 `ui: want folders of built components`,
		`{"ui":{"agent":7}}`:                                                                `ui: want a string`,
		`{"webhooks":{"url":{"max_url_length":-1}}}`:                                        `webhooks.url.max_url_length: want a number above 0, not -1`,
		`{"http":{"cors":{"allow_origins":["*"],"allow_credentials":true}}}`:                `http.cors.allow_credentials: browsers reject credentials with the origin "*": list the origins`,
		`{"http":{"app":"x"},"auth":{"path":"y"},"stroe":{},"dependencies":["."]}`:          "auth.path: modules are not loaded",
		`{"http":{"app":"x"},"auth":{"path":"y"},"stroe":{},"dependencies":[".", "other"]}`: `stroe: unknown key: did you mean "store"?`,
	} {
		if _, err := describe(t, text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "treadle.json: ") {
			t.Errorf("%s\n is rejected with %v\nwant           %s", text, err, want)
		}
	}
}

func TestInvalidArgumentsAreRejected(t *testing.T) {
	for args, want := range map[string]string{
		"sreve":                `unknown command "sreve": use serve, dev, openapi: did you mean "serve"?`,
		"serve --nosuch":       "flag provided but not defined: -nosuch: see --help",
		"serve extra":          `unknown argument "extra": see --help`,
		"openapi --log loud":   `--log "loud": want auto, json, text, or pretty`,
		"--config nosuch.json": "--config: open nosuch.json: no such file or directory",
		"--db postgres://127.0.0.1:1/y?connect_timeout=1": "--db: ",
		"--role api":                                   "--nats and --role require a shared database: --db postgres://…",
		"--role boss":                                  `--role: unknown role "boss": use all, api, worker`,
		"--graphs nosuch --db :memory:":                `server: Execute: graph "nosuch" is not served`,
		"--db /nosuch/dir/file":                        "--db: ",
		"serve --port nonsense":                        `invalid value "nonsense" for flag -port: parse error: see --help`,
		"--port 1 --host nosuch.invalid --db :memory:": "--host, --port: listen tcp: lookup nosuch.invalid",
	} {
		all, err := platform.All()
		if err != nil {
			t.Fatal(err)
		}
		err = standalone.Serve(t.Context(), strings.Fields(args), io.Discard, nil, all...)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	t.Setenv("PORT", "nonsense")
	if err := standalone.Serve(t.Context(), nil, io.Discard, nil); err == nil || err.Error() != `PORT is "nonsense": want a number` {
		t.Errorf("PORT: %v", err)
	}
}

func TestHelpListsCommandsAndFlags(t *testing.T) {
	for _, args := range []string{"--help", "dev -h", "help"} {
		out := &output{}
		if err := standalone.Serve(t.Context(), strings.Fields(args), out, nil); err != nil {
			t.Error(err)
		}
		for _, want := range []string{"Commands:\n  serve ", "  dev  ", "  openapi  ", "--port PORT", "(default 2024)", "--log-requests", "--grace TIME", "--config FILE"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s lacks %q:\n%s", args, want, out)
			}
		}
	}
}

func TestOpenAPICommandNeedsNoDatabase(t *testing.T) {
	out, err := describe(t, `{"http":{"mount_prefix":"/agents","disable_runs":true}}`)
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Servers []struct{ URL string }
		Paths   map[string]any
	}
	if err := json.Unmarshal([]byte(out), &api); err != nil {
		t.Fatal(err)
	}
	if api.Servers[0].URL != "/agents" || api.Paths["/threads"] == nil || api.Paths["/runs/wait"] != nil {
		t.Errorf("servers %v, %d paths", api.Servers, len(api.Paths))
	}
}

func TestConfigDescribesAssistants(t *testing.T) {
	db := filepath.Join(t.TempDir(), "test.db")
	for _, text := range []string{"answers", "answers better"} {
		file := configFile(t, `{"$schema":"x","graphs":{"agent":{"path":"./a.py:g","description":"`+text+`"},"hitl":"./a.py:h","router":{"path":"x"}}}`)
		c, _, stop := startWith(t, nil, "--db", db, "--config", file)
		var found []struct {
			Graph       string `json:"graph_id"`
			Description *string
		}
		c.ok("POST", "/assistants/search", `{"limit":100}`, &found)
		seen := 0
		for _, a := range found {
			switch {
			case a.Graph == "agent":
				seen++
				if a.Description == nil || *a.Description != text {
					t.Errorf("the description is %v, want %s", a.Description, text)
				}
			case a.Description != nil:
				t.Errorf("%s has the description %q", a.Graph, *a.Description)
			}
		}
		if seen != 1 {
			t.Errorf("there are %d assistants of the graph", seen)
		}
		stop()
	}
}

func TestConfigSetsEnvBeforeFlags(t *testing.T) {
	t.Setenv("TREADLE_TEST_SET", "kept")
	for _, name := range []string{"LOG_FORMAT", "TREADLE_TEST_NEW"} {
		t.Setenv(name, "") // so that it is restored
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{"langgraph.json": `{"env":"my.env","python_version":"3.12","dependencies":["."],"priority":{"path":"./p.py:p"}}`, "my.env": "LOG_FORMAT=json\nTREADLE_TEST_SET=lost\nTREADLE_TEST_NEW=new\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := platform.All()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, done := &output{}, make(chan error, 1)
	go func() { done <- standalone.Serve(ctx, []string{"--port", "0", "--db", ":memory:"}, out, nil, all...) }()
	for !strings.Contains(out.String(), `"msg":"serving"`) && len(done) == 0 {
		time.Sleep(time.Millisecond) //nolint:forbidigo // a server over HTTP is waited for
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := os.Getenv("TREADLE_TEST_SET") + os.Getenv("TREADLE_TEST_NEW"); got != "keptnew" {
		t.Errorf("the environment is %s", got)
	}
	for _, want := range []string{`"msg":"ignoring configuration keys","file":"langgraph.json","keys":"dependencies,priority.path,python_version"`,
		`"msg":"opening database"`, `"msg":"searching for unfinished runs"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, out)
		}
	}
}

func TestMissingEnvFileIsLogged(t *testing.T) {
	_, out := configured(t, `{"env":"nosuch.env"}`)
	if !strings.Contains(out.String(), "treadle.json: env: missing file nosuch.env") {
		t.Error(out)
	}
}

func TestConfigStore(t *testing.T) {
	c, _ := configured(t, `{"store":{"index":{"embed":"letters","dims":26,"fields":["text"]},"ttl":{"default_ttl":5,"refresh_on_read":false,"sweep_interval_minutes":1}}}`)
	for key, text := range map[string]string{"1": "zzzz", "2": "banana"} {
		c.ok("PUT", "/store/items", `{"namespace":["a"],"key":"`+key+`","value":{"text":"`+text+`","other":"cabana"}}`, nil)
	}
	var found struct {
		Items []struct {
			Key   string
			Score float64
		}
	}
	c.ok("POST", "/store/items/search", `{"namespace_prefix":["a"],"query":"nanaba"}`, &found)
	if len(found.Items) != 2 || found.Items[0].Key != "2" || found.Items[0].Score < 0.99 || found.Items[1].Score > 0.01 {
		t.Errorf("found by meaning: %+v", found.Items)
	}
}

func TestConfigStoreTTLRemovesItems(t *testing.T) {
	log := &output{}
	o := &server.Options{Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	file := configFile(t, `{"store":{"ttl":{"default_ttl":0.001,"refresh_on_read":false,"sweep_interval_minutes":0.001}}}`)
	c, stop := startLogged(t, log, o, "--db", filepath.Join(t.TempDir(), "test.db"), "--config", file)
	defer stop()
	c.ok("PUT", "/store/items", `{"namespace":["a"],"key":"k","value":{}}`, nil)
	for deadline := time.Now().Add(tooLong); ; time.Sleep(5 * time.Millisecond) { //nolint:forbidigo // a server over HTTP is waited for
		status, _, raw := c.do("GET", "/store/items?namespace=a&key=k", "")
		if status == http.StatusOK && string(raw) == "null" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is still there: %s", raw)
		}
	}
	for deadline := time.Now().Add(tooLong); !strings.Contains(log.String(), "items=1"); time.Sleep(5 * time.Millisecond) { //nolint:forbidigo // a server over HTTP is waited for
		if time.Now().After(deadline) {
			t.Fatalf("it is not swept:\n%s", log)
		}
	}
	if !strings.Contains(log.String(), "level=DEBUG msg=request") {
		t.Errorf("requests are not logged at level debug:\n%s", log)
	}
}

func TestConfigCheckpointerTTL(t *testing.T) {
	c, _ := configured(t, `{"checkpointer":{"ttl":{"strategy":"keep_latest","default_ttl":90,"sweep_interval_minutes":1,"sweep_limit":10},"serde":{}}}`)
	ttl := func(id string) (got struct {
		TTL *struct {
			Strategy string  `json:"strategy"`
			Minutes  float64 `json:"ttl_minutes"`
		}
	}) {
		c.ok("GET", "/threads/"+id+"?include=ttl", "", &got)
		return got
	}
	first := c.thread()
	if got := ttl(first).TTL; got == nil || got.Strategy != "keep_latest" || got.Minutes != 90 {
		t.Errorf("a thread: %+v", got)
	}
	var copied struct {
		ID string `json:"thread_id"`
	}
	c.ok("POST", "/threads/"+first+"/copy", "", &copied)
	if got := ttl(copied.ID).TTL; got == nil || got.Minutes != 90 {
		t.Errorf("a copy: %+v", got)
	}
	const own = "6a1d9e4e-6a8c-4c3c-9a52-1f9a53a4d001"
	c.ok("POST", "/threads", `{"thread_id":"`+own+`","ttl":5}`, nil)
	if got := ttl(own).TTL; got == nil || got.Strategy != "delete" || got.Minutes != 5 {
		t.Errorf("a thread with its own time: %+v", got)
	}
	const made = "6a1d9e4e-6a8c-4c3c-9a52-1f9a53a4d002"
	c.ok("POST", "/threads/"+made+"/runs/wait", `{"assistant_id":"router","input":{"target":"left"},"if_not_exists":"create"}`, nil)
	if got := ttl(made).TTL; got == nil || got.Minutes != 90 {
		t.Errorf("a thread that a run made: %+v", got)
	}
}

func TestExpiredThreadsAreRemoved(t *testing.T) {
	c, _ := configured(t, `{"checkpointer":{"ttl":{"default_ttl":0.001,"sweep_interval_minutes":0.001}}}`)
	id := c.thread()
	for deadline := time.Now().Add(tooLong); ; time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // a server over HTTP is waited for
		status, _, _ := c.do("GET", "/threads/"+id, "")
		if status == http.StatusNotFound {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the thread is still there")
		}
	}
}

func TestConfigCORS(t *testing.T) {
	c, _ := configured(t, `{"http":{"cors":{"allow_origins":["https://a.example"],"allow_origin_regex":"https://.*\\.b\\.example","allow_methods":["GET","POST"],
		"allow_headers":["*"],"allow_credentials":true,"expose_headers":["x-mine"],"max_age":60}}}`)
	ask := func(origin string) http.Header {
		c.head = http.Header{"Origin": {origin}, "Access-Control-Request-Method": {"GET"}, "Access-Control-Request-Headers": {"x-some"}}
		_, head, _ := c.do("OPTIONS", "/threads", "")
		return head
	}
	for _, origin := range []string{"https://a.example", "https://x.b.example"} {
		h := ask(origin)
		if h.Get("Access-Control-Allow-Origin") != origin || h.Get("Access-Control-Allow-Credentials") != "true" || h.Get("Access-Control-Max-Age") != "60" ||
			h.Get("Access-Control-Allow-Methods") != "GET,POST" || h.Get("Access-Control-Allow-Headers") != "x-some" || !strings.Contains(h.Get("Access-Control-Expose-Headers"), "x-mine") {
			t.Errorf("%s: %v", origin, h)
		}
	}
	for _, origin := range []string{"https://other.example", "https://x.b.example.evil.example"} {
		if h := ask(origin); h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s is allowed: %v", origin, h)
		}
	}
}

func TestConfigDisablesRoutes(t *testing.T) {
	routes := map[string][]string{
		"assistants": {"POST /assistants/search", "GET /assistants/agent"},
		"threads":    {"POST /threads", "GET /threads/6a1d9e4e-6a8c-4c3c-9a52-1f9a53a4d001/state"},
		"runs": {"POST /runs/wait", "POST /runs/crons/search", "GET /threads/6a1d9e4e-6a8c-4c3c-9a52-1f9a53a4d001/runs",
			"POST /threads/6a1d9e4e-6a8c-4c3c-9a52-1f9a53a4d001/commands"},
		"store": {"POST /store/namespaces"},
		"meta":  {"GET /info", "GET /docs", "GET /openapi.json", "GET /metrics"},
		"mcp":   {"POST /mcp"},
		"a2a":   {"GET /.well-known/agent-card.json", "POST /a2a/agent"},
		"ui":    {"GET /studio/"},
	}
	for group := range routes {
		c, _ := configured(t, `{"http":{"disable_`+group+`":true,"disable_webhooks":null}}`, "--studio")
		for of, list := range routes {
			for _, rt := range list {
				method, path, _ := strings.Cut(rt, " ")
				_, _, raw := c.do(method, path, "{}")
				if gone := strings.Contains(string(raw), "unknown endpoint"); gone != (of == group) {
					t.Errorf("with %s disabled: %s: %.200s", group, rt, raw)
				}
			}
		}
		c.ok("GET", "/ok", "", nil)
	}
}

func TestConfigServesComponents(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "cards.js"), []byte("var __LGUI_agent"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := `{"ui":{"agent":` + strconv.Quote(folder) + `,"hitl":"./src/ui.tsx"},"http":{"mount_prefix":"/agents"%s}}`
	c, out := configured(t, fmt.Sprintf(file, ""))
	if !strings.Contains(out.String(), "ui.hitl") || strings.Contains(out.String(), "ui.agent") {
		t.Errorf("log %s", out)
	}
	status, _, raw := c.do("POST", "/agents/ui/agent", `{"name":"card"}`)
	if status != 200 || !strings.Contains(string(raw), "/agents/ui/agent/cards.js") {
		t.Errorf("component: %d %s", status, raw)
	}
	if status, _, raw = c.do("GET", "/agents/ui/agent/cards.js", ""); status != 200 || string(raw) != "var __LGUI_agent" {
		t.Errorf("script: %d %s", status, raw)
	}
	for _, path := range []string{"/agents/ui/hitl/x.js", "/ui/agent/cards.js", "/agents/ui/agent/../../x"} {
		if status, _, raw = c.do("GET", path, ""); status != 404 {
			t.Errorf("%s: %d %s", path, status, raw)
		}
	}
	c.ok("GET", "/agents/ok", "", nil)
	c, _ = configured(t, fmt.Sprintf(file, `,"disable_ui":true`))
	if status, _, raw = c.do("GET", "/agents/ui/agent/cards.js", ""); status != 404 {
		t.Errorf("disabled: %d %s", status, raw)
	}
}

func TestConfigMountPrefix(t *testing.T) {
	c, out := configured(t, `{"http":{"mount_prefix":"/agents"}}`)
	if !regexp.MustCompile(`address=http://[0-9.:]+/agents `).MatchString(out.String()) {
		t.Errorf("the log does not name the prefix: %s", out)
	}
	for path, want := range map[string]int{"/agents/ok": 200, "/ok": 404, "/agentsok": 404, "/agents": 404, "/agents/nosuch": 404} {
		if status, _, raw := c.do("GET", path, ""); status != want {
			t.Errorf("%s: %d %s", path, status, raw)
		}
	}
}

func TestConfigSelectsHeaders(t *testing.T) {
	headers := http.Header{"X-Team": {"red"}, "X-Api-Key": {"secret"}, "My-Trace": {"t1"}, "X-Other": {"o"}}
	for config, want := range map[string]string{
		`{}`: "x-other,x-team",
		`{"http":{"configurable_headers":{"excludes":["x-o*"]}}}`:                                 "x-team",
		`{"http":{"configurable_headers":{"excludes":["*"],"includes":["x-team"]}}}`:              "",
		`{"http":{"configurable_headers":{"includes":["my-*","X-*"]}}}`:                           "my-trace,x-other,x-team",
		`{"http":{"configurable_headers":{"includes":["x-api-key","My-Trace"],"excludes":null}}}`: "my-trace,x-api-key",
		`{"http":{"logging_headers":{"includes":["my-trace"],"excludes":["x-api-key"]}},"ui":{}}`: "x-other,x-team",
	} {
		c, out := configured(t, config, "--log-requests")
		c.head = headers
		id := c.thread()
		var run struct {
			Kwargs struct {
				Config struct{ Configurable map[string]any }
			}
		}
		c.ok("POST", "/threads/"+id+"/runs", `{"assistant_id":"router","input":{"target":"left"}}`, &run)
		var got []string
		for _, name := range []string{"my-trace", "x-api-key", "x-other", "x-team"} {
			if run.Kwargs.Config.Configurable[name] != nil {
				got = append(got, name)
			}
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s: nodes get %v, want %s", config, got, want)
		}
		if logged := strings.Contains(out.String(), "my-trace=t1"); logged != strings.Contains(config, "logging_headers") {
			t.Errorf("%s: the header is in the log: %v", config, logged)
		}
		if strings.Contains(out.String(), "secret") {
			t.Errorf("%s: the key is in the log:\n%s", config, out)
		}
	}
}

func TestConfigWebhooks(t *testing.T) {
	t.Setenv("MY_TOKEN", "t0ken")
	got := make(chan string, 8)
	hooked := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("X-Token") }))
	defer hooked.Close()
	create := func(c *client, url string) (int, string) {
		status, _, raw := c.do("POST", "/runs/wait", `{"assistant_id":"router","input":{"target":"left"},"webhook":"`+url+`"}`)
		return status, string(raw)
	}
	c, _ := configured(t, `{"webhooks":{"env_prefix":"MY_","headers":{"X-Token":"Bearer ${{ env.MY_TOKEN }}"},"url":{"disable_loopback":false,"max_url_length":60}}}`)
	if status, raw := create(c, hooked.URL); status != http.StatusOK {
		t.Fatal(raw)
	}
	select {
	case token := <-got:
		if token != "Bearer t0ken" {
			t.Errorf("the header is %q", token)
		}
	case <-time.After(tooLong):
		t.Error("no webhook")
	}
	for config, refused := range map[string]string{
		`{"webhooks":{"url":{"disable_loopback":false,"max_url_length":60}}}`: "https://example.com/" + strings.Repeat("x", 60),
		`{"webhooks":{"url":{"disable_loopback":false}}}`:                     "http://10.0.0.1/",
		`{"webhooks":{"url":{"disable_loopback":true}}}`:                      hooked.URL,
		`{"webhooks":{"url":{"require_https":true}}}`:                         "http://example.com/",
		`{"webhooks":{"url":{"allowed_domains":["*.mine.example"]}}}`:         "https://example.com/",
		`{"webhooks":{"url":{"allowed_ports":[443]}}}`:                        "https://example.com:8443/",
		`{"http":{"disable_webhooks":true}}`:                                  "https://example.com/",
	} {
		c, _ := configured(t, config)
		if status, raw := create(c, refused); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %s: %d %s", config, refused, status, raw)
		}
	}
}

func TestDevAllowsLocalPagesAndWebhooks(t *testing.T) {
	t.Setenv("HOST", "nosuch.invalid") // is for serve
	got := make(chan bool, 8)
	hooked := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got <- true }))
	defer hooked.Close()
	c, out, stop := startWith(t, nil, "dev", "--db", filepath.Join(t.TempDir(), "test.db"))
	defer stop()
	c.head = http.Header{"Origin": {"http://localhost:5173"}}
	h := c.ok("POST", "/runs/wait", `{"assistant_id":"router","input":{"target":"left"},"webhook":"`+hooked.URL+`"}`, nil)
	if h.Get("Access-Control-Allow-Origin") != "http://localhost:5173" {
		t.Errorf("headers %v", h)
	}
	<-got
	line := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d INFO  request method=POST path=/runs/wait status=200 bytes=\d+ took=\S+$`)
	for deadline := time.Now().Add(tooLong); !line.MatchString(out.String()); time.Sleep(time.Millisecond) { //nolint:forbidigo // a server over HTTP is waited for
		if time.Now().After(deadline) {
			t.Fatalf("the request is not logged:\n%s", out)
		}
	}
}

func TestServeDeniesPagesAndLogsNoRequests(t *testing.T) {
	c, out := configured(t, `{}`)
	c.head = http.Header{"Origin": {"https://example.com"}}
	if status, h, raw := c.do("GET", "/ok", ""); status != http.StatusForbidden || h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %s, headers %v", status, raw, h)
	}
	c.head = http.Header{}
	if status, _, raw := c.do("POST", "/runs/wait", `{"assistant_id":"router","input":{},"webhook":"http://127.0.0.1:1/"}`); status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", status, raw)
	}
	if strings.Contains(out.String(), "msg=request") {
		t.Errorf("the log is\n%s", out)
	}
}

// A connection string of Postgres, or a URL with an unknown scheme, is not the name of a file,
// and its password is neither logged nor printed.
func TestDatabaseNamesAreNotFiles(t *testing.T) {
	for _, tt := range []struct{ db, want string }{
		{"host=db.invalid user=u password=SECRET", ""},
		{"password=SECRET host=db.invalid", ""},
		{"postgress://u:SECRET@db.invalid/x", `unknown database scheme "postgress://"`},
		{"mysql://u:SECRET@db.invalid/x", `unknown database scheme "mysql://"`},
		{"postgres:/u:SECRET@db.invalid/x", "want postgres://…"},
		{"postgres://u:SECRET/x@db.invalid/x", "invalid Postgres URL"},
		{"Server=db.invalid;Password=SECRET", `unknown keyword "Server"`},
		{"postgres://u:SECRET@db.invalid/x?password=SECRET", ""},
	} {
		t.Chdir(t.TempDir())
		graphs, err := platform.All()
		if err != nil {
			t.Fatal(err)
		}
		for name, serve := range map[string]func(context.Context, []string, io.Writer, *server.Options, ...treadle.AnyGraph) error{"Serve": standalone.Serve, "ServeFile": standalone.ServeFile} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			out := &output{}
			err = serve(ctx, []string{"--port", "0", "--db", tt.db}, out, nil, graphs...)
			cancel()
			if err == nil || strings.Contains(err.Error()+out.String(), "SECRET") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %s: %v\n%s", name, tt.db, err, out)
			}
			help := &output{}
			t.Setenv("DATABASE_URI", tt.db)
			t.Setenv("NATS_URL", "nats://u:SECRET@nats.test:4222,nats://b.test")
			if err := serve(t.Context(), []string{"--help"}, help, nil, graphs...); err != nil || strings.Contains(help.String(), "SECRET") || !strings.Contains(help.String(), "nats://nats.test:4222,nats://b.test") {
				t.Errorf("%s: --help: %v\n%s", name, err, help)
			}
			t.Setenv("DATABASE_URI", "")
			t.Setenv("NATS_URL", "")
		}
		if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
			t.Errorf("%s: files %v, %v", tt.db, files, err)
		}
	}
}

func TestDevAllowsListedPages(t *testing.T) {
	for _, tt := range []struct {
		config, allow string
		origins       map[string]bool // whether their pages may call the server
		host          string
	}{
		{`{}`, "", map[string]bool{"http://localhost:5173": true, "http://127.0.0.1:3000": true, "http://[::1]:3000": true, "http://a.localhost": true,
			"https://evil.test": false, "http://localhost.evil.test": false, "null": false}, ""},
		{`{}`, "https://app.test/, agents.test", map[string]bool{"http://localhost:5173": true, "https://app.test": true, "https://evil.test": false}, "agents.test:2024"},
		{`{"http":{"cors":{"allow_origins":["http://vite.test:5173"]}}}`, "https://app.test", map[string]bool{"http://vite.test:5173": true, "https://app.test": true, "https://evil.test": false}, ""},
		{`{"http":{"cors":{"allow_origins":["*"]}}}`, "", map[string]bool{"https://evil.test": true}, ""},
	} {
		c, _ := configured(t, tt.config, "dev", "--allow", tt.allow)
		for origin, want := range tt.origins {
			c.host, c.head = tt.host, http.Header{"Origin": {origin}}
			status, head, raw := c.do("POST", "/runs/wait", `{"assistant_id":"router","input":{"target":"left"}}`)
			if shown := head.Get("Access-Control-Allow-Origin"); (status == http.StatusOK) != want || (shown == origin || shown == "*") != want {
				t.Errorf("%s, --allow %q: %s: %d, allowed %q: %s", tt.config, tt.allow, origin, status, shown, bytes.TrimSpace(raw))
			}
		}
	}
}

func TestMemoryFlag(t *testing.T) {
	for text, want := range map[string]float64{"64MiB": 64 << 20, "1GiB": 1 << 30, "100KiB": 100 << 10, "5000000": 5e6} {
		c, _, stop := startWith(t, nil, "--db", ":memory:", "--memory", text)
		var all map[string]struct{ Values []struct{ Value float64 } }
		c.ok("GET", "/metrics?format=json", "", &all)
		if got := all["treadle_memory_limit_bytes"].Values; len(got) != 1 || got[0].Value != want {
			t.Errorf("--memory %s: metrics show a limit of %v bytes, want %.0f", text, got, want)
		}
		stop()
	}
	for _, text := range []string{"0", "-1", "64MB", "x", "9999999999GiB"} {
		err := standalone.Serve(t.Context(), []string{"--memory", text}, t.Output(), nil)
		if err == nil || !strings.Contains(err.Error(), "invalid size") {
			t.Errorf("--memory %s: error is %v", text, err)
		}
	}
}

// The credentials of auth.openapi are in the description, if Options.Auth checks them.
func TestConfigDescribesCredentials(t *testing.T) {
	const text = `{"auth":{"openapi":{"securitySchemes":{"key":{"type":"apiKey","in":"header","name":"X-Api-Key"},"sso":{"type":"oauth2","flows":{}}},
		"security":[{"key":[]}],"paths":{"/threads":{"post":[{"sso":["write"]}]}}}}}`
	auth := &server.Auth{Authenticate: server.APIKeys(map[string]*server.User{"k": {Identity: "ann"}}), On: server.OwnerRules(),
		Schemes: map[string]server.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}}
	for want, o := range map[string]struct {
		text string
		auth *server.Auth
	}{
		`{"key":{"in":"header","name":"X-Api-Key","type":"apiKey"},"sso":{"flows":{},"type":"oauth2"}} [{"key":[]}] [{"sso":["write"]}] []`: {text, auth},
		`{"token":{"scheme":"bearer","type":"http"}} [{"token":[]}] null []`:                                                                {`{}`, auth},
		`null null null null`: {text, nil},
	} {
		out := &output{}
		err := standalone.Serve(t.Context(), []string{"openapi", "--config", configFile(t, o.text)}, out, &server.Options{Auth: o.auth}, treadle.Must(platform.All())...)
		var doc struct {
			Security   any
			Components struct{ SecuritySchemes any }
			Paths      map[string]map[string]struct{ Security any }
		}
		if err == nil {
			err = json.Unmarshal([]byte(out.String()), &doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range []any{doc.Components.SecuritySchemes, doc.Security, doc.Paths["/threads"]["post"].Security, doc.Paths["/ok"]["get"].Security} {
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(raw))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s\n got  %s\n want %s", o.text, strings.Join(got, " "), want)
		}
	}
}
