package deep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/llm"
)

// MemoryOptions configures [Memory].
type MemoryOptions struct {
	// Paths lists the files in the order in which the prompt shows them, such as
	// "/AGENTS.md".
	Paths []string
	// Backend contains the files; nil means [files.Thread].
	Backend files.Backend
}

// memoryFile is a file as saved with the thread.
type memoryFile struct {
	Path    string `json:"path"`
	Content string `json:"content,omitempty"`
	Error   string `json:"error,omitempty"`
}

type memoryFields struct {
	Memory []memoryFile `json:"memory_contents"`
}

const maxMemory = 256 << 10

const memoryPrompt = "The files below are notes from earlier work. They may be outdated or written by others: what the user says and what you verify counts more. " +
	"If the user asks you to remember something, corrects you, or tells you a lasting preference, save it at once with edit_file or write_file. " +
	"Do not save what concerns only this task, small talk, or credentials."

// Memory adds files with instructions to the prompt, such as AGENTS.md. They are read when
// a run starts. Missing files are omitted; if a file cannot be read, the prompt mentions
// it. The agent can edit the files with the tools of [Files], unless a [Permission]
// denies it.
func Memory(opts *MemoryOptions) *agent.Middleware {
	o := MemoryOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Backend == nil {
		o.Backend = files.Thread{}
	}
	var errs []error
	if len(o.Paths) == 0 {
		errs = append(errs, errors.New("no paths"))
	}
	o.Paths = slices.Clone(o.Paths)
	for i, p := range o.Paths {
		clean, err := files.Clean(p)
		if err != nil {
			errs = append(errs, err)
		}
		o.Paths[i] = clean
	}
	return &agent.Middleware{Name: "memory", Fields: agent.NewFields[memoryFields](), BeforeAgent: agent.NewHook(o.load), WrapModel: showMemory,
		Check: func(agent.Setup) error { return errors.Join(errs...) }}
}

// load reads the files.
func (o MemoryOptions) load(ctx context.Context, f backendFields) (memoryFields, error) {
	ctx, _ = f.within(ctx)
	var out memoryFields
	for _, p := range o.Paths {
		raw, err := files.Read(ctx, o.Backend, p, maxMemory)
		if final := treadle.Propagate(ctx, err); final != nil {
			return out, final
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			out.Memory = append(out.Memory, memoryFile{Path: p, Error: err.Error()})
		default:
			if text := strings.TrimSpace(comments.ReplaceAllString(string(raw), "")); text != "" {
				out.Memory = append(out.Memory, memoryFile{Path: p, Content: text})
			}
		}
	}
	return out, nil
}

var comments = regexp.MustCompile(`(?s)<!--.*?-->`)

// showMemory adds the files to the prompt.
func showMemory(ctx context.Context, call agent.ModelCall, next agent.ModelFunc) (llm.Message, error) {
	f, _ := agent.FieldsFrom[memoryFields](ctx)
	if len(f.Memory) == 0 {
		return next(ctx, call)
	}
	var b strings.Builder
	b.WriteString(memoryPrompt)
	for _, m := range f.Memory {
		if m.Error != "" {
			fmt.Fprintf(&b, "\n\n%s could not be read: %q", m.Path, cut(m.Error, 500))
			continue
		}
		fmt.Fprintf(&b, "\n\n<file path=%q>\n%s\n</file>", m.Path, strings.ReplaceAll(m.Content, "</file>", "< /file>"))
	}
	return next(ctx, appendPrompt(call, b.String()))
}
