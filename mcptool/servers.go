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
	// ErrNoAnswer: the server could not be reached, went away before it answered,
	// or gave an answer that makes no sense. The call may have been carried out.
	ErrNoAnswer = errors.New("no answer from the MCP server")
	// ErrClosed: the servers were closed.
	ErrClosed = errors.New("the connection with the MCP servers was closed")
)

// Servers are sessions with MCP servers. They may be used by several goroutines.
type Servers struct {
	all []*session
}

// Connect opens a session with each server, all at the same time. It returns when
// all are ready; if one is not within half a minute, or ctx ends, that is an error
// and none stays open. The sessions outlive ctx: Close ends them.
func Connect(ctx context.Context, servers ...Server) (*Servers, error) {
	if ctx == nil {
		return nil, errors.New("mcptool: the context is nil")
	}
	out := &Servers{}
	var problems []error
	for _, s := range servers {
		resolved, err := s.resolve()
		if err == nil && slices.ContainsFunc(out.all, func(o *session) bool { return o.Name == s.Name }) {
			err = fmt.Errorf("mcptool: two servers are named %q", s.Name)
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

// each does something with every server at the same time. The errors are in the
// order of the servers.
func (s *Servers) each(do func(int, *session) error) error {
	errs := make([]error, len(s.all))
	var all sync.WaitGroup
	for i, one := range s.all {
		all.Go(func() { errs[i] = do(i, one) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Tools asks the servers for their tools. They come in the order of the servers,
// each with the schema that its server gave it, and work until Close, also if
// their server has to be started anew meanwhile.
//
// Characters that models do not take in names become _, so files.read is offered
// as files_read. Two tools of one name are an error; see Server.Prefix. So is a
// schema that cannot be understood.
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
				problems = append(problems, fmt.Errorf("mcptool: server %q has two tools that models would know as %s", server, tool.Name))
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

// Close ends the sessions, and the programs of those that have one. Calls under
// way fail with [ErrClosed], and so do later ones. A program that does not end on
// its own within a few seconds is killed.
func (s *Servers) Close() error {
	return s.each(func(_ int, one *session) error {
		one.close()
		return nil
	})
}
