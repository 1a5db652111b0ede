package code

// SetEngine replaces the version of the engine until the returned function is called.
func SetEngine(version string) (restore func()) {
	old := engine
	engine = version
	return func() { engine = old }
}
