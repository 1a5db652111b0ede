package mcptool

// Lost returns a channel that is closed when the current connection to the first
// server ends.
func Lost(s *Servers) <-chan struct{} { return s.all[0].current.done }
