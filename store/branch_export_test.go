package store

// BackendOf returns the backend of a store, which for a branch is one itself.
func BackendOf(s *Store) Backend { return s.backend }
