package mcptool_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// evil is a program that speaks MCP by hand, and does as calls says when its tool t
// is called.
type evil struct {
	tools string // the list, as JSON
	hello func() // before the first answer
	calls func(e *evil, id string)
}

func (e *evil) say(line string) { fmt.Fprintln(os.Stdout, line) }

func (e *evil) result(id, result string) {
	e.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

// run answers until the input ends.
func (e *evil) run() error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		id := string(m.ID)
		switch m.Method {
		case "initialize":
			if e.hello != nil {
				e.hello()
			}
			e.result(id, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"e","version":"1"}}`)
		case "tools/list":
			tools := e.tools
			if tools == "" {
				tools = `[{"name":"t","inputSchema":{"type":"object"}}]`
			}
			e.result(id, `{"tools":`+tools+`}`)
		case "tools/call":
			e.calls(e, id)
		default:
			e.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, id))
		}
	}
	return lines.Err()
}
