package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// conversation prints a list of messages, each with its speaker. It returns false if the value
// is not a list of messages.
func (in *inspector) conversation(name string, raw json.RawMessage) bool {
	var shapes []struct {
		Type *string
	}
	var messages llm.Messages
	if json.Unmarshal(raw, &shapes) != nil || len(shapes) == 0 || json.Unmarshal(raw, &messages) != nil {
		return false
	}
	for _, s := range shapes {
		if s.Type == nil { // a list of something else that also decodes as messages
			return false
		}
	}
	fmt.Fprintln(in.out, plain(name)+":")
	for i := range messages {
		in.message(&messages[i])
	}
	return true
}

// speakers maps roles to names.
var speakers = map[llm.Role]string{llm.RoleHuman: "user", llm.RoleAI: "assistant", llm.RoleSystem: "system", llm.RoleTool: "tool"}

const speakerColumn = 13

func (in *inspector) message(m *llm.Message) {
	who := cmp.Or(m.Name, speakers[m.Role], string(m.Role))
	text := m.Text()
	for _, call := range m.ToolCalls {
		var args bytes.Buffer
		_ = json.Compact(&args, call.Args) // arguments that are not JSON are omitted
		text = strings.TrimLeft(text+"\n→ "+call.Name+" "+args.String(), "\n")
	}
	if m.Status == llm.StatusError {
		who += " ✗"
	}
	columns := in.term.columns(80)
	column := in.term.paint(bold, head(plain(who), speakerColumn)) + strings.Repeat(" ", max(0, speakerColumn-width(plain(who))))
	for line := range strings.Lines(cmp.Or(text, "-")) {
		for _, part := range wrap(plain(strings.TrimRight(line, "\n")), max(20, columns-speakerColumn-4)) {
			fmt.Fprintf(in.out, "  %s  %s\n", column, part)
			column = strings.Repeat(" ", speakerColumn)
		}
	}
}
