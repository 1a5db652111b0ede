package conformance

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/internal/test/scripttest"
)

var updating = flag.Bool("update", false, "rewrite testdata/covered.json and docs/parity/server.md")

const (
	// coveredFile has the fields that the scripts send, with checks that send them.
	coveredFile = "testdata/covered.json"
	// namedFile has the fields that LangGraph's description of its API and its clients name.
	namedFile = "testdata/langgraph.json"
	// reasonsFile has the reason for each field that no check sends, or a test in Go.
	reasonsFile = "testdata/uncovered.txt"
	tablePage   = "../../../docs/parity/server.md"
)

// fields are the fields of requests, by endpoint: "?name" for a parameter of the query, "a.b" for a field in another, "method m"
// and "method m p" for a method of JSON-RPC or of protocol v2 and its parameter, and "" for the request as a whole. Each has the
// checks that send it.
type fields map[string]map[string][]string

func (f fields) add(endpoint, field, check string) {
	if f[endpoint] == nil {
		f[endpoint] = map[string][]string{}
	}
	if !slices.Contains(f[endpoint][field], check) {
		f[endpoint][field] = append(f[endpoint][field], check)
	}
}

func readJSON(t *testing.T, file string, dst any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, dst); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// A schema is a part of a JSON schema.
type schema struct {
	Ref        string            `json:"$ref"`
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
}

// described returns the fields in our API description.
func described(t *testing.T) fields {
	t.Helper()
	var api struct {
		Paths map[string]map[string]struct {
			Parameters  []struct{ Name, In string }
			RequestBody struct {
				Content map[string]struct{ Schema schema }
			}
		}
		Components struct{ Schemas map[string]schema }
	}
	r := &replay{t: t, url: serve(t), ids: newComparison()}
	if err := json.Unmarshal([]byte(r.send("GET", "/openapi.json", "", nil).body), &api); err != nil {
		t.Fatal(err)
	}
	all := fields{}
	for path, methods := range api.Paths {
		for method, op := range methods {
			endpoint := strings.ToUpper(method) + " " + path
			all[endpoint] = map[string][]string{"": nil}
			for _, p := range op.Parameters {
				if p.In == "query" {
					all[endpoint]["?"+p.Name] = nil
				}
			}
			body := op.RequestBody.Content["application/json"].Schema
			if body.Items != nil {
				body = *body.Items
			}
			if name, ok := strings.CutPrefix(body.Ref, "#/components/schemas/"); ok {
				body = api.Components.Schemas[name]
			}
			for name := range body.Properties {
				all[endpoint][name] = nil
			}
		}
	}
	return all
}

// endpointOf finds the endpoint of a request. A literal part comes before a parameter, as in the server.
func endpointOf(all fields, request string) (string, bool) {
	best, found := "", false
	for endpoint := range all {
		if fits(endpoint, request) && (!found || strings.Count(endpoint, "{") < strings.Count(best, "{")) {
			best, found = endpoint, true
		}
	}
	return best, found
}

func fits(endpoint, request string) bool {
	want, got := strings.Split(endpoint, "/"), strings.Split(strings.TrimSuffix(request, "/"), "/")
	if want[len(want)-1] == "{namespace}" && len(got) > len(want) {
		got = got[:len(want)]
	}
	return slices.EqualFunc(want, got, func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") && g != "" })
}

// collected returns the fields that checks have sent. Both versions of an SDK, and both
// kinds of a client, count as one script.
func collected(results map[string][]scripttest.Result) fields {
	all := fields{}
	for script, rs := range results {
		short := "js "
		if strings.HasPrefix(script, "python") {
			short = "py "
		}
		for _, r := range rs {
			if !r.OK {
				continue
			}
			for endpoint, names := range r.Covers {
				for _, name := range append(names, "") {
					all.add(endpoint, name, short+r.Name)
				}
			}
		}
	}
	return all
}

// listed returns two checks of each script for each field: the checks that send the fewest
// fields, because they are the most specific.
func listed(all fields) fields {
	sends := map[string]int{}
	for _, names := range all {
		for _, checks := range names {
			for _, check := range checks {
				sends[check]++
			}
		}
	}
	out := fields{}
	for endpoint, names := range all {
		for name, checks := range names {
			slices.SortFunc(checks, func(a, b string) int { return cmp.Or(sends[a]-sends[b], strings.Compare(a, b)) })
			taken := map[string]int{}
			for _, check := range checks {
				if script, _, _ := strings.Cut(check, " "); taken[script] < 2 {
					taken[script]++
					out.add(endpoint, name, check)
				}
			}
			slices.Sort(out[endpoint][name])
		}
	}
	return out
}

// compareCovered compares the fields that the scripts have sent with the committed list.
func compareCovered(t *testing.T, results map[string][]scripttest.Result) {
	t.Helper()
	all := collected(results)
	if *updating {
		writeFile(t, coveredFile, indented(t, listed(all)))
		return
	}
	var list fields
	readJSON(t, coveredFile, &list)
	for _, missing := range lacks(list, all) {
		t.Errorf("%s lacks %s: run go test -run %s -update", coveredFile, missing, t.Name())
	}
	for _, wrong := range lacks(all, list) {
		t.Errorf("%s has %s, which no check sends: run go test -run %s -update", coveredFile, wrong, t.Name())
	}
	for endpoint, names := range list {
		for name, checks := range names {
			for _, check := range checks {
				if all[endpoint] != nil && !slices.Contains(all[endpoint][name], check) {
					t.Errorf("%s: %s does not send %q to %s: run go test -run %s -update", coveredFile, check, name, endpoint, t.Name())
				}
			}
		}
	}
}

// lacks returns the fields of b that a lacks.
func lacks(a, b fields) (out []string) {
	for endpoint, names := range b {
		for name := range names {
			if _, ok := a[endpoint][name]; !ok {
				out = append(out, strings.TrimSpace(endpoint+" "+name))
			}
		}
	}
	slices.Sort(out)
	return out
}

// indented returns JSON with one field per line, so that changes are easy to read.
func indented(t *testing.T, f fields) []byte {
	t.Helper()
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(\],|\},|:\{)"`).ReplaceAll(raw, []byte("$1\n\""))
	return append(lines, '\n')
}

func writeFile(t *testing.T, file string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		t.Fatal(err)
	}
}

// An excuse is a line of uncovered.txt: the reason why some fields have no check, or the tests that they have in Go.
type excuse struct {
	line            int
	endpoint, field *regexp.Regexp
	text            string
	used            bool
}

func readExcuses(t *testing.T) (all []*excuse) {
	t.Helper()
	file, err := os.Open(reasonsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		if lines.Text() == "" || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		parts := strings.Split(lines.Text(), " ; ")
		if len(parts) != 3 || strings.TrimSpace(parts[2]) == "" {
			t.Fatalf("%s:%d: want endpoint ; field ; reason", reasonsFile, n)
		}
		all = append(all, &excuse{line: n, endpoint: glob(parts[0]), field: glob(parts[1]), text: strings.TrimSpace(parts[2])})
	}
	return all
}

// A table has for each field of each endpoint how it is covered.
type table struct {
	described, named, covered fields
	excuses                   []*excuse
}

// rows returns the fields of an endpoint in the order of the page.
func (tb *table) rows(endpoint string) []string {
	names := map[string]bool{"": true}
	for _, of := range []fields{tb.described, tb.named, tb.covered} {
		for name := range of[endpoint] {
			_, isNamed := tb.named[endpoint][name]
			if isNamed || !strings.ContainsAny(name, ". ") { // else checks send it to see that it is refused
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// cell describes how a field is covered, or returns "". A field that our API does not
// describe needs a reason, even if a client sends it.
func (tb *table) cell(endpoint, field string) string {
	var reason string
	for _, e := range tb.excuses {
		if e.endpoint.MatchString(endpoint) && e.field.MatchString(field) {
			e.used, reason = true, e.text
		}
	}
	var checks []string
	for _, check := range tb.covered[endpoint][field] {
		checks = append(checks, "`"+check+"`")
	}
	_, ours := tb.described[endpoint][field]
	ours = ours || tb.described[endpoint] != nil && strings.ContainsAny(field, ". ")
	switch {
	case reason != "":
		return strings.Join(append([]string{reason}, checks...), "; ")
	case ours:
		return strings.Join(checks, ", ")
	}
	return ""
}

var groups = []struct{ heading, pattern string }{
	{"The server", `^\S+ /(ok|info|metrics|docs|openapi\.json|internal|ui)\b`},
	{"Assistants", `^\S+ /assistants`},
	{"Crons", `/runs/crons`},
	{"Protocol v2", `/(commands|stream/events)$`},
	{"State", `/threads/\S+/(state|history)\b`},
	{"Search", `^\S+ /search`},
	{"Runs", `/runs\b`},
	{"Threads", `^\S+ /threads`},
	{"The store", `^\S+ /store`},
	{"MCP, A2A, and AG-UI", `^\S+ /(mcp|a2a|agui|\.well-known)`},
}

func (tb *table) page() string {
	endpoints := map[string]bool{}
	for _, of := range []fields{tb.described, tb.named} {
		for endpoint := range of {
			endpoints[endpoint] = true
		}
	}
	byPath := slices.SortedFunc(maps.Keys(endpoints), func(a, b string) int {
		_, pathA, _ := strings.Cut(a, " ")
		_, pathB, _ := strings.Cut(b, " ")
		return cmp.Or(strings.Compare(pathA, pathB), strings.Compare(a, b))
	})
	var out strings.Builder
	out.WriteString(tableHead)
	for _, g := range groups {
		fmt.Fprintf(&out, "\n## %s\n\n| endpoint | field | covered by, or reason |\n|---|---|---|\n", g.heading)
		byPath = slices.DeleteFunc(byPath, func(endpoint string) bool {
			if !regexp.MustCompile(g.pattern).MatchString(endpoint) {
				return false
			}
			first := "`" + endpoint + "`"
			for _, name := range tb.rows(endpoint) {
				shown := ""
				if name != "" {
					shown = "`" + strings.TrimPrefix(name, "method ") + "`"
				}
				fmt.Fprintf(&out, "| %s | %s | %s |\n", first, shown, strings.ReplaceAll(tb.cell(endpoint, name), "|", `\|`))
				first = ""
			}
			return true
		})
	}
	for _, endpoint := range byPath {
		fmt.Fprintf(&out, "\n%s is in no group of table_test.go.\n", endpoint)
	}
	return out.String()
}

const tableHead = `# Endpoints and fields of the server

Each row is an endpoint, or a field of its requests, that our ` + "`/openapi.json`" + ` describes or that LangGraph's description of its API and
its clients name. ` + "`?name`" + ` is a parameter of the query, and ` + "`method parameter`" + ` one of a command of protocol v2 or of JSON-RPC. The last
column has checks of [the conformance scripts](../../examples/platform/conformance/doc.go) that send it (js is the JavaScript SDK, py
the Python SDK; two of each at most), tests in Go, or the reason why it is not supported.

Generated by ` + "`go test ./examples/platform/conformance -run TestServerTableIsComplete -update`" + ` from the checks' record of their
requests, which ` + "`TestPlatformConforms`" + ` compares with what they send.
`

// docs/parity/server.md names the checks that cover every endpoint and every request
// field, or the reason that there are none.
func TestServerTableIsComplete(t *testing.T) {
	tb := &table{described: described(t), named: fields{}, covered: fields{}, excuses: readExcuses(t)}
	var named map[string][]string
	readJSON(t, namedFile, &named)
	for endpoint, names := range named {
		tb.named[endpoint] = map[string][]string{"": nil}
		for _, name := range names {
			tb.named[endpoint][name] = nil
		}
	}
	var covered fields
	readJSON(t, coveredFile, &covered)
	for request, names := range covered {
		endpoint, ok := endpointOf(tb.described, request)
		if !ok {
			endpoint, ok = endpointOf(tb.named, request)
		}
		for name, checks := range names {
			for _, check := range checks {
				if ok {
					tb.covered.add(endpoint, name, check)
				}
			}
		}
	}
	page := tb.page()
	for line := range strings.Lines(page) {
		if strings.HasSuffix(line, "|  |\n") || strings.HasSuffix(line, "of table_test.go.\n") {
			t.Errorf("neither a check nor a reason: add a check to js or py, or a line with a Go test or a reason to %s: %s", reasonsFile, line)
		}
	}
	for _, e := range tb.excuses {
		if !e.used {
			t.Errorf("%s:%d is about a field that there is not", reasonsFile, e.line)
		}
	}
	old, err := os.ReadFile(tablePage)
	if err != nil && !*updating {
		t.Fatal(err)
	}
	if bytes.Equal(old, []byte(page)) {
		return
	}
	if !*updating {
		t.Fatalf("%s is stale: run go test ./examples/platform/conformance -run %s -update", tablePage, t.Name())
	}
	writeFile(t, tablePage, []byte(page))
}

func TestServerTableShowsGaps(t *testing.T) {
	none := map[string][]string{}
	tb := &table{
		described: fields{"POST /a": {"": nil, "known": nil, "sent": nil, "config": nil}, "GET /a/{id}": none, "GET /a/search": none},
		named:     fields{"POST /a": {"": nil, "theirs": nil, "config.deep": nil}, "GET /b": {"": nil}},
		covered:   fields{"POST /a": {"": {"js x"}, "sent": {"js x", "py y"}, "theirs": {"js x"}, "odd": {"js x"}, "config.odd": {"js x"}, "config.deep": {"js x"}}},
		excuses:   []*excuse{{endpoint: glob("GET /b"), field: glob("*"), text: "not here"}},
	}
	if got, want := strings.Join(tb.rows("POST /a"), " "), " config config.deep known odd sent theirs"; got != want {
		t.Errorf("the rows are %q, want %q", got, want)
	}
	for row, want := range map[[2]string]string{
		{"POST /a", ""}:            "`js x`",
		{"POST /a", "known"}:       "",
		{"POST /a", "sent"}:        "`js x`, `py y`",
		{"POST /a", "theirs"}:      "", // it is sent, but does nothing
		{"POST /a", "odd"}:         "",
		{"POST /a", "config.deep"}: "`js x`",
		{"GET /b", ""}:             "not here",
	} {
		if got := tb.cell(row[0], row[1]); got != want {
			t.Errorf("%q is covered by %q, want %q", row, got, want)
		}
	}
	for request, want := range map[string]string{"GET /a/search": "GET /a/search", "GET /a/nope": "GET /a/{id}", "POST /a/": "POST /a", "PUT /a": ""} {
		if got, _ := endpointOf(tb.described, request); got != want {
			t.Errorf("%s is a request to %q, want %q", request, got, want)
		}
	}
}
