module github.com/treadle-go/treadle/store/uselite

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/treadle-go/treadle v0.1.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
	golang.org/x/text v0.43.0
	pgregory.net/rapid v1.3.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
