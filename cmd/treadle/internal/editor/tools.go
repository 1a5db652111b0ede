package editor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	acp "github.com/coder/acp-go-sdk"

	"github.com/treadle-go/treadle/agent"
)

// editorTool is a tool that the editor runs for agents with the middleware agent.ClientTools.
type editorTool struct {
	name, definition string
	offered          func(acp.ClientCapabilities) bool
	run              func(*turn, agent.ClientCall) (string, error)
}

var editorTools = []editorTool{
	{"editor_read_file", `{"name":"editor_read_file","description":"Reads a text file of the folder that is open in the editor, including unsaved changes.",
		"parameters":{"type":"object","properties":{"path":{"type":"string","description":"path in the folder"},"line":{"type":"integer","description":"first line, starting at 1"},"limit":{"type":"integer","description":"number of lines"}},"required":["path"]}}`,
		func(c acp.ClientCapabilities) bool { return c.Fs.ReadTextFile }, (*turn).readFile},
	{"editor_write_file", `{"name":"editor_write_file","description":"Writes a text file of the folder that is open in the editor, after the user has agreed.",
		"parameters":{"type":"object","properties":{"path":{"type":"string","description":"path in the folder"},"content":{"type":"string","description":"the whole text"}},"required":["path","content"]}}`,
		func(c acp.ClientCapabilities) bool { return c.Fs.WriteTextFile }, (*turn).writeFile},
	{"editor_run_command", `{"name":"editor_run_command","description":"Runs a program in a terminal of the editor, after the user has agreed, and returns its output.",
		"parameters":{"type":"object","properties":{"command":{"type":"string","description":"the program"},"args":{"type":"array","items":{"type":"string"}}},"required":["command"]}}`,
		func(c acp.ClientCapabilities) bool { return c.Terminal }, (*turn).runCommand},
}

var errRejected = errors.New("the user rejected the call")

// inside returns the absolute path of a file in the session's folder.
func (t *turn) inside(name string) (string, error) {
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(t.show.folder, file)
	}
	rel, err := filepath.Rel(t.show.folder, filepath.Clean(file))
	if name == "" || err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", fmt.Errorf("path %q is outside of the folder %s", name, t.show.folder)
	}
	return filepath.Clean(file), nil
}

func (t *turn) readFile(c agent.ClientCall) (string, error) {
	var in struct {
		Path        string
		Line, Limit *int
	}
	if err := json.Unmarshal(c.Args, &in); err != nil {
		return "", fmt.Errorf("invalid arguments: %w", err)
	}
	file, err := t.inside(in.Path)
	if err != nil {
		return "", err
	}
	got, err := t.conn.ReadTextFile(t.ctx, acp.ReadTextFileRequest{SessionId: acp.SessionId(t.id), Path: file, Line: in.Line, Limit: in.Limit})
	return got.Content, err
}

func (t *turn) writeFile(c agent.ClientCall) (string, error) {
	var in struct{ Path, Content string }
	if err := json.Unmarshal(c.Args, &in); err != nil {
		return "", fmt.Errorf("invalid arguments: %w", err)
	}
	file, err := t.inside(in.Path)
	if err != nil {
		return "", err
	}
	u := t.show.details(c.Name, c.Args)
	u.ToolCallId = acp.ToolCallId(c.ID)
	if ok, err := t.permit(u, true); err != nil || !ok {
		return "", rejection(err)
	}
	t.show.status(u.ToolCallId, acp.ToolCallStatusInProgress)
	_, err = t.conn.WriteTextFile(t.ctx, acp.WriteTextFileRequest{SessionId: acp.SessionId(t.id), Path: file, Content: in.Content})
	return "written", err
}

func rejection(err error) error {
	if err == nil {
		return errRejected
	}
	return err
}

// maxOutput limits the output of a command in bytes.
const maxOutput = 64 << 10

func (t *turn) runCommand(c agent.ClientCall) (_ string, err error) {
	var in struct {
		Command string
		Args    []string
	}
	if err := json.Unmarshal(c.Args, &in); err != nil {
		return "", fmt.Errorf("invalid arguments: %w", err)
	}
	u := t.show.details(c.Name, c.Args)
	u.ToolCallId, u.Title = acp.ToolCallId(c.ID), new(strings.Join(append([]string{in.Command}, in.Args...), " "))
	if ok, err := t.permit(u, true); err != nil || !ok {
		return "", rejection(err)
	}
	id := acp.SessionId(t.id)
	made, err := t.conn.CreateTerminal(t.ctx, acp.CreateTerminalRequest{SessionId: id, Command: in.Command, Args: in.Args, Cwd: &t.show.folder, OutputByteLimit: new(maxOutput)})
	if err != nil {
		return "", err
	}
	defer func() { // releasing a terminal ends its program
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), 10*time.Second)
		defer cancel()
		_, failed := t.conn.ReleaseTerminal(ctx, acp.ReleaseTerminalRequest{SessionId: id, TerminalId: made.TerminalId})
		err = errors.Join(err, failed)
	}()
	t.show.status(u.ToolCallId, acp.ToolCallStatusInProgress, acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolTerminalRef(made.TerminalId)}))
	end, err := t.conn.WaitForTerminalExit(t.ctx, acp.WaitForTerminalExitRequest{SessionId: id, TerminalId: made.TerminalId})
	if err != nil {
		return "", err
	}
	got, err := t.conn.TerminalOutput(t.ctx, acp.TerminalOutputRequest{SessionId: id, TerminalId: made.TerminalId})
	if err != nil {
		return "", err
	}
	how := "exit code unknown"
	switch {
	case end.ExitCode != nil:
		how = fmt.Sprintf("exit code %d", *end.ExitCode)
	case end.Signal != nil:
		how = "ended by signal " + *end.Signal
	}
	if got.Truncated {
		how += ", output truncated"
	}
	return got.Output + "\n[" + how + "]", nil
}
