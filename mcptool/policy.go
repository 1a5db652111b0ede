package mcptool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
)

// A Verdict decides about a call of a tool; see [Server].Policy.
type Verdict int

// Verdicts of a policy.
const (
	// Ask a person. The run stops with an [agent.Review] of the call, as with [agent.Gates], and
	// continues with the [agent.Decisions]. The call cannot be edited. The answer counts only
	// for the definition of the tool that was asked about: if the server has changed it in the
	// meantime, the person is asked again.
	Ask Verdict = iota
	// Allow the call, unless the server has changed the tool's definition since
	// [Servers.Tools] listed it. A call of a changed tool asks a person.
	Allow
	// Deny the call: the model gets an error. Tools leaves out tools that are denied.
	Deny
)

// ByAnnotations is a policy for servers that state the truth about their tools. It allows
// tools that only read and only in a closed world, such as the server's own database, and asks
// about all others. A tool that reads in an open world, such as the web, can send what the model
// knows to anyone.
func ByAnnotations(t *mcp.Tool) Verdict {
	if a := t.Annotations; a != nil && a.ReadOnlyHint && a.OpenWorldHint != nil && !*a.OpenWorldHint {
		return Allow
	}
	return Ask
}

// judgment is a verdict about a definition of a tool, as recorded in a run.
type judgment struct {
	Verdict    Verdict `json:"verdict"`
	Definition string  `json:"definition"` // its fingerprint
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
	now := judgment{s.Policy(all[i]), fingerprint(all[i])}
	changed := now.Definition != listed
	if changed && now.Verdict == Allow {
		now.Verdict = Ask
	}
	for {
		// The run repeats the judgments that it made before it stopped for a question. The last one
		// counts if it is about the current definition.
		made := now
		if treadle.InfoFrom(ctx).Thread != "" {
			made, err = treadle.Do(ctx, "mcp policy "+call.Name, func(context.Context) (judgment, error) { return now, nil })
			if err != nil {
				return nil, err
			}
		}
		if made.Verdict == Ask {
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
		case made.Verdict == Ask, made.Verdict == Allow:
			return nil, nil
		case made.Verdict == Deny:
			m := llm.ToolResult(call, llm.Message{Status: llm.StatusError, Content: fmt.Sprintf(
				"Error: the tool %s of the MCP server %q is not permitted. The call was not made.", call.Name, s.Name)})
			return &m, nil
		default:
			return nil, s.errorf("unknown verdict %d of Policy about tool %s: want Ask, Allow, or Deny", made.Verdict, call.Name)
		}
	}
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
