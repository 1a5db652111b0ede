// Package editor lets an editor use an assistant of a server over ACP, the Agent Client
// Protocol: JSON-RPC messages, one per line, on a pair of streams.
//
//	editor ──ACP── Serve ──HTTP── server
//
// A session of the editor is a thread of the server, and a prompt is a run, or several if the
// run asks for permission. Nothing that a session needs is kept here: another process can load
// the session, even while a question is pending.
package editor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	acp "github.com/coder/acp-go-sdk"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle/client"
)

// Options configures [Serve].
type Options struct {
	Client    *client.Client
	Assistant string // an assistant ID or a graph name; "" means the server's only assistant
	Version   string // of this program
	Logger    *slog.Logger
}

// Serve serves an assistant to the editor at the other end of in and out, until the editor closes
// in or ctx ends. Runs that are unfinished then continue on the server.
func Serve(ctx context.Context, in io.Reader, out io.Writer, opts *Options) error {
	a, err := assistant(ctx, opts.Client, opts.Assistant)
	if err != nil {
		return err
	}
	e := &editor{
		ctx:       ctx,
		client:    opts.Client,
		assistant: a.ID,
		name:      a.Name,
		version:   opts.Version,
		log:       opts.Logger,
		sessions:  map[string]*session{},
	}
	first := &gate{r: in, open: make(chan struct{})}
	e.conn = acp.NewAgentSideConnection(e, out, first)
	e.conn.SetLogger(slog.New(quiet{opts.Logger.Handler()}))
	close(first.open) // the fields of e.conn are set before the first message is read
	select {
	case <-e.conn.Done():
	case <-ctx.Done():
	}
	e.prompts.Lock() // waits for the prompts
	defer e.prompts.Unlock()
	e.closed = true
	return ctx.Err()
}

// assistant returns the assistant with a name or, without one, the only assistant.
func assistant(ctx context.Context, c *client.Client, name string) (*client.Assistant, error) {
	if name != "" {
		return c.Assistants.Get(ctx, name)
	}
	all, err := c.Assistants.Search(ctx, &client.AssistantSearch{Page: client.Page{Limit: 100}})
	if err != nil {
		return nil, err
	}
	if len(all) == 1 {
		return &all[0], nil
	}
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.Graph
	}
	return nil, fmt.Errorf("server has %d assistants: name one with --assistant: %q", len(all), names)
}

// gate is a reader that waits until it is open.
type gate struct {
	r    io.Reader
	open chan struct{}
}

func (g *gate) Read(p []byte) (int, error) {
	<-g.open
	return g.r.Read(p)
}

// quiet drops the content of messages from log records: prompts are private, and can be long.
type quiet struct{ slog.Handler }

// Handle implements [slog.Handler].
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	kept := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "raw" {
			kept.AddAttrs(a)
		}
		return true
	})
	return q.Handler.Handle(ctx, kept)
}

// editor is a connected editor. It implements acp.Agent and acp.AgentLoader.
type editor struct {
	client          *client.Client
	assistant, name string
	version         string
	log             *slog.Logger
	conn            *acp.AgentSideConnection
	ctx             context.Context // of Serve

	prompts sync.RWMutex // read-locked by each prompt
	closed  bool         // guarded by prompts

	mu       sync.Mutex
	can      acp.ClientCapabilities
	sessions map[string]*session
}

// gone reports whether the editor has left, or this process is about to.
func (e *editor) gone() bool {
	select {
	case <-e.conn.Done():
		return true
	default:
		return e.ctx.Err() != nil
	}
}

// Keys of a thread's metadata.
const (
	assistantKey = "acp_assistant"
	folderKey    = "acp_cwd"
)

// Initialize implements acp.Agent.
func (e *editor) Initialize(_ context.Context, p acp.InitializeRequest) (acp.InitializeResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.can = p.ClientCapabilities
	return acp.InitializeResponse{
		ProtocolVersion: acp.ProtocolVersionNumber,
		AgentInfo:       &acp.Implementation{Name: "treadle", Title: new(e.name), Version: e.version},
		AuthMethods:     []acp.AuthMethod{},
		AgentCapabilities: acp.AgentCapabilities{
			LoadSession:        true,
			PromptCapabilities: acp.PromptCapabilities{Image: true, EmbeddedContext: true},
			SessionCapabilities: acp.SessionCapabilities{
				List: &acp.SessionListCapabilities{}, Resume: &acp.SessionResumeCapabilities{}, Close: &acp.SessionCloseCapabilities{}},
		},
	}, nil
}

// Authenticate implements acp.Agent.
func (e *editor) Authenticate(context.Context, acp.AuthenticateRequest) (acp.AuthenticateResponse, error) {
	return acp.AuthenticateResponse{}, invalid("no authentication methods: start treadle acp with an API key for the server")
}

// NewSession implements acp.Agent.
func (e *editor) NewSession(ctx context.Context, p acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	if err := checkFolder(p.Cwd); err != nil {
		return acp.NewSessionResponse{}, err
	}
	t, err := e.client.Threads.Create(ctx, &client.ThreadCreate{Metadata: map[string]any{assistantKey: e.assistant, folderKey: p.Cwd}})
	if err != nil {
		return acp.NewSessionResponse{}, failed(err)
	}
	e.add(t.ID, p.Cwd, p.McpServers)
	return acp.NewSessionResponse{SessionId: acp.SessionId(t.ID)}, nil
}

func checkFolder(dir string) error {
	if !filepath.IsAbs(dir) {
		return invalid("cwd %q is not an absolute path", dir)
	}
	return nil
}

// add makes a session known to this connection.
func (e *editor) add(id, folder string, servers []acp.McpServer) {
	if len(servers) > 0 {
		e.log.Warn("ignored MCP servers of the editor: give the agent its tools with mcptool", "session", id, "servers", len(servers))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sessions[id]
	if s == nil {
		s = &session{editor: e, id: id, turn: make(chan struct{}, 1)}
		e.sessions[id] = s
	}
	s.folder = folder
}

// session returns a session that the editor has created or loaded.
func (e *editor) session(id acp.SessionId) (*session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.sessions[string(id)]; s != nil {
		return s, nil
	}
	return nil, unknown(id)
}

// stored returns the thread of a session that the editor, or an earlier one, has created for
// this assistant. Other threads of the server cannot be opened.
func (e *editor) stored(ctx context.Context, id acp.SessionId) (*client.Thread, error) {
	if _, err := uuid.Parse(string(id)); err != nil || len(id) != 36 {
		return nil, unknown(id)
	}
	t, err := e.client.Threads.Get(ctx, string(id))
	if errors.Is(err, client.ErrNotFound) || err == nil && t.Metadata[assistantKey] != e.assistant {
		return nil, unknown(id)
	}
	if err != nil {
		return nil, failed(err)
	}
	return t, nil
}

// LoadSession implements acp.AgentLoader. It sends the conversation so far.
func (e *editor) LoadSession(ctx context.Context, p acp.LoadSessionRequest) (acp.LoadSessionResponse, error) {
	if err := checkFolder(p.Cwd); err != nil {
		return acp.LoadSessionResponse{}, err
	}
	t, err := e.stored(ctx, p.SessionId)
	if err != nil {
		return acp.LoadSessionResponse{}, err
	}
	e.add(t.ID, p.Cwd, p.McpServers)
	s, err := e.session(p.SessionId)
	if err != nil {
		return acp.LoadSessionResponse{}, err
	}
	show := s.shower(ctx)
	for _, m := range messagesOf(t.Values) {
		show.whole(m, true)
	}
	return acp.LoadSessionResponse{}, show.err
}

// ResumeSession implements acp.Agent. It is like LoadSession, but does not send the conversation.
func (e *editor) ResumeSession(ctx context.Context, p acp.ResumeSessionRequest) (acp.ResumeSessionResponse, error) {
	if err := checkFolder(p.Cwd); err != nil {
		return acp.ResumeSessionResponse{}, err
	}
	t, err := e.stored(ctx, p.SessionId)
	if err == nil {
		e.add(t.ID, p.Cwd, p.McpServers)
	}
	return acp.ResumeSessionResponse{}, err
}

// pageSize is the number of sessions in a response.
const pageSize = 50

// ListSessions implements acp.Agent.
func (e *editor) ListSessions(ctx context.Context, p acp.ListSessionsRequest) (acp.ListSessionsResponse, error) {
	out := acp.ListSessionsResponse{Sessions: []acp.SessionInfo{}}
	search := &client.ThreadSearch{Metadata: map[string]any{assistantKey: e.assistant}, Page: client.Page{Limit: pageSize, SortBy: "updated_at",
		Select: []string{"thread_id", "metadata", "updated_at"}}, Extract: map[string]string{"title": "values.messages[0].content"}}
	if p.Cwd != nil {
		search.Metadata[folderKey] = *p.Cwd
	}
	if p.Cursor != nil {
		n, err := strconv.Atoi(*p.Cursor)
		if err != nil || n < 0 {
			return out, invalid("unknown cursor %q", *p.Cursor)
		}
		search.Offset = n
	}
	found, err := e.client.Threads.Search(ctx, search)
	if err != nil {
		return out, failed(err)
	}
	for _, t := range found {
		info := acp.SessionInfo{SessionId: acp.SessionId(t.ID), UpdatedAt: new(t.Updated.UTC().Format(time.RFC3339)), Title: titleOf(t.Extracted["title"])}
		info.Cwd, _ = t.Metadata[folderKey].(string)
		out.Sessions = append(out.Sessions, info)
	}
	if len(found) == pageSize {
		out.NextCursor = new(strconv.Itoa(search.Offset + pageSize))
	}
	return out, nil
}

// CloseSession implements acp.Agent.
func (e *editor) CloseSession(_ context.Context, p acp.CloseSessionRequest) (acp.CloseSessionResponse, error) {
	s, err := e.session(p.SessionId)
	if err != nil {
		return acp.CloseSessionResponse{}, err
	}
	s.stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, s.id)
	return acp.CloseSessionResponse{}, nil
}

// Cancel implements acp.Agent.
func (e *editor) Cancel(_ context.Context, p acp.CancelNotification) error {
	s, err := e.session(p.SessionId)
	if err == nil {
		s.stop()
	}
	return err
}

// SetSessionMode implements acp.Agent.
func (e *editor) SetSessionMode(context.Context, acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	return acp.SetSessionModeResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionSetMode)
}

// SetSessionConfigOption implements acp.Agent.
func (e *editor) SetSessionConfigOption(context.Context, acp.SetSessionConfigOptionRequest) (acp.SetSessionConfigOptionResponse, error) {
	return acp.SetSessionConfigOptionResponse{}, acp.NewMethodNotFound(acp.AgentMethodSessionSetConfigOption)
}

// Errors that the editor receives. Its user sees the message.

func invalid(format string, args ...any) error {
	return &acp.RequestError{Code: -32602, Message: fmt.Sprintf(format, args...)}
}

func unknown(id acp.SessionId) error {
	return &acp.RequestError{Code: -32002, Message: fmt.Sprintf("unknown session %q: create or load it first", shortened(string(id)))}
}

func failed(err error) error {
	var status *client.Error
	if errors.As(err, &status) && status.Status == http.StatusUnauthorized {
		return acp.NewAuthRequired(map[string]any{"error": err.Error()})
	}
	return &acp.RequestError{Code: -32603, Message: err.Error()}
}

// shortened returns the beginning of a text.
func shortened(text string) string {
	const limit = 80
	for i := range text {
		if i >= limit {
			return text[:i] + "…"
		}
	}
	return text
}
