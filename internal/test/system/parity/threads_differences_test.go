package parity_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// threadDifferences are the ways in which our threads differ from the recorded
// ones on purpose.
var threadDifferences []difference

// The table is filled here, because the adaptions look into it.
func init() { //nolint:gochecknoinits // as a literal the table would refer to itself
	threadDifferences = []difference{
		{
			id: "workflow", places: []string{"func_*/* history", "func_*/* state"},
			upstream: "The input of an entrypoint is part of the checkpoint from which its function runs.",
			ours:     "A workflow is a graph with one node: its input has a separate checkpoint, as in every graph, so a run creates three checkpoints instead of two.",
			why:      "One form of input for all graphs.",
			want:     func(_ place, want any) any { return rewrite(want, withInput) },
			both: func(v any) any {
				return rewrite(v, func(v any) any {
					if s, _ := tasksOf(v); s != nil {
						delete(s, "step")
					}
					return v
				})
			},
		}, {
			id: "answered", places: []string{"*/* history", "*/* state", "interrupt_streams/9 resume"},
			upstream: "An answered interrupt remains listed in its checkpoint.",
			ours:     "An interrupt is listed while it is pending.",
			why:      "The list shows what a thread waits for.",
			want: func(p place, want any) any {
				return rewrite(want, func(v any) any { return withoutAnswered(v, answeredAt[p]) })
			},
		}, {
			id: "results", places: []string{"b01_checkpoints/3 state", "fork_branches/7 state", "history_filters/5 state", "durable_exit/7 history", "durable_exit_fails/4 history"},
			upstream: "A checkpoint contains what each of its tasks wrote.",
			ours:     "What a step wrote is in the checkpoint that the step created: a history shows it with the tasks; the state at an older checkpoint does not, and for several steps saved together, it shows the last one.",
			why:      "What a step has committed is not saved twice.",
			both:     func(v any) any { return rewrite(v, withoutResults) },
		}, {
			id: "error texts", places: []string{"*/* history", "*/* state"},
			upstream: "A task's error is Python's repr of it.",
			ours:     "A task's error is its text, with the graph, the node, and the step.",
			why:      "The text shows where the error occurred.",
			both:     func(v any) any { return rewrite(v, plainErrors) },
		}, {
			id: "answers", places: placesOf(answersInstead),
			upstream: "An answer for which no interrupt is pending, or with an unknown ID, is ignored; an answer given at an old checkpoint runs the following nodes with the old answer and is not saved; None is no answer.",
			ours:     "All of these are rejected, and null is an answer.",
			why:      "An answer without an interrupt is a mistake of the caller, which should see an error.",
			want:     replaced(answersInstead),
		}, {
			id: "fork", places: placesOf(forkInstead),
			upstream: "Continuing from a checkpoint by its ID always creates a fork checkpoint, even if nothing is left to run, and at the head.",
			ours:     "It creates one only if it starts a fork; otherwise the head does not change.",
			why:      "Reading an old state should not move the thread.",
			want:     replaced(forkInstead),
		}, {
			id: "edit and go on", places: placesOf(editInstead),
			upstream: "The update and the goto of a Command are written into the checkpoint at which the thread waits.",
			ours:     "They create a separate checkpoint, with the source update.",
			why:      "Checkpoints never change, and the history shows who changed what.",
			want:     replaced(editInstead),
		}, {
			id: "failed commit", places: placesOf(commitInstead),
			upstream: "If the branch after a node fails, or the writes of a step conflict, the results of its tasks are kept: the branch never runs again, and the state of a conflict cannot be read.",
			ours:     "The tasks rerun when the thread continues.",
			why:      "A step finishes when it is committed, and an unreadable thread cannot be repaired.",
			want:     replaced(commitInstead),
		}, {
			id: "edit of a failed step", places: placesOf(siblingInstead),
			upstream: "An update of a step in which a task failed drops the results of the task's siblings.",
			ours:     "The update replaces the failed tasks; finished results are kept, and their edges are followed.",
			why:      "Finished work is never lost.",
			want:     replaced(siblingInstead),
		}, {
			id: "called tasks", places: []string{"func_tasks_stream/*"},
			upstream: "The input of a task is the list of its arguments; a task with a known result is announced again; an entrypoint is triggered by __start__.",
			ours:     "The input is the value itself, only tasks that run are announced, and a workflow is triggered like any node.",
			why:      "A Go task has one input, and a result that was already shown is not news.",
			want:     func(_ place, want any) any { return goCalls(want) },
		}, {
			id: "all questions", places: placesOf(questionsInstead),
			upstream: "If several tasks of an entrypoint interrupt concurrently, only the first interrupt is shown; a plain answer is rejected because of the others.",
			ours:     "All of them are shown.",
			why:      "All can be answered together.",
			want:     replaced(questionsInstead),
		}, {
			id: "lasting child", places: []string{"nested_lasting_interrupt/8 resume"},
			upstream: "A child that keeps its state also keeps what it did in an abandoned turn.",
			ours:     "The child continues from the end of the last completed turn.",
			why:      "The child's state belongs to a checkpoint of its parent; the two never drift apart.",
			want: replaced(map[string]string{
				"nested_lasting_interrupt/8 resume": `{"output": {"text": "3 a,b,d maybe"}}`,
			}),
		}, {
			id: "hidden fields", places: []string{"nested_turns*/3 run"},
			upstream: "An update of a subgraph that writes none of the subgraph's output is shown as null.",
			ours:     "It is shown, as for the top-level graph.",
			why:      "The same graph streams the same updates wherever it runs.",
			want: func(_ place, want any) any {
				return swap([]string{`{"note":null}`, `{"note":{"n":1,"seen":["c"]}}`}, want)
			},
		}, {
			id: "edited question", places: placesOf(editedInstead),
			upstream: "An interrupt of a subgraph remains pending if the subgraph is edited while it waits; a plain answer goes to the first interrupt raised then.",
			ours:     "An edit invalidates the interrupt: it is no longer listed, and the subgraph interrupts again when the thread continues.",
			why:      "The new interrupt may differ.",
			want:     replaced(editedInstead),
		},
	}
}

var (
	forkInstead = map[string]string{
		"replay_finished/3 state": `loop/6 {"log": ["in", "a", "b", "in2", "a", "b"]}`,
		"replay_finished/4 history": `
			loop/6 {"log": ["in", "a", "b", "in2", "a", "b"]}
			loop/5 b=b {"log": ["in", "a", "b", "in2", "a"]}
			loop/4 a=a {"log": ["in", "a", "b", "in2"]}
			input/3 __start__=in2 {"log": ["in", "a", "b"]}
			loop/2 {"log": ["in", "a", "b"]}
			loop/1 b=b {"log": ["in", "a"]}
			loop/0 a=a {"log": ["in"]}
			input/-1 __start__=in {"log": []}`,
		"replay_head/2 state": `loop/2 {"log": ["in", "a", "b"]}`,
		"replay_head/3 history": `
			loop/2 {"log": ["in", "a", "b"]}
			loop/1 b=b {"log": ["in", "a"]}
			loop/0 a=a {"log": ["in"]}
			input/-1 __start__=in {"log": []}`,
	}
	editInstead = map[string]string{
		"break_goto/3 history": `
			loop/3 {"log": ["in", "a", "b", "c", "c"]}
			loop/2 c=c {"log": ["in", "a", "b", "c"]}
			update/1 b=b c=c {"log": ["in", "a"]}
			loop/1 b {"log": ["in", "a"]}
			loop/0 a=a {"log": ["in"]}
			input/-1 __start__=in {"log": []}`,
		"interrupt_resume_goto/3 history": `
			loop/4 {"log": ["in", "a", "ask:yes", "c", "b", "c"]}
			loop/3 c=c {"log": ["in", "a", "ask:yes", "c", "b"]}
			loop/2 b=b {"log": ["in", "a", "ask:yes", "c"]}
			update/1 ask=ask:yes c=c {"log": ["in", "a"]}
			loop/1 ask#1 {"log": ["in", "a"]}
			loop/0 a=a {"log": ["in"]}
			input/-1 __start__=in {"log": []}`,
		"interrupt_resume_update/3 history": `
			loop/3 {"log": ["in", "a", "edit", "ask:yes:Ann", "b"], "name": "Ann"}
			loop/2 b=b {"log": ["in", "a", "edit", "ask:yes:Ann"], "name": "Ann"}
			update/1 ask=ask:yes:Ann {"log": ["in", "a", "edit"], "name": "Ann"}
			loop/1 ask#1 {"log": ["in", "a"]}
			loop/0 a=a {"log": ["in"]}
			input/-1 __start__=in {"log": []}`,
		"interrupt_command/2 state": `update/1 ask#1 {"log": ["in", "a", "edit"]}`,
		"interrupt_command/4 state": `update/1 ask#1 b=b {"log": ["in", "a", "edit", "b"]}`,
		"interrupt_command/5 history": `
			update/1 ask#1 b=b {"log": ["in", "a", "edit"]}
			update/1 ask#1 {"log": ["in", "a", "edit"]}
			loop/1 ask#1 {"log": ["in", "a"]}
			loop/0 a=a {"log": ["in"]}
			input/-1 __start__=in {"log": []}`,
		"command_turns/4 state": `update/3 {"log": ["in", "a", "b", "b", "edit"]}`,
		"command_turns/7 history": `
			loop/4 {"log": ["in", "a", "b", "b", "edit", "edit2", "b"]}
			update/3 b=b {"log": ["in", "a", "b", "b", "edit", "edit2"]}
			update/3 {"log": ["in", "a", "b", "b", "edit"]}
			loop/3 {"log": ["in", "a", "b", "b"]}
			update/2 b=b {"log": ["in", "a", "b"]}
			loop/2 {"log": ["in", "a", "b"]}
			loop/1 b=b {"log": ["in", "a"]}
			loop/0 a=a {"log": ["in"]}
			input/-1 __start__=in {"log": []}`,
	}
	commitInstead = map[string]string{
		"fail_branch/1 state":      `loop/0 a!no_way {"log": ["in"]}`,
		"fail_branch/2 continue":   `{"entered": ["a", "b"], "output": {"log": ["in", "a", "b"]}}`,
		"fail_branch/3 state":      `loop/2 {"log": ["in", "a", "b"]}`,
		"fail_conflict/1 state":    `loop/0 p q {"n": 0}`,
		"fail_conflict/2 continue": `{"entered": ["p", "q"]}`,
		"fail_conflict/3 state":    `loop/0 p q {"n": 0}`,
	}
	siblingInstead = map[string]string{
		"fail_sibling_update/2 state":    `update/1 end {"log": ["in", "p", "by hand"]}`,
		"fail_sibling_update/3 continue": `{"entered": ["end"], "output": {"log": ["in", "p", "by hand", "end"]}}`,
		"fail_sibling_update/4 state":    `loop/2 {"log": ["in", "p", "by hand", "end"]}`,
		"fail_sibling_update/5 history": `
			loop/2 {"log": ["in", "p", "by hand", "end"]}
			update/1 end=end {"log": ["in", "p", "by hand"]}
			loop/0 p=p q!q_failed=by_hand {"log": ["in"]}
			input/-1 __start__=in {"log": []}`,
	}
	questionsInstead = map[string]string{
		"func_parallel_asks/0 run": `{"output": {"__interrupt__": [{"value": "p?", "id": "<interrupt 1>"}, {"value": "q?", "id": "<interrupt 2>"}]}}`,
		"func_parallel_asks/1 state": `{"state": {"source": "loop", "parent": true, "next": ["main"], "values": null, "tasks": [{"name": "main", "error": null, "result": null,
			"interrupts": [{"value": "p?", "id": "<interrupt 1>"}, {"value": "q?", "id": "<interrupt 2>"}]}]}}`,
	}
	editedInstead = map[string]string{
		"update_nested/3 state": `{"state": {"source": "loop", "step": 1, "parent": true, "next": ["sub"], "values": {"text": "in a"}, "tasks": [{"name": "sub", "error": null, "result": null, "interrupts": [],
			"state": {"source": "update", "step": 2, "parent": true, "next": ["ask"], "values": {"text": "edited"}, "tasks": [{"name": "ask", "error": null, "result": null, "interrupts": [], "state": null}]}}]}}`,
		"update_nested/4 resume": `{"error": "nothing to resume", "entered": []}`,
		"update_nested/5 state":  `{"state": {"source": "loop", "step": 1, "parent": true, "next": ["sub"], "values": {"text": "in a"}, "tasks": [{"name": "sub", "error": null, "result": null, "interrupts": []}]}}`,
		"update_nested_skip/2 state": `{"state": {"source": "loop", "step": 1, "parent": true, "next": ["sub"], "values": {"text": "in a"}, "tasks": [{"name": "sub", "error": null, "result": null, "interrupts": [],
			"state": {"source": "update", "step": 2, "parent": true, "next": ["d"], "values": {"text": "by hand"}, "tasks": [{"name": "d", "error": null, "result": null, "interrupts": [], "state": null}]}}]}}`,
	}
)

// goCalls shows tasks that a workflow calls as we do.
func goCalls(want any) any {
	return rewrite(want, func(v any) any {
		if list, ok := v.([]any); ok {
			return slices.DeleteFunc(list, func(e any) bool {
				m, ok := e.(map[string]any)
				if !ok || m["name"] != "add_one" || m["triggers"] == nil {
					return false
				}
				return !slices.ContainsFunc(list, func(e any) bool {
					r, ok := e.(map[string]any)
					return ok && r["name"] == "add_one" && r["result"] != nil
				})
			})
		}
		m, ok := v.(map[string]any)
		if !ok || m["triggers"] == nil {
			return v
		}
		if m["name"] == "add_one" {
			m["input"] = 1.0
		} else {
			m["triggers"] = []any{"branch:to:main"}
		}
		return m
	})
}

// answersInstead is what happens to answers that upstream drops.
var answersInstead = map[string]string{
	"interrupt_single/7 resume":      `{"error": "nothing to resume"}`,
	"interrupt_unknown_id/1 resume":  `{"error": "unknown question", "entered": []}`,
	"interrupt_null_answer/1 resume": `{"error": null, "entered": ["ask"], "output": {"log": ["in", "ask:<nil>"]}}`,
	"interrupt_null_answer/2 resume": `{"error": "nothing to resume", "entered": []}`,
	"resume_old/2 resume":            `{"error": "other", "entered": []}`,
}

// replaced gives the results of a table instead of the recorded ones: as JSON,
// of which the given fields count, or as lines that picture reads.
func replaced(instead map[string]string) func(p place, want any) any {
	return func(p place, want any) any {
		text := instead[p.String()]
		out := want.(map[string]any)
		if strings.HasPrefix(text, "{") {
			if strings.Contains(text, `"error": "`) {
				delete(out, "output")
			}
			if err := json.Unmarshal([]byte(text), &out); err != nil {
				panic(fmt.Sprintf("%s: %v", p, err))
			}
			return out
		}
		state := strings.HasSuffix(p.part, "state")
		var pictures []any
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				pictures = append(pictures, picture(line, !state))
			}
		}
		out["error"] = nil
		if state {
			out["state"] = pictures[0]
		} else {
			out["history"] = pictures
		}
		return out
	}
}

// picture reads a snapshot: its source and step, what is next with the numbers
// of open questions, with errors and with what finished tasks logged, and its
// values, as in `loop/1 ask#2 b!no_luck c=done {"log": ["in"]}`. The question of
// a node x is "x?". In a history what has finished is next too.
func picture(line string, history bool) any {
	head, values, _ := strings.Cut(line, "{")
	fields := strings.Fields(head)
	source, step, _ := strings.Cut(fields[0], "/")
	out := map[string]any{"source": source, "next": []any{}, "tasks": []any{}, "parent": source != "input" || step != "-1"}
	var n float64
	var vals any
	for text, to := range map[string]any{step: &n, "{" + values: &vals} {
		if err := json.Unmarshal([]byte(text), to); err != nil {
			panic(fmt.Sprintf("%s: %v", line, err))
		}
	}
	out["step"], out["values"] = n, vals
	for _, f := range fields[1:] {
		name, entry, done := strings.Cut(f, "=")
		name, text, failed := strings.Cut(name, "!")
		name, number, asks := strings.Cut(name, "#")
		questions := []any{}
		var failure, result any
		if done {
			result = map[string]any{"log": []any{strings.ReplaceAll(entry, "_", " ")}}
		}
		if failed {
			failure = strings.ReplaceAll(text, "_", " ")
		}
		if asks {
			questions = append(questions, map[string]any{"value": name + "?", "id": "<interrupt " + number + ">"})
		}
		if history || !done {
			out["next"] = append(out["next"].([]any), name)
		}
		out["tasks"] = append(out["tasks"].([]any), map[string]any{"name": name, "error": failure, "result": result, "interrupts": questions})
	}
	return out
}

// tasksOf returns the tasks of a snapshot, if v is one.
func tasksOf(v any) (snapshot map[string]any, tasks []map[string]any) {
	snapshot, _ = v.(map[string]any)
	list, ok := snapshot["tasks"].([]any)
	if !ok {
		return nil, nil
	}
	for _, t := range list {
		tasks = append(tasks, t.(map[string]any))
	}
	return snapshot, tasks
}

// withInput gives a workflow's input a checkpoint of its own.
func withInput(v any) any {
	if s, tasks := tasksOf(v); s != nil && s["source"] == "input" && len(tasks) > 0 {
		s["source"], s["parent"] = "loop", true
		return s
	}
	m, ok := v.(map[string]any)
	list, _ := m["history"].([]any)
	if !ok || list == nil {
		return v
	}
	var out []any
	for i, e := range list {
		out = append(out, e)
		s := e.(map[string]any)
		if len(s["next"].([]any)) == 0 || s["source"] != "loop" {
			continue
		}
		start := map[string]any{"source": "input", "step": 0.0, "next": []any{start}, "values": s["values"], "parent": i < len(list)-1,
			"tasks": []any{map[string]any{"name": start, "error": nil, "interrupts": []any{}, "result": nil}}}
		out = append(out, start)
	}
	m["history"] = out
	return m
}

// withoutResults drops the results of tasks.
func withoutResults(v any) any {
	_, tasks := tasksOf(v)
	for _, t := range tasks {
		t["result"] = nil
	}
	return v
}

// answeredAt are the recorded ids of the questions that have been answered
// when an operation is over.
var answeredAt = map[place]map[string]bool{}

// noteAnswers fills answeredAt for a script.
func noteAnswers(s *script) {
	answered, open := map[string]bool{}, []string{}
	for i, o := range s.Ops {
		var ids map[string]any
		switch {
		case o.Op != "resume" || o.failure() == "ambiguous resume":
		case json.Unmarshal(o.Args.Answer, &ids) == nil && slices.ContainsFunc(slices.Collect(maps.Keys(ids)), recordedID.MatchString):
			for id := range ids {
				answered[id] = true
			}
		default:
			for _, id := range append(open, listedIn(o.Chunks)...) {
				answered[id] = true
			}
		}
		answeredAt[s.at(i)] = maps.Clone(answered)
		if o.Output != nil || o.Chunks != nil {
			open = openIn(o.Output, o.Chunks)
		}
	}
}

// openIn returns the IDs of the interrupts in the output of a run.
func openIn(vs ...any) (ids []string) {
	for _, v := range vs {
		rewrite(v, func(v any) any {
			if m, ok := v.(map[string]any); ok {
				if id, ok := m["id"].(string); ok && recordedID.MatchString(id) {
					ids = append(ids, id)
				}
			}
			return v
		})
	}
	return ids
}

// listedIn returns the IDs of the pending interrupts of tasks in a stream of
// checkpoints.
func listedIn(chunks []any) (ids []string) {
	rewrite(chunks, func(v any) any {
		_, tasks := tasksOf(v)
		for _, t := range tasks {
			ids = append(ids, openIn(t["interrupts"])...)
		}
		return v
	})
	return ids
}

func withoutAnswered(v any, answered map[string]bool) any {
	_, tasks := tasksOf(v)
	for _, t := range tasks {
		if list, ok := t["interrupts"].([]any); ok {
			t["interrupts"] = slices.DeleteFunc(list, func(q any) bool { return answered[q.(map[string]any)["id"].(string)] })
		}
	}
	return v
}

var repr = regexp.MustCompile(`^\w+\(['"](.*)['"]\)$`)

func plainErrors(v any) any {
	_, tasks := tasksOf(v)
	for _, t := range tasks {
		if text, ok := t["error"].(string); ok {
			text = repr.ReplaceAllString(text, "$1")
			if i := strings.LastIndex(text, ": "); i >= 0 {
				text = text[i+2:]
			}
			t["error"] = text
		}
	}
	return v
}

func TestThreadDifferencesAreFew(t *testing.T) {
	if n := len(threadDifferences); n > maxDifferences {
		t.Errorf("%d differences, want at most %d", n, maxDifferences)
	}
}

// TestThreadDifferencesAreDocumented: differences-threads.md is the table.
func TestThreadDifferencesAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("| # | where | upstream | Treadle | why |\n|---|---|---|---|---|\n")
	for i, d := range threadDifferences {
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", i+1, where(d.places), d.upstream, d.ours, d.why)
	}
	const file = "differences-threads.md"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Errorf("%s is stale: run go test ./parity -run TestThreadDifferencesAreDocumented -update", file)
	}
}
