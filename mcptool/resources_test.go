package mcptool_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

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
