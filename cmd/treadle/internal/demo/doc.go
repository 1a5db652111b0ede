// Package demo is the application behind the commands demo, jokes and draw: an
// assistant with tools and memory, and two graphs to watch and to draw.
//
// It hides how the assistant is put together: the SQLite file, the tools
// (calculator, notes, memories), the middleware that recalls and extracts
// memories, and the models, among them the offline one that answers by rules.
// The commands see an [Assistant] with threads, a [Question] that a tool asks and
// its [Answer], and graphs by name. The package prints nothing and reads nothing
// from a terminal; that is the commands' part.
package demo
