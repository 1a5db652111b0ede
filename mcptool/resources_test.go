package mcptool_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/mcptool"
)

// library is a server with resources and a prompt.
func library(t *testing.T, protocol string) mcptool.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "library", Version: "v1"}, &mcp.ServerOptions{PageSize: 2, SupportedProtocolVersions: []string{protocol}})
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		if strings.HasSuffix(r.Params.URI, ".png") {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "image/png", Blob: []byte("png")}}}, nil
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "text of " + r.Params.URI + ", key t0psecret"}}}, nil
	}
	for i := range 3 {
		s.AddResource(&mcp.Resource{URI: fmt.Sprintf("memo://%d", i), Name: fmt.Sprint("memo ", i)}, read)
	}
	s.AddResource(&mcp.Resource{URI: "memo://owl.png", Name: "owl"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "book://{id}", Name: "book"}, read)
	s.AddPrompt(&mcp.Prompt{Name: "review", Arguments: []*mcp.PromptArgument{{Name: "book"}}}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
			{Role: "user", Content: &mcp.TextContent{Text: "Review " + r.Params.Arguments["book"] + "."}},
			{Role: "assistant", Content: &mcp.TextContent{Text: "Which edition?"}},
			{Role: "user", Content: &mcp.ImageContent{MIMEType: "image/png", Data: []byte("png")}},
		}}, nil
	})
	h := httptest.NewServer(mcptool.Handler(s, &mcptool.HandlerOptions{Sessions: true}))
	t.Cleanup(h.Close)
	return mcptool.Server{Name: "library", URL: h.URL, Header: map[string][]string{"X-Key": {"t0psecret"}}}
}

func TestResourcesAreRead(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			tools, _ := overHTTP(t) // a server without resources
			all, _ := open(t, tools, library(t, protocol))
			found, err := all.Resources(t.Context())
			var uris []string
			for _, r := range found {
				uris = append(uris, r.Server+" "+r.URI)
			}
			if want := []string{"library memo://0", "library memo://1", "library memo://2", "library memo://owl.png"}; err != nil || !cmp.Equal(want, uris) {
				t.Errorf("resources %q, %v", uris, err)
			}
			for uri, want := range map[string]llm.Block{
				"memo://1":       llm.Text("text of memo://1, key [hidden]"),
				"memo://owl.png": llm.Image("image/png", []byte("png")),
				"book://7":       llm.Text("text of book://7, key [hidden]"),
			} {
				got, err := all.Read(t.Context(), "library", uri)
				if d := cmp.Diff([]llm.Block{want}, got); err != nil || d != "" {
					t.Errorf("%s: %v (-want +got):\n%s", uri, err, d)
				}
			}
			for server, uri := range map[string]string{"library": "memo://none", "http": "memo://1", "nobody": "memo://1"} {
				if got, err := all.Read(t.Context(), server, uri); err == nil {
					t.Errorf("%s of %s: %+v", uri, server, got)
				}
			}
		})
	}
}

func TestPromptsAreFilled(t *testing.T) {
	for _, protocol := range protocols {
		all, _ := open(t, library(t, protocol))
		got, err := all.Prompt(t.Context(), "library", "review", map[string]string{"book": "Emma"})
		want := []llm.Message{llm.User("Review Emma."), llm.Assistant("Which edition?"), llm.User("", llm.Image("image/png", []byte("png")))}
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", protocol, err, d)
		}
		if got, err := all.Prompt(t.Context(), "library", "none", nil); err == nil {
			t.Errorf("%s: unknown prompt %+v", protocol, got)
		}
	}
}

// A silent server, and one that drips its response, must not hold a caller forever.
func TestHostileReadsEnd(t *testing.T) {
	const hello = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"e","version":"1"}}`
	for name, drip := range map[string]func(w http.ResponseWriter, r *http.Request){
		"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"drips": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"x":"`)
			for r.Context().Err() == nil {
				fmt.Fprint(w, "a")
				_ = http.NewResponseController(w).Flush()
				<-time.After(time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hostile{answer: func(w http.ResponseWriter, r *http.Request, method, id string) bool {
				switch method {
				case "initialize":
					result(w, id, hello)
				case "resources/list", "resources/read", "prompts/get", "tools/list":
					drip(w, r)
				default:
					return false
				}
				return true
			}}
			to := h.serve(t)
			to.Timeout = 200 * time.Millisecond
			s, err := mcptool.Connect(t.Context(), to, library(t, protocols[0]))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for what, do := range map[string]func() error{
				"Tools":  func() error { _, err := s.Tools(t.Context()); return err },
				"Read":   func() error { _, err := s.Read(t.Context(), "web", "a://b"); return err },
				"Prompt": func() error { _, err := s.Prompt(t.Context(), "web", "p", nil); return err },
				"Resources": func() error {
					found, err := s.Resources(t.Context())
					if len(found) != 4 || found[0].Server != "library" {
						t.Errorf("resources of the other server: %+v", found)
					}
					return err
				},
			} {
				// A response that breaks off also ends the connection for the next request.
				if err := do(); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, mcptool.ErrNoResponse) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}
