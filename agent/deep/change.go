package deep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/llm"
)

type writeArgs struct {
	Path    string `json:"file_path" jsonschema:"absolute path of the file"`
	Content string `json:"content"`
}

type editArgs struct {
	Path string `json:"file_path" jsonschema:"absolute path of the file"`
	Old  string `json:"old_string" jsonschema:"the text to replace, exactly as in the file"`
	New  string `json:"new_string"`
	All  bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence; otherwise old_string must occur once"`
}

type deleteArgs struct {
	Path string `json:"file_path" jsonschema:"absolute path of the file or directory"`
}

const describeEdit = "Replaces a text in a file. The text must occur exactly once, or replace_all must be set: " +
	"include enough of the lines around it. Read the file first. The header that " + toolRead + " puts above the lines is not part of the file."

// mistake is a model's error: its text is the result of the call.
type mistake string

func (m mistake) Error() string { return string(m) }

// A change computes the new content of a file. It returns a mistake if it does not apply.
type change struct {
	tool, path string
	// next returns the new content and the result of the call. old is nil if the file
	// does not exist.
	next func(old []byte) (content []byte, text string, err error)
}

// plan is the recorded description of an upcoming change.
type plan struct {
	Before files.Version `json:"before"`
	After  files.Version `json:"after"`
	Text   string        `json:"text"`
	// Mistake is the result of a change that does not apply.
	Mistake string `json:"mistake,omitempty"`
	Diff    string `json:"diff,omitempty"`
}

func (f *fileSystem) write(ctx context.Context, in writeArgs) (any, error) {
	return makeChange(ctx, f, in, func(in writeArgs) (*change, error) {
		p, err := files.Clean(in.Path)
		return &change{toolWrite, p, func([]byte) ([]byte, string, error) {
			return []byte(in.Content), "Updated " + p, nil
		}}, err
	})
}

func (f *fileSystem) edit(ctx context.Context, in editArgs) (any, error) {
	return makeChange(ctx, f, in, func(in editArgs) (*change, error) {
		p, err := files.Clean(in.Path)
		return &change{toolEdit, p, func(old []byte) ([]byte, string, error) { return in.apply(p, old) }}, err
	})
}

// apply replaces the text in a file.
func (in editArgs) apply(p string, old []byte) ([]byte, string, error) {
	text := string(old)
	switch {
	case old == nil:
		return nil, "", mistake(fmt.Sprintf("Error: %s does not exist. Use %s to create it.", p, toolWrite))
	case in.Old == "":
		return nil, "", mistake("Error: old_string is empty. Use " + toolWrite + " to write a whole file.")
	case in.Old == in.New:
		return nil, "", mistake("Error: old_string and new_string are equal.")
	case !utf8.Valid(old):
		return nil, "", mistake(fmt.Sprintf("Error: %s is not a text file.", p))
	}
	from, to := in.Old, in.New
	n := strings.Count(text, from)
	if n == 0 && strings.Contains(text, "\r\n") { // the model sees lines that end in LF
		from, to = toCRLF(from), toCRLF(to)
		n = strings.Count(text, from)
	}
	switch {
	case n == 0:
		hint := ""
		if trimmed := strings.TrimRight(from, "\r\n"); trimmed != from && strings.Contains(text, trimmed) {
			hint = fmt.Sprintf(" Without the line break at its end it occurs %d times.", strings.Count(text, trimmed))
		}
		return nil, "", mistake(fmt.Sprintf("Error: old_string does not occur in %s.%s Read the file again and copy the text exactly.", p, hint))
	case n > 1 && !in.All:
		return nil, "", mistake(fmt.Sprintf("Error: old_string occurs %d times in %s. Include more of the lines around it, or set replace_all.", n, p))
	}
	return []byte(strings.ReplaceAll(text, from, to)), fmt.Sprintf("Replaced %d occurrences in %s", n, p), nil
}

func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// makeChange makes the change that in describes, with the permission of a person if
// necessary, who may edit in.
func makeChange[In any](ctx context.Context, f *fileSystem, in In, of func(In) (*change, error)) (any, error) {
	c, err := of(in)
	if err != nil {
		return explain("", err)
	}
	rules := policyFrom(ctx)
	switch rules.mode(c.tool, c.path) {
	case Deny:
		return problem("%s", denied(c.tool, c.path)), nil
	case Allow:
		return f.make(ctx, c)
	}
	p, err := f.plan(ctx, c, true)
	switch {
	case err != nil:
		return explain(c.path, err)
	case p.Mistake != "":
		return problem("%s", p.Mistake), nil
	}
	args, out, run, err := ask(ctx, fmt.Sprintf("%s changes %s:\n\n%s", c.tool, visibleLine(c.path), p.Diff))
	switch {
	case err != nil || !run:
		return out, err
	case args == nil:
		if err := f.apply(ctx, c, p); err != nil {
			return explain(c.path, err)
		}
		return p.Text, nil
	}
	var edited In
	if err := json.Unmarshal(args, &edited); err != nil {
		return problem("Error: arguments edited by the person: %v. The call was not made.", err), nil
	}
	if c, err = of(edited); err != nil {
		return explain("", err)
	}
	if rules.mode(c.tool, c.path) == Deny {
		return problem("%s", denied(c.tool, c.path)), nil
	}
	out, err = f.make(ctx, c)
	if text, ok := out.(string); ok {
		out = "A person changed the arguments of this call. " + text
	}
	return out, err
}

// make plans a change and makes it.
func (f *fileSystem) make(ctx context.Context, c *change) (any, error) {
	saved := files.IsTransactional(f.Backend, c.path) // together with the result of the call
	if !saved {
		unlock := lock(c.path) // a concurrent change would be a conflict
		defer unlock()
	}
	if saved || !inRun(ctx) {
		old, content, text, err := f.compute(ctx, c)
		if err == nil && (old == nil || !bytes.Equal(old, content)) {
			err = f.Backend.Write(ctx, c.path, content, versionOf(old))
		}
		if err != nil {
			return explain(c.path, err)
		}
		return text, nil
	}
	p, err := f.plan(ctx, c, false)
	if err == nil && p.Mistake == "" {
		err = f.apply(ctx, c, p)
	}
	switch {
	case err != nil:
		return explain(c.path, err)
	case p.Mistake != "":
		return problem("%s", p.Mistake), nil
	}
	return p.Text, nil
}

// compute returns the current content of a file, its content after a change, and the result
// of the call.
func (f *fileSystem) compute(ctx context.Context, c *change) (old, content []byte, text string, err error) {
	if old, err = f.current(ctx, c.path); err != nil {
		return nil, nil, "", err
	}
	content, text, err = c.next(old)
	if err == nil && int64(len(content)) > f.FileLimit {
		err = mistake(fmt.Sprintf("Error: %s would have %d bytes, and the limit is %d.", c.path, len(content), f.FileLimit))
	}
	return old, content, text, err
}

// plan computes a change. It is recorded, so that a call that runs again after a crash can
// tell whether the change was made, and a change that a person approves is the change that
// the person saw.
func (f *fileSystem) plan(ctx context.Context, c *change, ask bool) (plan, error) {
	compute := func(ctx context.Context) (plan, error) {
		old, content, text, err := f.compute(ctx, c)
		if wrong, ok := errors.AsType[mistake](err); ok {
			return plan{Mistake: string(wrong)}, nil
		}
		if err != nil {
			return plan{}, err
		}
		p := plan{Before: versionOf(old), After: versionOf(content), Text: text}
		if ask {
			p.Diff = diffOf(c.path, old, content)
		}
		return p, nil
	}
	return treadle.Do(ctx, c.tool+" plan", compute)
}

// inRun reports whether calls can be recorded.
func inRun(ctx context.Context) bool { return treadle.InfoFrom(ctx).TaskID != "" }

func diffOf(p string, old, content []byte) string {
	if !utf8.Valid(old) || !utf8.Valid(content) {
		return fmt.Sprintf("%s: %d bytes become %d bytes\n", visibleLine(p), len(old), len(content))
	}
	return diff(p, string(old), string(content))
}

// current returns the content of a file, or nil if it does not exist.
func (f *fileSystem) current(ctx context.Context, p string) ([]byte, error) {
	raw, err := files.Read(ctx, f.Backend, p, f.FileLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if raw == nil && err == nil {
		raw = []byte{}
	}
	return raw, err
}

func versionOf(content []byte) files.Version {
	if content == nil {
		return files.Absent
	}
	return files.VersionOf(content)
}

// apply makes a planned change, unless it was made before a crash.
func (f *fileSystem) apply(ctx context.Context, c *change, p plan) error {
	old, err := f.current(ctx, c.path)
	if err != nil {
		return err
	}
	switch versionOf(old) {
	case p.After:
		return nil
	case p.Before:
	default:
		return fmt.Errorf("%w: %s", files.ErrConflict, c.path)
	}
	content, _, err := c.next(old)
	if err != nil {
		return err
	}
	return f.Backend.Write(ctx, c.path, content, p.Before)
}

// locks serialize the changes of a path by agents in this process, which would otherwise
// fail with a conflict.
var (
	locks [64]sync.Mutex
	seed  = maphash.MakeSeed()
)

func lock(p string) (unlock func()) {
	m := &locks[maphash.String(seed, p)%uint64(len(locks))]
	m.Lock()
	return m.Unlock
}

// deletion is a file that a call deletes, in the version that it had when the call began.
type deletion struct {
	Path    string        `json:"path"`
	Version files.Version `json:"version"`
}

// remove deletes a file, or all files below a directory. It deletes the files that a person saw
// in the question, and that the call found before a crash: not those that were written since.
func (f *fileSystem) remove(ctx context.Context, in deleteArgs) (any, error) {
	p, err := files.Clean(in.Path)
	if err != nil {
		return explain("", err)
	}
	rules := policyFrom(ctx)
	if rules.mode(toolDelete, p) == Deny {
		return problem("%s", denied(toolDelete, p)), nil
	}
	find := func(ctx context.Context) ([]deletion, error) { return f.deletes(ctx, p) }
	var all []deletion
	if inRun(ctx) && (!files.IsTransactional(f.Backend, p) || rules.asksBelow(toolDelete, p)) {
		all, err = treadle.Do(ctx, "delete plan", find)
	} else {
		all, err = find(ctx)
	}
	switch {
	case err != nil:
		return explain(p, err)
	case len(all) == 0:
		return problem("Error: %s does not exist.", p), nil
	}
	confirm := false
	for _, one := range all {
		switch rules.mode(toolDelete, one.Path) {
		case Deny:
			return problem("%s", denied(toolDelete, one.Path)), nil
		case Confirm:
			confirm = true
		}
	}
	if confirm {
		args, out, run, err := ask(ctx, describeDeletion(all))
		if err != nil || !run {
			return out, err
		}
		if args != nil {
			return problem("Error: the person changed the arguments of %s, which is not possible. The call was not made.", toolDelete), nil
		}
	}
	for _, one := range all {
		if err := f.deleteVersion(ctx, one); err != nil {
			if len(all) > 1 && errors.Is(err, files.ErrConflict) {
				return problem("Error: %s has changed since the call began, so it was not deleted. Files before it were.", one.Path), nil
			}
			return explain(one.Path, err)
		}
	}
	if len(all) == 1 && all[0].Path == p {
		return "Deleted " + p, nil
	}
	return fmt.Sprintf("Deleted %s with %d files", p, len(all)), nil
}

// deleteVersion deletes a file in its version, unless it was deleted before a crash.
func (f *fileSystem) deleteVersion(ctx context.Context, d deletion) error {
	err := f.Backend.Delete(ctx, d.Path, d.Version)
	if errors.Is(err, files.ErrConflict) {
		if _, missing := f.version(ctx, d.Path); errors.Is(missing, fs.ErrNotExist) {
			return nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// describeDeletion returns the question about a deletion.
func describeDeletion(all []deletion) string {
	const most = 100
	var b strings.Builder
	fmt.Fprintf(&b, "delete deletes %d files:", len(all))
	for _, one := range all[:min(len(all), most)] {
		b.WriteString("\n" + visibleLine(one.Path))
	}
	if len(all) > most {
		fmt.Fprintf(&b, "\n… %d more", len(all)-most)
	}
	return b.String()
}

// deletes returns the files at or below p.
func (f *fileSystem) deletes(ctx context.Context, p string) ([]deletion, error) {
	v, err := f.version(ctx, p)
	switch {
	case err == nil:
		return []deletion{{p, v}}, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case !errors.Is(err, files.ErrIsDir):
		return nil, err
	}
	var all []deletion
	for e, err := range f.Backend.Walk(ctx, p) {
		if err == nil {
			v, err = f.version(ctx, e.Path)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, deletion{e.Path, v})
	}
	return all, nil
}

// version returns the version of a file. That of a file above the size limit is
// [files.Any]: reading it could take too long.
func (f *fileSystem) version(ctx context.Context, p string) (files.Version, error) {
	raw, err := files.Read(ctx, f.Backend, p, f.FileLimit)
	if errors.Is(err, files.ErrTooLarge) {
		return files.Any, nil
	}
	return files.VersionOf(raw), err
}

// textOf returns the whole text of a result, and whether it has other content.
func textOf(m llm.Message) (text string, media bool) {
	for _, b := range m.Parts() {
		if b.Type == llm.BlockText || b.Type == llm.BlockPlain {
			text += b.Text
		} else {
			media = true
		}
	}
	return text, media
}
