package parity_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
)

// flow returns the graph of a script that is a workflow.
func flow[In, Out any](name string, body func(tr *trace) func(context.Context, In) (Out, error)) scriptedGraph {
	return func(tr *trace, o *treadle.Options) (played, error) {
		return flowing(treadle.NewWorkflow(name, body(tr), o))
	}
}

// traced returns a task that notes when it runs.
func traced[In, Out any](tr *trace, name string, fn func(context.Context, In) (Out, error), opts ...treadle.NodeOption) *treadle.Task[In, Out] {
	return treadle.NewTask(name, func(ctx context.Context, in In) (Out, error) {
		tr.enter(name)
		return fn(ctx, in)
	}, opts...)
}

// always returns a task without an input.
func always[Out any](tr *trace, name string, out Out) *treadle.Task[nothing, Out] {
	return traced(tr, name, func(context.Context, nothing) (Out, error) { return out, nil })
}

// failsOnce returns a task that fails the first time.
func failsOnce(tr *trace, name string, opts ...treadle.NodeOption) *treadle.Task[nothing, string] {
	tries := 0
	return traced(tr, name, func(context.Context, nothing) (string, error) {
		if tries++; tries < 2 {
			return "", &raised{text: "Failure", temporary: true}
		}
		return "OK", nil
	}, opts...)
}

// addsPrevious returns a workflow of a number that adds the last result.
func addsPrevious(tr *trace) func(context.Context, int) (int, error) {
	return func(ctx context.Context, n int) (int, error) {
		tr.enter("workflow")
		last, _ := treadle.PreviousFrom[int](ctx)
		return n + last, nil
	}
}

// plusOneThenAsk returns a workflow that calls add_one and asks.
func plusOneThenAsk(tr *trace, note bool) func(context.Context, int) (string, error) {
	addOne := treadle.NewTask("add_one", func(_ context.Context, n int) (int, error) {
		if note {
			tr.enter("add_one")
		}
		return n + 1, nil
	})
	return func(ctx context.Context, n int) (string, error) {
		if note {
			tr.enter("main")
		}
		got, err := addOne.Run(ctx, n)
		if err != nil {
			return "", err
		}
		answer, err := ask(ctx, "ok?")
		return fmt.Sprintf("%d %v", got, answer), err
	}
}

var functionalScripts = map[string]scriptedGraph{
	"func_essay": func(tr *trace, o *treadle.Options) (played, error) {
		write := traced(tr, "write_essay", func(_ context.Context, topic string) (string, error) { return "An essay about topic: " + topic, nil })
		type reviewed struct {
			Essay    string `json:"essay"`
			Approved bool   `json:"is_approved"`
		}
		return flowing(treadle.NewWorkflow("workflow", func(ctx context.Context, topic string) (reviewed, error) {
			tr.enter("workflow")
			essay, err := write.Run(ctx, topic)
			if err != nil {
				return reviewed{}, err
			}
			ok, err := treadle.Interrupt[bool](ctx, map[string]string{"essay": essay, "action": "Please approve/reject the essay"})
			return reviewed{essay, ok}, err
		}, o))
	},
	"func_plain": func(tr *trace, o *treadle.Options) (played, error) {
		type inputs struct {
			Value   int `json:"value"`
			Another int `json:"another_value"`
		}
		return flowing(treadle.NewWorkflow("workflow", func(_ context.Context, in inputs) (int, error) {
			tr.enter("workflow")
			return in.Value + in.Another, nil
		}, o))
	},
	"func_previous": flow("workflow", addsPrevious),
	"func_final": func(tr *trace, o *treadle.Options) (played, error) {
		return flowing(treadle.NewFinalWorkflow("workflow", func(ctx context.Context, n int) (treadle.Final[int, int], error) {
			tr.enter("workflow")
			last, _ := treadle.PreviousFrom[int](ctx)
			return treadle.Final[int, int]{Value: last, Save: 2 * n}, nil
		}, o))
	},
	"func_update": flow("workflow", addsPrevious),
	"func_parallel": flow("workflow", func(tr *trace) func(context.Context, []int) ([]int, error) {
		addOne := treadle.NewTask("add_one", func(_ context.Context, n int) (int, error) {
			tr.enter(fmt.Sprintf("add_one %d", n))
			return n + 1, nil
		})
		return func(ctx context.Context, numbers []int) (out []int, err error) {
			tr.enter("workflow")
			var futures []*treadle.Future[int]
			for _, n := range numbers {
				futures = append(futures, addOne.Go(ctx, n))
			}
			for _, f := range futures {
				n, err := f.Wait()
				if err != nil {
					return nil, err
				}
				out = append(out, n)
			}
			return out, nil
		}
	}),
	"func_fails": flow("main", func(tr *trace) func(context.Context, map[string]string) (string, error) {
		slow, info := always(tr, "slow", "Ran slow task."), failsOnce(tr, "info")
		return func(ctx context.Context, _ map[string]string) (string, error) {
			tr.enter("main")
			first, err := slow.Run(ctx, nothing{})
			if err != nil {
				return "", err
			}
			_, err = info.Run(ctx, nothing{})
			return first, err
		}
	}),
	"func_caught": flow("main", func(tr *trace) func(context.Context, string) (string, error) {
		bad := traced(tr, "bad", func(context.Context, nothing) (string, error) { return "", &raised{text: "no"} })
		return func(ctx context.Context, _ string) (string, error) {
			tr.enter("main")
			_, err := bad.Run(ctx, nothing{})
			text, _ := strings.CutPrefix(fmt.Sprint(failureOf(err)), "node: ")
			return "caught: " + text, nil
		}
	}),
	"func_retry": flow("main", func(tr *trace) func(context.Context, string) (string, error) {
		info := failsOnce(tr, "info", treadle.Retry(treadle.RetryPolicy{Initial: time.Millisecond, NoJitter: true}))
		return func(ctx context.Context, _ string) (string, error) {
			tr.enter("main")
			return info.Run(ctx, nothing{})
		}
	}),
	"func_cache": flow("main", func(tr *trace) func(context.Context, int) (int, error) {
		double := treadle.NewTask("double", func(_ context.Context, n int) (int, error) {
			tr.enter(fmt.Sprintf("double %d", n))
			return 2 * n, nil
		}, treadle.Cache(0))
		return func(ctx context.Context, n int) (int, error) {
			tr.enter("main")
			got, err := double.Run(ctx, n)
			return got + 1, err
		}
	}),
	"func_nested_tasks": flow("main", func(tr *trace) func(context.Context, int) (string, error) {
		inner := traced(tr, "inner", func(_ context.Context, n int) (int, error) { return n + 1, nil })
		outer := traced(tr, "outer", func(ctx context.Context, n int) (int, error) {
			got, err := inner.Run(ctx, n)
			return got * 10, err
		})
		return func(ctx context.Context, n int) (string, error) {
			tr.enter("main")
			got, err := outer.Run(ctx, n)
			if err != nil {
				return "", err
			}
			answer, err := ask(ctx, "ok?")
			return fmt.Sprintf("%d %v", got, answer), err
		}
	}),
	"func_task_asks": flow("main", func(tr *trace) func(context.Context, string) ([]string, error) {
		before := always(tr, "before", "before")
		asks := traced(tr, "ask", func(ctx context.Context, _ nothing) (string, error) {
			answer, err := ask(ctx, "ask?")
			return fmt.Sprintf("ask:%v", answer), err
		})
		return func(ctx context.Context, _ string) (out []string, err error) {
			tr.enter("main")
			for _, t := range []*treadle.Task[nothing, string]{before, asks} {
				got, err := t.Run(ctx, nothing{})
				if err != nil {
					return nil, err
				}
				out = append(out, got)
			}
			return out, nil
		}
	}),
	"func_two_questions": flow("main", func(tr *trace) func(context.Context, string) ([]any, error) {
		step := treadle.NewTask("step", func(_ context.Context, name string) (string, error) {
			tr.enter("step " + name)
			return name, nil
		})
		return func(ctx context.Context, _ string) (out []any, err error) {
			tr.enter("main")
			for _, part := range [][2]string{{"a", "first?"}, {"b", "second?"}} {
				got, err := step.Run(ctx, part[0])
				if err != nil {
					return nil, err
				}
				answer, err := ask(ctx, part[1])
				if err != nil {
					return nil, err
				}
				out = append(out, got, answer)
			}
			return out, nil
		}
	}),
	"func_parallel_asks": flow("main", func(tr *trace) func(context.Context, string) ([]string, error) {
		asks := treadle.NewTask("ask", func(ctx context.Context, name string) (string, error) {
			tr.enter("ask " + name)
			answer, err := ask(ctx, name+"?")
			return fmt.Sprintf("%s:%v", name, answer), err
		})
		return func(ctx context.Context, _ string) ([]string, error) {
			tr.enter("main")
			p, q := asks.Go(ctx, "p"), asks.Go(ctx, "q")
			first, err := p.Wait()
			if err != nil {
				return nil, err
			}
			second, err := q.Wait()
			return []string{first, second}, err
		}
	}),
	"func_calls_graph": flow("main", func(tr *trace) func(context.Context, string) (string, error) {
		g := nest(cAsk(tr)...)
		return func(ctx context.Context, text string) (string, error) {
			tr.enter("main")
			out, err := g.Run(ctx, textState{text})
			return out.Text + " done", err
		}
	}),
	"func_calls_two_graphs": func(tr *trace, o *treadle.Options) (played, error) {
		one, two := nest(tr.texts("c")), nest(tr.texts("d"))
		type results struct {
			First  string `json:"result_1"`
			Second string `json:"result_2"`
		}
		return flowing(treadle.NewWorkflow("main", func(ctx context.Context, text string) (results, error) {
			tr.enter("main")
			first, err := one.Run(ctx, textState{text})
			if err != nil {
				return results{}, err
			}
			second, err := two.Run(ctx, textState{text})
			return results{first.Text, second.Text}, err
		}, o))
	},
	"func_calls_workflow": func(tr *trace, o *treadle.Options) (played, error) {
		type inputs struct {
			Value int `json:"value"`
		}
		inner := treadle.Must(treadle.NewWorkflow("inner", func(ctx context.Context, in inputs) (string, error) {
			tr.enter("inner")
			answer, err := ask(ctx, "ok?")
			return fmt.Sprintf("%d %v", in.Value, answer), err
		}, nil))
		return flowing(treadle.NewWorkflow("main", func(ctx context.Context, in inputs) (string, error) {
			tr.enter("main")
			got, err := inner.Run(ctx, in)
			return "[" + got + "]", err
		}, o))
	},
	"func_stream": func(_ *trace, o *treadle.Options) (played, error) {
		type inputs struct {
			Number int `json:"number"`
		}
		add := func(name string, k int) *treadle.Task[int, int] {
			return treadle.NewTask(name, func(_ context.Context, n int) (int, error) { return n + k, nil })
		}
		one, two := add("add_one", 1), add("add_two", 2)
		return flowing(treadle.NewWorkflow("main", func(ctx context.Context, in inputs) (int, error) {
			treadle.Emit(ctx, "hello")
			if _, err := one.Run(ctx, in.Number); err != nil {
				return 0, err
			}
			treadle.Emit(ctx, "world")
			_, err := two.Run(ctx, in.Number)
			return 5, err
		}, o))
	},
	"func_tasks_stream": flow("main", func(tr *trace) func(context.Context, int) (string, error) { return plusOneThenAsk(tr, false) }),
	"func_body_effect": flow("main", func(tr *trace) func(context.Context, string) (any, error) {
		return func(ctx context.Context, _ string) (any, error) {
			tr.enter("effect in the body")
			_, err := treadle.Do(ctx, "effect", func(context.Context) (nothing, error) {
				tr.enter("effect in a task")
				return nothing{}, nil
			})
			if err != nil {
				return nil, err
			}
			return ask(ctx, "question")
		}
	}),
	"func_random": flow("main", func(tr *trace) func(context.Context, string) (string, error) {
		source := func() func() int {
			n := 3
			return func() int { n += 2; return n }
		}
		ours, theirs := source(), source()
		draw := traced(tr, "draw", func(context.Context, nothing) (int, error) { return ours(), nil })
		return func(ctx context.Context, _ string) (string, error) {
			tr.enter("main")
			safe, err := draw.Run(ctx, nothing{})
			if err != nil {
				return "", err
			}
			unsafe := theirs()
			answer, err := ask(ctx, "question")
			return fmt.Sprintf("%d %d %v", safe, unsafe, answer), err
		}
	}),
	"func_replay":       flow("workflow", addsPrevious),
	"func_replay_tasks": flow("main", func(tr *trace) func(context.Context, int) (string, error) { return plusOneThenAsk(tr, true) }),
	"task_in_node": line(func(tr *trace) []step[logState] {
		slow := always(tr, "slow", "slow")
		return []step[logState]{stepOf("work", func(ctx context.Context, _ logState) (entries, error) {
			tr.enter("work")
			got, err := slow.Run(ctx, nothing{})
			if err != nil {
				return entries{}, err
			}
			answer, err := ask(ctx, "ok?")
			return logged(fmt.Sprintf("%s:%v", got, answer)), err
		})}
	}),
	"func_loop": flow("main", func(tr *trace) func(context.Context, string) ([]string, error) {
		shout := treadle.NewTask("shout", func(_ context.Context, word string) (string, error) {
			tr.enter("shout " + word)
			return strings.ToUpper(word), nil
		})
		return func(ctx context.Context, _ string) (out []string, err error) {
			tr.enter("main")
			for {
				word, err := treadle.Interrupt[string](ctx, "word?")
				if err != nil || word == "stop" {
					return out, err
				}
				loud, err := shout.Run(ctx, word)
				if err != nil {
					return nil, err
				}
				out = append(out, loud)
			}
		}
	}),
	"func_new_input": flow("main", func(tr *trace) func(context.Context, string) (string, error) {
		note := treadle.NewTask("note", func(_ context.Context, word string) (string, error) {
			tr.enter("note " + word)
			return word, nil
		})
		return func(ctx context.Context, word string) (string, error) {
			tr.enter("main")
			got, err := note.Run(ctx, word)
			if err != nil {
				return "", err
			}
			answer, err := ask(ctx, "ok?")
			return fmt.Sprintf("%s %v", got, answer), err
		}
	}),
}
