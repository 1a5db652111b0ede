package deep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/agent/sandbox"
	"github.com/treadle-go/treadle/llm"
)

// SkillSource is a place with skills: directories that contain a file SKILL.md, in the
// open Agent Skills format. One of its fields is set.
type SkillSource struct {
	// FS is a file system, such as os.DirFS("skills") or an embed.FS.
	FS fs.FS
	// Dir is a directory in the agent's files, such as "/skills".
	Dir string
}

// SkillsOptions configures [Skills].
type SkillsOptions struct {
	// Sources lists the sources by increasing priority: if several have a skill of the
	// same name, the last one wins.
	Sources []SkillSource
	// Backend contains the directories of the sources; nil means [files.Thread].
	Backend files.Backend
	// Tools maps the names of skills to tools that the model gets when it has loaded
	// the skill, as long as the conversation that it sees contains the skill. A name
	// without a skill has no effect.
	Tools map[string][]*llm.Tool
	// Sandbox, if not nil, gets the files of a skill when the skill is loaded, in the
	// directory .skills/NAME, so that the tool of [Shell] can run its scripts. Scripts never
	// run elsewhere.
	Sandbox sandbox.Sandbox
}

const (
	toolSkill      = "load_skill"
	skillFile      = "SKILL.md"
	maxSkill       = 1 << 20
	maxDescription = 1024
	skillMark      = "skill"  // metadata of a result of load_skill: its skill
	loadedMark     = "skills" // metadata of a response: the loaded skills that have tools
)

// skill is the metadata of a skill, as saved with the thread.
type skill struct {
	Name          string `json:"name"`
	Description   string `json:"description"`
	License       string `json:"license,omitempty"`
	Compatibility string `json:"compatibility,omitempty"`
	AllowedTools  string `json:"allowed_tools,omitempty"`
	Source        int    `json:"source"`
	Dir           string `json:"dir"` // in the source
}

type skillsFields struct {
	Skills   []skill       `json:"skills_metadata"`
	Errors   []string      `json:"skills_load_errors"`
	Files    files.Records `json:"files"`
	Messages llm.Messages
}

type skillsWritten struct {
	Skills []skill  `json:"skills_metadata"`
	Errors []string `json:"skills_load_errors"`
}

// skills is the middleware.
type skills struct{ SkillsOptions }

// Skills gives the agent skills: instructions that it loads when it needs them. The
// prompt contains the name and description of each skill. The tool load_skill returns the
// instructions, or another file of the skill's directory. The metadata is read when a run
// starts, so a running thread notices new skills with the next input.
//
// Unreadable skills are omitted, and the prompt mentions them. The [Permission]s for read_file
// apply to skills in the agent's files: denied skills are omitted. The field
// allowed-tools is shown to the model and not enforced.
func Skills(opts *SkillsOptions) *agent.Middleware {
	s := &skills{}
	if opts != nil {
		s.SkillsOptions = *opts
	}
	if s.Backend == nil {
		s.Backend = files.Thread{}
	}
	load := llm.NewTool(toolSkill, "Loads the instructions of a skill, or another file of its directory.", s.load)
	m := &agent.Middleware{Name: "skills", Tools: []*llm.Tool{load}, Fields: agent.NewFields[skillsFields](),
		BeforeAgent: agent.NewHook(s.find), WrapModel: s.show, WrapTool: s.gate, Check: func(agent.Setup) error { return s.check() }}
	for _, name := range sortedKeys(s.Tools) {
		m.Tools = append(m.Tools, s.Tools[name]...)
	}
	return m
}

func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (s *skills) check() error {
	var errs []error
	if len(s.Sources) == 0 {
		errs = append(errs, errors.New("no sources"))
	}
	for i, src := range s.Sources {
		if (src.FS == nil) == (src.Dir == "") {
			errs = append(errs, fmt.Errorf("source %d: set either FS or Dir", i))
		}
		if _, err := files.Clean(src.Dir); err != nil {
			errs = append(errs, fmt.Errorf("source %d: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// find reads the metadata of all skills.
func (s *skills) find(ctx context.Context, f backendFields) (skillsWritten, error) {
	ctx, _ = f.within(ctx)
	var out skillsWritten
	for i, src := range s.Sources {
		dirs, err := s.dirs(ctx, src)
		if final := treadle.Propagate(ctx, err); final != nil {
			return out, final
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			out.Errors = append(out.Errors, fmt.Sprintf("source %d: %v", i, err))
		}
		for _, dir := range dirs {
			raw, err := s.read(ctx, src, dir, skillFile)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			one, warning := skill{}, ""
			if err == nil {
				one, warning, err = parseSkill(path.Base(dir), string(raw))
			}
			if err != nil || warning != "" {
				out.Errors = append(out.Errors, fmt.Sprintf("%s: %s%v", dir, warning, map[bool]any{true: err, false: ""}[err != nil]))
			}
			if err != nil {
				continue
			}
			one.Source, one.Dir = i, dir
			out.Skills = slices.DeleteFunc(out.Skills, func(was skill) bool { return was.Name == one.Name })
			out.Skills = append(out.Skills, one)
		}
	}
	slices.SortFunc(out.Skills, func(a, b skill) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// dirs returns the directories in a source.
func (s *skills) dirs(ctx context.Context, src SkillSource) ([]string, error) {
	var out []string
	if src.FS != nil {
		all, err := fs.ReadDir(src.FS, ".")
		for _, e := range all {
			if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				out = append(out, e.Name())
			}
		}
		return out, err
	}
	dir, err := files.Clean(src.Dir)
	if err != nil {
		return nil, err
	}
	all, err := s.Backend.List(ctx, dir)
	for _, e := range all {
		if e.Dir {
			out = append(out, e.Path)
		}
	}
	return out, err
}

// read reads a file of a skill.
func (s *skills) read(ctx context.Context, src SkillSource, dir, name string) ([]byte, error) {
	p := path.Join(dir, name)
	if src.FS == nil {
		return files.Read(ctx, s.Backend, p, maxSkill)
	}
	f, err := src.FS.Open(p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	raw, err := io.ReadAll(io.LimitReader(f, maxSkill+1))
	if err == nil && len(raw) > maxSkill {
		err = files.ErrTooLarge
	}
	return raw, err
}

var skillName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// parseSkill returns the metadata of a skill. It is lenient: a name that breaks the rules
// of the format is only a warning.
func parseSkill(dir, text string) (s skill, warning string, err error) {
	f, _, err := splitSkill(text)
	if err != nil {
		return s, "", err
	}
	field := func(name string) string {
		switch v := f[name].(type) {
		case string:
			return v
		case []string:
			return strings.Join(v, " ")
		}
		return ""
	}
	s = skill{Name: field("name"), Description: cut(field("description"), maxDescription), License: field("license"),
		Compatibility: cut(field("compatibility"), 500), AllowedTools: field("allowed-tools")}
	switch {
	case s.Name == "":
		return s, "", errors.New("no name in the frontmatter")
	case s.Description == "":
		return s, "", errors.New("no description in the frontmatter")
	case !skillName.MatchString(s.Name) || len(s.Name) > 64:
		warning = fmt.Sprintf("name %q should have at most 64 lower-case letters, digits, and single hyphens", s.Name)
	case s.Name != dir:
		warning = fmt.Sprintf("name %q differs from the name of the directory", s.Name)
	}
	return s, warning, nil
}

// cut shortens a text to n bytes.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}

const skillsPrompt = "You have skills: instructions for certain kinds of work. If a skill fits the task, call " + toolSkill +
	" with its name and follow the instructions. They may refer to further files, which " + toolSkill + " loads too."

// show adds the list of skills to the prompt, and offers the tools of loaded skills.
func (s *skills) show(ctx context.Context, call agent.ModelCall, next agent.ModelFunc) (llm.Message, error) {
	f, _ := agent.FieldsFrom[skillsFields](ctx)
	loaded := s.loaded(call.Messages)
	call.Tools = slices.DeleteFunc(slices.Clone(call.Tools), func(t *llm.Tool) bool { return !s.offers(t.Name, loaded) })
	answer, err := next(ctx, appendPrompt(call, s.prompt(ctx, f)))
	if len(loaded) > 0 {
		answer.Metadata = maps.Clone(answer.Metadata)
		if answer.Metadata == nil {
			answer.Metadata = map[string]any{}
		}
		answer.Metadata[loadedMark] = loaded
	}
	return answer, err
}

// prompt returns the list of skills.
func (s *skills) prompt(ctx context.Context, f skillsFields) string {
	rules := policyFrom(ctx)
	f.Skills = slices.DeleteFunc(slices.Clone(f.Skills), func(one skill) bool {
		return one.Source < len(s.Sources) && s.Sources[one.Source].FS == nil && rules.hides(toolRead, path.Join(one.Dir, skillFile))
	})
	f.Errors = slices.DeleteFunc(slices.Clone(f.Errors), func(text string) bool {
		dir, _, _ := strings.Cut(text, ": ") // see find
		return rules.hides(toolRead, path.Join(dir, skillFile))
	})
	if len(f.Skills)+len(f.Errors) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(skillsPrompt + "\n")
	for _, one := range f.Skills {
		fmt.Fprintf(&b, "\n- %s: %s", oneLine(one.Name), oneLine(one.Description))
		for _, extra := range [][2]string{{"license", one.License}, {"compatibility", one.Compatibility}, {"allowed tools", one.AllowedTools}} {
			if extra[1] != "" {
				fmt.Fprintf(&b, " (%s: %s)", extra[0], oneLine(extra[1]))
			}
		}
	}
	for _, text := range f.Errors[:min(len(f.Errors), 20)] {
		fmt.Fprintf(&b, "\n- problem with a skill: %q", cut(text, 1000))
	}
	return b.String()
}

// oneLine keeps text of a skill from imitating the structure of the prompt.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// loaded returns the loaded skills that have tools, with the value true.
func (s *skills) loaded(ms llm.Messages) map[string]any {
	out := map[string]any{}
	for _, m := range ms {
		name, _ := m.Metadata[skillMark].(string)
		if m.Role == llm.RoleTool && len(s.Tools[name]) > 0 {
			out[name] = true
		}
	}
	return out
}

// offers reports whether the model may call a tool.
func (s *skills) offers(tool string, loaded map[string]any) bool {
	owned := false
	for name, tools := range s.Tools {
		if slices.ContainsFunc(tools, func(t *llm.Tool) bool { return t.Name == tool }) {
			if loaded[name] == true {
				return true
			}
			owned = true
		}
	}
	return !owned
}

// gate refuses the tools that were not offered to the model when it made the call. The thread
// may contain a skill that the model no longer sees.
func (s *skills) gate(ctx context.Context, call agent.ToolCall, next agent.ToolFunc) (any, error) {
	f, _ := agent.FieldsFrom[skillsFields](ctx)
	var loaded map[string]any
	for _, m := range slices.Backward(f.Messages) {
		if m.Role == llm.RoleAI && slices.ContainsFunc(m.ToolCalls, func(c llm.ToolCall) bool { return c.ID == call.ID }) {
			loaded, _ = m.Metadata[loadedMark].(map[string]any)
			break
		}
	}
	if !s.offers(call.Name, loaded) {
		return problem("Error: %s is not a valid tool.", call.Name), nil
	}
	return next(ctx, call)
}

type loadArgs struct {
	Name string `json:"name" jsonschema:"name of the skill"`
	File string `json:"file,omitempty" jsonschema:"path of another file in the skill's directory"`
}

// load returns a file of a skill. It is the function of the skill tool.
func (s *skills) load(ctx context.Context, in loadArgs) (any, error) {
	f, _ := agent.FieldsFrom[skillsFields](ctx)
	i := slices.IndexFunc(f.Skills, func(one skill) bool { return one.Name == in.Name })
	if i < 0 || f.Skills[i].Source >= len(s.Sources) {
		return problem("Error: unknown skill %q.", in.Name), nil
	}
	if files.OverlayFrom(ctx) == nil {
		ctx, _ = files.WithOverlay(ctx, f.Files)
	}
	one := f.Skills[i]
	name := cmp.Or(in.File, skillFile)
	clean, err := files.Clean(name)
	if err != nil {
		return explain("", err)
	}
	source := s.Sources[one.Source]
	if source.FS == nil {
		if out, run, err := permitted(ctx, toolRead, path.Join(one.Dir, clean), false); err != nil || !run {
			return out, err
		}
	}
	raw, err := s.read(ctx, source, one.Dir, clean[1:])
	if err != nil {
		return explain(clean, err)
	}
	text := string(raw)
	if clean == "/"+skillFile {
		if _, body, err := splitSkill(text); err == nil {
			text = body
		}
		if s.Sandbox != nil {
			note, err := s.install(ctx, source, one)
			if err != nil {
				return nil, err
			}
			text = strings.TrimRight(text, "\n") + "\n\n" + note
		}
		return llm.Message{Content: text, Metadata: map[string]any{skillMark: one.Name}}, nil
	}
	return text, nil
}

const (
	sandboxSkills = "/.skills"
	maxSkillFiles = 500
)

// install copies the files of a skill to the sandbox and returns their location. It replaces
// files that a command has changed.
func (s *skills) install(ctx context.Context, source SkillSource, one skill) (string, error) {
	names, err := s.fileNames(ctx, source, one.Dir)
	if err != nil {
		return "", err
	}
	to, left := path.Join(sandboxSkills, fileName(one.Name)), 0
	for _, name := range names {
		raw, err := s.read(ctx, source, one.Dir, name)
		if errors.Is(err, files.ErrTooLarge) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			left++
			continue
		}
		clean, cleanErr := files.Clean(name)
		if err := errors.Join(err, cleanErr); err != nil {
			return "", err
		}
		if err := s.Sandbox.Files().Write(ctx, path.Join(to, clean), raw, files.Any); err != nil {
			return "", fmt.Errorf("deep: copy skill %s to sandbox: %w", one.Name, err)
		}
	}
	note := fmt.Sprintf("[The files of this skill are in the directory .%s of the sandbox. To run a script, use %s, as in: sh .%s/scripts/NAME]", to, toolExecute, to)
	if left > 0 {
		note += fmt.Sprintf("\n[%d files could not be copied]", left)
	}
	return note, nil
}

// fileNames returns the names of the files of a skill that may be read.
func (s *skills) fileNames(ctx context.Context, source SkillSource, dir string) ([]string, error) {
	var names []string
	if source.FS != nil {
		err := fs.WalkDir(source.FS, dir, func(p string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && len(names) < maxSkillFiles {
				names = append(names, strings.TrimPrefix(p, dir+"/"))
			}
			return err
		})
		return names, err
	}
	rules := policyFrom(ctx)
	for e, err := range s.Backend.Walk(ctx, dir) {
		if err == nil && len(names) < maxSkillFiles && rules.mode(toolRead, e.Path) == Allow {
			names = append(names, strings.TrimPrefix(e.Path, dir+"/"))
		}
	}
	return names, nil
}
