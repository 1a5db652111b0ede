package deep_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

var large = bytes.Repeat([]byte("\x89PNG"), 500)

// shows returns a tool whose result consists of blocks.
func shows(name string, blocks ...llm.Block) *llm.Tool {
	return llm.NewTool(name, "", func(context.Context, struct{}) ([]llm.Block, error) { return blocks, nil })
}

// mediaOf returns the media of a message that have data.
func mediaOf(m llm.Message) (out []llm.Block) {
	for _, b := range m.Parts() {
		if b.Data != nil {
			out = append(out, b)
		}
	}
	return out
}

// The model sees a large image in its next call, and then its path. Equal images are one file,
// and read_file shows it again without another copy in the conversation.
func TestLargeMediaGoToFilesByHash(t *testing.T) {
	p := "/large_tool_results/" + string(files.VersionOf(large)) + ".png"
	inCommand := llm.NewTool("command", "", func(ctx context.Context, _ struct{}) (treadle.Command[treadle.Update], error) {
		call, _ := llm.CallFrom(ctx)
		u := treadle.Update{"messages": llm.Messages{llm.ToolResult(call, []llm.Block{llm.Image("image/png", large)})}}
		return treadle.Command[treadle.Update]{Update: &u}, nil
	})
	for name, backend := range map[string]files.Backend{"thread": nil, "directory": disk(t, t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			next := []llm.ToolCall{llmtest.ToolCall("shoot", "{}"), llmtest.ToolCall("command", "{}"), llmtest.ToolCall("read_file", args{"file_path": p}), llmtest.ToolCall("small", "{}")}
			want := []int{0, 1, 1, 1, 1} // images with data in each request
			turn := 0
			model := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
				var seen []llm.Block
				for _, m := range r.Messages {
					seen = append(seen, mediaOf(m)...)
				}
				if len(seen) != want[turn] || turn > 0 && turn < 4 && (!bytes.Equal(seen[0].Data, large) || seen[0].MIMEType != "image/png" || seen[0].Type != llm.BlockImage) {
					t.Errorf("request %d has %d media", turn, len(seen))
				}
				if turn++; turn > len(next) {
					return llm.Assistant("done"), nil
				}
				return llm.Assistant("", next[turn-1]), nil
			})
			o := &deep.Options{Files: deep.FilesOptions{ResultLimit: 1000, Backend: backend}, Tools: []*llm.Tool{
				shows("shoot", llm.Text("here"), llm.Image("image/png", large)), inCommand, shows("small", llm.Image("image/png", large[:100]))}}
			state, err := made(t, model, o).Run(t.Context(), deep.Ask("go"))
			if err != nil {
				t.Fatal(err)
			}
			out := toolResults(state)
			for i, m := range out[:3] {
				contains(t, m.Text(), "image/png, 2000 bytes, in "+p)
				if len(mediaOf(m)) > 0 {
					t.Errorf("result %d has media in the thread", i)
				}
			}
			contains(t, out[0].Text(), "here")
			if len(mediaOf(out[3])) != 1 || len(state.Files) != 1 || !bytes.Equal(state.Files[p].Content, large) {
				t.Errorf("small result has %d media; thread has files %v", len(mediaOf(out[3])), state.Files)
			}
		})
	}
}

// Media that read_file could not show again stay in the message, and so do those of read_file,
// which are in a file already.
func TestMediaWithoutFileStay(t *testing.T) {
	o := &deep.Options{Files: deep.FilesOptions{ResultLimit: 1000, FileLimit: 3000}, Tools: []*llm.Tool{
		shows("drawing", llm.Block{Type: llm.BlockImage, MIMEType: "image/svg+xml", Data: large}),
		shows("huge", llm.Image("image/png", bytes.Repeat(large, 2))),
		shows("remote", llm.ImageURL("https://example.com/"+strings.Repeat("a", 2000))),
	}}
	out, state := results(t, o, files.Records{"/a.png": {Content: large}},
		llmtest.ToolCall("drawing", "{}"), llmtest.ToolCall("huge", "{}"), llmtest.ToolCall("remote", "{}"), llmtest.ToolCall("read_file", args{"file_path": "/a.png"}))
	for i, m := range out {
		if len(m.Blocks) != 1 || m.Blocks[0].Data == nil && m.Blocks[0].URL == "" {
			t.Errorf("result %d is %.200q", i, m.Text())
		}
	}
	if len(state.Files) != 1 {
		t.Errorf("%d files", len(state.Files))
	}
}

// A model that is called again after a crash, or whose file was deleted in the meantime, sees
// what is left.
func TestMediaAfterRestart(t *testing.T) {
	saver := checkpoint.NewMemory()
	crash := errors.New("crash")
	build := func(last func(r *llm.Request) (llm.Message, error)) thread {
		return made(t, llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
			if r.Messages[len(r.Messages)-1].Role == llm.RoleHuman {
				return llm.Assistant("", llmtest.ToolCall("shoot", "{}"), llmtest.ToolCall("report", "{}")), nil
			}
			return last(r)
		}), &deep.Options{Files: deep.FilesOptions{ResultLimit: 1000}, Graph: treadle.Options{Saver: saver},
			Tools: []*llm.Tool{shows("shoot", llm.Image("image/png", large)), shows("report", llm.File("r.pdf", "application/pdf", large))}})
	}
	if _, err := build(func(*llm.Request) (llm.Message, error) { return llm.Message{}, crash }).Run(t.Context(), deep.Ask("go")); !errors.Is(err, crash) {
		t.Fatal(err)
	}
	var seen []string
	g := build(func(r *llm.Request) (llm.Message, error) {
		for _, m := range r.Messages {
			for _, b := range mediaOf(m) {
				seen = append(seen, b.Type+" "+b.MIMEType)
			}
		}
		return llm.Assistant("done"), nil
	})
	gone := files.Records{"/large_tool_results/" + string(files.VersionOf(large)) + ".pdf": nil}
	if _, err := g.Update(t.Context(), treadle.Update{"files": gone}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Continue(t.Context()); err != nil || strings.Join(seen, ",") != "image image/png" {
		t.Errorf("model saw %v (%v)", seen, err)
	}
}
