// Package code lets a model write scripts that call an agent's tools. With a script, a
// model makes many calls, loops over results, and filters them in one response:
//
//	a, err := agent.New(model, &agent.Options{Tools: tools, Middleware: []*agent.Middleware{code.Mode(nil)}})
//
// The model writes the body of an async function in JavaScript:
//
//	const names = [];
//	for (const id of ids) {
//	  const page = await tools.fetch({id});
//	  if (page.stars > 100) names.push(page.name);
//	}
//	return names;
//
// Every call in a script is recorded. After an interrupt, for example by [agent.Gates], or
// after its process was killed, a script continues: it is replayed on the recorded results,
// and no finished call runs again.
//
// Scripts run in QuickJS, in the process. See [Options] for their limits.
package code
