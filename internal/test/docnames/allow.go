package docnames

// foreignColumns are the headers of table columns for names of other software.
var foreignColumns = map[string]bool{
	"LangGraph": true, "LangChain": true, "LangMem": true, "LangSmith": true, "upstream": true, "where": true,
	"deepagents": true, "supervisor, swarm": true, "langchain-mcp-adapters": true, "Python SDK, RemoteGraph": true,
	"LangGraph's test": true, "upstream's tests": true,
	"docs/decisions.md: expected":      true, // plans that were not carried out
	"docs/parity/differences.md: what": true, // parts of LangGraph that Treadle lacks or does differently
}

// guides maps the pages that build a program step by step to the folder with that program.
// Their paths and commands are relative to it.
var guides = map[string]string{
	"docs/first-agent.md":     "examples/guides/firstagent",
	"docs/deep-agents.md":     "examples/guides/deepagents",
	"docs/graphs.md":          "examples/guides/graphs",
	"docs/testing-agents.md":  "examples/guides/testagent",
	"docs/users.md":           "examples/guides/users",
	"docs/changing-graphs.md": "examples/guides/changing",
	"docs/memory.md":          "examples/guides/memory",
	"docs/retrieval.md":       "examples/guides/retrieval",
	"docs/sagas.md":           "examples/guides/sagas",
	"docs/deploying.md":       "examples/guides/deploying",
}

// goFlags are flags of the go command.
var goFlags = map[string]bool{"run": true, "race": true, "count": true, "bench": true, "benchtime": true, "v": true}

// allowed lists names of other software that pages use in the middle of our names, each with
// the reason.
var allowed = map[string]string{
	"-shm":                                   "a suffix of SQLite's files",
	"-wal":                                   "a suffix of SQLite's files",
	"/agents":                                "an example of a path prefix, which users choose",
	"/memories":                              "an example of a directory in an agent's files",
	"/private/diary.txt":                     "a file in a guide",
	"papers/report.md":                       "a file that a program in a guide writes",
	"Dockerfile":                             "a file of users",
	"database/sql":                           "a package of Go's standard library",
	"testdata/v1.db":                         "a file that a program in a guide writes",
	"Connection":                             "an HTTP header",
	"CopilotChat":                            "a component of CopilotKit",
	"HttpAgent":                              "a class of AG-UI's client",
	"LoadExternalComponent":                  "a component of LangGraph's JavaScript SDK",
	"MessagesState":                          "a state of LangGraph",
	"RequestExtra.TokenInfo":                 "a field of MCP's Go SDK",
	"ErrX":                                   "a placeholder for names of errors",
	"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "a variable of OpenTelemetry's SDK",
	"WithBatcher":                            "an option of OpenTelemetry's SDK",
	"agent/getAuthenticatedExtendedCard":     "a method of the A2A protocol",
	"locomo10.json":                          "a data set that its license keeps out of the repository",
	"entraToken":                             "a function that an example leaves to its reader",
	"react/":                                 "the first part of the names of checks in a script",
	"t.Fatal":                                "a method of testing.T",
	"t.TempDir":                              "a method of testing.T",
	"useStream":                              "a hook of LangGraph's JavaScript SDK",
}
