package deep_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

func TestReadFileWindows(t *testing.T) {
	in := files.Records{"/f": files.Text(numbered(250)), "/empty": files.Text(""), "/blank": files.Text(" \n\t\n"),
		"/crlf": files.Text("a\r\nb\r\n"), "/long": files.Text(strings.Repeat("é", 50) + "\nnext\n"), "/bin": {Content: []byte("a\x00b")}}
	for name, c := range map[string]struct {
		path    string
		a       args
		want    []string
		without []string
	}{
		"start":      {"/f", args{}, []string{"@@ /f | lines 1-100 of 250 | next offset 100 @@\nline 1\n", "line 100"}, []string{"line 101"}},
		"middle":     {"f", args{"offset": 100, "limit": 2}, []string{"lines 101-102 of 250 | next offset 102 @@\nline 101\nline 102"}, []string{"line 103", "line 100"}},
		"end":        {"/f", args{"offset": 249}, []string{"lines 250-250 of 250 @@\nline 250"}, []string{"next offset"}},
		"beyond":     {"/f", args{"offset": 250}, []string{"has 250 lines"}, []string{"line 1\n"}},
		"negative":   {"/f", args{"offset": -3, "limit": 1}, []string{"negative", "lines 1-1 of 250"}, nil},
		"no lines":   {"/f", args{"limit": 0}, []string{"Nothing was read"}, []string{"empty"}},
		"empty":      {"/empty", args{}, []string{"is empty"}, nil},
		"blank":      {"/blank", args{}, []string{"white space"}, nil},
		"line ends":  {"/crlf", args{}, []string{"a\nb"}, []string{"\r"}},
		"missing":    {"/none", args{}, []string{"does not exist"}, nil},
		"directory":  {"/", args{}, []string{"is a directory"}, nil},
		"binary":     {"/bin", args{}, []string{"not a text file"}, nil},
		"traversal":  {"/../etc/passwd", args{}, []string{"invalid path"}, nil},
		"whole line": {"/long", args{"limit": 1}, []string{"lines 1-1 of 2", strings.Repeat("é", 50)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.a["file_path"] = c.path
			got := one(t, nil, in, "read_file", c.a)
			contains(t, got, c.want...)
			lacks(t, got, c.without...)
		})
	}
}

// No line is skipped or cut, however the budget falls, except one that is itself too long.
func TestReadFilePagesWholeLines(t *testing.T) {
	o := &deep.Options{Files: deep.FilesOptions{ReadLimit: 50}}
	in := files.Records{"/f": files.Text(numbered(30)), "/wide": files.Text(strings.Repeat("é", 60) + "\nb")}
	var seen []string
	for offset := 0; offset < 30; {
		got := one(t, o, in, "read_file", args{"file_path": "/f", "offset": offset})
		_, text, _ := strings.Cut(got, "@@\n")
		n := len(strings.Split(text, "\n"))
		seen, offset = append(seen, text), offset+n
		if offset < 30 {
			contains(t, got, fmt.Sprintf("next offset %d @@", offset))
		}
	}
	if got := strings.Join(seen, "\n") + "\n"; got != numbered(30) {
		t.Errorf("pages are %q", got)
	}
	got := one(t, o, in, "read_file", args{"file_path": "/wide"})
	contains(t, got, "line truncated, 50 of 120 bytes", strings.Repeat("é", 25))
	lacks(t, got, "next offset", "\ufffd")
}

func TestReadFileReturnsMedia(t *testing.T) {
	png := []byte("\x89PNG\r\n\x1a\n")
	out, _ := results(t, nil, files.Records{"/a.PNG": {Content: png}, "/b.pdf": {Content: png}},
		llmtest.ToolCall("read_file", args{"file_path": "/a.PNG"}), llmtest.ToolCall("read_file", args{"file_path": "/b.pdf"}))
	for i, want := range []string{llm.BlockImage, llm.BlockFile} {
		if b := out[i].Blocks; len(b) != 1 || b[0].Type != want || string(b[0].Data) != string(png) {
			t.Errorf("blocks %+v, want a %s", b, want)
		}
	}
}

func TestEditFile(t *testing.T) {
	edit := func(old, text string) args { return args{"file_path": "/f", "old_string": old, "new_string": text} }
	all := edit("a", "b")
	all["replace_all"] = true
	for name, c := range map[string]struct {
		was  string
		a    args
		text string
		now  string
	}{
		"one match":         {"x a y", edit("a", "b"), "Replaced 1", "x b y"},
		"no match":          {"x", edit("a", "b"), "does not occur", "x"},
		"several matches":   {"a a", edit("a", "b"), "occurs 2 times", "a a"},
		"all matches":       {"a a", all, "Replaced 2", "b b"},
		"empty":             {"x", edit("", "b"), "old_string is empty", "x"},
		"no change":         {"a", edit("a", "a"), "are equal", "a"},
		"line break at end": {"x\na", edit("a\n", "b\n"), "Without the line break at its end it occurs 1 times", "x\na"},
		"CRLF is kept":      {"a\r\nb\r\nc", edit("a\nb", "1\n2"), "Replaced 1", "1\r\n2\r\nc"},
		"binary":            {"a\xff", edit("a", "b"), "not a text file", "a\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			out, state := results(t, nil, files.Records{"/f": {Content: []byte(c.was)}}, llmtest.ToolCall("edit_file", c.a))
			contains(t, out[0].Text(), c.text)
			if got := string(state.Files["/f"].Content); got != c.now {
				t.Errorf("file contains %q, want %q", got, c.now)
			}
			if failed := out[0].Status == llm.StatusError; failed == (c.was != c.now) {
				t.Errorf("status %q", out[0].Status)
			}
		})
	}
	if got := one(t, nil, nil, "edit_file", edit("a", "b")); !strings.Contains(got, "does not exist") {
		t.Error(got)
	}
}

func TestListGlobGrepDelete(t *testing.T) {
	in := files.Records{"/a.go": files.Text("one\ntwo\n"), "/d/b.go": files.Text("two TWO\n"), "/d/c.txt": files.Text("t|o\n"), "/d/e/x": {Content: []byte("two\x00")}}
	for name, c := range map[string]struct {
		tool    string
		a       args
		want    string
		partial bool
	}{
		"ls":           {"ls", args{"path": "/"}, "/a.go\n/d/", false},
		"ls empty":     {"ls", args{"path": "/none"}, "does not exist", true},
		"ls file":      {"ls", args{"path": "/a.go"}, "not a directory", true},
		"glob":         {"glob", args{"pattern": "*.go"}, "/a.go\n/d/b.go", false},
		"glob in dir":  {"glob", args{"pattern": "*.go", "path": "/d"}, "/d/b.go", false},
		"glob nothing": {"glob", args{"pattern": "*.rs"}, "No files match", true},
		"glob bad":     {"glob", args{"pattern": "../*"}, "not supported", true},
		"grep":         {"grep", args{"pattern": "two"}, "/a.go\n/d/b.go", false},
		"grep content": {"grep", args{"pattern": "two", "output_mode": "content"}, "/a.go:\n  2: two\n/d/b.go:\n  1: two TWO", false},
		"grep count":   {"grep", args{"pattern": "o", "output_mode": "count"}, "/a.go: 2\n/d/b.go: 1\n/d/c.txt: 1", false},
		"grep glob":    {"grep", args{"pattern": "two", "glob": "*.go", "path": "/d"}, "/d/b.go", false},
		"grep file":    {"grep", args{"pattern": "two", "path": "/a.go"}, "/a.go", false},
		"grep literal": {"grep", args{"pattern": "t|o"}, "/d/c.txt", false},
		"grep hint":    {"grep", args{"pattern": "t.*o"}, "not a regular expression", true},
		"grep limit":   {"grep", args{"pattern": "o", "output_mode": "content", "max_count": 1}, "/a.go:\n  1: one\n[There are more matches: narrow the search.]", false},
		"grep exact":   {"grep", args{"pattern": "TWO", "output_mode": "content", "max_count": 1}, "/d/b.go:\n  1: two TWO", false},
		"grep missing": {"grep", args{"pattern": "x", "path": "/none"}, "does not exist", true},
		"delete":       {"delete", args{"file_path": "/a.go"}, "Deleted /a.go", false},
		"delete dir":   {"delete", args{"file_path": "/d"}, "Deleted /d with 3 files", false},
		"delete none":  {"delete", args{"file_path": "/x"}, "does not exist", true},
	} {
		t.Run(name, func(t *testing.T) {
			got := one(t, nil, in, c.tool, c.a)
			if c.partial {
				contains(t, got, c.want)
			} else if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// Files fork and time-travel with their thread.
func TestFilesForkWithThread(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("write_file", args{"file_path": "/f", "content": "1"})), llmtest.Say("one"),
		llmtest.Ask(llmtest.ToolCall("write_file", args{"file_path": "/f", "content": "2"})), llmtest.Say("two"),
		llmtest.Ask(llmtest.ToolCall("read_file", args{"file_path": "/f"})), llmtest.Say("three"))
	th := made(t, model, nil)
	if _, err := th.Run(t.Context(), deep.Ask("a")); err != nil {
		t.Fatal(err)
	}
	first, err := th.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := th.Run(t.Context(), deep.Ask("b"))
	if err != nil || string(out.Files["/f"].Content) != "2" {
		t.Fatalf("%v, %v", out.Files, err)
	}
	out, err = th.At(first.ID).Run(t.Context(), deep.Ask("c"))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, toolResults(out)[1].Text(), "lines 1-1 of 1 @@\n1")
}

// The calls of a message run concurrently, and their writes are merged.
func TestParallelWritesAreMerged(t *testing.T) {
	write := func(p, text string) llm.ToolCall {
		return llmtest.ToolCall("write_file", args{"file_path": p, "content": text})
	}
	model := llmtest.Scripted(t, llmtest.Ask(write("/a", "1"), write("/b", "2"), write("a", "3"),
		llmtest.ToolCall("delete", args{"file_path": "/old"}), llmtest.ToolCall("delete", args{"file_path": "/"})), llmtest.Say("done"))
	in := deep.Ask("go")
	in.Files = files.Records{"/old": files.Text("x"), "/kept": files.Text("y")}
	out, err := made(t, model, nil).Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for p, f := range out.Files {
		got = append(got, p+"="+string(f.Content))
	}
	if d := cmp.Diff([]string{"/a=1", "/b=2", "/kept=y"}, got, sortStrings); d != "" {
		t.Error(d)
	}
	for i, m := range toolResults(out) {
		if refused := strings.Contains(m.Text(), "This call was not made"); refused != (i == 2 || i == 4) {
			t.Errorf("call %d: %s", i, m.Text())
		}
	}
}

// A backend outside of the thread gets the write, and the thread does not.
func TestDirectoryBackend(t *testing.T) {
	root := t.TempDir()
	put(t, "hello\n", root, "in", "a.txt")
	o := &deep.Options{Files: deep.FilesOptions{Backend: disk(t, root)}}
	out, state := results(t, o, nil, llmtest.ToolCall("edit_file", args{"file_path": "/in/a.txt", "old_string": "hello", "new_string": "bye"}),
		llmtest.ToolCall("write_file", args{"file_path": "/out/b.txt", "content": "new"}), llmtest.ToolCall("delete", args{"file_path": "/in"}))
	for _, m := range out {
		if m.Status == llm.StatusError {
			t.Error(m.Text())
		}
	}
	if got := onDisk(t, root, "out", "b.txt"); got != "new" || len(state.Files) != 0 {
		t.Errorf("%q, %v", got, state.Files)
	}
}

func TestLargeResultsGoToFile(t *testing.T) {
	text := "first\n" + strings.Repeat("some text\n", 500) + "last"
	for name, o := range map[string]*deep.Options{
		"thread":    {Files: deep.FilesOptions{ResultLimit: 1000}},
		"directory": {Files: deep.FilesOptions{ResultLimit: 1000, Backend: disk(t, t.TempDir())}},
	} {
		t.Run(name, func(t *testing.T) {
			o.Tools = []*llm.Tool{echo("big")}
			call := llmtest.ToolCall("big", args{"text": text})
			call.ID = "a/../b." + strings.Repeat("x", 10)
			out, state := results(t, o, nil, call,
				llmtest.ToolCall("read_file", args{"file_path": "/large_tool_results/a____b_xxxxxxxxxx", "offset": 501}),
				llmtest.ToolCall("big", args{"text": "short"}))
			contains(t, out[0].Text(), "/large_tool_results/a____b_xxxxxxxxxx", "first\n", "… (492 lines)", "\nlast")
			if len(out[0].Text()) > 1000 {
				t.Errorf("result has %d characters", len(out[0].Text()))
			}
			contains(t, out[1].Text(), "last")
			if out[2].Text() != "short" || len(state.Files) != 1 {
				t.Errorf("%q, %d files", out[2].Text(), len(state.Files))
			}
		})
	}
}

// The model sees the ends of a huge message of the user, and finds the rest in a file, also as a
// sub-agent. The thread keeps the message, and the file costs nothing.
func TestHugeMessageIsFile(t *testing.T) {
	text := "first line\n" + strings.Repeat("filler\n", 40) + "needle in line 42\n" + strings.Repeat("filler\n", 40) + "last line"
	var path string
	look := func(call func() llm.ToolCall) llm.Model {
		return llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
			last := r.Messages[len(r.Messages)-1]
			if last.Role == llm.RoleTool {
				return llm.Assistant(last.Text()), nil
			}
			return llm.Assistant("", call()), nil
		})
	}
	grep := func() llm.ToolCall {
		return llmtest.ToolCall("grep", args{"pattern": "needle", "path": path, "output_mode": "content"})
	}
	child := deep.Subagent{Name: "child", Description: "works", Model: look(grep)}
	model := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		seen, last := r.Messages[1], r.Messages[len(r.Messages)-1]
		if last.Role == llm.RoleTool {
			return llm.Assistant(last.Text()), nil
		}
		if seen.Blocks == nil || len(seen.Text()) > 400 || strings.Contains(seen.Text(), "needle") {
			return llm.Message{}, fmt.Errorf("model sees %d characters: %.500q", len(seen.Text()), seen.Text())
		}
		_, path, _ = strings.Cut(seen.Text(), "The whole text is in ")
		path, _, _ = strings.Cut(path, ":")
		return llm.Assistant("", grep(), task("child", "find it")), nil
	})
	o := &deep.Options{Files: deep.FilesOptions{MessageLimit: 300, Backend: disk(t, t.TempDir())}, Subagents: []deep.Subagent{child},
		Context: deep.ContextOptions{Tokens: 2000, Trigger: 1, Keep: 0.1, ClearAt: 1, Count: chars, Model: llmtest.Scripted(t)}}
	in := deep.State{State: agent.State{Chat: llm.Chat{Messages: llm.Messages{{Role: llm.RoleHuman, Blocks: []llm.Block{
		{Type: llm.BlockText, Text: strings.Repeat(text+"\n", 5)}, {Type: llm.BlockImage, MIMEType: "image/png", Data: []byte("png")}}}}}}}
	out, err := made(t, model, o).Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range toolResults(out) {
		contains(t, m.Text(), "/conversation_history/message_", "42: needle in line 42")
	}
	if len(toolResults(out)) != 2 || out.Messages[0].Text() != in.Messages[0].Text() || len(out.Files) != 0 {
		t.Errorf("the thread has %d results, a message of %d characters, and %d files", len(toolResults(out)), len(out.Messages[0].Text()), len(out.Files))
	}
}

func TestLongCallIDsHaveFiles(t *testing.T) {
	call := llmtest.ToolCall("big", args{"text": strings.Repeat("x", 3000)})
	call.ID = strings.Repeat("i", 1500)
	out, state := results(t, &deep.Options{Tools: []*llm.Tool{echo("big")}, Files: deep.FilesOptions{ResultLimit: 2000}}, nil, call)
	contains(t, out[0].Text(), "/large_tool_results/call-")
	if len(state.Files) != 1 {
		t.Errorf("%d files", len(state.Files))
	}
}

func TestFilesRejectsMistakes(t *testing.T) {
	for want, o := range map[string]deep.FilesOptions{
		`invalid mode "forbid"`:    {Permissions: []deep.Permission{{Paths: []string{"/a"}, Mode: "forbid"}}},
		`did you mean "edit_file"`: {Permissions: []deep.Permission{{Paths: []string{"/a"}, Ops: []string{"edit_fil"}, Mode: deep.Deny}}},
		"must start with /":        {Permissions: []deep.Permission{{Paths: []string{"secret/**"}, Mode: deep.Deny}}},
		"unclosed [":               {Permissions: []deep.Permission{{Paths: []string{"/[a"}, Mode: deep.Deny}}},
		`".." is not supported`:    {Permissions: []deep.Permission{{Paths: []string{"/a/../b"}, Mode: deep.Deny}}},
		"no paths":                 {Permissions: []deep.Permission{{Mode: deep.Deny}}},
		`did you mean "grep"`:      {Tools: []string{"read_file", "grp"}},
		"lacks read_file":          {Tools: []string{"ls"}},
		"invalid ReadLimit -1":     {ReadLimit: -1},
	} {
		_, err := deep.New(llmtest.Scripted(t), &deep.Options{Files: o})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

// Files works in an agent whose state has no files.
func TestFilesInPlainAgent(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("write_file", args{"file_path": "/f", "content": "x"})),
		llmtest.Ask(llmtest.ToolCall("ls", args{"path": "/"})), llmtest.Say("done"))
	g, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{deep.Files(&deep.FilesOptions{Tools: []string{"read_file", "write_file", "ls"}})},
		Graph: treadle.Options{Saver: checkpoint.NewMemory()}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.Thread("1").Run(t.Context(), agent.Ask("go"))
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Messages[len(out.Messages)-2].Text(); got != "/f" {
		t.Errorf("ls returns %q", got)
	}
}

func TestExcludedToolIsUnknown(t *testing.T) {
	o := &deep.Options{Files: deep.FilesOptions{Tools: []string{"read_file"}}}
	contains(t, one(t, o, nil, "write_file", args{"file_path": "/f", "content": "x"}), "not a valid tool")
}

func TestWriteAboveLimitIsRefused(t *testing.T) {
	o := &deep.Options{Files: deep.FilesOptions{FileLimit: 10}}
	out, state := results(t, o, nil, llmtest.ToolCall("write_file", args{"file_path": "/f", "content": "more than ten"}))
	contains(t, out[0].Text(), "the limit is 10")
	if len(state.Files) != 0 {
		t.Error("written")
	}
}

// A huge file is read in parts without loading it, and not searched.
func TestHugeFiles(t *testing.T) {
	root := t.TempDir()
	put(t, strings.Repeat(strings.Repeat("x", 99)+"\n", 20_000), root, "huge")
	o := &deep.Options{Files: deep.FilesOptions{Backend: disk(t, root), FileLimit: 100_000}}
	got := one(t, o, nil, "read_file", args{"file_path": "/huge", "offset": 10, "limit": 1})
	contains(t, got, "@@ /huge | lines 11-11 | next offset 11 @@")
	contains(t, one(t, o, nil, "grep", args{"pattern": "x"}), "1 files were not searched")
	contains(t, one(t, o, nil, "edit_file", args{"file_path": "/huge", "old_string": "x", "new_string": "y"}), "too large")

	// Files that nothing could read to the end: a line of zeros, and a line that never ends.
	put(t, "first\n", root, "sparse")
	if err := os.Truncate(filepath.Join(root, "sparse"), 1<<42); err != nil {
		t.Fatal(err)
	}
	contains(t, one(t, o, nil, "read_file", args{"file_path": "/sparse"}), "not a text file")
	endless := &deep.Options{Files: deep.FilesOptions{Backend: oneFile{strings.NewReader("first\n"), repeated('x')}, FileLimit: 100_000, SearchTimeout: 10 * time.Millisecond}}
	contains(t, one(t, endless, nil, "read_file", args{"file_path": "/f", "limit": 1}), "@@ /f | lines 1-1 | next offset 1 @@\nfirst")
	contains(t, one(t, endless, nil, "read_file", args{"file_path": "/f", "offset": 2}), "stopped after 10ms")
}

// repeated is an endless text of one character.
type repeated byte

func (r repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

// oneFile is a backend with one file of unknown size, which contains the texts.
type oneFile []io.Reader

func (f oneFile) Open(_ context.Context, p string) (*files.File, error) {
	return &files.File{Entry: files.Entry{Path: p}, ReadCloser: io.NopCloser(io.MultiReader(f...))}, nil
}

func (f oneFile) Write(context.Context, string, []byte, files.Version) error { return fs.ErrPermission }

func (f oneFile) Delete(context.Context, string, files.Version) error { return fs.ErrPermission }

func (f oneFile) List(context.Context, string) ([]files.Entry, error) { return nil, nil }

func (f oneFile) Walk(context.Context, string) iter.Seq2[files.Entry, error] {
	return func(func(files.Entry, error) bool) {}
}

func TestSearchStopsAtTimeout(t *testing.T) {
	root := t.TempDir()
	put(t, "x", root, "f")
	o := &deep.Options{Files: deep.FilesOptions{Backend: disk(t, root), SearchTimeout: time.Nanosecond}}
	contains(t, one(t, o, nil, "grep", args{"pattern": "x"}), "The search stopped after 1ns")
}
