package mcptool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/internal/bounded"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/llm"
)

// Limits of a list that never ends. maxItems is more tools than any model can choose from.
const (
	maxPages = 1000
	maxItems = 10_000
)

// tools returns the server's tools, except those that the policy denies.
func (s *session) tools(ctx context.Context) ([]*llm.Tool, error) {
	found, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	var out []*llm.Tool
	var problems []error
	for i, t := range found {
		if t == nil {
			problems = append(problems, s.errorf("tool %d in the list is null", i))
			continue
		}
		if s.Policy != nil && s.Policy(t) == Deny {
			continue
		}
		tool, err := s.tool(t)
		if err == nil && s.Policy != nil {
			_, err = s.pinned(ctx, tool.Name, fingerprint(t))
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		out = append(out, tool)
	}
	return out, join(problems)
}

// list returns the definitions of the server's tools.
func (s *session) list(ctx context.Context) ([]*mcp.Tool, error) {
	return pages(ctx, s, "tool", func(ctx context.Context, server *mcp.ClientSession, cursor string) ([]*mcp.Tool, string, error) {
		page, err := server.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return page.Tools, page.NextCursor, nil
	})
}

// pages returns the items on all pages of a list.
func pages[T any](ctx context.Context, s *session, what string, page func(context.Context, *mcp.ClientSession, string) ([]T, string, error)) ([]T, error) {
	var found []T
	err := s.within(ctx, func(ctx context.Context, server *mcp.ClientSession) error {
		found = nil
		cursor := ""
		for range maxPages {
			items, next, err := page(ctx, server, cursor)
			if err != nil {
				return err
			}
			if found = append(found, items...); len(found) > maxItems {
				return fmt.Errorf("%s list has more than %d %ss", what, maxItems, what)
			}
			if next == "" {
				return nil
			}
			cursor = next
		}
		return fmt.Errorf("%s list has more than %d pages", what, maxPages)
	})
	if err != nil {
		return nil, fmt.Errorf("list %ss: %w", what, err)
	}
	return found, nil
}

// join joins at most ten errors: a server may have any number of invalid tools.
func join(problems []error) error {
	problems = slices.DeleteFunc(problems, func(err error) bool { return err == nil })
	if more := len(problems) - 10; more > 0 {
		problems = append(problems[:10], fmt.Errorf("and %d more", more))
	}
	return errors.Join(problems...)
}

var forbidden = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// tool converts a tool of the server.
func (s *session) tool(t *mcp.Tool) (*llm.Tool, error) {
	name := t.Name
	if s.Prefix {
		name = s.Name + "_" + name
	}
	out := &llm.Tool{
		Name:        forbidden.ReplaceAllString(name, "_"),
		Description: s.show(plain(cmp.Or(t.Description, t.Title))),
		Timeout:     max(s.Timeout, 0),
	}
	var err error
	if out.Parameters, err = schema(t.InputSchema); err != nil {
		return nil, s.errorf("schema of tool %s: %w", shorten(plain(t.Name), 100), err)
	}
	var valid *bounded.Schema
	if t.OutputSchema != nil {
		output, err := schema(t.OutputSchema)
		if err == nil {
			valid, err = bounded.Resolve(output, nil)
		}
		if err != nil {
			return nil, s.errorf("output schema of tool %s: %w", shorten(plain(t.Name), 100), err)
		}
	}
	listed := fingerprint(t)
	out.Run = func(ctx context.Context, args json.RawMessage) (any, error) {
		refused, err := s.permit(ctx, t.Name, listed, llm.ToolCall{Name: out.Name, Args: args})
		if err != nil {
			return nil, err
		}
		if refused != nil {
			return *refused, nil
		}
		return s.call(ctx, t.Name, out.Name, args, valid)
	}
	if t.Name == "" {
		return nil, s.errorf("tool without a name")
	}
	if err := out.Check(); err != nil {
		return nil, s.errorf("%w", err)
	}
	return out, nil
}

// plain removes characters that could affect a terminal or a log.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, text)
}

// schema parses the server's schema of a tool. It verifies here, rather than at the first call,
// that calls can be checked against the schema in bounded time. A tool without a schema takes
// any object.
func schema(from any) (*jsonschema.Schema, error) {
	if from == nil {
		return &jsonschema.Schema{Type: "object"}, nil
	}
	raw, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	out, err := bounded.Parse(raw)
	if err != nil {
		return nil, err
	}
	if _, err = bounded.Resolve(out, nil); err != nil {
		return nil, err
	}
	if out.Type == "" && out.Types == nil && out.Ref == "" {
		out.Type = "object" // arguments are always objects, and providers require the type
	}
	return out, nil
}

// inject adds the trace context of ctx to the metadata of a call, under the names of the HTTP
// headers.
func inject(ctx context.Context, meta mcp.Meta) {
	if t := observe.TracerOf(ctx); t != nil {
		for key, value := range t.Inject(ctx) {
			meta[key] = value
		}
	}
}

// extract returns ctx as part of the trace named in the metadata of a call, if ctx is traced.
func extract(ctx context.Context, meta mcp.Meta) context.Context {
	t := observe.TracerOf(ctx)
	if t == nil || len(meta) == 0 {
		return ctx
	}
	return t.Join(ctx, func(name string) string {
		v, _ := meta[name].(string)
		return v
	})
}

// call calls a tool. The structured content of its result must match the schema valid, if there is one.
func (s *session) call(ctx context.Context, tool, shown string, args json.RawMessage, valid *bounded.Schema) (any, error) {
	call, _ := llm.CallFrom(ctx)
	token, forget := s.progress.watch(ctx, Progress{Server: s.Name, Tool: shown, CallID: call.ID})
	defer forget()
	send := func(ctx context.Context, responses mcp.InputResponseMap, state string) (got *mcp.CallToolResult, err error) {
		err = s.do(ctx, func(ctx context.Context, server *mcp.ClientSession) (err error) {
			params := &mcp.CallToolParams{Meta: mcp.Meta{}, Name: tool, Arguments: args, InputResponses: responses, RequestState: state}
			params.SetProgressToken(token)
			inject(ctx, params.Meta)
			got, err = server.CallTool(ctx, params)
			return err
		})
		return got, err
	}
	got, err := s.talk(ctx, shown, send)
	if err != nil {
		if f, ok := err.(*failure); ok { //nolint:errorlint // do wraps no failure
			f.tool = shown
		}
		return nil, err
	}
	if valid != nil && !got.IsError {
		err = checkOutput(valid, got.StructuredContent)
	}
	var m any
	if err == nil {
		m, err = s.result(got)
	}
	if err != nil {
		f := s.clean(fmt.Errorf("mcptool: server %q: %w", s.Name, err))
		f.tool = shown
		return nil, f
	}
	return m, nil
}

// errInvalid is returned if a result does not match the schema that the server has announced.
var errInvalid = errors.New("invalid result")

func checkOutput(valid *bounded.Schema, content any) error {
	if content == nil {
		return fmt.Errorf("%w: output schema without structuredContent", errInvalid)
	}
	if err := valid.Validate(content); err != nil {
		return fmt.Errorf("%w: structuredContent: %w", errInvalid, err)
	}
	return nil
}
