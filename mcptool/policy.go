package mcptool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// Permission is what a policy grants a tool; see [Server].Policy.
type Permission int

// Permissions for the calls of a tool.
const (
	// Ask a person. The run stops with an [agent.Review] of the call, as with [agent.Gates], and
	// continues with the [agent.Decisions]. The call cannot be edited. The answer counts only
	// for the definition of the tool that was asked about: if the server has changed it in the
	// meantime, the person is asked again.
	Ask Permission = iota
	// Allow the call, unless the server has changed the tool's definition since
	// [Servers.Tools] listed it, or since it was pinned; see [Server].Pins. A call of a changed tool asks
	// a person.
	Allow
	// Deny the call: the model gets an error. Tools leaves out tools that are denied.
	Deny
)

// ByAnnotations is a policy for servers that state the truth about their tools. It allows
// tools that only read and only in a closed world, such as the server's own database, and asks
// about all others. A tool that reads in an open world, such as the web, can send what the model
// knows to anyone.
func ByAnnotations(t *mcp.Tool) Permission {
	if a := t.Annotations; a != nil && a.ReadOnlyHint && a.OpenWorldHint != nil && !*a.OpenWorldHint {
		return Allow
	}
	return Ask
}

// grant is a permission for a definition of a tool, as recorded in a run.
type grant struct {
	Permission Permission `json:"permission"`
	Definition string     `json:"definition"` // its fingerprint
}

// permit returns nil if a call may be sent, and otherwise the call's result. Tool is the server's
// name of the tool, and listed is the fingerprint of its definition when it was listed.
func (s *session) permit(ctx context.Context, tool, listed string, call llm.ToolCall) (*llm.Message, error) {
	if s.Policy == nil {
		return nil, nil
	}
	if made, ok := llm.CallFrom(ctx); ok {
		call.ID = made.ID
	}
	all, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(t *mcp.Tool) bool { return t != nil && t.Name == tool })
	if i < 0 {
		return nil, s.errorf("tool %s no longer exists", shorten(plain(tool), 100))
	}
	if listed, err = s.pinned(ctx, call.Name, listed); err != nil {
		return nil, err
	}
	now := grant{s.Policy(all[i]), fingerprint(all[i])}
	changed := now.Definition != listed
	if changed && now.Permission == Allow {
		now.Permission = Ask
	}
	for {
		// The run repeats the grants that it made before it stopped for an interrupt. The last one
		// counts if it is for the current definition.
		made := now
		if treadle.InfoFrom(ctx).Thread != "" {
			made, err = treadle.Do(ctx, "mcp policy "+call.Name, func(context.Context) (grant, error) { return now, nil })
			if err != nil {
				return nil, err
			}
		}
		if made.Permission == Ask {
			d, err := agent.Decide(ctx, s.gate(all[i], changed, call), call)
			if err != nil {
				return nil, err
			}
			if m, refused := d.Result(call); refused {
				return &m, nil
			}
		}
		switch {
		case made.Definition != now.Definition:
			changed = true
		case made.Permission == Ask:
			return nil, s.pin(ctx, call.Name, now.Definition)
		case made.Permission == Allow:
			return nil, nil
		case made.Permission == Deny:
			m := llm.ToolResult(call, llm.Message{Status: llm.StatusError, Content: fmt.Sprintf(
				"Error: the tool %s of the MCP server %q is not permitted. The call was not made.", call.Name, s.Name)})
			return &m, nil
		default:
			return nil, s.errorf("invalid permission %d from Policy for tool %s: want Ask, Allow, or Deny", made.Permission, call.Name)
		}
	}
}

// pinNamespace returns the namespace of a server's pins.
func (s *session) pinNamespace() store.Namespace { return store.Namespace{"mcp_tools", s.Name} }

// pinned returns the fingerprint of the pinned definition of a tool, which has the given name for models. If
// there is none, it pins the listed definition.
func (s *session) pinned(ctx context.Context, tool, listed string) (string, error) {
	if s.Pins == nil {
		return listed, nil
	}
	item, err := s.Pins.Get(ctx, s.pinNamespace(), tool, nil)
	if errors.Is(err, store.ErrNotFound) {
		return listed, s.pin(ctx, tool, listed)
	}
	var p pin
	if err == nil {
		err = json.Unmarshal(item.Value, &p)
	}
	if err != nil {
		return "", s.errorf("read pin of tool %s: %w", tool, err)
	}
	return p.Definition, nil
}

// pin pins the definition of a tool.
func (s *session) pin(ctx context.Context, tool, definition string) error {
	if s.Pins == nil {
		return nil
	}
	if err := s.Pins.Put(ctx, s.pinNamespace(), tool, pin{definition}, &store.PutOptions{NoIndex: true, TTL: store.Forever}); err != nil {
		return s.errorf("pin tool %s: %w", tool, err)
	}
	return nil
}

// pin is the value of an item in [Server].Pins.
type pin struct {
	Definition string `json:"definition"` // fingerprint
}

// gate describes a call to the person who decides.
func (s *session) gate(t *mcp.Tool, changed bool, call llm.ToolCall) agent.Gate {
	text := fmt.Sprintf("Tool execution requires approval\n\nServer: %s\nTool: %s\nArgs: %s", s.Name, call.Name, call.Args)
	if changed {
		text += "\n\nThe server has changed the definition of this tool. Its description is now:\n" + shorten(s.show(plain(t.Description)), 4000)
	}
	return agent.Gate{Tool: call.Name, Allow: []agent.DecisionType{agent.Approve, agent.Reject, agent.Respond}, Description: text}
}

// fingerprint identifies what a model and a person know about a tool.
func fingerprint(t *mcp.Tool) string {
	raw, err := json.Marshal([]any{t.Name, t.Title, t.Description, t.InputSchema, t.OutputSchema, t.Annotations})
	if err != nil { // all of it came as JSON
		return err.Error()
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
