package anthropic

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// setMessages adds the conversation to the body.
func (m *Model) setMessages(body *sdk.MessageNewParams, req *llm.Request) error {
	inputs := facts(body.Model).Inputs
	moved := adapter.MoveMedia(req.Messages, inputs == nil || slices.Contains(inputs, llm.BlockImage), nil, func(b llm.Block) bool {
		_, err := blockParam(b)
		return err == nil
	})
	m.warn.Media(moved)
	var h history
	for n := range moved.Messages {
		i, msg := moved.At(n), &moved.Messages[n]
		if from, own := author(msg); !own {
			if slices.ContainsFunc(msg.Parts(), isThought) {
				m.warn.ForeignReasoning(from)
			}
			if msg.Role == llm.RoleAI && len(msg.ToolCalls) == 0 && !slices.ContainsFunc(msg.Parts(), isWritten) {
				continue // nothing in it concerns Claude, such as reasoning alone
			}
		}
		if msg.Role == llm.RoleAI {
			if err := h.endTurn(); err != nil {
				return err
			}
		}
		if err := h.add(i, msg); err != nil {
			return &llm.HistoryError{Index: i, ID: msg.ID, Reason: err.Error()}
		}
	}
	if err := h.endTurn(); err != nil {
		return err
	}
	if len(h.messages) == 0 {
		return errors.New("only system messages: add a user message")
	}
	body.System, body.Messages = h.system, h.messages
	return nil
}

// history converts a conversation. The API has turns:
//
//	the system prompt, (the user's turn, an answer) …, the user's turn
//
// The user's turn consists of all user and tool messages between two AI messages,
// and may end with one system message.
type history struct {
	system   []sdk.TextBlockParam
	messages []sdk.MessageParam

	// The turn not yet in messages, the texts of its system messages, and the
	// position of the first of these.
	user   []sdk.ContentBlockParamUnion
	orders []sdk.ContentBlockParamUnion
	from   llm.HistoryError
}

func (h *history) add(i int, m *llm.Message) error {
	switch m.Role {
	case llm.RoleSystem:
		return h.addSystem(i, m)
	case llm.RoleAI:
		content, err := answerContent(m)
		if err == nil && len(content) == 0 {
			err = errors.New("no content that Anthropic accepts")
		}
		h.messages = append(h.messages, sdk.NewAssistantMessage(content...))
		return err
	case llm.RoleHuman:
		content, err := contentOf(m.Parts())
		if err == nil && len(content) == 0 {
			err = errors.New("empty message: Anthropic requires content")
		}
		h.user = append(h.user, content...)
		return err
	case llm.RoleTool:
		result, err := resultOf(m)
		h.user = append(h.user, result)
		return err
	}
	return fmt.Errorf("unknown role %q", m.Role)
}

func (h *history) addSystem(i int, m *llm.Message) error {
	leads := len(h.messages) == 0 && len(h.user) == 0
	for _, b := range m.Parts() {
		if b.Type != llm.BlockText {
			return fmt.Errorf("system message contains a block of type %q: only text is supported", b.Type)
		}
		if blank(b.Text) {
			continue
		}
		text := textParam(b)
		if leads {
			h.system = append(h.system, text)
			continue
		}
		if len(h.orders) == 0 {
			h.from = llm.HistoryError{Index: i, ID: m.ID}
		}
		h.orders = append(h.orders, sdk.ContentBlockParamUnion{OfText: &text})
	}
	return nil
}

// endTurn appends the user's turn to the conversation.
func (h *history) endTurn() error {
	if len(h.user) > 0 {
		h.messages = append(h.messages, sdk.NewUserMessage(h.user...))
	}
	if len(h.orders) > 0 {
		if len(h.user) == 0 {
			h.from.Reason = "system message not next to a user message or a tool result: move it to the start, or make it a user message"
			return &h.from
		}
		h.messages = append(h.messages, sdk.MessageParam{Role: sdk.MessageParamRoleSystem, Content: h.orders})
	}
	h.user, h.orders = nil, nil
	return nil
}

// blank reports whether a text consists of spaces only, which the API rejects.
func blank(text string) bool { return strings.TrimSpace(text) == "" }
