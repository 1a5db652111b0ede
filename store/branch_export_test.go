package store

// BackendOf returns the backend of a store. For a branch, it is the branch's
// own backend.
func BackendOf(s *Store) Backend { return s.backend }
