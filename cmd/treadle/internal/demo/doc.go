// Package demo implements the application behind the commands demo, jokes, and draw: an
// assistant with tools and memory, and two graphs to watch and draw.
//
// It hides how the assistant is built: the SQLite file, the tools (calculator, notes,
// memories), the middleware that recalls and extracts memories, and the models, including the
// rule-based offline model. The commands see an [Assistant] with threads, a [Question] from a
// tool and its [Answer], and graphs by name. The package does not use the terminal; the
// commands do.
package demo
