package crashtest

import (
	"context"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// codeScript does the work of the deep agent in one script: it reads files at the same time,
// and changes them with approvals.
const codeScript = `
const found = await tools.glob({path: "/in", pattern: "*.txt"});
const names = [...found.matchAll(/in\/(\w+)\.txt/g)].map(m => m[1]).sort();
const seed = Math.random(), now = Date.now();
const reports = await Promise.all(names.map(async name => {
  const read = await tools.read_file({file_path: "/in/" + name + ".txt"});
  const text = read.slice(read.indexOf("@@\n") + 3).trim();
  const file_path = "/out/" + name + ".md";
  await tools.write_file({file_path, content: "draft: " + text + "\n"});
  await tools.edit_file({file_path, old_string: "draft", new_string: "final"});
  return text;
}));
await Promise.all([
  tools.write_file({file_path: "/report.md", content: reports.join(", ")}),
  tools.edit_file({file_path: "/list.txt", old_string: "todo", new_string: "done todo"}),
]);
if (seed < 2 && now > 0) await tools.delete({file_path: "/tmp"});
return "done";
`

const codeTools = 2 * (1 + 10) // before and after run_code and its calls

var codeModel = llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
	if r.Messages[len(r.Messages)-1].Role == llm.RoleTool {
		return llm.Assistant("done"), nil
	}
	return llm.Assistant("", call("s", "run_code", map[string]any{"code": codeScript})), nil
})

// A process is killed before or after each call of a script, and the next one finishes it.
func TestScriptKilledAtToolCalls(t *testing.T) { killAtToolCalls(t, roleCode, codeTools) }

func TestScriptKilledAtRandom(t *testing.T) { killAtRandom(t, roleCode, 60) }
