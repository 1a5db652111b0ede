module github.com/treadle-go/treadle/store/minilm

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/treadle-go/treadle v0.1.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
	golang.org/x/text v0.43.0
)

