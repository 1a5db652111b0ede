package mcptool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/llm"
)

// Errors of calls.
var (
	// ErrNoResponse is returned when the server could not be reached, ended before it responded,
	// or sent an invalid response. The server may have executed the call.
	ErrNoResponse = errors.New("mcptool: no response from server")
	// ErrClosed is returned after [Servers.Close].
	ErrClosed = errors.New("mcptool: connections closed")
)

// errRefused ends a call whose server requests input that is not permitted.
var errRefused = errors.New("refused")

// Servers is a set of sessions with MCP servers. It is safe for concurrent use.
type Servers struct {
	all []*session
}

// Connect opens a session with each server concurrently and returns when all are ready. If a
// server is not ready within half a minute, or ctx ends, Connect closes all sessions and
// returns an error. Close ends the sessions; the end of ctx does not.
func Connect(ctx context.Context, servers ...Server) (*Servers, error) {
	if ctx == nil {
		return nil, errors.New("mcptool: nil context")
	}
	out := &Servers{}
	var problems []error
	for _, s := range servers {
		resolved, err := s.resolve()
		if err == nil && slices.ContainsFunc(out.all, func(o *session) bool { return o.Name == s.Name }) {
			err = fmt.Errorf("mcptool: duplicate server name %q", s.Name)
		}
		problems = append(problems, err)
		out.all = append(out.all, newSession(resolved))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	err := out.each(func(_ int, s *session) error {
		return s.do(ctx, func(context.Context, *mcp.ClientSession) error { return nil })
	})
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

// each calls do for every server concurrently. The errors are in the order of the servers.
func (s *Servers) each(do func(int, *session) error) error {
	errs := make([]error, len(s.all))
	var all sync.WaitGroup
	for i, one := range s.all {
		all.Go(func() { errs[i] = do(i, one) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Tools lists the tools of all servers, in the order of the servers, with the servers' schemas.
// The tools can be used until Close, even if a server is restarted.
//
// Characters that are invalid in tool names become _, so files.read becomes files_read. Tools
// returns an error if two tools have the same name (see [Server].Prefix) or a schema is
// invalid.
func (s *Servers) Tools(ctx context.Context) ([]*llm.Tool, error) {
	lists := make([][]*llm.Tool, len(s.all))
	err := s.each(func(i int, one *session) (err error) {
		lists[i], err = one.tools(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	from := map[string]string{}
	var out []*llm.Tool
	var problems []error
	for i, list := range lists {
		for _, tool := range list {
			server := s.all[i].Name
			if first, taken := from[tool.Name]; taken && first == server {
				problems = append(problems, fmt.Errorf("mcptool: server %q: several tools would be named %s", server, tool.Name))
				continue
			} else if taken {
				problems = append(problems, fmt.Errorf("mcptool: servers %q and %q both have a tool %s: set Prefix", first, server, tool.Name))
				continue
			}
			from[tool.Name] = server
			out = append(out, tool)
		}
	}
	if err := join(problems); err != nil {
		return nil, err
	}
	return out, nil
}

// Names returns the names of the servers, in order.
func (s *Servers) Names() []string {
	var out []string
	for _, one := range s.all {
		out = append(out, one.Name)
	}
	return out
}

// Session returns the SDK's session with a server, for features that this package does not wrap, such as
// prompt lists, resource templates, subscriptions, and completions. It opens a new session if the server
// has ended the last one, so get the session again for each use. Only Close closes it. Calls of the session
// are not limited by [Server].Timeout, and their errors may contain the secrets of the configuration.
func (s *Servers) Session(ctx context.Context, server string) (*mcp.ClientSession, error) {
	one, err := s.named(server)
	if err != nil {
		return nil, err
	}
	var out *mcp.ClientSession
	err = one.do(ctx, func(_ context.Context, session *mcp.ClientSession) error {
		out = session
		return nil
	})
	return out, err
}

// Close ends the sessions and the programs started by Connect. Active and later calls fail with
// [ErrClosed]. A program that does not end within a few seconds is killed.
func (s *Servers) Close() error {
	return s.each(func(_ int, one *session) error {
		one.close()
		return nil
	})
}
