package main

// ours is the same catalogue on treadle: newWork("chain10", note, build) per name.
var ours []work
