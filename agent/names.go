package agent

import (
	"context"
	"regexp"
	"slices"

	"github.com/treadle-go/treadle/llm"
)

// InlineNames writes agent names into the text of their messages, for providers
// that do not send names to the model. The message "hi" of the agent alice becomes
//
//	<name>alice</name><content>hi</content>
//
// If the model responds in this form, only the content is kept. Streamed tokens are
// not changed.
func InlineNames() *Middleware {
	return &Middleware{
		Name: "inline_names",
		WrapModel: func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
			call.Messages = slices.Clone(call.Messages)
			for i, m := range call.Messages {
				call.Messages[i] = nameInline(m)
			}
			answer, err := next(ctx, call)
			return unnameInline(answer), err
		},
	}
}

// nameInline puts the name of an AI message into its first text.
func nameInline(m llm.Message) llm.Message {
	if m.Role != llm.RoleAI || m.Name == "" {
		return m
	}
	named := func(text string) string { return "<name>" + m.Name + "</name><content>" + text + "</content>" }
	i := slices.IndexFunc(m.Blocks, func(b llm.Block) bool { return b.Type == llm.BlockText })
	if m.Content != "" || i < 0 {
		m.Content = named(m.Content)
		return m
	}
	m.Blocks = slices.Clone(m.Blocks)
	m.Blocks[i].Text = named(m.Blocks[i].Text)
	return m
}

var inlineName = regexp.MustCompile(`(?s)<name>.*?</name>\s*<content>(.*?)</content>`)

// unnameInline removes the markup added by nameInline. A text block left without
// content is dropped.
func unnameInline(m llm.Message) llm.Message {
	if m.Role != llm.RoleAI {
		return m
	}
	m.Content = inlineName.ReplaceAllString(m.Content, "$1")
	var kept []llm.Block
	for _, b := range m.Blocks {
		if text := inlineName.ReplaceAllString(b.Text, "$1"); b.Type == llm.BlockText && text != b.Text {
			b.Text = text
			if text == "" {
				continue
			}
		}
		kept = append(kept, b)
	}
	m.Blocks = kept
	return m
}
