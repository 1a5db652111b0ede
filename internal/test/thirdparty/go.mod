module example.com/thirdparty

go 1.26.0

require (
	github.com/google/uuid v1.6.0
	github.com/treadle-go/treadle v0.1.0
)

require (
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
)
