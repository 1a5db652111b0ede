package deep

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/internal/near"
	"github.com/treadle-go/treadle/llm"
)

// FilesOptions configures [Files]. A nil *FilesOptions means the defaults.
type FilesOptions struct {
	// Backend keeps the files; nil means [files.Thread]. Files that the middleware
	// itself writes, below /large_tool_results and /conversation_history, are always
	// part of the thread.
	Backend files.Backend
	// Permissions restrict load_skill and the file tools, including those of sub-agents.
	Permissions []Permission
	// Tools lists the agent's file tools; empty means all. It must contain read_file.
	Tools []string
	// ResultLimit is the number of characters above which the text of another tool's result
	// goes to a file, and so does each image or other media whose base64 is longer; 0 means
	// 80,000, and a negative number means no limit.
	ResultLimit int
	// MessageLimit is the number of characters above which the model sees only the first
	// and last lines of a message of the user, and finds the whole text in a file; 0
	// means 200,000, and a negative number means no limit.
	MessageLimit int
	// ReadLimit is the maximum number of characters that a file tool returns; 0 means
	// 80,000.
	ReadLimit int
	// FileLimit is the maximum size in bytes of a file that is written, edited, or
	// searched; 0 means 10 MiB. read_file reads larger files in parts.
	FileLimit int64
	// SearchTimeout limits the duration of glob, grep, and read_file; 0 means 15 seconds. They then
	// return partial results.
	SearchTimeout time.Duration
}

// Directories of the files that middleware writes.
const (
	dirResults = "/large_tool_results"
	dirHistory = "/conversation_history"
)

const (
	defaultChars     = 80_000  // about 20,000 tokens
	defaultMessage   = 200_000 // about 50,000 tokens
	defaultFileLimit = 10 << 20
	defaultTimeout   = 15 * time.Second
)

// fileSystem is the middleware.
type fileSystem struct {
	FilesOptions
	policy policy
}

// threadFields are the fields that the middleware reads.
type threadFields struct {
	Files    files.Records `json:"files"`
	Messages llm.Messages
}

// Files gives the agent a file system. It adds the tools ls, read_file, write_file,
// edit_file, delete, glob, and grep, whose names and arguments are those of deepagents.
//
// A tool's effect outside of the thread's state happens once, even if the process is
// killed and the thread continued: the tool records a plan before it acts, and recognizes
// its own work when it runs again. A write fails if another writer has changed the file in the meantime.
// If a message calls several tools to change the same path, only the first call runs.
//
// Large results of other tools are written to files; the model gets their first and last
// lines and the path. Large user messages are shortened in the same way. The model sees
// large images and other media of a result once, and then their path; their files are named by
// their hash.
func Files(opts *FilesOptions) *agent.Middleware {
	f, err := newFileSystem(opts)
	if err != nil {
		return &agent.Middleware{Name: "files", Check: func(agent.Setup) error { return err }}
	}
	return &agent.Middleware{Name: "files", Tools: f.tools(), WrapModel: f.provide, WrapTool: f.wrap, Fields: agent.NewFields[threadFields]()}
}

func newFileSystem(opts *FilesOptions) (*fileSystem, error) {
	f := &fileSystem{}
	if opts != nil {
		f.FilesOptions = *opts
	}
	f.ResultLimit = cmp.Or(f.ResultLimit, defaultChars)
	f.MessageLimit = cmp.Or(f.MessageLimit, defaultMessage)
	f.ReadLimit = cmp.Or(f.ReadLimit, defaultChars)
	f.FileLimit = cmp.Or(f.FileLimit, defaultFileLimit)
	f.SearchTimeout = cmp.Or(f.SearchTimeout, defaultTimeout)
	var err error
	if f.policy, err = compilePolicy(f.Permissions); err != nil {
		return nil, err
	}
	for _, name := range f.Tools {
		if !slices.Contains(fileTools, name) {
			err = errors.Join(err, fmt.Errorf("unknown file tool %q: want some of %q%s", name, fileTools, near.Hint(name, fileTools)))
		}
	}
	switch {
	case len(f.Tools) > 0 && !slices.Contains(f.Tools, toolRead):
		err = errors.Join(err, fmt.Errorf("FilesOptions.Tools lacks %s, which other parts refer to", toolRead))
	case f.ReadLimit < 0:
		err = errors.Join(err, fmt.Errorf("invalid ReadLimit %d: want 0 or more", f.ReadLimit))
	case f.FileLimit < 0:
		err = errors.Join(err, fmt.Errorf("invalid FileLimit %d: want 0 or more", f.FileLimit))
	case f.SearchTimeout < 0:
		err = errors.Join(err, fmt.Errorf("invalid SearchTimeout %v: want 0 or more", f.SearchTimeout))
	}
	if f.Backend, err = withArtifacts(f.Backend, err); err != nil {
		return nil, err
	}
	return f, nil
}

// withArtifacts mounts the files that middleware writes on a backend.
func withArtifacts(b files.Backend, err error) (files.Backend, error) {
	switch {
	case err != nil:
		return nil, err
	case b == nil || b == files.Backend(files.Thread{}):
		return files.Thread{}, nil
	}
	return files.Mount(b, map[string]files.Backend{dirResults: files.Thread{At: dirResults}, dirHistory: files.Thread{At: dirHistory}})
}

// tools returns the tools, in a fixed order.
func (f *fileSystem) tools() []*llm.Tool {
	all := []*llm.Tool{
		llm.NewTool(toolList, "Lists the files and directories in a directory.", f.list),
		llm.NewTool(toolRead, describeRead, f.read),
		llm.NewTool(toolWrite, "Creates a file, or replaces its whole content. To change a part of a file, use "+toolEdit+".", f.write),
		llm.NewTool(toolEdit, describeEdit, f.edit),
		llm.NewTool(toolDelete, "Deletes a file, or a directory with everything in it.", f.remove),
		llm.NewTool(toolGlob, describeGlob, f.glob),
		llm.NewTool(toolGrep, describeGrep, f.grep),
	}
	if len(f.Tools) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(t *llm.Tool) bool { return !slices.Contains(f.Tools, t.Name) })
}

// provide provides the permissions to the other middleware of the agent, shortens large messages
// of the user, and shows new media.
func (f *fileSystem) provide(ctx context.Context, call agent.ModelCall, next agent.ModelFunc) (llm.Message, error) {
	state, _ := agent.FieldsFrom[threadFields](ctx)
	call.Messages = withMedia(abridged(call.Messages, f.MessageLimit), state.Files)
	return next(withPolicy(ctx, f.policy), call)
}

// wrap provides the thread's files and the permissions to a tool, and adds the tool's writes
// to its result.
func (f *fileSystem) wrap(ctx context.Context, call agent.ToolCall, next agent.ToolFunc) (any, error) {
	state, _ := agent.FieldsFrom[threadFields](ctx)
	if p := earlier(ctx, state.Messages, call.ToolCall); p != "" {
		if _, nested := agent.NestingFrom(ctx); nested {
			return problem("Error: another call that has not ended changes %s. This call was not made. Await the other call first.", p), nil
		}
		return problem("Error: an earlier call of the same answer changes %s. This call was not made. Change a file once per answer.", p), nil
	}
	about, nested := agent.NestingFrom(ctx)
	if nested {
		for _, update := range about.Updates {
			var err error
			if state.Files, err = withUpdate(state.Files, update); err != nil {
				return nil, err
			}
		}
	} else {
		ctx = withPolicy(ctx, f.policy) // the calls of a tool inherit it
	}
	ctx, overlay := files.WithOverlay(ctx, withMessages(state.Files, state.Messages, f.MessageLimit))
	out, err := next(ctx, call)
	if err != nil {
		return out, err
	}
	if !nested && f.ResultLimit > 0 && (call.Name == toolRead || !slices.Contains(fileTools, call.Name)) {
		out = f.shorten(ctx, call.ToolCall, out)
	}
	return withFiles(call.ToolCall, out, overlay.Writes())
}

// withUpdate returns files with the update of a nested call.
func withUpdate(all files.Records, update map[string]json.RawMessage) (files.Records, error) {
	for _, name := range []string{"files", "Files"} {
		raw, ok := update[name]
		if !ok {
			continue
		}
		var changed files.Records
		if err := json.Unmarshal(raw, &changed); err != nil {
			return nil, fmt.Errorf("deep: decode files written by an earlier call: %w", err)
		}
		all = all.Reduce(changed)
	}
	return all, nil
}

// withFiles adds writes to the result of a tool.
func withFiles(call llm.ToolCall, out any, writes files.Records) (any, error) {
	if len(writes) == 0 {
		return out, nil
	}
	c, ok := treadle.CommandOf(out)
	if !ok {
		update := treadle.Update{"Files": writes, "Messages": llm.Messages{llm.ToolResult(call, out)}}
		return treadle.Command[treadle.Update]{Update: &update}, nil
	}
	if c.Parent {
		return nil, fmt.Errorf("deep: tool %s: writes files of the thread and goes to the parent graph: do only one of them", call.Name)
	}
	update := treadle.Update{}
	if c.Update != nil {
		var err error
		if update, err = treadle.UpdateOf(*c.Update); err != nil {
			return nil, fmt.Errorf("deep: tool %s: %w", call.Name, err)
		}
	}
	merged := treadle.Update{"Files": writes}
	for name, v := range update {
		if name == "files" || name == "Files" {
			return nil, fmt.Errorf("deep: tool %s: writes files of the thread twice: by its result and with a backend", call.Name)
		}
		merged[name] = v
	}
	return treadle.Command[treadle.Update]{Update: &merged, Goto: c.Goto}, nil
}

// earlier returns the path of a call if an earlier call of the same message changes it
// too. Otherwise the order of two concurrent calls would decide.
func earlier(ctx context.Context, messages llm.Messages, call llm.ToolCall) string {
	if !slices.Contains(writeTools, call.Name) {
		return ""
	}
	if about, nested := agent.NestingFrom(ctx); nested {
		return changedBy(about.Running(), call)
	}
	for i := len(messages) - 1; i >= 0; i-- {
		if m := &messages[i]; m.Role == llm.RoleAI {
			before := m.ToolCalls
			if n := slices.IndexFunc(before, func(c llm.ToolCall) bool { return c.ID == call.ID }); n >= 0 {
				before = before[:n]
			}
			return changedBy(before, call)
		}
	}
	return ""
}

// changedBy returns the path of a call if one of the calls before it changes it too.
func changedBy(before []llm.ToolCall, call llm.ToolCall) string {
	if len(before) == 0 {
		return ""
	}
	own := changes(call)
	for _, c := range before {
		if p := changes(c); p != "" && own != "" && (files.Below(p, own) || files.Below(own, p)) {
			return own
		}
	}
	return ""
}

// changes returns the path that a call changes, or "".
func changes(call llm.ToolCall) string {
	var in struct {
		Path string `json:"file_path"`
	}
	if !slices.Contains(writeTools, call.Name) || json.Unmarshal(call.Args, &in) != nil {
		return ""
	}
	p, err := files.Clean(in.Path)
	if err != nil {
		return ""
	}
	return p
}

// problem returns a result that reports a mistake to the model.
func problem(format string, args ...any) llm.Message {
	return llm.Message{Status: llm.StatusError, Content: fmt.Sprintf(format, args...)}
}

// explain converts an error that the model can act on to a result.
func explain(p string, err error) (any, error) {
	wrong, ok := errors.AsType[mistake](err)
	switch {
	case ok:
		return problem("%s", wrong), nil
	case errors.Is(err, fs.ErrNotExist):
		return problem("Error: %s does not exist.", p), nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, files.ErrIsDir), errors.Is(err, files.ErrConflict),
		errors.Is(err, files.ErrTooLarge), errors.Is(err, files.ErrPath):
		return problem("Error: %s", strings.TrimPrefix(err.Error(), "files: ")), nil
	}
	return nil, err
}

// ask asks a person about a call. If run is false, out is the result of the call. With an
// edit, args are the arguments that replace the model's.
func ask(ctx context.Context, about string) (args json.RawMessage, out any, run bool, err error) {
	call, _ := llm.CallFrom(ctx)
	d, err := agent.Decide(ctx, agent.Gate{Tool: call.Name, Description: about}, call)
	if err != nil {
		return nil, nil, false, err
	}
	if m, ok := d.Result(call); ok {
		return nil, m, false, nil
	}
	if d.Type != agent.Edit {
		return nil, nil, true, nil
	}
	if d.Edited.Name != call.Name {
		return nil, problem("Error: the person replaced the call by a call of %s, which is not possible here. The call was not made.", d.Edited.Name), false, nil
	}
	return d.Edited.Args, nil, true, nil
}

// permitted checks the permission of a call that reads, and asks if necessary. If run is
// false, out is the result of the call.
func permitted(ctx context.Context, tool, p string, bulk bool) (out any, run bool, err error) {
	rules := policyFrom(ctx)
	mode := rules.mode(tool, p)
	switch {
	case mode == Deny:
		return problem("%s", denied(tool, p)), false, nil
	case mode == Confirm || bulk && rules.asksBelow(tool, p):
		edited, out, run, err := ask(ctx, fmt.Sprintf("%s reads %s", tool, visibleLine(p)))
		if edited != nil {
			return problem("Error: the person changed the arguments of %s, which is possible only for tools that write. The call was not made.", tool), false, nil
		}
		return out, run, err
	}
	return nil, true, nil
}
