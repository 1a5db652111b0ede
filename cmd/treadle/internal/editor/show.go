package editor

import (
	"cmp"
	"context"
	"encoding/json"
	"path"
	"path/filepath"
	"strings"

	acp "github.com/coder/acp-go-sdk"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/llm"
)

// shower sends messages to the editor as updates of a session.
type shower struct {
	ctx     context.Context
	conn    *acp.AgentSideConnection
	session string
	folder  string

	streamed map[string]bool  // IDs of messages that have been shown
	calls    map[string]*call // by ID
	open     []*call          // calls of the message that is being streamed
	stop     llm.StopReason   // of the last message
	err      error            // the first failure to send
}

// call is a tool call that the editor shows.
type call struct {
	index    *int
	id, name string
	args     string
	started  bool
	complete bool // the editor has the arguments
}

func (s *session) shower(ctx context.Context) *shower {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &shower{ctx: ctx, conn: s.conn, session: s.id, folder: s.folder, streamed: map[string]bool{}, calls: map[string]*call{}}
}

func (s *shower) send(u acp.SessionUpdate) {
	if err := s.conn.SessionUpdate(s.ctx, acp.SessionNotification{SessionId: acp.SessionId(s.session), Update: u}); s.err == nil {
		s.err = err
	}
}

// event shows an event of a run.
func (s *shower) event(ev client.Event) {
	var pair []json.RawMessage
	var kind struct{ Type, ID string }
	if ev.Mode != "messages" || json.Unmarshal(ev.Data, &pair) != nil || len(pair) == 0 || json.Unmarshal(pair[0], &kind) != nil {
		return
	}
	if kind.Type != "AIMessageChunk" {
		var m llm.Message
		if json.Unmarshal(pair[0], &m) == nil && !s.streamed[m.ID] {
			s.whole(m, false)
		}
		return
	}
	var c llm.Chunk
	if json.Unmarshal(pair[0], &c) != nil {
		return
	}
	if !s.streamed[c.ID] {
		s.close()
		s.streamed[c.ID] = true
	}
	s.content(llm.Message{Content: c.Content, Blocks: c.Blocks})
	for _, piece := range c.ToolCalls {
		s.grow(piece)
	}
	if c.Stop != "" {
		s.stop = c.Stop
	}
}

// whole shows a complete message. User messages are shown only if the editor loads a session.
func (s *shower) whole(m llm.Message, loading bool) {
	s.close()
	if m.ID != "" {
		s.streamed[m.ID] = true
	}
	switch m.Role {
	case llm.RoleHuman:
		if text := m.Text(); loading && text != "" {
			s.send(acp.UpdateUserMessageText(text))
		}
	case llm.RoleAI:
		s.content(m)
		for _, c := range m.ToolCalls {
			s.grow(llm.ToolCallChunk{ID: c.ID, Name: c.Name, Args: string(c.Args)})
		}
		s.close()
		s.stop = m.Stop
	case llm.RoleTool:
		s.result(m)
	}
}

// content shows the text and the reasoning of a message.
func (s *shower) content(m llm.Message) {
	for _, b := range m.Parts() {
		switch {
		case b.Type == llm.BlockReasoning && b.Reasoning != "":
			s.send(acp.UpdateAgentThoughtText(b.Reasoning))
		case b.Type == llm.BlockText && b.Text != "":
			s.send(acp.UpdateAgentMessageText(b.Text))
		}
	}
}

// grow shows a piece of a tool call. A call is shown as soon as its ID and name are known, and
// its arguments when they are complete.
func (s *shower) grow(piece llm.ToolCallChunk) {
	c := s.call(piece)
	c.id, c.name, c.args = cmp.Or(c.id, piece.ID), cmp.Or(c.name, piece.Name), c.args+piece.Args
	if c.id == "" || c.name == "" {
		return
	}
	if !c.started {
		c.started = true
		s.calls[c.id] = c
		s.send(acp.StartToolCall(acp.ToolCallId(c.id), c.name, acp.WithStartKind(kindOf(c.name)), acp.WithStartStatus(acp.ToolCallStatusPending)))
	}
	if json.Valid([]byte(c.args)) {
		s.complete(c)
	}
}

// call returns the call that a piece continues or starts.
func (s *shower) call(piece llm.ToolCallChunk) *call {
	for _, c := range s.open {
		same := c.index != nil && piece.Index != nil && *c.index == *piece.Index
		if same && (piece.ID == "" || c.id == "" || c.id == piece.ID) {
			return c
		}
	}
	c := &call{index: piece.Index}
	s.open = append(s.open, c)
	return c
}

// close completes the calls of a message.
func (s *shower) close() {
	for _, c := range s.open {
		s.complete(c)
	}
	s.open = nil
}

// complete shows the arguments of a call.
func (s *shower) complete(c *call) {
	if c.complete || !c.started {
		return
	}
	c.complete = true
	u := s.details(c.name, json.RawMessage(c.args))
	s.send(acp.UpdateToolCall(acp.ToolCallId(c.id), acp.WithUpdateTitle(*u.Title), acp.WithUpdateContent(u.Content), acp.WithUpdateLocations(u.Locations),
		acp.WithUpdateRawInput(u.RawInput), acp.WithUpdateStatus(acp.ToolCallStatusInProgress)))
	if c.name != "write_todos" {
		return
	}
	var list struct {
		Todos []agent.Todo `json:"todos"`
	}
	if json.Unmarshal([]byte(c.args), &list) != nil {
		return
	}
	var plan []acp.PlanEntry
	for _, t := range list.Todos {
		plan = append(plan, acp.PlanEntry{Content: t.Content, Priority: acp.PlanEntryPriorityMedium, Status: acp.PlanEntryStatus(t.Status)})
	}
	s.send(acp.UpdatePlan(plan...))
}

// result shows the result of a call.
func (s *shower) result(m llm.Message) {
	status := acp.ToolCallStatusCompleted
	if m.Status == llm.StatusError {
		status = acp.ToolCallStatusFailed
	}
	options := []acp.ToolCallUpdateOpt{acp.WithUpdateStatus(status), acp.WithUpdateRawOutput(m.Text())}
	if c := s.calls[m.ToolCallID]; c == nil || s.details(c.name, json.RawMessage(c.args)).Content == nil { // a diff remains
		options = append(options, acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolContent(acp.TextBlock(m.Text()))}))
	}
	s.send(acp.UpdateToolCall(acp.ToolCallId(m.ToolCallID), options...))
}

// status changes the status of a call.
func (s *shower) status(id acp.ToolCallId, status acp.ToolCallStatus, options ...acp.ToolCallUpdateOpt) {
	s.send(acp.UpdateToolCall(id, append(options, acp.WithUpdateStatus(status))...))
}

// fileArgs are the arguments of the tools that read and change files: the tools of deep agents,
// and the editor's.
type fileArgs struct {
	FilePath  string  `json:"file_path"`
	Path      string  `json:"path"`
	Content   *string `json:"content"`
	OldString *string `json:"old_string"`
	NewString *string `json:"new_string"`
	Pattern   string  `json:"pattern"`
	Command   string  `json:"command"`
}

// details describes a call: its title, its files, and the change that it makes.
func (s *shower) details(name string, args json.RawMessage) acp.ToolCallUpdate {
	u := acp.ToolCallUpdate{Title: new(name), Kind: new(kindOf(name))}
	if json.Valid(args) {
		u.RawInput = args
	}
	var a fileArgs
	if *u.Kind == acp.ToolKindOther || json.Unmarshal(args, &a) != nil {
		return u
	}
	file := cmp.Or(a.FilePath, a.Path)
	if about := cmp.Or(a.Command, a.Pattern, file); about != "" {
		u.Title = new(name + " " + shortened(about))
	}
	if file == "" {
		return u
	}
	if !path.IsAbs(file) && !filepath.IsAbs(file) {
		file = filepath.Join(s.folder, file)
	}
	u.Locations = []acp.ToolCallLocation{{Path: file}}
	switch {
	case *u.Kind != acp.ToolKindEdit:
	case a.Content != nil:
		u.Content = []acp.ToolCallContent{acp.ToolDiffContent(file, *a.Content)}
	case a.OldString != nil && a.NewString != nil:
		u.Content = []acp.ToolCallContent{acp.ToolDiffContent(file, *a.NewString, *a.OldString)}
	}
	return u
}

// kindOf returns the kind of a tool, which selects its icon. The names are those of deep agents
// and of [editorTools].
func kindOf(name string) acp.ToolKind {
	switch strings.TrimPrefix(name, "editor_") {
	case "read_file", "ls":
		return acp.ToolKindRead
	case "write_file", "edit_file":
		return acp.ToolKindEdit
	case "glob", "grep":
		return acp.ToolKindSearch
	case "execute", "run_command":
		return acp.ToolKindExecute
	case "write_todos", "task":
		return acp.ToolKindThink
	}
	return acp.ToolKindOther
}
