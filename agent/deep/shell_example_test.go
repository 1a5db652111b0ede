//go:build linux

package deep_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/sandbox"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// The agent writes a file and sorts it with a command. Another command is denied.
func ExampleShell() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()

	box, err := sandbox.NewLocal(dir, &sandbox.LocalOptions{Limits: sandbox.Limits{Timeout: time.Minute}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = box.Close() }() // the directory stays

	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("write_file", `{"file_path": "/names.txt", "content": "Owl\nBee\n"}`)),
		llmtest.Ask(llmtest.ToolCall("execute", `{"command": "sort names.txt"}`)),
		llmtest.Ask(llmtest.ToolCall("execute", `{"command": "sort names.txt; rm names.txt"}`)),
		llmtest.Say("done"))
	a, err := deep.New(model, &deep.Options{
		Shell: deep.ShellOptions{Sandbox: box, Permissions: []deep.CommandPermission{
			{Commands: []string{"rm *"}, Mode: deep.Deny},
			{Commands: []string{"wc *", "sort *"}, Mode: deep.Allow},
		}},
		Graph: treadle.Options{Saver: checkpoint.NewMemory()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Thread("1").Run(context.Background(), deep.Ask("Sort the names."))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range out.Messages {
		if m.Role == llm.RoleTool {
			fmt.Println(m.Text())
		}
	}
	// Output:
	// Updated /names.txt
	// Bee
	// Owl
	// [exit code 0]
	// Permission denied: this command must not be used. Do not try other ways to run it.
}
