package mcptool

import (
	"context"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/llm"
)

// Resource is the description of a resource of a server, such as a file or a record.
type Resource struct {
	Server string // [Server].Name
	*mcp.Resource
}

// Resources lists the resources of the named servers, or of all servers without names, in the order of the
// servers. It omits servers without resources. If some servers fail, it returns the resources of the others
// and an error.
func (s *Servers) Resources(ctx context.Context, names ...string) ([]Resource, error) {
	from := s
	if len(names) > 0 {
		from = &Servers{}
		for _, name := range names {
			one, err := s.named(name)
			if err != nil {
				return nil, err
			}
			from.all = append(from.all, one)
		}
	}
	lists := make([][]Resource, len(from.all))
	err := from.each(func(i int, one *session) error {
		found, err := pages(ctx, one, "resource", func(ctx context.Context, server *mcp.ClientSession, cursor string) ([]*mcp.Resource, string, error) {
			if caps := server.InitializeResult().Capabilities; caps == nil || caps.Resources == nil {
				return nil, "", nil
			}
			page, err := server.ListResources(ctx, &mcp.ListResourcesParams{Cursor: cursor})
			if err != nil {
				return nil, "", err
			}
			return page.Resources, page.NextCursor, nil
		})
		for _, r := range found {
			if r != nil {
				lists[i] = append(lists[i], Resource{one.Name, r})
			}
		}
		return err
	})
	return slices.Concat(lists...), err
}

// Read reads a resource of a server, whose URI is that of a [Resource] or follows a template of the
// server. The blocks are texts, images, sounds, and files for a message; see [llm.User].
func (s *Servers) Read(ctx context.Context, server, uri string) ([]llm.Block, error) {
	one, err := s.named(server)
	if err != nil {
		return nil, err
	}
	var got *mcp.ReadResourceResult
	err = one.within(ctx, func(ctx context.Context, server *mcp.ClientSession) (err error) {
		got, err = server.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		return err
	})
	if err != nil {
		return nil, err
	}
	if got.NeedsInput() {
		return nil, one.errorf("%w: resource %s requests input", errRefused, shorten(plain(uri), 200))
	}
	var out []llm.Block
	for _, c := range got.Contents {
		b, err := one.shown(&mcp.EmbeddedResource{Resource: c})
		if err != nil {
			return nil, one.errorf("resource %s: %w", shorten(plain(uri), 200), err)
		}
		out = append(out, b)
	}
	return out, nil
}

// Prompt returns the messages of a server's prompt, filled with arguments. The server wrote them, so
// show a person which server did before a model reads them.
func (s *Servers) Prompt(ctx context.Context, server, name string, args map[string]string) ([]llm.Message, error) {
	one, err := s.named(server)
	if err != nil {
		return nil, err
	}
	var got *mcp.GetPromptResult
	err = one.within(ctx, func(ctx context.Context, server *mcp.ClientSession) (err error) {
		got, err = server.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: args})
		return err
	})
	if err != nil {
		return nil, err
	}
	if got.NeedsInput() {
		return nil, one.errorf("%w: prompt %s requests input", errRefused, shorten(plain(name), 200))
	}
	var out []llm.Message
	for i, m := range got.Messages {
		if m == nil {
			return nil, one.errorf("message %d of prompt %s is null", i, shorten(plain(name), 200))
		}
		b, err := one.shown(m.Content)
		if err != nil {
			return nil, one.errorf("message %d of prompt %s: %w", i, shorten(plain(name), 200), err)
		}
		to := llm.User("")
		if m.Role == "assistant" {
			to = llm.Assistant("")
		}
		to.Blocks = []llm.Block{b}
		if b.Type == llm.BlockText {
			to.Content, to.Blocks = b.Text, nil
		}
		out = append(out, to)
	}
	return out, nil
}

// named returns the session with a server.
func (s *Servers) named(server string) (*session, error) {
	for _, one := range s.all {
		if one.Name == server {
			return one, nil
		}
	}
	return nil, fmt.Errorf("mcptool: unknown server %q", server)
}
