package mcptool

// Lost is closed when the present connection with the first server is no more.
func Lost(s *Servers) <-chan struct{} { return s.all[0].current.done }
