//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd

package standalone

// lockFile takes no lock on this system; leases show whether another process is alive.
func lockFile(string) (release func(), ok bool, err error) { return func() {}, false, nil }
