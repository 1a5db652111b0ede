package server

// The handlers of the endpoints are grouped by the data that they serve. A handler takes a call,
// which is the request and its response, and uses the server for everything else.
type (
	assistantAPI struct{ *Server } // assistants: their graphs, schemas, and versions
	threadAPI    struct{ *Server } // threads and signals to them
	stateAPI     struct{ *Server } // states and histories of threads
	spanAPI      struct{ *Server } // spans: the model and tool calls of runs
	runAPI       struct{ *Server } // runs: created, read, streamed, and canceled
	cronAPI      struct{ *Server } // crons
	storeAPI     struct{ *Server } // store items
	protocolAPI  struct{ *Server } // protocol v2: commands and events of a thread
	mcpAPI       struct{ *Server } // assistants as MCP tools
	a2aAPI       struct{ *Server } // assistants as A2A agents
	aguiAPI      struct{ *Server } // assistants for pages that speak AG-UI
	systemAPI    struct{ *Server } // health, version, metrics, and the API description
)

func (s *Server) assistants() assistantAPI { return assistantAPI{s} }
func (s *Server) threads() threadAPI       { return threadAPI{s} }
func (s *Server) states() stateAPI         { return stateAPI{s} }
func (s *Server) spans() spanAPI           { return spanAPI{s} }
func (s *Server) runs() runAPI             { return runAPI{s} }
func (s *Server) crons() cronAPI           { return cronAPI{s} }
func (s *Server) items() storeAPI          { return storeAPI{s} }
func (s *Server) protocol() protocolAPI    { return protocolAPI{s} }
func (s *Server) mcp() mcpAPI              { return mcpAPI{s} }
func (s *Server) a2a() a2aAPI              { return a2aAPI{s} }
func (s *Server) agui() aguiAPI            { return aguiAPI{s} }
func (s *Server) system() systemAPI        { return systemAPI{s} }
