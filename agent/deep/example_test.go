package deep_test

import (
	"context"
	"errors"
	"fmt"
	"testing/fstest"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/store"
)

// The agent writes a file, which is part of its thread.
func ExampleNew() {
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("write_file", `{"file_path": "/plan.md", "content": "1. read\n2. write\n"}`)),
		llmtest.Say("The plan is in /plan.md."))

	a, err := deep.New(model, &deep.Options{Graph: treadle.Options{Saver: checkpoint.NewMemory()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Thread("1").Run(context.Background(), deep.Ask("Make a plan."))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(deep.Answer(out))
	fmt.Printf("%s", out.Files["/plan.md"].Content)
	// Output:
	// The plan is in /plan.md.
	// 1. read
	// 2. write
}

// Files alone gives the tools to any agent.
func ExampleFiles() {
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("write_file", `{"file_path": "/notes/a.txt", "content": "a note"}`)),
		llmtest.Ask(llmtest.ToolCall("grep", `{"pattern": "note", "output_mode": "content"}`)),
		llmtest.Say("done"))
	a, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{deep.Files(nil)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Run(context.Background(), agent.Ask("go"))
	fmt.Println(out.Messages[4].Text(), err)
	// Output:
	// /notes/a.txt:
	//   1: a note <nil>
}

// A person sees the difference before a file is written.
func ExamplePermission() {
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("write_file", `{"file_path": "/public/news.md", "content": "We won.\n"}`)), llmtest.Say("published"))
	a, err := deep.New(model, &deep.Options{
		Files: deep.FilesOptions{Permissions: []deep.Permission{
			{Paths: []string{"/secrets/**"}, Mode: deep.Deny},
			{Paths: []string{"/public/**"}, Ops: []string{deep.OpWrite}, Mode: deep.Confirm},
		}},
		Graph: treadle.Options{Saver: checkpoint.NewMemory()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	thread := a.Thread("1")
	_, err = thread.Run(context.Background(), deep.Ask("Publish the news."))
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		var review agent.Review
		if err := stop.Pauses[0].Decode(&review); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(review.Calls[0].Description)
	}
	out, err := thread.Resume(context.Background(), agent.Decisions{{Type: agent.Approve}})
	fmt.Println(deep.Answer(out), err)
	// Output:
	// write_file changes /public/news.md:
	//
	// --- /public/news.md
	// +++ /public/news.md
	// @@ -1,0 +1,1 @@
	// +We won.
	//
	// published <nil>
}

// Two sub-agents work at the same time; the parent sees only their reports.
func ExampleSubagents() {
	task := func(agent, what string) llm.ToolCall {
		return llmtest.ToolCall("task", map[string]string{"subagent_type": agent, "description": what})
	}
	model := llmtest.NewScript(llmtest.Ask(task("reader", "Read the letter."), task("critic", "Judge the letter.")), llmtest.Say("It is short and friendly."))
	a, err := deep.New(model, &deep.Options{Subagents: []deep.Subagent{
		{Name: "reader", Description: "reads texts", Model: llmtest.NewScript(llmtest.Say("It has three lines."))},
		{Name: "critic", Description: "judges texts", Prompt: "You are polite.", Model: llmtest.NewScript(llmtest.Say("It is friendly."))},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Run(context.Background(), deep.Ask("How is the letter?"))
	for _, m := range out.Messages[2:] {
		fmt.Println(m.Name+":", m.Text())
	}
	fmt.Println(err)
	// Output:
	// task: It has three lines.
	// task: It is friendly.
	// deep: It is short and friendly.
	// <nil>
}

// The parent sleeps until its task ends.
func ExampleInBackground() {
	saver := checkpoint.NewMemory()
	worker, err := deep.New(llmtest.NewScript(llmtest.Say("42 pages")), &deep.Options{Name: "counter"})
	if err != nil {
		fmt.Println(err)
		return
	}
	tasks, err := deep.NewLocal("tasks", worker, &treadle.Options{Saver: saver})
	if err != nil {
		fmt.Println(err)
		return
	}
	heard := make(chan string, 1)
	turns := 0
	model := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		switch turns++; turns {
		case 1:
			return llm.Assistant("", llmtest.ToolCall("start_async_task", `{"subagent_type": "counter", "description": "Count the pages."}`)), nil
		case 2:
			return llm.Assistant("I wait for the count."), nil
		}
		heard <- r.Messages[len(r.Messages)-1].Text()
		return llm.Assistant("It has 42 pages."), nil
	})
	parent, err := deep.New(model, &deep.Options{Graph: treadle.Options{Saver: saver},
		Background: []deep.BackgroundAgent{{Name: "counter", Description: "counts pages", Runner: tasks}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, err = parent.Thread("1").Run(ctx, deep.Ask("How long is the book?"))
	fmt.Println("sleeping:", treadle.IsPause(err))
	served := make(chan error)
	go func() { served <- tasks.Serve(ctx, parent) }() // also in another process, later
	text := <-heard
	fmt.Println(text[len(text)-len("42 pages\n</report>"):])
	cancel()
	fmt.Println(<-served)
	// Output:
	// sleeping: true
	// 42 pages
	// </report>
	// <nil>
}

// The prompt names the skill; the model loads its instructions when it needs them.
func ExampleSkills() {
	skills := fstest.MapFS{"greet/SKILL.md": {Data: []byte("---\nname: greet\ndescription: Greets people.\n---\nSay hello twice.\n")}}
	model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("load_skill", `{"name": "greet"}`)), llmtest.Say("Hello, hello!"))
	a, err := deep.New(model, &deep.Options{Skills: []deep.SkillSource{{FS: skills}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Run(context.Background(), deep.Ask("Greet Ada."))
	fmt.Print(out.Messages[2].Text(), deep.Answer(out), err)
	// Output:
	// Say hello twice.
	// Hello, hello!<nil>
}

// The file is part of the prompt of each run.
func ExampleMemory() {
	model := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		prompt := r.Messages[0].Text()
		return llm.Assistant(prompt[len(prompt)-len("<file path=\"/AGENTS.md\">\nBe brief.\n</file>"):]), nil
	})
	a, err := deep.New(model, &deep.Options{Memory: []string{"/AGENTS.md"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := deep.Ask("What do you know?")
	in.Files = files.Records{"/AGENTS.md": files.Text("Be brief.")}
	out, err := a.Run(context.Background(), in)
	fmt.Println(deep.Answer(out), err)
	// Output:
	// <file path="/AGENTS.md">
	// Be brief.
	// </file> <nil>
}

// Above the limit, a summary takes the place of the older messages.
func ExampleCompact() {
	summary := llmtest.NewScript(llmtest.Say("The user greeted three times."))
	model := llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
		return llm.Assistant(r.Messages[0].Text()), nil
	})
	a, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{
		deep.Compact(&deep.ContextOptions{Tokens: 20, Model: summary, NoArchive: true}),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := agent.State{}
	in.Messages = llm.Messages{llm.User("Hello!"), llm.User("Hello!"), llm.User("Hello!"), llm.User("And goodbye!")}
	out, err := a.Run(context.Background(), in)
	fmt.Println(agent.Answer(out), err)
	// Output:
	// Summary of the conversation so far:
	//
	// The user greeted three times. <nil>
}

// Files below /memories are shared by all threads of a user; the others belong to the
// thread.
func ExampleFilesOptions() {
	shared, err := files.NewStore(&files.StoreOptions{Namespace: func(ctx context.Context) (store.Namespace, error) {
		user, _ := treadle.ContextFrom[string](ctx)
		return store.Namespace{"memories", user}, nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	backend, err := files.Mount(files.Thread{}, map[string]files.Backend{"/memories": shared})
	if err != nil {
		fmt.Println(err)
		return
	}
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("write_file", `{"file_path": "/memories/name.txt", "content": "Ada"}`)), llmtest.Say("saved"),
		llmtest.Ask(llmtest.ToolCall("read_file", `{"file_path": "/memories/name.txt"}`)), llmtest.Say("Your name is Ada."))
	a, err := deep.New(model, &deep.Options{Files: deep.FilesOptions{Backend: backend},
		Graph: treadle.Options{Saver: checkpoint.NewMemory(), Store: treadle.Must(store.NewMemory(nil))}})
	if err != nil {
		fmt.Println(err)
		return
	}
	a = a.With(treadle.Context("ada"))
	for i, text := range []string{"My name is Ada.", "What is my name?"} {
		out, err := a.Thread(fmt.Sprint(i)).Run(context.Background(), deep.Ask(text))
		fmt.Println(out.Messages[2].Text(), err)
	}
	// Output:
	// Updated /memories/name.txt <nil>
	// @@ /memories/name.txt | lines 1-1 of 1 @@
	// Ada <nil>
}
