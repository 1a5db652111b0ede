package mcptool_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/mcptool"
)

// hostile is a server over HTTP that does as a test tells it. A method that the
// test does not answer is answered as a server would that has a tool t.
type hostile struct {
	answer func(w http.ResponseWriter, r *http.Request, method, id string) bool
	tools  string // the list of tools, as JSON
}

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	_ = json.NewDecoder(r.Body).Decode(&m)
	id := string(m.ID)
	if h.answer != nil && h.answer(w, r, m.Method, id) {
		return
	}
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "initialize":
		result(w, id, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"e","version":"1"}}`)
	case m.Method == "tools/list":
		tools := h.tools
		if tools == "" {
			tools = `[{"name":"t","inputSchema":{"type":"object"}}]`
		}
		result(w, id, `{"tools":`+tools+`}`)
	case m.Method == "tools/call":
		result(w, id, `{"content":[{"type":"text","text":"done"}]}`)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, id)
	}
}

func result(w http.ResponseWriter, id, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// serve runs the server until the end of the test.
func (h *hostile) serve(t *testing.T) mcptool.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return mcptool.Server{Name: "web", URL: s.URL}
}

// list is what becomes of the server's list of tools.
func (h *hostile) list(t *testing.T) error {
	t.Helper()
	s, err := mcptool.Connect(t.Context(), h.serve(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Tools(t.Context())
	return err
}

func TestSchemasThatCannotBeCheckedAreAnErrorOfTheList(t *testing.T) {
	for name, schema := range map[string]string{
		"endless":   `{"$ref":"#"}`,
		"deep":      strings.Repeat(`{"not":`, 300) + `{}` + strings.Repeat(`}`, 300),
		"very deep": strings.Repeat(`{"not":`, 9000) + `{}` + strings.Repeat(`}`, 9000),
		"huge":      `{"type":"object","title":"` + strings.Repeat("a", 12<<20) + `"}`,
		"a pattern": `{"type":"object","properties":{"a":{"pattern":"` + strings.Repeat("a{900}", 50) + `"}}}`,
		"a number":  `42`,
	} {
		t.Run(name, func(t *testing.T) {
			err := (&hostile{tools: `[{"name":"bad_one","inputSchema":` + schema + `}]`}).list(t)
			if err == nil || !strings.Contains(err.Error(), `"web"`) || len(err.Error()) > 5000 {
				t.Errorf("%.500v", err)
			}
			if !strings.Contains(fmt.Sprint(err), "bad_one") && name != "very deep" && name != "huge" {
				t.Errorf("the error does not name the tool: %.500v", err)
			}
		})
	}
}

func TestToolsWithoutASchemaCanBeCalled(t *testing.T) {
	for _, schema := range []string{``, `,"inputSchema":null`, `,"inputSchema":{}`, `,"inputSchema":true`} {
		_, tools := open(t, (&hostile{tools: `[{"name":"t"` + schema + `}]`}).serve(t))
		if got := tools.says(t, "t", `{"a":1}`); got != "done" {
			t.Errorf("%s: %q", schema, got)
		}
		if got := tools["t"].Parameters; got == nil || got.Type != "object" {
			t.Errorf("%s: the model is shown the schema %v", schema, got)
		}
	}
}
